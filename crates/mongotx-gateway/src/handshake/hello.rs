//! `hello` and `isMaster`: the gateway presents itself as a router (`msg: "isdbgrid"`), or, by an
//! option, as a member of a replica set: of a set of one, or of one with other gateways
//! (`members`).
//!
//! Drivers offer sessions, transactions and retryable writes to routers and send all commands to
//! them; they neither look for other members nor connect to other addresses, and they hand on the
//! recovery token of a transaction. No `topologyVersion` is answered, so drivers send `hello` again
//! from time to time instead of waiting for news.

use std::time::Duration;

use bson::{Bson, DateTime, Document, RawBsonRef, doc, oid::ObjectId};

use super::{metadata, session::timeout_minutes};
use crate::{
    connection::{Connection, Peer},
    error::{CommandError, code},
    members::{Members, View},
    options::{GatewayOptions, ReplicaSetFace},
    request::Request,
    wire::{Compressor, MAX_MESSAGE_BYTES},
};

/// The protocol of MongoDB 6.0.
const MAX_WIRE_VERSION: i32 = 17;
const MAX_DOCUMENT_BYTES: i32 = 16 * 1024 * 1024;
const MAX_WRITES: i32 = 100_000;

/// Answers `hello`, `isMaster` and `ismaster`. `session_timeout`: as it is now.
pub(super) fn answer_hello(
    options: &GatewayOptions,
    session_timeout: Duration,
    members: Option<&Members>,
    connection: &Connection,
    request: &Request,
) -> Result<Document, CommandError> {
    let body = request.body();
    if let Ok(Some(RawBsonRef::Boolean(true))) = body.get("loadBalanced") {
        let text = "loadBalanced: the gateway keeps sessions by itself and cannot stand behind a load balancer";
        return Err(CommandError::new(code::COMMAND_NOT_SUPPORTED, text));
    }
    metadata::keep_metadata(connection, body)?;
    let primary = if request.name() == "hello" { "isWritablePrimary" } else { "ismaster" };
    let mut reply = doc! {};
    if let Ok(Some(RawBsonRef::Boolean(true))) = body.get("helloOk") {
        reply.insert("helloOk", true);
    }
    match &options.replica_set {
        None => reply.extend(doc! {primary: true, "msg": "isdbgrid"}),
        Some(set) => {
            let me = address(options, set, connection);
            let view = members.map_or_else(|| View::of_one(me.clone()), Members::view);
            reply.insert(primary, view.primary.as_deref() == Some(&me));
            reply.extend(member(&set.name, me, view));
        }
    }
    reply.extend(doc! {
        "maxBsonObjectSize": MAX_DOCUMENT_BYTES,
        "maxMessageSizeBytes": i32::try_from(MAX_MESSAGE_BYTES).unwrap_or(i32::MAX),
        "maxWriteBatchSize": MAX_WRITES,
        "localTime": DateTime::now(),
        "logicalSessionTimeoutMinutes": timeout_minutes(session_timeout),
        "connectionId": connection.id(),
        "minWireVersion": 0,
        "maxWireVersion": MAX_WIRE_VERSION,
        "readOnly": false,
    });
    let agreed = compressors(request)?;
    if !agreed.is_empty() {
        reply.insert("compression", agreed);
    }
    reply.insert("ok", 1.0);
    Ok(reply)
}

/// The part of the answer that describes the replica set. The set's version never changes, nor does
/// the term as long as the primary stays: so drivers take two gateways behind one address for the
/// same member.
fn member(set: &str, me: String, view: View) -> Document {
    let (now, is_primary) = (DateTime::now(), view.primary.as_deref() == Some(&me));
    let mut reply = doc! {"setName": set, "setVersion": 1, "secondary": !is_primary, "hosts": view.hosts};
    if let Some(primary) = view.primary {
        reply.insert("primary", primary);
    }
    if is_primary {
        reply.insert("electionId", election(view.term));
    }
    reply.extend(doc! {"me": me, "lastWrite": {"lastWriteDate": now, "majorityWriteDate": now}});
    reply
}

