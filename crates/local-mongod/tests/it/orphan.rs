//! A server does not outlive the process that started it, even when that process is killed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use local_mongod::{Server, signal};

/// Set for the process that is to be killed.
const HOLDER: &str = "LOCAL_MONGOD_HOLD_A_SERVER";
const MARK: &str = "held: ";

/// The other process: starts a server, says which, and waits to be killed. Passes at once in an
/// ordinary run.
#[tokio::test]
async fn hold_a_server() {
    if std::env::var_os(HOLDER).is_none() {
        return;
    }
    let server = Server::standalone().await.unwrap();
    println!("\n{MARK}{} {}", server.pid().unwrap(), server.dbpath().display());
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

#[test]
fn killed_parent_server_and_folder_gone() {
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "orphan::hold_a_server", "--nocapture"])
        .env(HOLDER, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(parent.stdout.take().unwrap()).lines();
    let reported = lines.map_while(Result::ok).find_map(|line| line.strip_prefix(MARK).map(str::to_owned)).unwrap();
    let (pid, dbpath) = reported.split_once(' ').unwrap();
    let pid: u32 = pid.parse().unwrap();
    assert!(is_running(pid) && Path::new(dbpath).exists());

    parent.kill().unwrap();
    parent.wait().unwrap();

    let gone = (0..600).any(|_| {
        sleep(Duration::from_millis(100));
        !is_running(pid) && !Path::new(dbpath).exists()
    });
    assert!(gone, "mongod {pid} or {dbpath} is left");
}

/// A process that has ended and was not waited for counts as not running: the test does not decide
/// which process waits for an orphan.
fn is_running(pid: u32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    signal::exists(pid) && !state.contains(") Z ")
}
