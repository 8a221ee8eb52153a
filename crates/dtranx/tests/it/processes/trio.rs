//! [`Trio`]: three server processes, each behind a proxy, and the faults that a test can cause in
//! them.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use dtranx::client::{Client, ClientOptions};
use dtranx::cluster::HeldPort;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::processes::proxy::Proxy;

/// Time limit of a client's request while servers are tormented, in milliseconds.
pub(crate) const REQUEST_MS: u64 = 1_000;

pub(crate) struct Trio {
    folder: TempDir,
    ports: Vec<HeldPort>,
    proxies: Vec<Proxy>,
    children: Vec<Option<Child>>,
}

impl Trio {
    /// Starts the three servers and waits until each listens.
    pub(crate) fn start(medium: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ports: Vec<_> = (0..3).map(|_| HeldPort::pick().unwrap()).collect();
        let proxies: Vec<_> = ports.iter().map(|port| Proxy::start(port.address())).collect();
        let servers: Vec<_> =
            (0..3).map(|at| format!("{{ id = {}, address = \"{}\" }}", at + 1, proxies[at].address)).collect();
        let config = format!(
            "cluster = \"trio\"\nfolder = \"unused\"\nmedium = \"{medium}\"\nservers = [{}]\n\
             [limits]\nsegment_mib = 16\ngc_interval_ms = 50\n[threads]\npinned = false\n",
            servers.join(", ")
        );
        std::fs::write(folder.path().join("trio.toml"), config).unwrap();
        let mut trio = Self { folder, ports, proxies, children: vec![None, None, None] };
        (0..3).for_each(|at| trio.run(at));
        trio
    }

    pub(crate) fn run(&mut self, at: usize) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_dtranx"))
            .args(["serve", "--until-stdin-closes", "--id", &(at + 1).to_string()])
            .args(["--listen", &self.ports[at].address().to_string()])
            .arg("--config")
            .arg(self.folder.path().join("trio.toml"))
            .arg("--folder")
            .arg(self.folder.path().join(at.to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("listens on"), "server {}: {line:?}", at + 1);
        self.children[at] = Some(child);
    }

    pub(crate) fn kill(&mut self, at: usize) {
        if let Some(mut child) = self.children[at].take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub(crate) fn pause(&self, at: usize, time: Duration) {
        self.signal(at, Signal::STOP);
        thread::sleep(time);
        self.signal(at, Signal::CONT);
    }

    fn signal(&self, at: usize, signal: Signal) {
        let id = self.children[at].as_ref().unwrap().id();
        kill_process(Pid::from_raw(id as i32).unwrap(), signal).unwrap();
    }

    pub(crate) fn cut(&self, at: usize, time: Duration) {
        self.proxies[at].cut();
        thread::sleep(time);
        self.proxies[at].mend();
    }

    /// Loses the answers of a server, cuts it off and restarts it, until requests that were under
    /// way have lasted [`REQUEST_MS`]. Clients send a commit that was carried out again while there
    /// is no connection, and the next connection is to another incarnation.
    pub(crate) fn restart_unheard(&mut self, at: usize) {
        let begun = Instant::now();
        self.proxies[at].mute();
        thread::sleep(Duration::from_millis(50));
        self.proxies[at].cut();
        self.kill(at);
        self.run(at);
        let whole = Duration::from_millis(REQUEST_MS + 150);
        thread::sleep(whole.saturating_sub(begun.elapsed()));
        self.proxies[at].mend();
    }

    /// Causes every kind of fault once on each server.
    pub(crate) fn torment(&mut self) {
        let short = Duration::from_millis(150);
        for at in 0..3 {
            thread::sleep(short);
            self.kill(at);
            thread::sleep(short);
            self.run(at);
            thread::sleep(short);
            self.pause((at + 1) % 3, 2 * short);
            thread::sleep(short);
            self.cut((at + 2) % 3, 2 * short);
            thread::sleep(2 * short);
            self.restart_unheard((at + 1) % 3);
        }
        thread::sleep(short);
        (0..3).for_each(|at| self.kill(at));
        (0..3).for_each(|at| self.run(at));
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.proxies.iter().map(|proxy| proxy.address).collect()
    }

    pub(crate) fn client(&self, request_ms: u64) -> Client {
        let options = ClientOptions { attempts: 10_000, request_ms, ..ClientOptions::default() };
        Client::connect(&self.addresses(), options).unwrap()
    }
}

impl Drop for Trio {
    fn drop(&mut self) {
        (0..3).for_each(|at| self.kill(at));
    }
}
