//! `mongotx-bench bank-files` and `mongotx-bench bank` as a user runs them: files are written, and
//! replayed by the clients of two processes.

use crate::common;

use std::process::{Command, Output};

fn bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mongotx-bench")).args(args).output().expect("mongotx-bench can be started")
}

fn said(done: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr))
}

#[test]
fn files_are_written_and_replayed_by_two_processes_to_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("operations");
    let out = out.to_str().unwrap();
    let written = bench(&["bank-files", "--out", out, "--operations", "600", "--files", "2"]);
    assert!(written.status.success(), "{}", said(&written));
    let again = bench(&["bank-files", "--out", out]);
    assert!(!again.status.success() && said(&again).contains("--out"), "{}", said(&again));

    let json = folder.path().join("result.json");
    let run = ["bank", "--files", out, "--targets", "mongotx", "--clients", "4", "--processes", "2", "--rounds", "1"];
    let how = ["--warm-up", "0", "--seconds", "60", "--write-concern", "1", "--json", json.to_str().unwrap()];
    let done = bench(&[&run[..], &how].concat());
    assert!(done.status.success(), "{}", said(&done));
    let result: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let run = &result["runs"][0];
    assert_eq!((&run["counts"]["committed_in_all"], &run["broken"]), (&600.into(), &serde_json::Value::Null));
}

#[test]
fn a_bank_that_cannot_be_is_refused_by_the_option() {
    for (args, option) in [
        (&["bank", "--mix", "50,50,50"][..], "--mix"),
        (&["bank", "--accounts", "1"], "--accounts"),
        (&["bank", "--readers", "101"], "--readers"),
        (&["bank", "--files", "/no/such/folder"], "--files"),
        (&["bank", "--alone", "--audit"], "--audit"),
        (&["bank-files", "--out", "x", "--files", "0"], "--files"),
    ] {
        let refused = bench(args);
        assert!(!refused.status.success() && said(&refused).contains(option), "{args:?}: {}", said(&refused));
    }
}

const SHORT: [&str; 8] = ["--targets", "mongotx", "--clients", "2", "--rounds", "1", "--seconds", "1"];

#[test]
fn the_table_is_made_on_a_replica_set_of_its_own_of_which_nothing_is_left() {
    // The servers of this command have their folders there, and no other servers.
    let folder = tempfile::tempdir().unwrap();
    let mut command = common::mongotx_bench(["bank-table", "--write-concerns", "1,3", "--warm-up", "0"]);
    let done = command.args(SHORT).env("TMPDIR", folder.path()).output().unwrap();
    assert!(done.status.success(), "{}", said(&done));
    let rows =
        ["single document, no session", "single document, w: 1", "single document, w: 3", "multi-document, w: 3"];
    for expected in rows.iter().chain(&["replica set of 3 node(s)"]) {
        assert!(said(&done).contains(expected), "{expected}: {}", said(&done));
    }
    let path = folder.path().to_str().unwrap();
    common::until("its servers end", || common::processes_with(&[path]).is_empty());
    common::until("their folders are removed", || std::fs::read_dir(path).unwrap().next().is_none());
}

#[test]
fn write_concerns_that_the_named_replica_set_cannot_satisfy_are_refused() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let uri = runtime.block_on(async { local_mongod::shared_replica_set().await.unwrap().uri() });
    let named = ["bank-table", "--write-concerns", "1,2", "--replica-uri", &uri];
    let refused = bench(&[&named[..], &SHORT].concat());
    assert!(!refused.status.success() && said(&refused).contains("--write-concerns"), "{}", said(&refused));
}
