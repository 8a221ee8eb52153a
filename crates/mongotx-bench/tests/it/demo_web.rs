//! `mongotx-bench demo --web`: the page's figures are the bank's, and only this machine can fetch
//! them.

use crate::common;

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, ChildStdout, Stdio},
    time::Duration,
};

use common::{mongotx_bench, run_bench, until};
use serde_json::Value;

/// Time limit of one answer.
const LIMIT: Duration = Duration::from_secs(30);

/// A demo with its page. Dropping it ends it.
struct Demo {
    child: Child,
    output: BufReader<ChildStdout>,
    page: SocketAddr,
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Demo {
    fn start(args: &[&str]) -> Self {
        let mut command = mongotx_bench(["demo", "--web", "--accounts", "20"].into_iter().chain(args.iter().copied()));
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let page = line.trim().strip_prefix("In a browser: http://").and_then(|rest| rest.strip_suffix('/'));
        let page = page.unwrap_or_else(|| panic!("{line:?}")).parse().unwrap();
        Self { child, output, page }
    }

    /// The status and the body of an answer. The request's lines end with a blank one.
    fn ask(&self, path: &str, headers: &str) -> std::io::Result<(u16, String)> {
        let mut stream = TcpStream::connect_timeout(&self.page, LIMIT)?;
        stream.set_read_timeout(Some(LIMIT))?;
        write!(stream, "{path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Ok((status, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()))
    }

    fn get(&self, path: &str) -> std::io::Result<(u16, String)> {
        self.ask(&format!("GET {path}"), &format!("Host: {}\r\n", self.page))
    }

    /// The state; `None` when the demo is over.
    fn state(&self) -> Option<Value> {
        let (status, body) = self.get("/state").ok().filter(|(status, _)| *status != 0)?;
        assert_eq!(status, 200, "{body}");
        Some(serde_json::from_str(&body).unwrap())
    }

    /// Reads all states until the demo is over. Returns them and the demo's output.
    fn until_end(mut self) -> (Vec<Value>, String) {
        let mut states = Vec::new();
        let is_over = |state: &Value| ["kept", "broken", "failed"].map(Value::from).contains(&state["phase"]);
        until("the page has shown the end", || {
            states.extend(self.state());
            states.last().is_some_and(is_over)
        });
        let mut printed = String::new();
        self.output.read_to_string(&mut printed).unwrap();
        self.child.wait().unwrap();
        (states, printed)
    }
}

fn balances(state: &Value) -> Vec<i64> {
    let accounts = state["accounts"]["balances"].as_array().map(Vec::as_slice).unwrap_or_default();
    accounts.iter().map(|balance| balance.as_i64().unwrap()).collect()
}

#[test]
fn every_state_has_all_the_money_and_the_last_one_what_the_terminal_says() {
    let (states, printed) = Demo::start(&["--seconds", "6", "--kill-every", "0.5"]).until_end();
    let read: Vec<Vec<i64>> = states.iter().map(balances).filter(|balances| !balances.is_empty()).collect();
    for balances in &read {
        assert_eq!((balances.len(), balances.iter().sum::<i64>()), (20, 20_000), "{balances:?}");
    }
    assert!(read.iter().any(|balances| balances != &read[0]), "the money moves: {read:?}");
    let last = states.last().unwrap();
    assert_eq!(
        (&last["phase"], &last["accounts"]["sum"], &last["expected"]),
        (&"kept".into(), &20_000.into(), &20_000.into())
    );
    let figures = &last["figures"];
    let row = |name: &str| {
        let line = printed.lines().rfind(|line| line.trim_start().starts_with(name)).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok())
    };
    assert!(figures["kills"].as_u64() > Some(0), "{figures}");
    assert_eq!(
        (figures["transfers"].as_u64(), figures["kills"].as_u64()),
        (row("transfers"), row("kills")),
        "{printed}"
    );
    let seconds = last["seconds"].as_array().unwrap();
    let sum = |which: usize| Some(seconds.iter().map(|second| second[which].as_u64().unwrap()).sum::<u64>());
    assert_eq!((sum(0), sum(1)), (row("transfers"), row("kills")), "{seconds:?}");
    let restarts = last["workers"].as_array().unwrap().iter().map(|worker| worker["incarnation"].as_u64().unwrap());
    assert_eq!(Some(restarts.sum::<u64>()), row("kills"), "{last}");
    let lines: Vec<&str> = last["lines"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    assert!(printed.trim_start().starts_with(&lines[..5].join("\n")), "{lines:?}\n{printed}");
    assert_eq!(lines.last(), Some(&"Every promise was kept."));
}

#[test]
fn a_broken_promise_is_on_the_page() {
    let demo = Demo::start(&["--seconds", "2", "--kill-every", "0", "--tamper"]);
    let (states, _) = demo.until_end();
    let last = states.last().unwrap();
    assert_eq!((&last["phase"], &last["accounts"]["sum"]), (&"broken".into(), &20_001.into()), "{last}");
}

#[test]
fn strangers_and_other_requests_are_refused() {
    let demo = Demo::start(&["--seconds", "3600"]);
    let own = format!("Host: {}\r\n", demo.page);
    for (path, headers, status) in [
        ("GET /", "Host: evil.example\r\n", 403),
        ("GET /state", "Host: evil.example\r\n", 403),
        ("GET /state", &format!("{own}Origin: http://evil.example\r\n"), 403),
        ("GET /state", &format!("{own}Sec-Fetch-Site: cross-site\r\n"), 403),
        ("POST /state", &own, 405),
        ("GET /nothing", &own, 404),
        ("GET /", &own, 200),
        ("GET /page.css", &own, 200),
        ("GET /page.js", &own, 200),
    ] {
        let (answered, body) = demo.ask(path, headers).unwrap();
        assert_eq!(answered, status, "{path} {headers}: {body}");
    }
}

#[test]
fn connections_are_limited() {
    let demo = Demo::start(&["--seconds", "3600"]);
    let held: Vec<TcpStream> = (0..16).map(|_| TcpStream::connect(demo.page).unwrap()).collect();
    until("one more is closed at once", || demo.state().is_none());
    drop(held);
    until("there is room again", || demo.state().is_some());
}

#[test]
fn addresses_that_cannot_be_are_refused() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = format!("--web={}", taken.local_addr().unwrap());
    for (web, words) in [
        (taken.as_str(), "cannot listen on"),
        ("--web=0.0.0.0:0", "no log-in"),
        ("--web=127.0.0.1", "port 0 takes a free one"),
        ("--web=127.0.0.1:99999", "port 0 takes a free one"),
    ] {
        let (status, said) = run_bench(["demo", web]);
        assert_eq!(status, 2, "{web}: {said}");
        assert!(said.contains("--web") && said.contains(words), "{web}: {said}");
    }
}
