//! `hello` and `isMaster`: the gateway says that it is a router (`msg: "isdbgrid"`).
//!
//! Drivers offer sessions, transactions and retryable writes to routers and send all commands to them; they neither look for
//! other members nor dial other addresses, and they hand on the recovery token of a transaction. No `topologyVersion` is
//! told, so they ask again from time to time instead of waiting for news.

use bson::{Bson, DateTime, Document, RawBsonRef, doc};

use super::metadata;
use crate::{
    connection::Connection,
    error::{CommandError, code},
    request::Request,
    wire::{Compressor, MAX_MESSAGE_BYTES},
};

/// How long a session lives without a command.
pub(crate) const SESSION_TIMEOUT_MINUTES: i32 = 30;
/// The protocol of MongoDB 6.0.
const MAX_WIRE_VERSION: i32 = 17;
const MAX_DOCUMENT_BYTES: i32 = 16 * 1024 * 1024;
const MAX_WRITES: i32 = 100_000;

/// Answers `hello`, `isMaster` and `ismaster`.
pub(super) fn run(connection: &Connection, request: &Request) -> Result<Document, CommandError> {
    let body = request.body();
    if let Ok(Some(RawBsonRef::Boolean(true))) = body.get("loadBalanced") {
        let text = "loadBalanced: the gateway keeps sessions by itself and cannot stand behind a load balancer";
        return Err(CommandError::new(code::COMMAND_NOT_SUPPORTED, text));
    }
    metadata::keep(connection, body)?;
    let primary = if request.name() == "hello" { "isWritablePrimary" } else { "ismaster" };
    let mut reply = doc! {};
    if let Ok(Some(RawBsonRef::Boolean(true))) = body.get("helloOk") {
        reply.insert("helloOk", true);
    }
    reply.extend(doc! {
        primary: true,
        "msg": "isdbgrid",
        "maxBsonObjectSize": MAX_DOCUMENT_BYTES,
        "maxMessageSizeBytes": i32::try_from(MAX_MESSAGE_BYTES).unwrap_or(i32::MAX),
        "maxWriteBatchSize": MAX_WRITES,
        "localTime": DateTime::now(),
        "logicalSessionTimeoutMinutes": SESSION_TIMEOUT_MINUTES,
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

/// Those that both sides know, in the client's order.
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
    use crate::connection::Peer;

    fn hello(command: Document) -> Result<Document, CommandError> {
        run(&Connection::new(7, Peer::Unix), &Request::of(&command).unwrap())
    }

    #[test]
    fn router_is_told_in_the_words_of_the_question() {
        let new = hello(doc! {"hello": 1, "$db": "admin", "helloOk": true}).unwrap();
        assert_eq!(new.get("isWritablePrimary"), Some(&Bson::Boolean(true)));
        assert_eq!(new.get("msg"), Some(&"isdbgrid".into()));
        assert_eq!(new.get("helloOk"), Some(&Bson::Boolean(true)));
        assert_eq!(new.get("connectionId"), Some(&Bson::Int64(7)));
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
