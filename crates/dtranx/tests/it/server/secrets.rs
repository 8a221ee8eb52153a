//! Tests of clusters with secrets: a caller without the secret learns nothing and is refused.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use dtranx::client::{Client, ClientOptions};
use dtranx::cluster::Cluster;
use dtranx::core::{Message, ServerId};
use dtranx::server::{Server, ServerConfig};
use dtranx::wire::{
    Caller, Hello, PREFACE_BYTES, Proof, Secret, Side, Welcome, check_preface, decode, encode, next_frame, preface,
};

use crate::limit::Limit;
use crate::server::{cluster, config, store};

fn secret(text: &str) -> Secret {
    Secret::new(text.as_bytes()).unwrap()
}

fn clients() -> Secret {
    secret("what the clients know")
}

fn servers() -> Secret {
    secret("what the servers know")
}

fn with_secrets(cluster: &Cluster, server: u16, folder: &Path) -> ServerConfig {
    let mut config = config(cluster, server, folder);
    (config.client_secret, config.server_secret) = (Some(clients()), Some(servers()));
    config
}

fn connect(cluster: &Cluster, secret: Option<Secret>) -> Result<Client, String> {
    let options = ClientOptions { request_ms: 20_000, secret, ..ClientOptions::default() };
    let addresses: Vec<_> = cluster.servers.iter().map(|server| server.address).collect();
    Client::connect(&addresses, options).map_err(|error| error.to_string())
}

/// A connection whose caller may send any message.
struct Stranger {
    stream: TcpStream,
    said: Vec<u8>,
}

impl Stranger {
    fn call(address: SocketAddr, hello: &Hello) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(&preface()).unwrap();
        let mut first = [0; PREFACE_BYTES];
        stream.read_exact(&mut first).unwrap();
        check_preface(&first).unwrap();
        let mut stranger = Self { stream, said: Vec::new() };
        stranger.say(hello);
        stranger
    }

    fn say(&mut self, message: &impl serde::Serialize) {
        let mut bytes = Vec::new();
        encode(message, &mut bytes).unwrap();
        // The server may have closed the connection already.
        let _ = self.stream.write_all(&bytes);
    }

    /// Reads the next answer; `None` if the server closes the connection.
    fn hear(&mut self) -> Option<Welcome> {
        let mut chunk = [0; 4096];
        loop {
            if let Some((payload, taken)) = next_frame(&self.said).unwrap() {
                let welcome = decode(payload).unwrap();
                self.said.drain(..taken);
                return Some(welcome);
            }
            match self.stream.read(&mut chunk) {
                Ok(0) | Err(_) => return None,
                Ok(bytes) => self.said.extend_from_slice(&chunk[..bytes]),
            }
        }
    }
}

#[test]
fn clients_and_servers_that_know_the_secrets_work_together_and_others_are_refused() {
    let _limit = Limit::of(120, "answer of the servers");
    let folder = tempfile::tempdir().unwrap();
    let cluster = cluster(3);
    let _servers: Vec<_> =
        (1..=3).map(|server| Server::start(&with_secrets(&cluster, server, folder.path())).unwrap()).collect();
    let client = connect(&cluster, Some(clients())).unwrap();
    client.transact(|tranx| (0..30_u8).try_for_each(|number| tranx.put(vec![number], "x"))).unwrap();
    assert_eq!(client.get(vec![7]).unwrap().unwrap(), "x");
    let without = connect(&cluster, None).err().unwrap();
    assert!(without.contains("asks for a secret, and none was given"), "{without}");
    for other in [servers(), secret("some other secret")] {
        let wrong = connect(&cluster, Some(other)).err().unwrap();
        assert!(wrong.contains("does not know the secret"), "{wrong}");
    }
    // A client with a secret refuses a server that does not demand one.
    let (open_folder, open) = (tempfile::tempdir().unwrap(), self::cluster(1));
    let _open = Server::start(&config(&open, 1, open_folder.path())).unwrap();
    let unsure = connect(&open, Some(clients())).err().unwrap();
    assert!(unsure.contains("has not shown that it knows the secret"), "{unsure}");
}

#[test]
fn server_without_the_secret_or_with_another_one_is_not_taken_in() {
    let _limit = Limit::of(120, "answer of the servers");
    for other in [None, Some(secret("some other secret"))] {
        let folder = tempfile::tempdir().unwrap();
        let cluster = cluster(2);
        let _first = Server::start(&with_secrets(&cluster, 1, folder.path())).unwrap();
        let mut stranger = with_secrets(&cluster, 2, folder.path());
        stranger.server_secret = other;
        let stranger = Server::start(&stranger).unwrap();
        let hasty = ClientOptions { request_ms: 1_500, secret: Some(clients()), ..ClientOptions::default() };
        let alone = Client::connect(&[cluster.servers[0].address], hasty).err().unwrap();
        assert!(alone.to_string().contains("it serves once it has met server 2"), "{alone}");
        drop(stranger);
        let _second = Server::start(&with_secrets(&cluster, 2, folder.path())).unwrap();
        connect(&cluster, Some(clients())).unwrap().put("a", "1").unwrap();
    }
}

