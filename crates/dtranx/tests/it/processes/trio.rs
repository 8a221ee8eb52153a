//! [`Trio`]: three server processes, each behind a proxy, and the faults that a test can cause in
//! them. They are three servers, or the members of a group. Further servers may join the former.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use dtranx::client::{Client, ClientOptions, greet};
use dtranx::cluster::HeldPort;
use dtranx::wire::Welcome;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::processes::proxy::Proxy;

/// Time limit of a client's request while servers are tormented, in milliseconds.
pub(crate) const REQUEST_MS: u64 = 1_000;

/// Name of the file with the configuration.
const CONFIG: &str = "trio.toml";
/// Limit with which the log is collected often.
const COLLECTS: &str = "gc_interval_ms = 50\n";
/// Limit with which nothing of the log is removed.
const KEEPS: &str = "gc_interval_ms = 3600000\n";

pub(crate) struct Trio {
    folder: TempDir,
    ports: Vec<HeldPort>,
    proxies: Vec<Proxy>,
    children: Vec<Option<Child>>,
    is_group: bool,
    /// Lines of the configuration before the servers and behind them.
    lines: [String; 2],
}

impl Trio {
    /// Starts the three servers and waits until each listens.
    pub(crate) fn start(medium: &str) -> Self {
        Self::with(medium, COLLECTS, false)
    }

    /// Starts three servers whose ranges begin with these keys, and waits until each listens.
    pub(crate) fn ranges(medium: &str, first_keys: [&str; 3]) -> Self {
        let range = |(at, key): (usize, &&str)| format!("{{ first_key = \"{key}\", server = {} }}", at + 1);
        let ranges: Vec<_> = first_keys.iter().enumerate().map(range).collect();
        Self::start_all(
            medium,
            COLLECTS,
            false,
            &format!("[partition]\nby = \"ranges\"\nranges = [{}]\n", ranges.join(", ")),
        )
    }

    /// Starts the three members of a group and waits until each listens.
    pub(crate) fn group(medium: &str) -> Self {
        Self::group_with(medium, "")
    }

    /// Starts the three members of a group with these lines among their limits.
    pub(crate) fn group_with(medium: &str, limits: &str) -> Self {
        Self::with(medium, &format!("{COLLECTS}{limits}"), true)
    }

    /// Starts three servers, or the members of a group, that remove nothing of their logs.
    pub(crate) fn that_keeps_its_log(is_group: bool) -> Self {
        Self::with("disk", KEEPS, is_group)
    }

    fn with(medium: &str, limits: &str, is_group: bool) -> Self {
        Self::start_all(medium, limits, is_group, "")
    }

    fn start_all(medium: &str, limits: &str, is_group: bool, partition: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let before = format!("cluster = \"trio\"\nfolder = \"unused\"\nmedium = \"{medium}\"\n");
        let behind = format!("[limits]\nsegment_mib = 16\n{limits}[threads]\npinned = false\n{partition}");
        let (ports, proxies, children, lines) = (Vec::new(), Vec::new(), Vec::new(), [before, behind]);
        let mut trio = Self { folder, ports, proxies, children, is_group, lines };
        (0..3).for_each(|_| trio.hold_port());
        trio.write_config(CONFIG, 3);
        (0..3).for_each(|at| trio.run(at));
        trio
    }

    fn hold_port(&mut self) {
        let port = HeldPort::pick().unwrap();
        self.proxies.push(Proxy::start(port.address()));
        self.ports.push(port);
        self.children.push(None);
    }

    /// Writes a configuration with the first servers, so many of them.
    fn write_config(&self, name: &str, servers: usize) {
        let addresses = self.addresses();
        let addresses = &addresses[..servers];
        let servers = if self.is_group { group_of(addresses) } else { servers_at(addresses) };
        let [before, behind] = &self.lines;
        std::fs::write(self.folder.path().join(name), format!("{before}servers = [{servers}]\n{behind}")).unwrap();
    }

    /// Starts one more server, which is the last of the list. The others have that list once they
    /// are started again. Returns its place.
    pub(crate) fn add(&mut self) -> usize {
        self.hold_port();
        let at = self.ports.len() - 1;
        self.write_config(CONFIG, at + 1);
        self.run(at);
        at
    }

    /// Error with which a server that has ended is refused if its list has the first servers only.
    pub(crate) fn refusal_with(&self, at: usize, servers: usize) -> String {
        self.write_config("short.toml", servers);
        let mut command = self.command(at, "short.toml");
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // It is refused, and does not end because its standard input is closed.
        let stdin = child.stdin.take();
        let output = child.wait_with_output().unwrap();
        drop(stdin);
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    }

    /// Folder of a server's data.
    pub(crate) fn folder(&self, at: usize) -> PathBuf {
        self.folder.path().join(at.to_string())
    }

    pub(crate) fn run(&mut self, at: usize) {
        self.run_with(at, &[]);
    }

    /// Starts a server with these options beside those of all.
    pub(crate) fn run_with(&mut self, at: usize, options: &[&str]) {
        self.start_with(at, CONFIG, options);
    }

