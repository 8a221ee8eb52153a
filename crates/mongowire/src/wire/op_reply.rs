//! `OP_REPLY`, the answer to `OP_QUERY`: the form in which old drivers, and new ones at their first
//! `hello`, expect it. All other answers are `OP_MSG`.

use bson::RawDocument;

use super::header::{HEADER_BYTES, Header, OpCode};

/// `AwaitCapable`, which every server since 1.6 sets.
const FLAGS: i32 = 1 << 3;
/// Flags, cursor id, position, count.
const FIXED_BYTES: usize = 20;

/// Writes an answer of one document.
pub(super) fn encode(reply: &RawDocument, request_id: i32, response_to: i32) -> Vec<u8> {
    let length_bytes = HEADER_BYTES + FIXED_BYTES + reply.as_bytes().len();
    let mut message = Vec::with_capacity(length_bytes);
    message.extend(Header { length_bytes, request_id, response_to, op_code: OpCode::Reply }.encode());
    message.extend(FLAGS.to_le_bytes());
    message.extend(0_i64.to_le_bytes());
    message.extend(0_i32.to_le_bytes());
    message.extend(1_i32.to_le_bytes());
    message.extend(reply.as_bytes());
    message
}
