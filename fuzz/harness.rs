//! Checks of the gateway's readers for any bytes; for the fuzzer and for the tests that do without
//! it.
#![allow(dead_code, clippy::unwrap_used, reason = "each target uses a part of it, and may panic")]

use bson::RawDocumentBuf;
use mongotx_gateway::{
    Request, Sequence, WholeCommand,
    error::code::INVALID_BSON,
    read,
    wire::{Compressor, HEADER_BYTES, Header, compress, decode, encode, op_msg},
};

/// A client's message: refused, or a command that can be read to its end and answered.
pub(crate) fn message(bytes: &[u8]) {
    let Some((header, payload)) = framed(bytes) else { return };
    let Ok(incoming) = decode(&header, payload) else { return };
    if let Ok(request) = &incoming.request {
        read_to_the_end(request);
    }
    let answer = RawDocumentBuf::new();
    let bytes = encode(&answer, 1, header.request_id, incoming.reply_format);
    let (answered, _) = framed(&bytes).unwrap();
    assert_eq!((answered.length_bytes, answered.response_to), (bytes.len(), header.request_id));
}

/// A server's message: refused, or a document.
pub(crate) fn answer(bytes: &[u8]) {
    let Some((header, payload)) = framed(bytes) else { return };
    let _ = op_msg::decode_answer(&header, payload);
}

/// A length, a body of so many bytes, documents: refused, or a command that goes over the wire as
/// it is.
pub(crate) fn command(bytes: &[u8]) {
    let Some((length, rest)) = bytes.split_first_chunk() else { return };
    let Some((body, beside)) = rest.split_at_checked(u16::from_le_bytes(*length).into()) else { return };
    let Ok(body) = RawDocumentBuf::from_bytes(body.to_vec()) else { return };
    let sequences = vec![Sequence { name: "documents".to_owned(), bytes: beside.to_vec() }];
    let Ok(request) = Request::of_parts(body, sequences, None) else { return };
    read_to_the_end(&request);
    let parts =
        op_msg::Parts { request_id: 0, response_to: 0, flags: 0, body: request.body(), sequences: request.sequences() };
    let plain = op_msg::encode(&parts);
    for bytes in [compress(&plain, Compressor::Snappy), plain] {
        let (header, payload) = framed(&bytes).unwrap();
        assert_eq!(decode(&header, payload).unwrap().request.as_ref(), Ok(&request));
    }
}

/// A command's body: refused with a code and in words, or a command whose fields mean something.
pub(crate) fn fields(bytes: &[u8]) {
    let Ok(body) = RawDocumentBuf::from_bytes(bytes.to_vec()) else { return };
    let Ok(request) = Request::of_parts(body, Vec::new(), Some("d")) else { return };
    if let Err(refused) = read(&request) {
        assert_eq!(refused.get_f64("ok").unwrap(), 0.0);
        assert_ne!(refused.get_i32("code").unwrap(), 0);
        assert!(!refused.get_str("errmsg").unwrap().is_empty());
    }
}

fn framed(bytes: &[u8]) -> Option<(Header, &[u8])> {
    let (header, payload) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    let header = Header::decode(header).ok()?;
    Some((header, payload.get(..header.payload_bytes())?))
}

/// A command that no document can hold is refused; all others are kept to the byte.
fn read_to_the_end(request: &Request) {
    let whole = match request.to_document() {
        Ok(whole) => RawDocumentBuf::try_from(&whole).unwrap(),
        Err(refused) => return assert_eq!(refused.code, INVALID_BSON),
    };
    let (body, whole) = (request.body().as_bytes(), whole.as_bytes());
    let end = body.len() - 1;
    assert_eq!((&whole[4..end], request.sequences().is_empty()), (&body[4..end], whole.len() == body.len()));
}
