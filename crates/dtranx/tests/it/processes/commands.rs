//! Tests of the commands of the `dtranx` program against real servers.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use dtranx::cluster::HeldPort;

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

/// `dtranx cluster` with three servers or members in a folder, the address of the first one, and
/// the further lines that it says.
fn cluster_of_three(kind: &str, folder: &Path) -> (Child, SocketAddr, Lines<BufReader<ChildStdout>>) {
    let mut parent = Command::new(env!("CARGO_BIN_EXE_dtranx"))
        .args(["cluster", kind, "3", "--port", "0", "--folder"])
        .arg(folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(parent.stdout.take().unwrap()).lines();
    let line = lines.find(|line| line.as_ref().unwrap().starts_with("cluster of 3")).unwrap().unwrap();
    let address = line.rsplit(' ').next().unwrap().parse().unwrap();
    (parent, address, lines)
}

#[test]
fn cluster_serves_and_ends_with_its_parent_even_when_that_is_killed() {
    let _limit = Limit::of(300, "end of a command");
    let folder = tempfile::tempdir().unwrap();
    let (mut parent, address, _lines) = cluster_of_three("--servers", folder.path());
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

/// Starts a server of its own in this folder, whose remarks go there. Returns its address.
fn alone(folder: &Path, remarks: impl Into<Stdio>) -> (Child, String) {
    let port = HeldPort::pick().unwrap();
    let address = port.address().to_string();
    let file = folder.join("alone.toml");
    let servers = format!("servers = [{{ id = 1, address = \"{address}\" }}]");
    let own = format!("server = 1\nfolder = {:?}\n", folder.join("data"));
    fs::write(&file, format!("cluster = \"alone\"\n{own}{servers}\n[threads]\npinned = false\n")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_dtranx"));
    command.args(["serve", "--until-stdin-closes", "--config"]).arg(file);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(remarks).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("listens on"), "{line:?}");
    (child, address)
}

#[test]
fn server_whose_remarks_cannot_be_written_goes_on() {
    let _limit = Limit::of(300, "end of a command");
    let folder = tempfile::tempdir().unwrap();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let (mut server, address) = alone(folder.path(), full);
    let mut stranger = TcpStream::connect(&address).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    // The server makes its remark, and then closes the connection.
    let _ = stranger.read_to_end(&mut Vec::new());
    let put = dtranx(None, &["put", "a", "1", "--server", &address], "");
    assert!(put.status.success(), "{}", err(&put));
    server.kill().unwrap();
    server.wait().unwrap();
    // So do commands.
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_dtranx"));
    let status = command.args(["get", "a", "--server", "127.0.0.1:1"]).stderr(full).status().unwrap();
    assert_eq!(status.code(), Some(2));
}

#[test]
fn values_are_printed_so_that_they_can_be_told_apart_or_as_they_are() {
    let _limit = Limit::of(300, "end of a command");
    let trio = Trio::start("disk");
    let run = |arguments: &[&str]| dtranx(Some(&trio), arguments, "");
    assert!(run(&["put", "tab", "x\ty"]).status.success());
    assert!(run(&["put", "text", r"x\ty"]).status.success());
    assert_eq!([out(&run(&["get", "tab"])), out(&run(&["get", "text"]))], ["x\\ty\n", "x\\\\ty\n"]);
    assert_eq!(out(&run(&["scan", "--prefix", "t"])), "tab\tx\\ty\ntext\tx\\\\ty\n");
    assert_eq!([out(&run(&["get", "--raw", "tab"])), out(&run(&["get", "--raw", "text"]))], ["x\ty", r"x\ty"]);
    let nothing = run(&["scan", "--limit", "0"]);
    assert_eq!((nothing.status.code(), err(&nothing).as_str()), (Some(2), "dtranx: --limit: at least 1\n"));
    let other = run(&["member", "remove", "1", "--group", "99"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(err(&other).contains("server 99: it is not of this cluster"), "{}", err(&other));
}

#[test]
fn silent_server_is_named_and_commands_say_what_they_wait_for() {
    let _limit = Limit::of(300, "end of a command");
    // It takes connections, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let get = dtranx(None, &["get", "a", "--server", &address, "--timeout-ms", "100"], "");
    assert_eq!(get.status.code(), Some(2));
    assert!(err(&get).contains("it did not answer within 2 s"), "{}", err(&get));
    let mut trio = Trio::start("disk");
    // They have met.
    trio.client(20_000).put("a", "1").unwrap();
    trio.kill(2);
    let scan = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dtranx"));
        command.args(["scan", "--server", &trio.addresses()[0].to_string()]);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let expected = "dtranx: server 3 did not answer in time; it is tried again, for 120 s at most";
    // A connection that the killed server had not taken yet may be reset: that ends a scan.
    let mut scan = loop {
        let mut scan = scan();
        let mut lines = BufReader::new(scan.stderr.take().unwrap()).lines().map(Result::unwrap);
        if lines.any(|line| line == expected) {
            break scan;
        }
        scan.wait().unwrap();
    };
    scan.kill().unwrap();
    scan.wait().unwrap();
}

#[test]
fn verify_tells_damage_from_what_cannot_be_read() {
    let _limit = Limit::of(300, "end of a command");
    let folder = tempfile::tempdir().unwrap();
    let (mut server, _) = alone(folder.path(), Stdio::inherit());
    let config = folder.path().join("alone.toml");
    let verify = |more: &[&str]| {
        let arguments = [&["verify", "--config", config.to_str().unwrap()][..], more].concat();
        dtranx(None, &arguments, "").status.code()
    };
    assert_eq!(verify(&[]), Some(2), "it runs");
    assert_eq!(verify(&["--folder", "/nothing/there"]), Some(2));
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(verify(&[]), Some(0));
}

#[test]
fn folder_of_another_cluster_or_of_one_that_runs_is_refused_before_anything_is_written() {
    let _limit = Limit::of(300, "end of a command");
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().to_str().unwrap();
    let cluster = |more: &[&str]| dtranx(None, &[&["cluster", "--port", "0", "--folder", name][..], more].concat(), "");
    let mut parent = Command::new(env!("CARGO_BIN_EXE_dtranx"))
        .args(["cluster", "--servers", "2", "--port", "0", "--folder", name])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(parent.stdout.take().unwrap()).lines();
    lines.find(|line| line.as_ref().unwrap().starts_with("cluster of 2")).unwrap().unwrap();
    let file = folder.path().join("server-1.toml");
    let written = fs::read_to_string(&file).unwrap();
    let refused = cluster(&["--servers", "2"]);
    assert!(err(&refused).contains("a cluster that runs has this folder"), "{}", err(&refused));
    parent.kill().unwrap();
    parent.wait().unwrap();
    for more in [["--servers", "3"], ["--members", "3"]] {
        let refused = cluster(&more);
        assert_eq!(refused.status.code(), Some(2));
        assert!(err(&refused).contains("it has a cluster of 2 servers, and not of 3 "), "{}", err(&refused));
    }
    let even = cluster(&["--members", "4"]);
    assert!(err(&even).contains("a group begins with 3, 5 or 7 members") && out(&even).is_empty(), "{}", err(&even));
    assert_eq!(fs::read_to_string(&file).unwrap(), written);
    assert!(!folder.path().join("server-3.toml").exists() && !folder.path().join("member-1.toml").exists());
}

#[test]
fn member_that_was_removed_does_not_end_the_others_of_its_cluster() {
    let _limit = Limit::of(300, "end of a command");
    let folder = tempfile::tempdir().unwrap();
    let (mut parent, address, mut lines) = cluster_of_three("--members", folder.path());
    let address = address.to_string();
    let run = |arguments: &[&str]| dtranx(None, &[arguments, &["--server", &address]].concat(), "").status.success();
    // The members may not listen yet, or not be in step.
    while !run(&["put", "a", "1"]) || !run(&["member", "remove", "3"]) {}
    let line = lines.find(|line| line.as_ref().unwrap().contains("was removed")).unwrap().unwrap();
    assert_eq!(line, "member 3 was removed from its group; the others go on");
    assert!(run(&["put", "a", "2"]));
    parent.kill().unwrap();
    parent.wait().unwrap();
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
