//! Clients that speak oddly, badly or not at all; and one that behaves well, which they do not
//! disturb.

use crate::common;

use std::time::Duration;

use bson::{Document, doc};
use common::{
    gateway,
    raw::{Raw, framed, message, old_query},
    soon,
};
use mongotx_gateway::{
    Limits,
    wire::{
        Compressor, compress,
        op_msg::{CHECKSUM_PRESENT, EXHAUST_ALLOWED, MORE_TO_COME},
    },
};

fn ping() -> Document {
    doc! {"ping": 1, "$db": "admin"}
}

fn is_ok(answer: Option<Document>) -> bool {
    answer.is_some_and(|answer| answer.get_f64("ok").ok() == Some(1.0))
}

#[tokio::test]
async fn old_handshake_is_answered_in_the_old_form() {
    let (_gateway, address) = gateway(Limits::default()).await;
    let mut raw = Raw::connect(address).await;
    let wrapped = doc! {"$query": {"isMaster": 1}, "$readPreference": {"mode": "nearest"}};
    for question in [doc! {"isMaster": 1, "helloOk": true}, doc! {"ismaster": 1}, wrapped] {
        raw.send(&old_query("admin.$cmd", &question)).await;
        let (header, payload) = raw.receive().await.unwrap();
        assert_eq!((header.op_code, header.response_to), (mongotx_gateway::wire::OpCode::Reply, 77));
        // Flags, cursor id, position, one document.
        assert_eq!(payload[12..20], [0, 0, 0, 0, 1, 0, 0, 0]);
        let answer = Document::try_from(bson::RawDocument::from_bytes(&payload[20..]).unwrap()).unwrap();
        assert_eq!(answer.get_str("msg").unwrap(), "isdbgrid", "{question}");
    }
    // The new form on the same connection.
    assert!(is_ok(raw.ask(ping()).await));
}

#[tokio::test]
async fn other_old_queries_are_refused_and_the_connection_stays() {
    let (_gateway, address) = gateway(Limits::default()).await;
    let mut raw = Raw::connect(address).await;
    for (namespace, query) in [("admin.$cmd", doc! {"ping": 1}), ("a.b", doc! {}), ("admin.$cmd", doc! {})] {
        raw.send(&old_query(namespace, &query)).await;
        let (_, payload) = raw.receive().await.unwrap();
        let answer = Document::try_from(bson::RawDocument::from_bytes(&payload[20..]).unwrap()).unwrap();
        assert_eq!(answer.get_f64("ok").unwrap(), 0.0);
    }
    assert!(is_ok(raw.ask(ping()).await));
}

#[tokio::test]
async fn answers_have_the_form_of_their_questions() {
    let (_gateway, address) = gateway(Limits::default()).await;
    let mut raw = Raw::connect(address).await;
    raw.send(&message(&ping(), CHECKSUM_PRESENT | EXHAUST_ALLOWED)).await;
    let (header, payload) = raw.receive().await.unwrap();
    // `decode_answer` checks the checksum that the flags announce.
    assert_eq!(payload[..4], CHECKSUM_PRESENT.to_le_bytes());
    mongotx_gateway::wire::op_msg::decode_answer(&header, &payload).unwrap();
    for compressor in Compressor::ALL {
        raw.send(&compress(&message(&ping(), 0), compressor)).await;
        let (header, payload) = raw.receive().await.unwrap();
        assert_eq!((header.op_code, header.response_to), (mongotx_gateway::wire::OpCode::Compressed, 77));
        assert_eq!(payload[..4], 2013_i32.to_le_bytes());
    }
}

#[tokio::test]
async fn commands_without_a_wish_for_answers_get_none() {
    let (_gateway, address) = gateway(Limits::default()).await;
    let mut raw = Raw::connect(address).await;
    raw.send(&message(&doc! {"noSuchThing": 1, "$db": "admin"}, MORE_TO_COME)).await;
    raw.send(&message(&doc! {"no database": 1}, MORE_TO_COME)).await;
    raw.send(&message(&doc! {"whatsmyuri": 1, "$db": "admin"}, 0)).await;
    assert!(raw.answer().await.unwrap().contains_key("you"));
}

#[tokio::test]
async fn questions_sent_ahead_are_answered_in_their_order() {
    let (_gateway, address) = gateway(Limits::default()).await;
    let mut raw = Raw::connect(address).await;
    let questions = [doc! {"buildInfo": 1, "$db": "admin"}, ping(), doc! {"whatsmyuri": 1, "$db": "admin"}];
    let bytes: Vec<u8> = questions.iter().flat_map(|question| message(question, 0)).collect();
    // In pieces that end anywhere.
    for piece in bytes.chunks(7) {
        raw.send(piece).await;
    }
    assert!(raw.answer().await.unwrap().contains_key("version"));
    let pong = raw.answer().await;
    assert!(pong.as_ref().is_some_and(|pong| !pong.contains_key("version") && !pong.contains_key("you")));
    assert!(is_ok(pong));
    assert!(raw.answer().await.unwrap().contains_key("you"));
}

