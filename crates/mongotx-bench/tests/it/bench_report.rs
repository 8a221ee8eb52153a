//! `mongotx-bench report` as a user runs it.

use std::process::{Command, Output};

fn report(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mongotx-bench"));
    command.args(["report"]).args(args).output().expect("mongotx-bench can be started")
}

const RESULT: &str = r#"{"format":1,"title":"transfer","command":"mongotx-bench transfer","facts":["a fact"],"runs":[
    {"target":"plain","workload":"transfer","clients":2,"processes":1,"round":1,"rate":null,"seconds":2.0,
     "counts":{"kinds":{"transfer":{"latencies":[[1000000,100]],"rolled_back":0,"conflicts":{},"given_up":0}},
               "seconds":[],"operations":200,"committed_in_all":100,"unknown_in_all":0,"violations_in_all":0},
     "commands":{"update":200},
     "used":{"server_cpu_us":null,"client_cpu_us":null,"server_written_bytes":null},"broken":BROKEN}]}"#;

#[test]
fn files_are_shown_again_and_made_one() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a.json");
    std::fs::write(&file, RESULT.replace("BROKEN", "null")).unwrap();
    let (file, both) = (file.to_str().unwrap(), directory.path().join("both.json"));
    let done = report(&[file, file, "--json", both.to_str().unwrap()]);
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{out}\n{err}");
    assert!(out.contains("a fact") && out.contains("50.0"), "100 transactions in 2 seconds: {out}");
    let written = std::fs::read_to_string(both).unwrap();
    assert!(written.contains("\"round\":1") && written.contains("\"round\":2"), "{written}");
}

#[test]
fn broken_result_has_its_reason_in_place_of_figures() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a.json");
    std::fs::write(&file, RESULT.replace("BROKEN", "\"money is missing\"")).unwrap();
    let page = directory.path().join("a.html");
    let done = report(&[file.to_str().unwrap(), "--html", page.to_str().unwrap()]);
    let out = String::from_utf8_lossy(&done.stdout);
    assert!(std::fs::read_to_string(page).unwrap().contains("money is missing"));
    assert!(out.contains("BROKEN: money is missing"), "{out}");
}

#[test]
fn file_that_is_no_result_is_refused_by_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("none.json");
    std::fs::write(&file, "[]").unwrap();
    let refused = report(&[file.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("none.json: not the result of a benchmark"), "{said}");
    assert_eq!(report(&[]).status.code(), Some(2), "no file");
}
