//! `mongotx-bench results` as a user runs it: sections that do not exist are refused by name, and a
//! page without any measurement says which sections are missing.

use crate::common;

use common::run_bench;

#[test]
fn a_section_that_does_not_exist_is_refused_with_those_that_do() {
    let (status, said) = run_bench(["results", "--only", "tpcc,nonsense"]);
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("\"nonsense\"") && said.contains("dtranx-rivals"), "{said}");
}

#[test]
fn a_page_of_nothing_names_every_section_as_missing() {
    let folder = tempfile::tempdir().unwrap();
    let (status, said) = run_bench(["results", "--page-only", "--out", folder.path().to_str().unwrap()]);
    assert_eq!(status, 1, "something is missing: {said}");
    let page = std::fs::read_to_string(folder.path().join("results.md")).unwrap();
    assert!(page.contains("Nothing is measured yet.") && page.contains("--only checkin"), "{page}");
}

#[test]
fn a_program_that_is_not_there_is_named_on_the_page_and_the_page_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let args = ["results", "--only", "dtranx-rivals", "--minutes", "0.1", "--out", out];
    let (status, said) = run_bench(args.into_iter().chain(["--dtranx-bench", "/there/is/no/such/program"]));
    assert_eq!(status, 1, "{said}");
    let page = std::fs::read_to_string(folder.path().join("results.md")).unwrap();
    assert!(page.contains("**Not measured:** /there/is/no/such/program"), "{page}");
    assert!(folder.path().join("results/dtranx-rivals.json").is_file(), "{said}");
}
