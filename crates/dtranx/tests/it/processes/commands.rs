//! Tests of the commands of the `dtranx` program against real servers.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::limit::Limit;
use crate::processes::trio::Trio;

pub(crate) fn dtranx(trio: Option<&Trio>, arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dtranx"));
    command.args(arguments);
    if let Some(trio) = trio {
        command.args(["--server", &trio.addresses()[0].to_string()]);
    }
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    // The command may end without reading its input, so that the write fails.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

pub(crate) fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn commands_read_write_and_tell() {
    let _limit = Limit::of(300, "end of a command");
    let trio = Trio::start("disk");
    let run = |arguments: &[&str]| dtranx(Some(&trio), arguments, "");
    assert!(run(&["put", "a", "one"]).status.success());
    assert_eq!(out(&run(&["get", "a"])), "one\n");
    let absent = run(&["get", "nothing"]);
    assert_eq!((absent.status.code(), err(&absent).as_str()), (Some(1), "dtranx: there is no key \"nothing\"\n"));
    let committed = run(&["txn", "expect a one", "put b two", "put c three", "delete a", "get b"]);
    assert_eq!(out(&committed), "b\ttwo\n");
    let refused = dtranx(Some(&trio), &["txn"], "expect b three\nput b four\n");
    assert_eq!(refused.status.code(), Some(1));
    assert!(err(&refused).contains("the key \"b\" holds \"two\""), "{}", err(&refused));
    assert_eq!(out(&run(&["scan"])), "b\ttwo\nc\tthree\n");
    assert_eq!(out(&run(&["scan", "--prefix", "c"])), "c\tthree\n");
    assert!(run(&["delete", "c"]).status.success());
    assert_eq!(out(&run(&["scan", "--from", "b", "--until", "z"])), "b\ttwo\n");
    let status = out(&run(&["status"]));
    assert!(status.contains("server 3 at") && status.contains("fdatasync") && status.contains("wal"), "{status}");
    assert!(status.contains("  reads answered by the cache: "), "{status}");
    assert!(status.contains("  in doubt ") && status.contains(", of which it asks about "), "{status}");
    assert!(status.contains("  epoch ") && status.contains(", snapshots kept from "), "{status}");
    let nonsense = run(&["txn", "frobnicate x"]);
    assert!(nonsense.status.code() == Some(2) && err(&nonsense).contains("frobnicate"));
}

#[test]
fn bad_requests_are_answered_with_what_is_wrong() {
    let _limit = Limit::of(300, "end of a command");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.toml");
    std::fs::write(&file, "cluster = \"x\"\nservers = []\nserver = 1\nfolder = \"y\"\n").unwrap();
    let refused = dtranx(None, &["serve", "--config", file.to_str().unwrap()], "");
    assert_eq!(refused.status.code(), Some(2));
    assert!(err(&refused).contains("servers: a cluster has 1 to 256 servers"), "{}", err(&refused));
    let unreachable = dtranx(None, &["get", "a", "--server", "127.0.0.1:1"], "");
    assert_eq!(unreachable.status.code(), Some(2));
    assert!(err(&unreachable).contains("127.0.0.1:1"), "{}", err(&unreachable));
    let simulated = dtranx(None, &["simulate", "--seeds", "2"], "");
    assert!(out(&simulated).contains("2 seeds: ") && out(&simulated).contains("nothing wrong"));
}

#[test]
fn cluster_serves_and_ends_with_its_parent_even_when_that_is_killed() {
    let _limit = Limit::of(300, "end of a command");
    let folder = tempfile::tempdir().unwrap();
    let mut parent = Command::new(env!("CARGO_BIN_EXE_dtranx"))
        .args(["cluster", "--servers", "3", "--port", "0", "--folder"])
        .arg(folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(parent.stdout.take().unwrap()).lines();
    let line = lines.find(|line| line.as_ref().unwrap().starts_with("cluster of 3")).unwrap().unwrap();
    let address: SocketAddr = line.rsplit(' ').next().unwrap().parse().unwrap();
    let begun = Instant::now();
    // The first server may not listen yet, so the command is repeated.
    while !dtranx(None, &["put", "a", "1", "--server", &address.to_string()], "").status.success() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the cluster does not serve");
    }
    assert_eq!(out(&dtranx(None, &["get", "a", "--server", &address.to_string()], "")), "1\n");
    parent.kill().unwrap();
    parent.wait().unwrap();
    let begun = Instant::now();
    while TcpStream::connect(address).is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(60), "a server outlives its parent");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn reader_that_goes_away_is_no_error() {
    let _limit = Limit::of(300, "end of a command");
    let trio = Trio::start("disk");
    let mut child = Command::new(env!("CARGO_BIN_EXE_dtranx"))
        .args(["status", "--server", &trio.addresses()[0].to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && err(&output).is_empty(), "{}", err(&output));
}
