//! The codec returns what it was given, and answers everything else with an error: never a panic.

use crate::common;

use bson::{Bson, Document, RawDocumentBuf, doc};
use common::raw::{framed, message};
use mongotx_gateway::{
    Request, Sequence, WholeCommand,
    wire::{
        Compressor, Envelope, HEADER_BYTES, Header, Incoming, MAX_MESSAGE_BYTES, ReplyFormat, WireError, compress,
        decode, encode,
        op_msg::{self, CHECKSUM_PRESENT, EXHAUST_ALLOWED, MORE_TO_COME},
    },
};
use proptest::{collection::vec, prelude::*, sample::select};

/// Reads bytes as a connection would: `None` when they are no whole message.
fn read(bytes: &[u8]) -> Option<Result<Incoming, WireError>> {
    let (header, payload) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    let header = match Header::decode(header) {
        Ok(header) => header,
        Err(error) => return Some(Err(error)),
    };
    Some(decode(&header, payload.get(..header.payload_bytes())?))
}

fn any_bson() -> impl Strategy<Value = Bson> {
    let leaf = prop_oneof![
        any::<i32>().prop_map(Bson::from),
        any::<i64>().prop_map(Bson::from),
        any::<bool>().prop_map(Bson::from),
        "[a-zé\u{1F600}]{0,12}".prop_map(Bson::from),
        vec(any::<u8>(), 0..20)
            .prop_map(|bytes| Bson::from(bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes })),
        Just(Bson::Null),
        any::<i64>().prop_map(|ms| Bson::from(bson::DateTime::from_millis(ms))),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Bson::from),
            vec(("[a-z.$]{1,6}", inner), 0..6).prop_map(|fields| Bson::Document(fields.into_iter().collect())),
        ]
    })
}

fn any_document() -> impl Strategy<Value = Document> {
    vec(("[a-z]{1,6}", any_bson()), 0..6).prop_map(|fields| fields.into_iter().collect())
}

/// A command and the arrays that are sent beside it.
#[derive(Clone, Debug)]
struct Command {
    body: Document,
    beside: Vec<(String, Vec<Document>)>,
    flags: u32,
    compressor: Option<Compressor>,
}

impl Command {
    fn bytes(&self) -> Vec<u8> {
        let body = RawDocumentBuf::try_from(&self.body).unwrap();
        let sequences: Vec<Sequence> =
            self.beside.iter().map(|(name, documents)| Sequence::new(name, documents).unwrap()).collect();
        let parts =
            op_msg::Parts { request_id: 5, response_to: 6, flags: self.flags, body: &body, sequences: &sequences };
        let message = op_msg::encode(&parts);
        self.compressor.map_or(message.clone(), |compressor| compress(&message, compressor))
    }

    fn whole(&self) -> Document {
        let mut whole = self.body.clone();
        for (name, documents) in &self.beside {
            whole.insert(name, documents.iter().cloned().map(Bson::Document).collect::<Vec<_>>());
        }
        whole
    }
}

fn any_command() -> impl Strategy<Value = Command> {
    let flags = [CHECKSUM_PRESENT, MORE_TO_COME, EXHAUST_ALLOWED].map(|flag| prop_oneof![Just(0), Just(flag)]);
    let compressor =
        prop_oneof![Just(None), select(Compressor::ALL.to_vec()).prop_map(Some), Just(Some(Compressor::Noop))];
    // Upper case: never a field of the body.
    let beside = prop::collection::btree_map("[A-Z]{1,8}", vec(any_document(), 0..5), 0..3);
    (any_document(), beside, flags, compressor).prop_map(|(fields, beside, flags, compressor)| {
        let mut body = doc! {"aCommand": 1};
        body.extend(fields);
        body.insert("$db", "test");
        Command { body, beside: beside.into_iter().collect(), flags: flags.iter().sum(), compressor }
    })
}

/// Checks that the request can be read to its end: into a document, unless that could not hold all
/// of it.
fn looked_through(request: &Request) {
    if let Err(refused) = request.to_document() {
        assert_eq!(refused.code.number, 22, "{refused:?}");
    }
}

