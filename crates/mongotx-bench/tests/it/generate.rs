//! `mongotx-bench generate`: a manual page for every command that its help names, and completions.

use crate::common;

use common::run_bench;

#[test]
fn every_command_has_a_page_and_completions_name_it() {
    let folder = tempfile::tempdir().unwrap();
    let (status, said) = run_bench(["generate", "man", folder.path().to_str().unwrap()]);
    assert_eq!(status, 0, "{said}");
    let (status, script) = run_bench(["generate", "completions", "bash"]);
    assert_eq!(status, 0, "{script}");
    let (_, help) = run_bench(["--help"]);
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names: Vec<&str> = commands.filter_map(|line| line.trim_start().split(' ').next()).collect();
    assert!(names.contains(&"tpcc") && names.contains(&"results"), "{help}");
    for name in names.into_iter().filter(|name| *name != "help") {
        let page = folder.path().join(format!("mongotx-bench-{name}.1"));
        // Lines of the help that go on with a description are no commands.
        if help.contains(&format!("\n  {name}  ")) {
            assert!(page.is_file(), "{}", page.display());
            assert!(script.contains(name), "{name}");
        }
    }
}