/// The `electionId` of a term.
fn election(term: u64) -> ObjectId {
    let mut bytes = [0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes[4..].copy_from_slice(&term.to_be_bytes());
    ObjectId::from_bytes(bytes)
}

/// Address that drivers are to connect to: the one advertised, or else the one that this connection
/// came to.
fn address(options: &GatewayOptions, set: &ReplicaSetFace, connection: &Connection) -> String {
    match (&set.advertise, connection.peer(), &options.unix) {
        (Some(advertised), ..) => advertised.clone(),
        (None, Peer::Tcp(_, here), _) => here.to_string(),
        (None, Peer::Unix, Some(path)) => path.display().to_string(),
        // A connection of this process itself.
        (None, Peer::Unix, None) => "localhost:27017".to_owned(),
    }
}

/// The compressors that both sides know, in the client's order.
fn compressors(request: &Request) -> Result<Vec<Bson>, CommandError> {
    let wanted = match request.body().get("compression") {
        Ok(Some(RawBsonRef::Array(wanted))) => wanted,
        Ok(None | Some(RawBsonRef::Null)) => return Ok(Vec::new()),
        _ => return Err(CommandError::new(code::TYPE_MISMATCH, "compression: expected an array of names")),
    };
    let mut agreed: Vec<Bson> = Vec::new();
    for name in wanted {
        let known = match name {
            Ok(RawBsonRef::String(name)) => Compressor::ALL.into_iter().find(|one| one.name() == name),
            _ => return Err(CommandError::new(code::TYPE_MISMATCH, "compression: expected names of compressors")),
        };
        if let Some(name) = known.map(|one| Bson::from(one.name()))
            && !agreed.contains(&name)
        {
            agreed.push(name);
        }
    }
    Ok(agreed)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn hello(command: Document) -> Result<Document, CommandError> {
        let (options, request) = (GatewayOptions::default(), Request::of(&command).unwrap());
        answer_hello(&options, Duration::from_secs(90), None, &Connection::new(7, Peer::Unix), &request)
    }

    #[test]
    fn a_set_of_one_member_is_where_the_client_has_connected_or_where_it_is_configured() {
        let peer = Peer::Tcp("10.0.0.9:5000".parse().unwrap(), "[::1]:27117".parse().unwrap());
        for (advertise, address) in [(None, "[::1]:27117"), (Some("db.example:27017".to_owned()), "db.example:27017")] {
            let set = ReplicaSetFace { name: "rs0".to_owned(), advertise };
            let options = GatewayOptions { replica_set: Some(set), ..GatewayOptions::default() };
            let asked = Request::of(&doc! {"isMaster": 1, "$db": "admin"}).unwrap();
            let timeout = options.sessions.session_timeout;
            let reply = answer_hello(&options, timeout, None, &Connection::new(7, peer.clone()), &asked).unwrap();
            assert_eq!(reply.get_str("setName").unwrap(), "rs0");
            assert_eq!(reply.get_array("hosts").unwrap(), &[Bson::from(address)]);
            assert_eq!((reply.get_str("me").unwrap(), reply.get_str("primary").unwrap()), (address, address));
            assert!(reply.get_bool("ismaster").unwrap() && !reply.contains_key("msg"));
        }
    }

    #[test]
    fn router_is_named_in_the_words_of_the_question() {
        let new = hello(doc! {"hello": 1, "$db": "admin", "helloOk": true}).unwrap();
        assert_eq!(new.get("isWritablePrimary"), Some(&Bson::Boolean(true)));
        assert_eq!(new.get("msg"), Some(&"isdbgrid".into()));
        assert_eq!(new.get("helloOk"), Some(&Bson::Boolean(true)));
        assert_eq!(new.get("connectionId"), Some(&Bson::Int64(7)));
        assert_eq!(new.get("logicalSessionTimeoutMinutes"), Some(&Bson::Int32(1)));
        assert!(!new.contains_key("topologyVersion"));
        let old = hello(doc! {"isMaster": 1, "$db": "admin"}).unwrap();
        assert_eq!((old.get("ismaster"), old.get("helloOk")), (Some(&Bson::Boolean(true)), None));
    }

    #[test]
    fn compressors_that_both_know_are_agreed_on() {
        let wanted = doc! {"hello": 1, "$db": "admin", "compression": ["lz4", "zlib", "zstd", "zlib", "noop"]};
        let agreed = Bson::Array(vec!["zlib".into(), "zstd".into()]);
        assert_eq!(hello(wanted).unwrap().get("compression"), Some(&agreed));
        assert!(!hello(doc! {"hello": 1, "$db": "admin"}).unwrap().contains_key("compression"));
        let bad = hello(doc! {"hello": 1, "$db": "admin", "compression": 1}).unwrap_err();
        assert_eq!(bad.code, code::TYPE_MISMATCH);
    }

    #[test]
    fn load_balancers_are_refused() {
        let refused = hello(doc! {"hello": 1, "$db": "admin", "loadBalanced": true}).unwrap_err();
        assert_eq!(refused.code, code::COMMAND_NOT_SUPPORTED);
    }
}
