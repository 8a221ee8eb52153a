//! What cannot be is refused before anything is started, by the option or the rival.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::Command;

fn refusal(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_dtranx-bench")).args(args).env("PATH", "").output().unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn redis_has_one_server() {
    assert!(
        refusal(&["--stores", "redis", "--servers", "3"]).contains("redis has no transactions over several servers")
    );
}

#[test]
fn dtranx_takes_a_thread_for_each_transaction() {
    assert!(
        refusal(&["--stores", "dtranx", "--in-flight", "401"]).contains("--in-flight: dtranx takes a thread for each")
    );
}

#[test]
fn transfers_have_no_part_that_only_reads() {
    assert!(
        refusal(&["--shape", "transfer", "--reads", "50"]).contains("--reads has no meaning with --shape transfer")
    );
}

#[test]
fn numbers_outside_their_limits_are_refused_with_the_limits() {
    for (option, value, limits) in [("--keys", "1", "2.."), ("--servers", "8", "1..=7"), ("--reads", "101", "0..=100")]
    {
        let told = refusal(&[option, value]);
        assert!(told.contains(option) && told.contains(limits), "{told}");
    }
}

#[test]
fn a_rival_that_is_not_there_is_named() {
    let told = refusal(&["--stores", "redis"]);
    assert!(told.contains("there is no redis-server on PATH"), "{told}");
}