proptest! {
    #[test]
    fn commands_are_read_as_they_were_written(command in any_command()) {
        let incoming = read(&command.bytes()).unwrap().unwrap();
        let request = incoming.request.unwrap();
        prop_assert_eq!(request.to_document().unwrap(), command.whole());
        prop_assert_eq!((request.name(), request.database()), ("aCommand", "test"));
        prop_assert_eq!((request.request_id, request.response_to), (5, 6));
        prop_assert_eq!(request.more_to_come, command.flags & MORE_TO_COME != 0);
        prop_assert_eq!(request.exhaust_allowed, command.flags & EXHAUST_ALLOWED != 0);
        prop_assert_eq!(incoming.answer_wanted, command.flags & MORE_TO_COME == 0);
        let envelope = Envelope::Msg { checksum: command.flags & CHECKSUM_PRESENT != 0 };
        prop_assert_eq!(incoming.reply_format, ReplyFormat { envelope, compressor: command.compressor });
    }

    #[test]
    fn answers_are_read_as_they_were_written(answer in any_document(), checksum: bool) {
        let answer = RawDocumentBuf::try_from(&answer).unwrap();
        let reply_format = ReplyFormat { envelope: Envelope::Msg { checksum }, compressor: None };
        let bytes = encode(&answer, 1, 2, reply_format);
        let (header, payload) = bytes.split_first_chunk().unwrap();
        let header = Header::decode(header).unwrap();
        prop_assert_eq!((header.request_id, header.response_to, header.payload_bytes()), (1, 2, payload.len()));
        prop_assert_eq!(op_msg::decode_answer(&header, payload).unwrap(), answer);
    }

    #[test]
    fn messages_cut_short_are_refused(command in any_command(), at in any::<prop::sample::Index>()) {
        let bytes = command.bytes();
        let cut = &bytes[HEADER_BYTES..HEADER_BYTES + at.index(bytes.len() - HEADER_BYTES)];
        // The header gives the length that is left, as a hostile client would.
        let code = i32::from_le_bytes(bytes[12..16].try_into().unwrap());
        let refused = read(&framed(code, cut)).unwrap();
        // Only what ends between two documents of a plain message could be meant so.
        let meant = refused.is_ok_and(|incoming| incoming.request.is_ok());
        prop_assert!(!meant || command.compressor.is_none() && command.flags & CHECKSUM_PRESENT == 0);
    }

    #[test]
    fn changed_bytes_are_never_read_where_there_is_a_checksum(
        command in any_command(), at in any::<prop::sample::Index>(), change in 1..=u8::MAX,
    ) {
        let command = Command { flags: command.flags | CHECKSUM_PRESENT, compressor: None, ..command };
        let mut bytes = command.bytes();
        // Numbers of messages too; the length and the flag itself decide what is a checksum.
        let at = 4 + at.index(bytes.len() - 4);
        prop_assume!(!(16..20).contains(&at));
        bytes[at] ^= change;
        prop_assert!(read(&bytes).unwrap().is_err());
    }

    #[test]
    fn changed_bytes_are_an_error_or_a_command(
        command in any_command(), changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = command.bytes();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(Ok(Incoming { request: Ok(request), .. })) = read(&bytes) {
            looked_through(&request);
        }
    }

    #[test]
    fn any_bytes_are_an_error_or_a_command(kind in select(vec![1, 2004, 2012, 2013]), payload in vec(any::<u8>(), 0..200)) {
        if let Some(Ok(Incoming { request: Ok(request), .. })) = read(&framed(kind, &payload)) {
            looked_through(&request);
        }
    }
}

#[test]
fn sequences_with_wrong_lengths_are_refused() {
    let command = Command {
        body: doc! {"insert": "c", "$db": "d"},
        beside: vec![("documents".to_owned(), vec![doc! {"a": 1}, doc! {"a": 2}])],
        flags: 0,
        compressor: None,
    };
    let good = command.bytes();
    let section = good.windows(10).position(|bytes| bytes == b"documents\0").unwrap() - 4;
    let first = section + 4 + 10;
    for at in [section, first, first + 12] {
        let declared = i32::from_le_bytes(good[at..at + 4].try_into().unwrap());
        for wrong in [declared - 1, declared + 1, -declared, 0, 3, i32::MIN, i32::MAX] {
            let mut bad = good.clone();
            bad[at..at + 4].copy_from_slice(&wrong.to_le_bytes());
            let read = read(&bad).unwrap();
            assert!(read.is_err() || read.unwrap().request.is_err(), "{at}: {wrong} for {declared}");
        }
    }
}

#[test]
fn sections_that_no_command_has_are_refused() {
    let body = message(&doc! {"ping": 1, "$db": "d"}, 0)[20..].to_vec();
    let empty = [&[1_u8][..], &7_i32.to_le_bytes(), b"xy\0"].concat();
    let flags = [0_u8; 4];
    for sections in [[&body[..], &body].concat(), empty.clone(), [&body[..], &empty.repeat(17)].concat()] {
        let error = read(&framed(2013, &[&flags[..], &sections].concat())).unwrap().unwrap_err();
        assert!(matches!(error, WireError::Malformed(_)), "{error}");
    }
    // The body may come after what is beside it.
    let turned = read(&framed(2013, &[&flags[..], &empty, &body].concat())).unwrap().unwrap();
    assert_eq!(turned.request.unwrap().to_document().unwrap(), doc! {"ping": 1, "$db": "d", "xy": []});
}

#[test]
fn compressed_messages_must_have_the_size_that_they_tell() {
    let plain = message(&doc! {"ping": 1, "$db": "d", "x": "y".repeat(1000)}, 0);
    for compressor in Compressor::ALL {
        let good = compress(&plain, compressor);
        assert!(read(&good).unwrap().is_ok());
        let declared = i32::from_le_bytes(good[20..24].try_into().unwrap());
        let limit = i32::try_from(MAX_MESSAGE_BYTES - HEADER_BYTES).unwrap();
        for wrong in [declared - 1, declared + 1, 0, -1, i32::MAX, limit + 1] {
            let mut bad = good.clone();
            bad[20..24].copy_from_slice(&wrong.to_le_bytes());
            let error = read(&bad).unwrap().unwrap_err();
            assert!(matches!(error, WireError::Decompress(_) | WireError::Length(_)), "{wrong}: {error}");
        }
    }
}
