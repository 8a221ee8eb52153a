//! Tests of callers that violate the protocol: each loses its connection, and other connections are
//! not affected.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use dtranx::client::{Client, ClientOptions};
use dtranx::core::{ServerId, StoreId};
use dtranx::server::Server;
use dtranx::wire::{
    Ask, Caller, FRAME_LIMIT_BYTES, Hello, PREFACE_BYTES, Reply, Request, Response, Welcome, decode, encode,
    next_frame, preface,
};

use crate::limit::Limit;
use crate::server::{cluster, config};

/// Sends bytes and reads until the server closes the connection. Returns what the server sent
/// behind its preface.
fn say(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(bytes).unwrap();
    let mut said = Vec::new();
    match stream.read_to_end(&mut said) {
        Ok(_) => {}
        // The server has closed the connection without reading all bytes.
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}"),
    }
    said.split_off(PREFACE_BYTES.min(said.len()))
}

fn hello(hello: &Hello) -> Vec<u8> {
    let mut bytes = preface().to_vec();
    encode(hello, &mut bytes).unwrap();
    bytes
}

fn refusal(said: &[u8]) -> String {
    let (payload, _) = next_frame(said).unwrap().unwrap();
    match decode(payload).unwrap() {
        Welcome::Refused { why, .. } => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn strangers_lose_their_connection_and_clients_go_on() {
    let _limit = Limit::of(120, "end of a connection, or answer to a client");
    let folder = tempfile::tempdir().unwrap();
    let cluster = cluster(1);
    let _server = Server::start(&config(&cluster, 1, folder.path())).unwrap();
    let address = cluster.servers[0].address;
    let client = Client::connect(&[address], ClientOptions::default()).unwrap();
    client.put("a", "1").unwrap();

    assert!(say(address, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").is_empty());
    let mut version = preface();
    version[4] = 9;
    assert!(say(address, &version).is_empty());

    let caller = Caller::Client(None);
    let other_cluster =
        Hello { cluster: "other".to_owned(), map: None, to: None, from: caller.clone(), nonce: [0; 16] };
    assert_eq!(refusal(&say(address, &hello(&other_cluster))), "this is the cluster \"test\", not \"other\"");
    let other_server =
        Hello { cluster: "test".to_owned(), map: None, to: Some(ServerId(7)), from: caller.clone(), nonce: [0; 16] };
    assert_eq!(refusal(&say(address, &hello(&other_server))), "this is server 1, not 7");
    let unknown = Caller::Server { server: ServerId(9), store: StoreId([0; 16]), is_new: false };
    let map = Some(cluster.map_id());
    let unknown_server = Hello { cluster: "test".to_owned(), map, to: None, from: unknown, nonce: [0; 16] };
    assert!(refusal(&say(address, &hello(&unknown_server))).contains("server 9"));

    let mut damaged = hello(&other_cluster);
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    assert!(say(address, &damaged).is_empty());
    let mut oversized = preface().to_vec();
    oversized.extend((FRAME_LIMIT_BYTES as u32 + 1).to_le_bytes());
    oversized.extend([0; 4]);
    assert!(say(address, &oversized).is_empty());
    // A client sends a valid hello and then a frame that is no request.
    let mut nonsense =
        hello(&Hello { cluster: "test".to_owned(), map: None, to: None, from: caller.clone(), nonce: [0; 16] });
    encode(&vec![0xff_u8; 40], &mut nonsense).unwrap();
    let said = say(address, &nonsense);
    let (payload, taken) = next_frame(&said).unwrap().unwrap();
    assert!(matches!(decode(payload).unwrap(), Welcome::Client { .. }) && taken == said.len());

    client.put("a", "2").unwrap();
    assert_eq!(client.get("a").unwrap().unwrap(), "2");
}

/// The operating system may report the end of a connection together with its last bytes, and never
/// again.
#[test]
fn client_that_ends_with_its_last_request_is_answered_and_let_go() {
    let _limit = Limit::of(120, "answer to the last request");
    let folder = tempfile::tempdir().unwrap();
    let cluster = cluster(1);
    let _server = Server::start(&config(&cluster, 1, folder.path())).unwrap();
    let address = cluster.servers[0].address;
    Client::connect(&[address], ClientOptions::default()).unwrap().put("a", "1").unwrap();
    for _ in 0..50 {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let greeting =
            Hello { cluster: "test".to_owned(), map: None, to: None, from: Caller::Client(None), nonce: [0; 16] };
        stream.write_all(&hello(&greeting)).unwrap();
        // The server has sent its preface and more, so it has accepted the hello and waits for a
        // request.
        let mut first = [0; PREFACE_BYTES + 1];
        stream.read_exact(&mut first).unwrap();
        let mut request = Vec::new();
        encode(&Request { id: 1, is_repeated: false, ask: Ask::Status }, &mut request).unwrap();
        stream.write_all(&request).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut said = first[PREFACE_BYTES..].to_vec();
        stream.read_to_end(&mut said).expect("the server keeps a connection that has ended");
        let (_, welcome) = next_frame(&said).unwrap().unwrap();
        let (answer, _) = next_frame(&said[welcome..]).unwrap().expect("the request is not answered");
        assert!(matches!(decode(answer).unwrap(), Response { id: 1, reply: Reply::Status(_) }));
    }
}

#[test]
fn address_in_use_is_named() {
    let _limit = Limit::of(120, "refusal to start");
    let folder = tempfile::tempdir().unwrap();
    let cluster = cluster(1);
    let _holder = std::net::TcpListener::bind(cluster.servers[0].address).unwrap();
    let refused = Server::start(&config(&cluster, 1, folder.path())).err().unwrap();
    assert!(refused.to_string().contains(&cluster.servers[0].address.to_string()), "{refused}");
}
