//! `mongotx-bench transfer` as a user runs it: a short run of everything, and arguments that are
//! refused.

use std::process::{Command, Output};

fn bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mongotx-bench"))
        .args(["transfer"])
        .args(args)
        .output()
        .expect("mongotx-bench can be started")
}

#[test]
fn a_short_run_prints_all_targets() {
    let targets = "plain,mongotx,mongotx-published";
    let done =
        bench(&["--targets", targets, "--seconds", "1", "--rounds", "1", "--clients", "2", "--documents", "100"]);
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{out}\n{err}");
    for expected in targets.split(',') {
        assert!(out.contains(expected), "{expected:?} is missing in\n{out}");
    }
}

#[test]
fn clients_in_several_processes_do_the_work_at_the_rate_asked() {
    let args = ["--targets", "plain", "--clients", "4", "--processes", "2", "--rate", "100"];
    let done = bench(&[&args[..], &["--seconds", "2", "--rounds", "1", "--documents", "100"]].concat());
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{out}\n{err}");
    assert!(out.contains("plain"), "{out}");
}

#[test]
fn bad_arguments_are_refused_and_named() {
    for (option, value) in [
        ("--clients", "0"),
        ("--clients", "1,0"),
        ("--documents", "1"),
        ("--document-bytes", "10"),
        ("--seconds", "0"),
        ("--rounds", "0"),
        ("--targets", "mongotx,oracle"),
        ("--seed", "x"),
    ] {
        let refused = bench(&[option, value]);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{option} {value}: {said}");
        assert!(said.contains(option), "{option} {value}: {said}");
    }
}