/// Messages after which it cannot be known where the next one begins.
fn bad_messages() -> Vec<(&'static str, Vec<u8>)> {
    let good = message(&ping(), 0);
    let with = |at: usize, bytes: &[u8]| {
        let mut bad = good.clone();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        bad
    };
    let mut summed = message(&ping(), CHECKSUM_PRESENT);
    summed[30] ^= 1;
    let bomb = [2013_i32.to_le_bytes(), i32::MAX.to_le_bytes()].concat();
    let nested = [2012_i32.to_le_bytes(), 9_i32.to_le_bytes()].concat();
    vec![
        ("another protocol", b"GET / HTTP/1.1\r\nHost: here\r\n\r\n".to_vec()),
        ("a negative length", with(0, &(-1_i32).to_le_bytes())),
        ("a length of nothing", with(0, &0_i32.to_le_bytes())),
        ("a length beyond the limit", with(0, &48_000_001_i32.to_le_bytes())),
        ("an old insert", with(12, &2002_i32.to_le_bytes())),
        ("an answer", with(12, &1_i32.to_le_bytes())),
        ("unknown flags", with(16, &4_u32.to_le_bytes())),
        ("an unknown section", with(20, &[9])),
        ("a body that goes on too long", with(21, &1000_i32.to_le_bytes())),
        ("a body of negative length", with(21, &(-5_i32).to_le_bytes())),
        ("no flags", framed(2013, &[])),
        ("no body", framed(2013, &[0, 0, 0, 0])),
        ("a wrong checksum", summed),
        ("a bomb", framed(2012, &[&bomb[..], &[2, 1, 2, 3]].concat())),
        ("an unknown compressor", framed(2012, &[&bomb[..4], &[9, 0, 0, 0, 77, 1]].concat())),
        ("compressed twice", framed(2012, &[&nested[..], &[0, 1, 2, 3]].concat())),
        ("a query without an end", framed(2004, &[0, 0, 0, 0, b'a'])),
    ]
}

#[tokio::test]
async fn bad_bytes_end_their_own_connection_only() {
    let (_gateway, address) = gateway(Limits::default()).await;
    let mut good = Raw::connect(address).await;
    for (what, bytes) in bad_messages() {
        let mut bad = Raw::connect(address).await;
        bad.send(&bytes).await;
        assert!(is_ok(good.ask(ping()).await), "during {what}");
        assert!(bad.is_closed().await, "{what}");
        assert!(is_ok(good.ask(ping()).await), "after {what}");
    }
}

#[tokio::test]
async fn bad_documents_are_answered_and_the_connection_stays() {
    let (_gateway, address) = gateway(Limits::default()).await;
    let mut raw = Raw::connect(address).await;
    let good = message(&doc! {"ping": 1, "$db": "admin", "x": "text"}, 0);
    let bad_type = {
        let mut bad = good.clone();
        bad[25] = 0x77;
        bad
    };
    let bad_text = {
        let mut bad = good.clone();
        let at = bad.windows(4).position(|four| four == b"text").unwrap();
        bad[at] = 0xff;
        bad
    };
    let deep = (0..300).fold(doc! {}, |inner, _| doc! {"a": inner});
    let deep = message(&doc! {"ping": 1, "$db": "admin", "x": deep}, 0);
    for (bytes, code) in [(bad_type, 22), (bad_text, 22), (deep, 15), (message(&doc! {"ping": 1}, 0), 40571)] {
        raw.send(&bytes).await;
        assert_eq!(raw.answer().await.unwrap().get_i32("code").unwrap(), code);
    }
    assert!(is_ok(raw.ask(ping()).await));
}

#[tokio::test]
async fn one_connection_more_than_allowed_is_closed() {
    let (_gateway, address) = gateway(Limits { connections: 2, ..Limits::default() }).await;
    let (mut one, mut two) = (Raw::connect(address).await, Raw::connect(address).await);
    assert!(is_ok(one.ask(ping()).await) && is_ok(two.ask(ping()).await));
    let mut three = Raw::connect(address).await;
    assert!(three.is_closed().await);
    assert!(is_ok(two.ask(ping()).await));
    // A place that is free again is taken again.
    drop(one);
    soon(async {
        while !is_ok(Raw::connect(address).await.ask(ping()).await) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn silent_and_slow_clients_lose_their_connections() {
    let short = Duration::from_millis(100);
    let limits = Limits { first_message: short, message: short, idle: Some(short), ..Limits::default() };
    let (_gateway, address) = gateway(limits).await;
    let mut silent = Raw::connect(address).await;
    let mut slow = Raw::connect(address).await;
    slow.send(&message(&ping(), 0)[..20]).await;
    assert!(silent.is_closed().await && slow.is_closed().await);
}

#[tokio::test]
async fn shutdown_answers_what_was_asked_and_closes_the_rest() {
    let (gateway, address) = gateway(Limits::default()).await;
    let mut idle = Raw::connect(address).await;
    assert!(is_ok(idle.ask(ping()).await));
    soon(gateway.shutdown(Duration::from_secs(10))).await.unwrap();
    assert!(idle.is_closed().await);
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn unix_socket_is_served_and_cleaned_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mongotx.sock");
    // A socket as a killed process leaves it.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let server = local_mongod::shared_standalone().await.unwrap();
    let mut options = common::options(&server.uri(), Limits::default());
    options.listen = None;
    options.unix = Some(path.clone());
    let gateway = mongotx_gateway::Gateway::start(options.clone()).await.unwrap();
    let taken = mongotx_gateway::Gateway::start(options).await.err().unwrap().to_string();
    assert!(taken.contains("another process listens"), "{taken}");
    let uri = format!("mongodb://{}/", path.display().to_string().replace('/', "%2F"));
    let client = mongodb::Client::with_uri_str(uri).await.unwrap();
    soon(client.database("admin").run_command(doc! {"ping": 1})).await.unwrap();
    soon(gateway.shutdown(Duration::from_secs(10))).await.unwrap();
    assert!(!path.exists());
}