    /// Starts a new store for a group, which waits until it is added. Returns its place.
    pub(crate) fn join(&mut self) -> usize {
        self.hold_port();
        let at = self.ports.len() - 1;
        self.run_joining(at);
        at
    }

    /// Starts a new store for a cluster of another name, and waits until it does. Returns its
    /// place.
    pub(crate) fn join_other(&mut self, name: &str) -> usize {
        self.lines[0] = self.lines[0].replace("\"trio\"", &format!("{name:?}"));
        self.write_config(CONFIG, 3);
        let at = self.join();
        self.wait_until_it_waits(at);
        at
    }

    /// Waits until a store waits here to be added to a group.
    pub(crate) fn wait_until_it_waits(&self, at: usize) {
        let waits = |address| matches!(greet(address, None, Duration::ZERO), Ok(Welcome::Waiting { .. }));
        while !waits(self.proxies[at].address) {
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Starts a store that joins the group, or has done so. It may wait.
    pub(crate) fn run_joining(&mut self, at: usize) {
        let address = self.proxies[at].address.to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_dtranx"));
        command.args(["serve", "--until-stdin-closes", "--id", "1", "--join", &address]);
        command.args(["--listen", &self.ports[at].address().to_string()]);
        command.arg("--config").arg(self.folder.path().join(CONFIG));
        command.arg("--folder").arg(self.folder(at));
        self.children[at] = Some(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap());
    }

    /// Runs `dtranx member` with these arguments. Returns what it says, if it is carried out, or
    /// why it is not.
    pub(crate) fn member(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dtranx"));
        command.arg("member").args(arguments).args(["--timeout-ms", "20000"]);
        for address in self.addresses() {
            command.args(["--server", &address.to_string()]);
        }
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }

    /// Adds the store that waits at this place, as soon as it does. Returns what the command says.
    pub(crate) fn add_member(&self, at: usize) -> String {
        let address = self.proxies[at].address.to_string();
        loop {
            match self.member(&["add", &address]) {
                Ok(said) => return said,
                Err(why) => assert!(why.contains(&address) || why.contains("not answer"), "{why}"),
            }
        }
    }

    /// Starts a server with a list that has the first servers only.
    pub(crate) fn run_with_first(&mut self, at: usize, servers: usize) {
        self.write_config("first.toml", servers);
        self.start_with(at, "first.toml", &[]);
    }

    fn start_with(&mut self, at: usize, config: &str, options: &[&str]) {
        let piped = self.command(at, config).args(options).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = piped.unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("listens on"), "server {}: {line:?}", at + 1);
        self.children[at] = Some(child);
    }

    /// The command that starts a server with a configuration.
    fn command(&self, at: usize, config: &str) -> Command {
        let number = (at + 1).to_string();
        let which =
            if self.is_group { ["--id", "1", "--member", &number].to_vec() } else { ["--id", &number].to_vec() };
        let mut command = Command::new(env!("CARGO_BIN_EXE_dtranx"));
        command.args(["serve", "--until-stdin-closes"]).args(which);
        command.args(["--listen", &self.ports[at].address().to_string()]);
        command.arg("--config").arg(self.folder.path().join(config));
        command.arg("--folder").arg(self.folder(at));
        command
    }

    /// Returns true if a server welcomes clients.
    pub(crate) fn serves(&self, at: usize) -> bool {
        serves(self.ports[at].address())
    }

    /// The member of the group that serves clients, as soon as there is one.
    pub(crate) fn leader(&self) -> usize {
        loop {
            if let Some(at) = (0..self.ports.len()).find(|at| serves(self.ports[*at].address())) {
                return at;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until a server's process has ended by itself.
    pub(crate) fn wait(&mut self, at: usize) {
        if let Some(mut child) = self.children[at].take() {
            // What `wait` closes would end it, too.
            let stdin = child.stdin.take();
            child.wait().unwrap();
            drop(stdin);
        }
    }

    pub(crate) fn kill(&mut self, at: usize) {
        if let Some(mut child) = self.children[at].take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Kills a server whose last answers are lost on the way.
    pub(crate) fn kill_unheard(&mut self, at: usize) {
        self.proxies[at].mute();
        thread::sleep(Duration::from_millis(50));
        self.kill(at);
        self.proxies[at].mend();
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

/// Description of three servers.
fn servers_at(addresses: &[SocketAddr]) -> String {
    let numbered = addresses.iter().enumerate();
    let server = numbered.map(|(at, address)| format!("{{ id = {}, address = \"{address}\" }}", at + 1));
    server.collect::<Vec<_>>().join(", ")
}

/// Description of a server that is a group.
fn group_of(addresses: &[SocketAddr]) -> String {
    let members: Vec<_> = addresses.iter().map(|address| format!("\"{address}\"")).collect();
    format!("{{ id = 1, members = [{}] }}", members.join(", "))
}

/// Returns true if the server at this address welcomes a client.
fn serves(address: SocketAddr) -> bool {
    matches!(greet(address, None, Duration::ZERO), Ok(Welcome::Client { .. }))
}

impl Drop for Trio {
    fn drop(&mut self) {
        (0..self.children.len()).for_each(|at| self.kill(at));
    }
}
