//! `mongotx bench transfer` as a user runs it: a short run of everything, and arguments that are refused.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::{Command, Output};

fn bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mongotx"))
        .args(["bench", "transfer"])
        .args(args)
        .output()
        .expect("mongotx can be started")
}

#[test]
fn a_short_run_prints_all_targets() {
    let done = bench(&["--seconds", "1", "--rounds", "1", "--clients", "2", "--documents", "100"]);
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{out}\n{err}");
    for expected in ["\n  MongoTx  ", "published layout", "no transaction", "native transactions", "cores", "mongod "] {
        assert!(out.contains(expected), "{expected:?} is missing in\n{out}");
    }
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
