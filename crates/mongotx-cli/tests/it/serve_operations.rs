//! `mongotx serve` with a file of options, a log and metrics, as a process.

use crate::common;

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, ChildStdout, Stdio},
};

use bson::doc;
use common::{mongotx, run_mongotx, until};
use rustix::process::{Pid, Signal, kill_process};

/// A gateway, its lines, and its log when it has ended.
struct Serving {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Serving {
    fn start(args: &[&str]) -> Self {
        let mut command = mongotx(["serve"].iter().chain(args).copied());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// The rest of the next line that begins with these words.
    fn line(&mut self, words: &str) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        let rest = line.trim().strip_prefix(words);
        rest.unwrap_or_else(|| panic!("{words}: {line}")).to_owned()
    }

    /// Ends it, and returns its log.
    fn log(mut self) -> String {
        local_mongod::signal::terminate(self.child.id()).unwrap();
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{log}");
        log
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn options_come_from_a_file_and_events_go_to_a_log() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("serve.toml");
    let text = format!(
        "uri = {:?}\nlisten = \"127.0.0.1:1\"\nmetrics = \"127.0.0.1:0\"\nlog-format = \"json\"\nslow-ms = 0\n",
        server.uri()
    );
    std::fs::write(&config, text).unwrap();
    // The flag wins: port 1 is not free to listen on.
    let mut serving = Serving::start(&["--config", config.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
    let uri = serving.line("listening on ");
    let metrics = serving.line("metrics at http://");
    let client = mongodb::Client::with_uri_str(&uri).await.unwrap();
    let collection = client.database(&local_mongod::unique_db("serve_log")).collection("c");
    let mut session = client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    collection.insert_one(doc! {"_id": "a secret"}).session(&mut session).await.unwrap();
    session.abort_transaction().await.unwrap();

    let address = metrics.strip_suffix("/metrics").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("mongotx_gateway_transactions_aborted_total{reason=\"asked\"} 1"), "{answer}");

    let log = serving.log();
    let events: Vec<serde_json::Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let has = |message: &str, field: &str, value: &str| {
        events.iter().any(|event| event["message"] == message && event[field].to_string().contains(value))
    };
    assert!(has("a client connected", "peer", "127.0.0.1"), "{log}");
    assert!(has("a connection has ended", "reason", "clos"), "{log}");
    assert!(has("a transaction was rolled back", "reason", "asked"), "{log}");
    assert!(has("a slow command", "command", "insert"), "{log}");
    assert!(!log.contains("a secret"), "{log}");
}

#[tokio::test]
async fn whose_a_transaction_is_stands_in_the_log_and_in_what_the_tools_tell() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let records = local_mongod::unique_db("serve_who");
    let uri = server.uri();
    let place = ["--uri", &uri, "--tx-database", &records];
    let more = ["--listen", "127.0.0.1:0", "--web", "127.0.0.1:0", "--log-format", "json"];
    let mut serving = Serving::start(&[&place[..], &more].concat());
    let gateway = serving.line("listening on ");
    assert!(serving.line("page at http://127.0.0.1:").ends_with('/'));
    let name = local_mongod::unique_db("serve_who_data");
    let mut open = Vec::new();
    for application in ["first", "second"] {
        let client = mongodb::Client::with_uri_str(format!("{gateway}/?appName={application}")).await.unwrap();
        let accounts = client.database(&name).collection::<bson::Document>("accounts");
        if open.is_empty() {
            accounts.insert_one(doc! {"_id": 1, "owner": "a secret"}).await.unwrap();
        }
        let mut session = client.start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        let change = doc! {"$inc": {"n": 1}};
        let changed = accounts.update_one(doc! {"owner": "a secret"}, change).session(&mut session).await;
        assert_eq!(changed.is_ok(), application == "first", "{changed:?}");
        open.push(session);
    }
    // The store has the transactions that are older than a second.
    let mut listed = String::new();
    until("the transaction is listed with its owner", || {
        (_, listed) = run_mongotx(["ls"].iter().chain(&place).copied());
        listed.contains("first, 127.0.0.1:")
    });
    assert!(listed.contains("mongotx serve on ") && listed.contains(r#""owner": "?string""#), "{listed}");
    let id = listed.split_whitespace().find(|word| word.len() > 25 && word.as_bytes()[24] == b'.').unwrap();
    let (status, shown) = run_mongotx(["show", id].iter().chain(&place).copied());
    assert!(status == 0 && shown.contains("by first, 127.0.0.1:") && shown.contains("?string"), "{shown}");
    open[0].abort_transaction().await.unwrap();

    let log = serving.log();
    let mut events = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let ended =
        events.find(|event| event["message"] == "a transaction was rolled back" && event["reason"] == "conflict");
    let ended = ended.unwrap_or_else(|| panic!("{log}"));
    let says = |field: &str, words: &str| ended[field].as_str().is_some_and(|text| text.contains(words));
    assert!(says("application", "second") && says("shape", "?string") && says("host", "127.0.0.1:"), "{ended}");
    assert!(says("rival", id) && says("rival_is", "first") && says("namespace", &name), "{ended}");
    for text in [&log, &listed, &shown] {
        assert!(!text.contains("a secret"), "{text}");
    }
}

fn metrics_of(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[tokio::test]
async fn sighup_changes_limits_and_the_log_level_and_tells_what_has_to_wait() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("serve.toml");
    let write = |more: &str| {
        let text = format!("uri = {:?}\nlisten = \"127.0.0.1:0\"\nmetrics = \"127.0.0.1:0\"\n{more}", server.uri());
        std::fs::write(&config, text).unwrap();
    };
    write("log-level = \"error\"\nmax-cursors = 7\n");
    let mut serving = Serving::start(&["--config", config.to_str().unwrap(), "--max-sessions", "5"]);
    let uri = serving.line("listening on ");
    let metrics = serving.line("metrics at http://");
    let address = metrics.strip_suffix("/metrics").unwrap();
    let has = |option: &str, limit: u32| {
        metrics_of(address).contains(&format!("mongotx_gateway_limit{{option=\"{option}\"}} {limit}\n"))
    };
    assert!(has("max-cursors", 7) && has("max-sessions", 5));
    let id = Pid::from_raw(serving.child.id().cast_signed()).unwrap();
    let hang_up = || kill_process(id, Signal::HUP).unwrap();
    // Nothing of a file that is not as it has to be.
    write("max-cursors = 8\nmax-connections = 0\n");
    hang_up();
    write("log-level = \"info\"\nmax-cursors = 9\nmax-sessions = 6\nisolation = \"serializable\"\n");
    hang_up();
    until("the limits are others", || {
        hang_up();
        has("max-cursors", 9)
    });
    // The flag wins.
    assert!(has("max-sessions", 5));
    mongodb::Client::with_uri_str(&uri).await.unwrap().database("admin").run_command(doc! {"ping": 1}).await.unwrap();
    let log = serving.log();
    assert!(log.contains("a client connected"), "{log}");
    assert!(log.contains("started again, these change, too: isolation"), "{log}");
}

#[test]
fn files_with_something_wrong_are_refused_with_the_line() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("serve.toml");
    for (text, words) in [
        ("uri = \"mongodb://127.0.0.1:1\"\nlistenn = 5\n", "line 2: listenn"),
        ("max-memory-mib = \"many\"\n", "line 1: max-memory-mib"),
        ("max-memory-mib = 1\n", "64..=1048576"),
        ("allow-plaintext = true\n", "--users"),
    ] {
        std::fs::write(&config, text).unwrap();
        let (status, said) = run_mongotx(["serve", "--config", config.to_str().unwrap()]);
        assert!(status == 2 && said.contains(words) && !said.contains("panicked"), "{text}: {said}");
    }
}
