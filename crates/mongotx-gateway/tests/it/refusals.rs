//! The same bytes to the gateway and to a real mongod: refused with the same code and the same
//! name, or taken by both.

use crate::common;

use std::net::SocketAddr;

use bson::{Bson, Document, doc};
use common::{
    gateway,
    raw::{Raw, message, old_query},
};
use mongotx_gateway::{Limits, wire::OpCode};

/// The refusal of a message on a connection of its own: its code and its name, or that the
/// connection was closed.
async fn refusal(address: SocketAddr, messages: &[Vec<u8>]) -> Option<(Option<Bson>, Option<Bson>)> {
    let mut raw = Raw::connect(address).await;
    let mut last = None;
    for message in messages {
        raw.send(message).await;
        let (header, payload) = raw.receive().await?;
        let at = if header.op_code == OpCode::Reply { 20 } else { 5 };
        let document = bson::RawDocument::from_bytes(&payload[at..]).unwrap();
        last = Some(Document::try_from(document).unwrap());
    }
    let answer = last?;
    Some((answer.get("code").cloned(), answer.get("codeName").cloned()))
}

/// A client's description of itself.
fn client(application: &str, more: Document) -> Document {
    let mut client = doc! {
        "application": {"name": application}, "driver": {"name": "d", "version": "1"}, "os": {"type": "Linux"},
    };
    client.extend(more);
    doc! {"hello": 1, "client": client, "$db": "admin"}
}

/// Commands that gateway and server both refuse, and some that both take.
fn commands() -> Vec<Document> {
    let long = "x".repeat(64);
    vec![
        doc! {"ping": 1, "$db": "admin"},
        doc! {"ping": 1},
        doc! {"ping": 1, "$db": 5},
        doc! {"ping": 1, "$db": ""},
        doc! {"ping": 1, "$db": long},
        doc! {"ping": 1, "$db": "a b"},
        doc! {"ping": 1, "$db": "a.b"},
        doc! {"ping": 1, "$db": "a*b"},
        doc! {"ping": 1, "$db": "$external"},
        doc! {"noSuchThing": 1, "$db": "admin"},
        doc! {"Ping": 1, "$db": "admin"},
        doc! {"hello": 1, "$db": "test"},
        doc! {"hello": 1, "client": 5, "$db": "admin"},
        doc! {"hello": 1, "client": {}, "$db": "admin"},
        doc! {"hello": 1, "client": {"driver": {"name": "d"}}, "$db": "admin"},
        doc! {"hello": 1, "client": {"driver": {"name": "d", "version": "1"}}, "$db": "admin"},
        client("fine", doc! {}),
        client(&"x".repeat(129), doc! {}),
        client("x", doc! {"platform": "x".repeat(2000)}),
        doc! {"hello": 1, "compression": 5, "$db": "admin"},
        doc! {"hello": 1, "compression": ["lz4", 5], "$db": "admin"},
        doc! {"getCmdLineOpts": 1, "$db": "test"},
        doc! {"getParameter": 1, "noSuchParameter": 1, "$db": "admin"},
        doc! {"startSession": 1, "$db": "test"},
        doc! {"connectionStatus": 1, "$db": "test"},
        doc! {"whatsmyuri": 1, "$db": "test"},
        doc! {"logout": 1, "$db": "test"},
        doc! {"listCommands": 1, "$db": "test"},
    ]
}

#[tokio::test]
async fn refusals_have_the_servers_codes() {
    let (_gateway, address) = gateway(Limits::default()).await;
    let server = local_mongod::shared_standalone().await.unwrap();
    let direct = SocketAddr::from(([127, 0, 0, 1], server.port()));
    let single = commands().into_iter().map(|command| (command.to_string(), vec![message(&command, 0)]));
    let hello = message(&client("a", doc! {}), 0);
    let others = [
        ("metadata said twice".to_owned(), vec![hello.clone(), hello]),
        ("an old query of a collection".to_owned(), vec![old_query("d.c", &doc! {})]),
        ("an old command".to_owned(), vec![old_query("admin.$cmd", &doc! {"ping": 1})]),
        ("an old handshake".to_owned(), vec![old_query("admin.$cmd", &doc! {"isMaster": 1})]),
        ("an old unknown command".to_owned(), vec![old_query("admin.$cmd", &doc! {"noSuchThing": 1})]),
    ];
    let mut differences = Vec::new();
    for (what, messages) in single.chain(others) {
        let (ours, theirs) = (refusal(address, &messages).await, refusal(direct, &messages).await);
        // The answer to an old query has no names.
        let same = match (&ours, &theirs) {
            (Some((ours, _)), Some((theirs, None))) => ours == theirs,
            _ => ours == theirs,
        };
        if !same {
            differences.push(format!("{what}: {ours:?} where mongod says {theirs:?}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
