//! `OP_QUERY`, which drivers use for their first `isMaster` only, before they know what the server
//! speaks.

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use super::{Envelope, Incoming, ReplyFormat, WireError, cursor::Cursor};
use crate::{
    check,
    error::{CommandError, code},
    request::Request,
};

/// Commands that MongoDB 6.0 still takes this way.
const TAKEN: [&str; 3] = ["isMaster", "ismaster", "hello"];
/// The shortest document is five bytes long.
const LEAST_DOCUMENT_BYTES: usize = 5;

/// Reads a message: flags, namespace, two numbers, the query, perhaps a projection.
pub(super) fn decode(payload: &[u8]) -> Result<Incoming, WireError> {
    let mut cursor = Cursor::new(payload);
    cursor.u32()?;
    let namespace = cursor.cstring()?;
    cursor.i32()?;
    cursor.i32()?;
    let query = cursor.sized(LEAST_DOCUMENT_BYTES)?;
    if !cursor.is_empty() {
        cursor.sized(LEAST_DOCUMENT_BYTES)?;
    }
    if !cursor.is_empty() {
        return Err(WireError::Malformed("a query goes on after its end"));
    }
    let reply_format = ReplyFormat { envelope: Envelope::Reply, compressor: None };
    Ok(Incoming { reply_format, answer_wanted: true, request: request(namespace, query) })
}

fn request(namespace: &str, query: &[u8]) -> Result<Request, CommandError> {
    let Some(database) = namespace.strip_suffix(".$cmd") else {
        let text = "OP_QUERY is no longer supported: this client is too old for servers of version 6.0";
        return Err(CommandError::new(code::OP_QUERY_REMOVED, text));
    };
    let invalid = |error: bson::error::Error| CommandError::new(code::INVALID_BSON, error.to_string());
    let query = RawDocument::from_bytes(query).map_err(invalid)?;
    check::document(query)?;
    let request = Request::of_parts(command_in(query), Vec::new(), Some(database))?;
    if TAKEN.contains(&request.name()) { Ok(request) } else { Err(unsupported(request.name())) }
}

/// The command itself: clients that also say where to read wrap it in `$query`.
fn command_in(query: &RawDocument) -> RawDocumentBuf {
    for wrapper in ["$query", "query"] {
        if let Some(Ok((name, RawBsonRef::Document(inner)))) = query.iter().next()
            && name.as_str() == wrapper
        {
            return inner.to_owned();
        }
    }
    query.to_owned()
}

fn unsupported(what: &str) -> CommandError {
    let text = format!("Unsupported OP_QUERY command: {what}. Only the first handshake may be sent this way.");
    CommandError::new(code::UNSUPPORTED_OP_QUERY_COMMAND, text)
}
