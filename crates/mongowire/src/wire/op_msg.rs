//! `OP_MSG`: flags, sections, and a checksum if there is one.
//!
//! Section kind 0 is the body, exactly one; kind 1 is a document sequence: an array of the body,
//! sent beside it.

use bson::{RawDocument, RawDocumentBuf};

use super::{
    Envelope, Incoming, ReplyFormat, WireError,
    cursor::Cursor,
    header::{HEADER_BYTES, Header, OpCode, set_length},
};
use crate::{
    error::{CommandError, code},
    request::{Request, Sequence},
};

/// Flag: the message ends with a CRC-32C of all the bytes in front of it.
pub const CHECKSUM_PRESENT: u32 = 1;
/// The sender wants no answer; in an answer: another one follows.
pub const MORE_TO_COME: u32 = 1 << 1;
/// Flag of a request: the client takes several answers to it, one after the other.
pub const EXHAUST_ALLOWED: u32 = 1 << 16;
/// Flags that a reader has to understand, or refuse the message. It may ignore the others.
const REQUIRED: u32 = 0xffff;

const CHECKSUM_BYTES: usize = 4;
/// The shortest document is five bytes long.
const LEAST_DOCUMENT_BYTES: usize = 5;
/// Length, and a name of no letters.
const LEAST_SEQUENCE_BYTES: usize = 5;
/// Limit of document sequences: more than any command has.
const MAX_SEQUENCES: usize = 16;

/// Reads the request in the payload of an `OP_MSG`.
pub(super) fn decode(header: &Header, payload: &[u8]) -> Result<Incoming, WireError> {
    let flags = Cursor::new(payload).u32()?;
    let unknown = flags & REQUIRED & !(CHECKSUM_PRESENT | MORE_TO_COME);
    if unknown != 0 {
        return Err(WireError::Flags(unknown));
    }
    let checksum = flags & CHECKSUM_PRESENT != 0;
    let payload = if checksum { without_checksum(header, payload)? } else { payload };
    let mut request = sections(&payload[4..])?.into_request();
    if let Ok(request) = &mut request {
        request.more_to_come = flags & MORE_TO_COME != 0;
        request.exhaust_allowed = flags & EXHAUST_ALLOWED != 0;
    }
    let reply_format = ReplyFormat { envelope: Envelope::Msg { checksum }, compressor: None };
    Ok(Incoming { reply_format, answer_wanted: flags & MORE_TO_COME == 0, request })
}

/// Takes the checksum off, which must be right. At least the flags are left.
fn without_checksum<'a>(header: &Header, payload: &'a [u8]) -> Result<&'a [u8], WireError> {
    let at = payload.len().checked_sub(CHECKSUM_BYTES).filter(|at| *at >= 4);
    let at = at.ok_or(WireError::Malformed("a message too short for its checksum"))?;
    let (summed, expected) = payload.split_at(at);
    let expected = Cursor::new(expected).u32()?;
    let found = crc32c::crc32c_append(crc32c::crc32c(&header.encode()), summed);
    if expected == found { Ok(summed) } else { Err(WireError::Checksum { expected, found }) }
}

/// The sections of a message, where they are. What is in the documents has not been looked at.
struct Sections<'a> {
    body: &'a [u8],
    sequences: Vec<Sequence>,
}

fn sections(bytes: &[u8]) -> Result<Sections<'_>, WireError> {
    let mut cursor = Cursor::new(bytes);
    let (mut body, mut sequences) = (None, Vec::new());
    while !cursor.is_empty() {
        match cursor.u8()? {
            0 if body.is_none() => body = Some(cursor.sized(LEAST_DOCUMENT_BYTES)?),
            0 => return Err(WireError::Malformed("a message with two bodies")),
            1 if sequences.len() < MAX_SEQUENCES => sequences.push(sequence(cursor.sized(LEAST_SEQUENCE_BYTES)?)?),
            1 => return Err(WireError::Malformed("a message with more document sequences than commands have")),
            _ => return Err(WireError::Malformed("a section of unknown kind")),
        }
    }
    Ok(Sections { body: body.ok_or(WireError::Malformed("a message without a body"))?, sequences })
}

fn sequence(section: &[u8]) -> Result<Sequence, WireError> {
    let mut cursor = Cursor::new(section);
    cursor.u32()?;
    let name = cursor.cstring()?.to_owned();
    Ok(Sequence { name, bytes: cursor.rest().to_vec() })
}

impl Sections<'_> {
    fn into_request(self) -> Result<Request, CommandError> {
        let body = RawDocumentBuf::from_bytes(self.body.to_vec())
            .map_err(|error| CommandError::new(code::INVALID_BSON, error.to_string()))?;
        Request::of_parts(body, self.sequences, None)
    }
}

/// Parts of an `OP_MSG` that is to be written.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// Number of the message, which the answer repeats.
    pub request_id: i32,
    /// The number of the message that it answers.
    pub response_to: i32,
    /// Flag bits of the message, such as [`CHECKSUM_PRESENT`]; 0 for a plain message.
    pub flags: u32,
    /// Body of the message: the command, or the answer.
    pub body: &'a RawDocument,
    /// Document sequences that are sent beside the body.
    pub sequences: &'a [Sequence],
}

