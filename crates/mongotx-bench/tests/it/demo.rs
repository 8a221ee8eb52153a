//! The demo as a whole: promises kept, a planted violation found, nothing left behind however it
//! ends.

use crate::common;

use std::{
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, Stdio},
};

use common::{mongotx_bench, processes_with, run_bench, status_and_output, until};
use mongodb::bson::doc;

/// A demo whose processes and files are recognized by their temporary folder and by their seed.
struct Traces {
    folder: tempfile::TempDir,
    seed: String,
}

impl Traces {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let seed = format!("{}{:06}", std::process::id(), rand::random_range(0..1_000_000));
        Self { folder, seed }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn demo(&self, args: &[&str]) -> std::process::Command {
        let mut command = mongotx_bench(["demo", "--seed", &self.seed].into_iter().chain(args.iter().copied()));
        command.env("TMPDIR", self.path());
        command
    }

    fn processes(&self) -> Vec<String> {
        processes_with(&[&self.path().to_string_lossy(), &format!("--seed {}", self.seed)])
    }

    fn until_gone(&self) {
        until("no process of the demo is left", || self.processes().is_empty());
        until("no file of the demo is left", || std::fs::read_dir(self.path()).unwrap().next().is_none());
    }

    /// A long demo, as soon as its workers move money.
    fn start_long(&self) -> (Child, BufReader<std::process::ChildStdout>) {
        let mut child =
            self.demo(&["--seconds", "3600"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains(" transfers (") {
            line.clear();
            assert!(output.read_line(&mut line).unwrap() > 0, "the demo ended early");
        }
        assert!(self.processes().len() >= 5, "{:?}", self.processes());
        (child, output)
    }
}

#[test]
fn demo_with_kills_keeps_every_promise_and_leaves_nothing() {
    let traces = Traces::new();
    let (status, said) = status_and_output(
        &traces.demo(&["--seconds", "5", "--kill-every", "0.5", "--accounts", "20"]).output().unwrap(),
    );
    assert_eq!(status, 0, "{said}");
    for expected in ["Transaction numbers are only allowed", "THEIR TOTAL", "Every promise was kept.", "throughput"] {
        assert!(said.contains(expected), "{expected:?} in {said}");
    }
    assert!(!said.contains("panicked"), "{said}");
    traces.until_gone();
}

#[test]
fn demo_finds_a_balance_changed_behind_its_back() {
    let traces = Traces::new();
    let (status, said) =
        status_and_output(&traces.demo(&["--seconds", "2", "--kill-every", "0", "--tamper"]).output().unwrap());
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("account 0 holds") && said.contains("A promise was BROKEN"), "{said}");
    traces.until_gone();
}

#[test]
fn demo_ended_by_sigterm_leaves_nothing() {
    let traces = Traces::new();
    let (mut child, _output) = traces.start_long();
    local_mongod::signal::terminate(child.id()).unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143), "{said}");
    traces.until_gone();
}

#[test]
fn demo_ended_by_sigkill_takes_workers_and_server_with_it() {
    let traces = Traces::new();
    let (mut child, _output) = traces.start_long();
    child.kill().unwrap();
    child.wait().unwrap();
    traces.until_gone();
}

#[tokio::test]
async fn demo_on_a_given_server_drops_its_database() {
    let server = local_mongod::Server::standalone().await.unwrap();
    let client = server.client().await.unwrap();
    client.database("theirs").collection("a").insert_one(doc! {"_id": 1}).await.unwrap();
    let databases = async || {
        let mut names = client.list_database_names().await.unwrap();
        // The server makes this one by itself, when it likes.
        names.retain(|name| name != "config");
        names
    };
    let before = databases().await;
    let uri = server.uri();
    let ran = tokio::task::spawn_blocking(move || {
        run_bench(["demo", "--seconds", "2", "--workers", "2", "--kill-every", "0.5", "--uri", &uri])
    });
    let (status, said) = ran.await.unwrap();
    assert_eq!(status, 0, "{said}");
    assert_eq!(databases().await, before);
}
