//! MongoDB's wire protocol: bytes to requests, replies to bytes. No I/O, no clock, no state.
//!
//! A message is a [`Header`] and a payload. A reader decodes the header first, which states the
//! size of the payload, and hands both to [`decode`]; the answer is written by [`encode`] in the
//! [`ReplyFormat`] in which the request came.
//!
//! | file | content |
//! | --- | --- |
//! | `header` | the 16 bytes before every message |
//! | `op_msg` | `OP_MSG`: all commands since MongoDB 3.6 |
//! | `op_query`, `op_reply` | the old handshake, and how it is answered |
//! | `compressed` | `OP_COMPRESSED`: any of these, compressed |
//! | `cursor` | reading bytes that may end anywhere |
//!
//! ```
//! use bson::rawdoc;
//! use mongowire::wire::{self, HEADER_BYTES, Header, op_msg};
//!
//! // A client's message, as it comes over a connection.
//! let (body, nothing) = (rawdoc! {"ping": 1, "$db": "admin"}, rawdoc! {});
//! let command =
//!     op_msg::Command { request_id: 7, database: None, body: &body, appended: &nothing, sequences: &[] };
//! let mut message = Vec::new();
//! op_msg::encode_command(&command, &mut message);
//!
//! // The server reads the header first, then as many bytes as it says.
//! let header = Header::decode(message.first_chunk::<HEADER_BYTES>().unwrap())?;
//! let payload = &message[HEADER_BYTES..];
//! assert_eq!(payload.len(), header.payload_bytes());
//! let incoming = wire::decode(&header, payload)?;
//! assert_eq!(incoming.request.unwrap().name(), "ping");
//!
//! // The answer has the form of the question.
//! let answer = wire::encode(&rawdoc! {"ok": 1}, 1, header.request_id, incoming.reply_format);
//! let header = Header::decode(answer.first_chunk::<HEADER_BYTES>().unwrap())?;
//! assert_eq!(header.response_to, 7);
//! assert_eq!(op_msg::decode_answer(&header, &answer[HEADER_BYTES..])?, rawdoc! {"ok": 1});
//! # Ok::<(), wire::WireError>(())
//! ```
//!
//! The format is MongoDB's "Wire Protocol" specification, with the "OP_COMPRESSED" and "OP_MSG"
//! specifications of its drivers.

#![warn(clippy::disallowed_methods, clippy::disallowed_types)]

mod compressed;
mod cursor;
mod header;
pub mod op_msg;
mod op_query;
mod op_reply;

use bson::RawDocument;

pub use self::{
    compressed::Compressor,
    header::{HEADER_BYTES, Header, MAX_MESSAGE_BYTES, OpCode},
};
use crate::{error::CommandError, request::Request};

/// Why a connection has to be closed: where the next message would begin cannot be known, or the
/// peer does not speak this protocol. Everything else is answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// A message cannot have this length.
    #[error("a message of {0} bytes: they have {HEADER_BYTES} to {MAX_MESSAGE_BYTES}")]
    Length(i64),
    /// A kind of message that is not understood here, or not in this place.
    #[error("messages of kind {0} are not understood here")]
    OpCode(i32),
    /// The message ends too early, goes on too long, or its parts have lengths that do not fit.
    #[error("{0}")]
    Malformed(&'static str),
    /// A message longer than this number of bytes from a client that has not logged in.
    #[error("a message of more than {0} bytes before login")]
    Stranger(usize),
    /// There is no memory for what it becomes when it is decompressed, and no way to know whether
    /// an answer is wanted.
    #[error("{0}")]
    Memory(String),
    /// A fail point, which a test has set, demands that the connection is closed.
    #[error("closed by a fail point")]
    Cut,
    /// The message has flags that a reader must understand and that are unknown here.
    #[error("unknown flags {0:#x}")]
    Flags(u32),
    /// The checksum of the message is not that of its bytes: it was changed on its way.
    #[error("the checksum is {found:#010x} where the message says {expected:#010x}")]
    Checksum {
        /// Checksum that the message states.
        expected: u32,
        /// Checksum of the bytes received.
        found: u32,
    },
    /// The message names a compressor by a number that no compressor has.
    #[error("unknown compressor {0}")]
    Compressor(u8),
    /// The compressed bytes are none, or become more or less than the message says.
    #[error("the message cannot be decompressed with {0}")]
    Decompress(&'static str),
}

/// Form of an answer, which is that of the request: its envelope and its compressor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyFormat {
    /// Kind of the message that carried the request, and so of the answer.
    pub envelope: Envelope,
    /// Compressor of the request, if it was compressed.
    pub compressor: Option<Compressor>,
}