#[test]
fn strangers_learn_nothing_and_forged_low_water_marks_are_not_believed() {
    let _limit = Limit::of(120, "answer of the servers");
    let folder = tempfile::tempdir().unwrap();
    let cluster = cluster(2);
    let start = |server| Server::start(&with_secrets(&cluster, server, folder.path())).unwrap();
    let _servers = [start(1), start(2)];
    let client = connect(&cluster, Some(clients())).unwrap();
    let write = |text: &'static str| {
        client.transact(|tranx| (0..30_u8).try_for_each(|number| tranx.put(vec![number], text))).unwrap();
    };
    write("before");
    let address = cluster.servers[0].address;
    let empty = Hello { cluster: String::new(), map: None, to: None, from: Caller::Client(None), nonce: [0; 16] };
    let mut stranger = Stranger::call(address, &empty);
    assert!(matches!(stranger.hear(), Some(Welcome::Challenge { .. })));
    stranger.say(&Proof([0; 32]));
    assert!(matches!(stranger.hear(), Some(Welcome::Refused { why, .. }) if !why.contains("test")));
    assert!(stranger.hear().is_none(), "it is closed");

    let from = Caller::Server { server: ServerId(2), store: store(&folder.path().join("2")), is_new: false };
    let map = Some(cluster.map_id());
    let as_second = Hello { cluster: "test".to_owned(), map, to: Some(ServerId(1)), from, nonce: [1; 16] };
    let forged = Message::LowWater { through: u64::MAX, incomplete: vec![] };
    let mut proofs = vec![Proof([7; 32])];
    for attempt in 0..5 {
        let mut stranger = Stranger::call(address, &as_second);
        let Some(Welcome::Challenge { nonce, proof }) = stranger.hear() else { panic!("it is not asked") };
        match attempt {
            // The attempts: no proof, a wrong proof, the server's own proof, a proof with the
            // clients' secret, and a proof that was right for another connection.
            0 => {}
            1 => stranger.say(&proofs[0]),
            2 => stranger.say(&proof),
            3 => stranger.say(&clients().prove(Side::Caller, &as_second, &nonce).unwrap()),
            _ => stranger.say(proofs.last().unwrap()),
        }
        proofs.push(servers().prove(Side::Caller, &as_second, &nonce).unwrap());
        stranger.say(&forged);
        assert!(!matches!(stranger.hear(), Some(Welcome::Server { .. })), "attempt {attempt}");
    }
    for text in ["one", "two", "three"] {
        write(text);
        assert!((0..30_u8).all(|number| client.get(vec![number]).unwrap().unwrap() == text));
    }
    // A caller with the right proof is accepted.
    let mut known = Stranger::call(address, &as_second);
    let Some(Welcome::Challenge { nonce, proof }) = known.hear() else { panic!("it is not asked") };
    assert!(servers().is_proven(Side::Called, &as_second, &nonce, &proof).unwrap());
    known.say(&servers().prove(Side::Caller, &as_second, &nonce).unwrap());
    assert!(matches!(known.hear(), Some(Welcome::Server { .. })));
}

#[test]
fn secrets_are_read_from_files_and_needed_beyond_the_loopback_interface() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    let text = |extra: &str| {
        format!(
            "cluster = \"bank\"\nserver = 1\nfolder = \"/x\"\nallow_remote = true\n{extra}\n\
                 servers = [{{ id = 1, address = \"10.0.0.1:7101\" }}]\n"
        )
    };
    let read = |extra: &str| ServerConfig::from_toml(&text(extra), None).map_err(|error| error.to_string());
    let needed = read("").unwrap_err();
    assert!(needed.contains("secret_file: 10.0.0.1:7101 is not of the loopback interface"), "{needed}");
    let named = format!("secret_file = {file:?}");
    assert!(read(&named).unwrap_err().contains("secret_file: cannot read"));
    let put = |bytes: &str, mode| {
        fs::write(&file, bytes).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        read(&named)
    };
    assert!(put("0123456789abcdef\n", 0o644).unwrap_err().contains("everybody may read or change"));
    assert!(put("0123456789abcde\n", 0o600).unwrap_err().contains("16 to 4096 bytes, this one has 15"));
    let config = put("0123456789abcdef\n", 0o600).unwrap();
    let expected = Some(Secret::new(b"0123456789abcdef").unwrap());
    assert_eq!((&config.client_secret, &config.server_secret), (&expected, &expected));
    assert!(!format!("{config:?}").contains("0123456789"), "it is shown");
}
