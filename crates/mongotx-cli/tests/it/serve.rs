//! `mongotx serve`, as a process: it prints its address, answers, ends on a signal, and leaves
//! nothing behind.

use crate::common;

use std::{
    io::{BufRead, BufReader},
    process::{Child, Stdio},
};

use bson::doc;
use common::{mongotx, run_mongotx, status_and_output};

/// A gateway that is ended with its handle.
struct Serving {
    child: Child,
    uri: String,
}

impl Serving {
    /// Starts a gateway, and waits for the line with its address.
    fn start(args: &[&str]) -> Self {
        let args = ["serve", "--listen", "127.0.0.1:0"].iter().chain(args).copied();
        let mut child = mongotx(args).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let uri = line.trim().strip_prefix("listening on ").unwrap_or_default().to_owned();
        assert!(uri.starts_with("mongodb://127.0.0.1:"), "{line}");
        Self { child, uri }
    }

    async fn ping(&self) {
        let client = mongodb::Client::with_uri_str(&self.uri).await.unwrap();
        client.database("admin").run_command(doc! {"ping": 1}).await.unwrap();
    }

    /// Ends it with SIGTERM. Returns its exit status.
    fn terminate(mut self) -> Option<i32> {
        local_mongod::signal::terminate(self.child.id()).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn gateway_says_where_it_listens_and_ends_when_it_is_asked_to() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.sock");
    let serving = Serving::start(&["--uri", &server.uri(), "--unix", path.to_str().unwrap()]);
    serving.ping().await;
    assert!(path.exists());
    assert_eq!(serving.terminate(), Some(0));
    assert!(!path.exists());
}

#[tokio::test]
async fn server_is_started_only_when_asked_and_goes_with_the_gateway() {
    let no_server = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=300";
    let (status, said) = run_mongotx(["serve", "--uri", no_server, "--listen", "127.0.0.1:0"]);
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("--uri") && said.contains("--start-server") && !said.contains("panicked"), "{said}");

    let serving = Serving::start(&["--uri", no_server, "--start-server"]);
    serving.ping().await;
    let servers = mongods_of(serving.child.id());
    assert_eq!(servers.len(), 1);
    assert_eq!(serving.terminate(), Some(0));
    assert!(!local_mongod::signal::exists(servers[0]));
}

#[tokio::test]
async fn gateway_and_its_server_end_with_standard_input_when_asked() {
    let no_server = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=300";
    let mut command =
        mongotx(["serve", "--listen", "127.0.0.1:0", "--uri", no_server, "--start-server", "--end-with-stdin"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("listening on "), "{line}");
    let servers = mongods_of(child.id());
    assert_eq!((servers.len(), child.try_wait().unwrap()), (1, None));

    drop(child.stdin.take());
    common::until("the gateway ends", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(!local_mongod::signal::exists(servers[0]));
}

#[tokio::test]
async fn a_server_that_is_not_up_yet_is_waited_for_when_asked() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let uri = format!("mongodb://127.0.0.1:{port}/?serverSelectionTimeoutMS=300");
    let args = ["serve", "--listen", "127.0.0.1:0", "--uri", &uri, "--wait-for-server", "600"];
    let mut child = mongotx(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.contains("waiting for the server, for at most 600 s"), "{line}");
    let server = local_mongod::ServerOptions::standalone().port(port).start().await.unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let uri = line.trim().strip_prefix("listening on ").unwrap_or_default().to_owned();
    let serving = Serving { child, uri };
    serving.ping().await;
    assert_eq!(serving.terminate(), Some(0));
    drop(server);
}

#[tokio::test]
async fn a_gateway_has_as_many_threads_as_it_is_given() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let cores = std::thread::available_parallelism().unwrap().get();
    let many = cores + 40;
    let threads = |id| std::fs::read_dir(format!("/proc/{id}/task")).unwrap().count();
    for (args, is_many) in [(vec![], false), (vec!["--threads".to_owned(), many.to_string()], true)] {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let serving = Serving::start(&[&["--uri", &server.uri()], &*args].concat());
        serving.ping().await;
        let threads = threads(serving.child.id());
        assert_eq!(threads > many, is_many, "{threads} threads, {args:?}");
        assert_eq!(serving.terminate(), Some(0));
    }
    for wrong in ["0", "1025", "two"] {
        let (status, said) = run_mongotx(["serve", "--threads", wrong]);
        assert!(status == 2 && said.contains("--threads"), "{said}");
    }
}

/// The servers that a process has started.
fn mongods_of(parent: u32) -> Vec<u32> {
    let ids = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_child = |id: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let line = std::fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
        status.contains(&format!("PPid:\t{parent}\n")) && line.contains("--dbpath")
    };
    ids.filter(is_child).collect()
}

#[test]
fn addresses_that_others_can_reach_are_refused_by_name() {
    let server = ["serve", "--uri", "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=300"];
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:27017"] {
        let (status, said) =
            status_and_output(&mongotx(server.iter().copied().chain(["--listen", address])).output().unwrap());
        assert_eq!(status, 2, "{said}");
        assert!(said.contains("listen") && said.contains("loopback"), "{said}");
    }
}

#[test]
fn certificates_that_cannot_be_used_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("none.pem");
    let (status, said) = run_mongotx(["serve", "--listen", "127.0.0.1:0", "--tls-certificate", file.to_str().unwrap()]);
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("tls-certificate") && said.contains("none.pem"), "{said}");
    let (status, said) = run_mongotx(["serve", "--tls-key", file.to_str().unwrap()]);
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("--tls-certificate"), "{said}");
}