/// Kinds of messages that carry answers. A client gets the kind that it has used itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Envelope {
    /// `OP_MSG`, the answer to `OP_MSG`.
    Msg {
        /// True if a CRC-32C checksum follows the message.
        checksum: bool,
    },
    /// `OP_REPLY`, the answer to `OP_QUERY`.
    Reply,
}

/// A decoded message: a request, and how to answer it.
#[derive(Clone, Debug, PartialEq)]
pub struct Incoming {
    /// Form that the answer must have: pass it to [`encode`], also for an error.
    pub reply_format: ReplyFormat,
    /// True if the client waits for an answer; without one it goes on at once.
    pub answer_wanted: bool,
    /// The command, or the error to answer when the message has a form but no command.
    pub request: Result<Request, CommandError>,
}

/// Reads the message of this header from the bytes behind it, and unpacks it if it is compressed.
///
/// # Errors
/// The message breaks the protocol, and the connection has to be closed. An error that is answered,
/// and leaves the connection open, is in [`Incoming::request`].
pub fn decode(header: &Header, payload: &[u8]) -> Result<Incoming, WireError> {
    match header.op_code {
        OpCode::Compressed => {
            let (compressor, inner, payload) = compressed::decode(header, payload)?;
            let mut incoming = decode_plain(&inner, &payload)?;
            incoming.reply_format.compressor = Some(compressor);
            Ok(incoming)
        }
        _ => decode_plain(header, payload),
    }
}

/// Number of bytes of the message's payload after decompression, as the message states it: a
/// measure of the work that decoding makes.
pub fn plain_bytes(header: &Header, payload: &[u8]) -> usize {
    match header.op_code {
        OpCode::Compressed => compressed::declared_bytes(payload).max(payload.len()),
        _ => payload.len(),
    }
}

fn decode_plain(header: &Header, payload: &[u8]) -> Result<Incoming, WireError> {
    let mut incoming = match header.op_code {
        OpCode::Msg => op_msg::decode(header, payload)?,
        OpCode::Query => op_query::decode(payload)?,
        other => return Err(WireError::OpCode(other.number())),
    };
    if let Ok(request) = &mut incoming.request {
        request.request_id = header.request_id;
        request.response_to = header.response_to;
    }
    Ok(incoming)
}

/// Writes the answer to message `response_to`. `request_id` is its own number.
pub fn encode(reply: &RawDocument, request_id: i32, response_to: i32, format: ReplyFormat) -> Vec<u8> {
    let message = match format.envelope {
        Envelope::Msg { checksum } => op_msg::encode(&op_msg::Parts {
            request_id,
            response_to,
            flags: if checksum { op_msg::CHECKSUM_PRESENT } else { 0 },
            body: reply,
            sequences: &[],
        }),
        Envelope::Reply => op_reply::encode(reply, request_id, response_to),
    };
    match format.compressor {
        Some(compressor) => compress(&message, compressor),
        None => message,
    }
}

/// Compresses a message. One that cannot be compressed is left as it is, which every peer
/// understands.
///
/// ```
/// use bson::rawdoc;
/// use mongowire::wire::{Compressor, HEADER_BYTES, Header, OpCode, compress, op_msg};
///
/// let (body, nothing) = (rawdoc! {"find": "a".repeat(1_000), "$db": "shop"}, rawdoc! {});
/// let command =
///     op_msg::Command { request_id: 7, database: None, body: &body, appended: &nothing, sequences: &[] };
/// let mut message = Vec::new();
/// op_msg::encode_command(&command, &mut message);
///
/// let compressed = compress(&message, Compressor::Zlib);
/// assert!(compressed.len() < message.len());
/// let header = Header::decode(compressed.first_chunk::<HEADER_BYTES>().unwrap())?;
/// assert_eq!((header.op_code, header.request_id), (OpCode::Compressed, 7));
/// # Ok::<(), mongowire::wire::WireError>(())
/// ```
pub fn compress(message: &[u8], compressor: Compressor) -> Vec<u8> {
    compressed::encode(message, compressor).unwrap_or_else(|| message.to_vec())
}