/// Writes a message, header included, with a checksum if the flags have [`CHECKSUM_PRESENT`].
pub fn encode(parts: &Parts<'_>) -> Vec<u8> {
    let beside: usize = parts.sequences.iter().map(|one| one.name.len() + one.bytes.len() + 6).sum();
    let length_bytes = HEADER_BYTES + 4 + 1 + parts.body.as_bytes().len() + beside + CHECKSUM_BYTES;
    let mut message = Vec::with_capacity(length_bytes);
    let Parts { request_id, response_to, .. } = *parts;
    message.extend(Header { length_bytes, request_id, response_to, op_code: OpCode::Msg }.encode());
    message.extend(parts.flags.to_le_bytes());
    message.push(0);
    message.extend(parts.body.as_bytes());
    for one in parts.sequences {
        extend_with_sequence(&mut message, one);
    }
    if parts.flags & CHECKSUM_PRESENT == 0 {
        set_length(&mut message);
        return message;
    }
    message.extend([0; CHECKSUM_BYTES]);
    set_length(&mut message);
    let at = message.len() - CHECKSUM_BYTES;
    let checksum = crc32c::crc32c(&message[..at]);
    message[at..].copy_from_slice(&checksum.to_le_bytes());
    message
}

/// A command as a client sends it.
#[derive(Clone, Copy, Debug)]
pub struct Command<'a> {
    /// Number of the message, which the answer repeats.
    pub request_id: i32,
    /// Database that is added to the body as `$db`. `None`: the body has it.
    pub database: Option<&'a str>,
    /// Body of the command, without its document sequences.
    pub body: &'a RawDocument,
    /// Fields that are added behind those of the body, such as `lsid`; may be empty.
    pub appended: &'a RawDocument,
    /// Document sequences that are sent beside the body.
    pub sequences: &'a [Sequence],
}

/// Writes a command into `message` in place of its old content, and uses its memory again.
pub fn encode_command(command: &Command<'_>, message: &mut Vec<u8>) {
    let Command { request_id, database, body, appended, sequences } = *command;
    message.clear();
    message.extend(Header { length_bytes: 0, request_id, response_to: 0, op_code: OpCode::Msg }.encode());
    message.extend(0_u32.to_le_bytes());
    message.push(0);
    let start = message.len();
    message.extend(without_end(body));
    if let Some(database) = database {
        message.extend(b"\x02$db\0");
        message.extend(i32::try_from(database.len() + 1).unwrap_or(i32::MAX).to_le_bytes());
        message.extend(database.as_bytes());
        message.push(0);
    }
    message.extend(&without_end(appended)[4..]);
    message.push(0);
    set_length(&mut message[start..]);
    for one in sequences {
        extend_with_sequence(message, one);
    }
    set_length(message);
}

/// A document's bytes but for the zero at its end.
fn without_end(document: &RawDocument) -> &[u8] {
    let bytes = document.as_bytes();
    &bytes[..bytes.len() - 1]
}

fn extend_with_sequence(message: &mut Vec<u8>, one: &Sequence) {
    message.push(1);
    let size = i32::try_from(4 + one.name.len() + 1 + one.bytes.len()).unwrap_or(i32::MAX);
    message.extend(size.to_le_bytes());
    message.extend(one.name.as_bytes());
    message.push(0);
    message.extend(&one.bytes);
}

/// The body of an answer, for a client. Answers have no document sequences.
///
/// # Errors
/// The message is no answer by `OP_MSG`, or says that another one follows (`moreToCome`), which
/// lean connections never request.
pub fn decode_answer(header: &Header, payload: &[u8]) -> Result<RawDocumentBuf, WireError> {
    if header.op_code != OpCode::Msg {
        return Err(WireError::OpCode(header.op_code.number()));
    }
    let flags = Cursor::new(payload).u32()?;
    let unknown = flags & REQUIRED & !CHECKSUM_PRESENT;
    if unknown != 0 {
        return Err(WireError::Flags(unknown));
    }
    let payload = if flags & CHECKSUM_PRESENT != 0 { without_checksum(header, payload)? } else { payload };
    let sections = sections(&payload[4..])?;
    RawDocumentBuf::from_bytes(sections.body.to_vec()).map_err(|_| WireError::Malformed("an answer that is no BSON"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn commands_are_sent_with_what_is_added_to_them() {
        let (body, beside) = (rawdoc! {"insert": "c"}, rawdoc! {"a": 1});
        let sequences = [Sequence { name: "documents".to_owned(), bytes: beside.as_bytes().to_vec() }];
        let appended = rawdoc! {"apiVersion": "1"};
        let command =
            Command { request_id: 7, database: Some("d"), body: &body, appended: &appended, sequences: &sequences };
        let mut message = vec![1, 2, 3];
        encode_command(&command, &mut message);
        let (header, payload) = message.split_first_chunk::<HEADER_BYTES>().unwrap();
        let header = Header::decode(header).unwrap();
        assert_eq!((header.length_bytes, header.request_id), (message.len(), 7));
        let request = decode(&header, payload).unwrap().request.unwrap();
        assert_eq!(request.body(), &*rawdoc! {"insert": "c", "$db": "d", "apiVersion": "1"});
        assert_eq!(request.sequences(), sequences);
        let whole = rawdoc! {"ping": 1, "$db": "d"};
        encode_command(
            &Command { database: None, body: &whole, appended: &RawDocumentBuf::new(), sequences: &[], ..command },
            &mut message,
        );
        let payload = &message[HEADER_BYTES..];
        assert_eq!(&payload[5..], whole.as_bytes());
    }

    #[test]
    fn an_answer_that_another_one_follows_is_refused() {
        let body = rawdoc! {"ok": 1};
        let answer = |flags| {
            let message = encode(&Parts { request_id: 1, response_to: 7, flags, body: &body, sequences: &[] });
            let (header, payload) = message.split_first_chunk::<HEADER_BYTES>().unwrap();
            decode_answer(&Header::decode(header).unwrap(), payload)
        };
        assert_eq!(answer(0).unwrap(), body);
        assert_eq!(answer(CHECKSUM_PRESENT).unwrap(), body);
        assert_eq!(answer(MORE_TO_COME), Err(WireError::Flags(MORE_TO_COME)));
    }
}
