//! Tests of a server process with few descriptors and little memory for clients, whose clients need
//! more.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use dtranx::client::{Client, ClientOptions};
use dtranx::cluster::HeldPort;
use dtranx::core::ServerId;
use dtranx::wire::{
    Caller, FRAME_LIMIT_BYTES, Hello, PREFACE_BYTES, ServerStatus, Welcome, decode, encode, next_frame, preface,
};
use tempfile::TempDir;

use crate::limit::Limit;

const PATIENCE: Duration = Duration::from_secs(60);

struct Process {
    child: Child,
    address: SocketAddr,
    _port: HeldPort,
    _folder: TempDir,
}

impl Process {
    /// Starts a server with this limit of open files, soft and hard.
    fn start(files: u32) -> Self {
        let (folder, port) = (tempfile::tempdir().unwrap(), HeldPort::pick().unwrap());
        let (file, address) = (folder.path().join("server.toml"), port.address());
        let config = format!(
            "cluster = \"budgets\"\nserver = 1\nfolder = \"{}\"\nservers = [{{ id = 1, address = \"{address}\" }}]\n\
             [limits]\nsegment_mib = 16\ngc_interval_ms = 20\nclient_mib = 64\n[threads]\npinned = false\n",
            folder.path().join("data").display(),
        );
        std::fs::write(&file, config).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n \"$1\"; shift; exec \"$@\"", "sh", &files.to_string()]);
        command.args([env!("CARGO_BIN_EXE_dtranx"), "serve", "--until-stdin-closes", "--config"]).arg(file);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("listens on"), "{line:?}");
        Self { child, address, _port: port, _folder: folder }
    }

    fn client(&self, request_ms: u64) -> Result<Client, String> {
        let options = ClientOptions { request_ms, attempts: 1000, ..ClientOptions::default() };
        Client::connect(&[self.address], options).map_err(|error| error.to_string())
    }

    fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Connects a client that sends its hello and no request.
    fn greet(&self) -> (TcpStream, Welcome) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let from = Caller::Client(None);
        let mut bytes = preface().to_vec();
        encode(&Hello { cluster: "budgets".to_owned(), map: None, to: None, from, nonce: [0; 16] }, &mut bytes)
            .unwrap();
        stream.write_all(&bytes).unwrap();
        let (mut said, mut chunk) = (Vec::new(), [0; 4096]);
        loop {
            let bytes = stream.read(&mut chunk).unwrap();
            assert!(bytes > 0, "the server closes without a word");
            said.extend_from_slice(&chunk[..bytes]);
            let frame = said.get(PREFACE_BYTES..).and_then(|said| next_frame(said).unwrap());
            if let Some((payload, _)) = frame {
                return (stream, decode(payload).unwrap());
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended already, so that it cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn status(client: &Client) -> ServerStatus {
    client.status(ServerId(1)).unwrap()
}

/// Writes until garbage collection has removed a segment that was written by this call.
fn write_until_collected(client: &Client) {
    let begun = Instant::now();
    let (mut most, mut written) = (0, 0_u64);
    while status(client).log_segments >= most || written < 64 << 20 {
        client.put(format!("key {}", written % 7), vec![7; 1 << 20]).unwrap();
        written += 1 << 20;
        most = status(client).log_segments.max(most);
        assert!(begun.elapsed() < 2 * PATIENCE, "nothing is collected: {most} segments");
    }
}

#[test]
fn more_idle_clients_than_descriptors_stop_neither_commits_nor_collection() {
    let _limit = Limit::of(300, "server that collects its log");
    let process = Process::start(256);
    let client = process.client(20_000).unwrap();
    client.put("a", "1").unwrap();
    let connections = status(&client).connections;
    assert_eq!((connections.descriptors, connections.most_client_connections), (256, 96));
    let silent: Vec<_> = (0..100).map(|_| TcpStream::connect(process.address).unwrap()).collect();
    let greeted: Vec<_> = (0..150).map(|_| process.greet()).collect();
    let (mut idle, mut refused) = (0, 0);
    for (_, welcome) in &greeted {
        match welcome {
            Welcome::Client { .. } => idle += 1,
            Welcome::Refused { why, is_temporary: true } if why.contains("limits.client_connections: 96") => {
                refused += 1
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((idle, refused), (95, 55), "the first client has a place");
    write_until_collected(&client);
    let late = process.client(500).err().unwrap();
    assert!(late.contains("limits.client_connections: 96 clients are connected"), "{late}");
    assert!(status(&client).connections.refused_clients > 55);
    drop((greeted, silent));
    process.client(20_000).unwrap().put("a", "2").unwrap();
}

#[test]
fn half_messages_of_the_largest_length_take_no_more_than_the_budget() {
    let _limit = Limit::of(300, "answer beside half messages");
    let process = Process::start(1024);
    let client = process.client(20_000).unwrap();
    client.put("a", "1").unwrap();
    let before_kib = process.resident_kib();
    let mut half = (FRAME_LIMIT_BYTES as u32).to_le_bytes().to_vec();
    half.resize(FRAME_LIMIT_BYTES - 1, 0);
    let mut callers = Vec::new();
    for number in 0..70 {
        let (mut caller, _) = process.greet();
        caller.write_all(&half).unwrap();
        callers.push(caller);
        client.put("a", number.to_string()).unwrap();
    }
    let connections = status(&client).connections;
    assert!(
        connections.client_bytes <= connections.most_client_bytes && connections.most_client_bytes == 64 << 20,
        "{connections:?}"
    );
    assert!(connections.refused_requests > 60, "{connections:?}");
    // The clients have sent 1120 MiB in all, of which the server keeps no more than its limit.
    let grown_kib = process.resident_kib().saturating_sub(before_kib);
    assert!(grown_kib < 400 << 10, "{grown_kib} KiB");
    assert_eq!(client.get("a").unwrap().unwrap(), "69");
}
