//! Commands that cannot be carried out are refused with status 2, in words that name the option;
//! nothing panics or hangs.

use crate::common;

use common::run_bench;

fn refused(args: &[&str], words: &[&str]) {
    let (status, said) = run_bench(args.iter().copied());
    assert_eq!(status, 2, "{args:?}: {said}");
    assert!(!said.contains("panicked"), "{said}");
    for word in words {
        assert!(said.contains(word), "{args:?}: {word:?} in {said}");
    }
}

#[test]
fn numbers_outside_their_limits_are_refused_with_the_limits() {
    refused(&["demo", "--workers", "0"], &["--workers", "1..=64"]);
    refused(&["demo", "--workers", "99999999999999999999"], &["--workers"]);
    refused(&["demo", "--seconds", "0"], &["--seconds", "1..=3600"]);
    refused(&["demo", "--seconds", "x"], &["--seconds"]);
    refused(&["demo", "--accounts", "1"], &["--accounts", "2..=10000"]);
    for bad in ["NaN", "inf", "-1", "0.01", "1e99"] {
        refused(&["demo", &format!("--kill-every={bad}")], &["--kill-every", "0.1 to 3600"]);
    }
}

#[test]
fn servers_that_cannot_be_used_are_named_by_their_option() {
    // Port 1 of this machine refuses at once: no time limit has to be waited for.
    let no_server = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=300";
    refused(&["demo", "--uri", no_server], &["--uri"]);
    for uri in [no_server, "nonsense", "mongodb://", ""] {
        refused(&["queries", "--uri", uri], &["--uri"]);
        refused(&["transfer", "--targets", "plain", "--uri", uri], &["--uri"]);
        refused(&["transfer", "--targets", "native", "--replica-uri", uri], &["--replica-uri"]);
    }
}

#[test]
fn worker_without_a_demo_says_whom_to_ask() {
    refused(&["demo-worker", "--database", "x", "--accounts", "2"], &["mongotx-bench demo"]);
}
