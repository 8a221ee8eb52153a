//! The fuzzer's corpus, replayed and changed at random without a fuzzer, a bounded number of times;
//! and sent to a gateway that serves another client meanwhile.

use crate::common;
#[path = "../../../../fuzz/harness.rs"]
mod harness;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

use bson::{Bson, Document, RawDocumentBuf, doc};
use common::{
    examples::{self, generic, values},
    gateway,
    raw::{Raw, message, old_query},
};
use mongotx_gateway::{
    Limits, Request, Sequence,
    wire::{
        Compressor, compress,
        op_msg::{self, CHECKSUM_PRESENT, EXHAUST_ALLOWED, MORE_TO_COME},
    },
};
use rand::{Rng, RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use replay::{Corpus, Target, change, compare, replay};

/// Number of changes to the entries of a target, all together.
const CHANGES: usize = 40_000;
/// Number of changes to values of every command.
const CHANGES_OF_VALUES: usize = 200;

/// Commands as drivers send them, and one with everything that BSON has.
fn commands() -> Vec<(&'static str, Document)> {
    let session = || doc! {"id": bson::Uuid::from_bytes([7; 16])};
    let every_type = doc! {
        "double": 1.5, "string": "é", "document": {"a": {"b": []}}, "array": [1, [2, {}], "x"],
        "binary": bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![1, 2, 3] },
        "old binary": bson::Binary { subtype: bson::spec::BinarySubtype::BinaryOld, bytes: vec![1, 2, 3] },
        "undefined": Bson::Undefined, "id": bson::oid::ObjectId::from_bytes([1; 12]), "bool": true,
        "date": bson::DateTime::from_millis(-1), "null": Bson::Null,
        "regex": Bson::RegularExpression(bson::Regex { pattern: bson::cstr!("a+").to_owned(), options: bson::cstr!("i").to_owned() }),
        "code": Bson::JavaScriptCode("f()".to_owned()), "symbol": Bson::Symbol("s".to_owned()),
        "scoped": bson::JavaScriptCodeWithScope { code: "f()".to_owned(), scope: doc! {"x": 1} },
        "int": 1, "timestamp": bson::Timestamp { time: 1, increment: 2 }, "long": 1_i64,
        "decimal": bson::Decimal128::from_bytes([9; 16]), "min": Bson::MinKey, "max": Bson::MaxKey,
    };
    let deep = (0..150).fold(doc! {}, |inner, _| doc! {"a": inner});
    vec![
        ("ping", doc! {"ping": 1, "$db": "admin"}),
        (
            "hello",
            doc! {
                "hello": 1, "helloOk": true, "compression": ["zstd", "zlib", "snappy"],
                "client": {"driver": {"name": "d", "version": "1"}, "os": {"type": "Linux"}}, "$db": "admin",
            },
        ),
        (
            "find_in_transaction",
            doc! {
                "find": "c", "filter": {"a": {"$gt": 1}}, "limit": 5, "lsid": session(), "txnNumber": 1_i64,
                "startTransaction": true, "autocommit": false, "readConcern": {"level": "snapshot"}, "$db": "d",
            },
        ),
        (
            "commit",
            doc! {
                "commitTransaction": 1, "lsid": session(), "txnNumber": 1_i64, "autocommit": false,
                "recoveryToken": {"t": "x"}, "writeConcern": {"w": "majority"}, "$db": "admin",
            },
        ),
        ("get_more", doc! {"getMore": 123_i64, "collection": "c", "batchSize": 2, "$db": "d"}),
        ("update", doc! {"update": "c", "updates": [{"q": {}, "u": [{"$set": {"a": 1}}], "multi": true}], "$db": "d"}),
        ("every_type", doc! {"insert": "c", "documents": [every_type], "$db": "d"}),
        ("lookalikes", doc! {"insert": "c", "documents": local_mongod::lookalikes::values(), "$db": "d"}),
        ("deep", doc! {"find": "c", "filter": deep, "$db": "d"}),
        ("unknown", doc! {"noSuchThing": 1, "$db": "d"}),
        ("no_database", doc! {"ping": 1}),
        ("empty", doc! {}),
    ]
}

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).unwrap()
}

/// Documents one after the other.
fn beside() -> Vec<u8> {
    (0..4).flat_map(|n| raw(&doc! {"_id": n, "text": "x".repeat(usize::try_from(n).unwrap())}).into_bytes()).collect()
}

fn messages() -> Corpus {
    let mut corpus: Corpus =
        commands().iter().map(|(name, command)| ((*name).to_owned(), message(command, 0))).collect();
    let ping = doc! {"ping": 1, "$db": "admin"};
    for (name, flags) in [("checksum", CHECKSUM_PRESENT), ("more", MORE_TO_COME), ("exhaust", EXHAUST_ALLOWED)] {
        corpus.insert(name.to_owned(), message(&ping, flags));
    }
    let body = raw(&doc! {"insert": "c", "$db": "d"});
    let sequences =
        [("documents", beside()), ("empty", Vec::new())].map(|(name, bytes)| Sequence { name: name.to_owned(), bytes });
    for (name, flags) in [("sequences", 0), ("sequences_checksum", CHECKSUM_PRESENT)] {
        let parts = op_msg::Parts { request_id: 1, response_to: 0, flags, body: &body, sequences: &sequences };
        corpus.insert(name.to_owned(), op_msg::encode(&parts));
    }
    for compressor in [Compressor::Noop, Compressor::Snappy, Compressor::Zlib, Compressor::Zstd] {
        let packed = compress(&corpus["sequences"], compressor);
        corpus.insert(compressor.name().to_owned(), packed);
    }
    let wrapped = doc! {"$query": {"isMaster": 1}, "$readPreference": {"mode": "nearest"}};
    corpus.insert("old_handshake".to_owned(), old_query("admin.$cmd", &doc! {"isMaster": 1, "helloOk": true}));
    corpus.insert("old_wrapped".to_owned(), old_query("admin.$cmd", &wrapped));
    corpus.insert("old_query".to_owned(), old_query("d.c", &doc! {"a": 1}));
    corpus
}

fn answers() -> Corpus {
    let cursor = doc! {"cursor": {"id": 5_i64, "ns": "d.c", "firstBatch": [{"_id": 1}]}, "ok": 1.0};
    let refused = doc! {"ok": 0.0, "errmsg": "no", "code": 59, "codeName": "CommandNotFound"};
    let plain = [("ok", doc! {"ok": 1.0}), ("cursor", cursor), ("refused", refused)];
    plain.iter().map(|(name, answer)| ((*name).to_owned(), message(answer, CHECKSUM_PRESENT))).collect()
}

fn bodies() -> Corpus {
    let with_length = |(name, command): &(&str, Document)| {
        let body = raw(command).into_bytes();
        let length = u16::try_from(body.len()).unwrap().to_le_bytes();
        ((*name).to_owned(), [&length[..], &body, &beside()].concat())
    };
    commands().iter().map(with_length).collect()
}

/// Every command, outside and inside a transaction.
fn fields() -> Corpus {
    let named = |(n, command): (usize, Document)| {
        let name = format!("{n:02}_{}", command.keys().next().unwrap());
        let mut within = command.clone();
        within.extend(generic());
        [(format!("{name}_in_session"), raw(&within).into_bytes()), (name, raw(&command).into_bytes())]
    };
    examples::commands().into_iter().enumerate().flat_map(named).collect()
}

fn targets() -> [Target; 4] {
    [
        ("message", harness::message, messages()),
        ("answer", harness::answer, answers()),
        ("command", harness::command, bodies()),
        ("fields", harness::fields, fields()),
    ]
}

#[test]
fn corpus_is_what_the_encoder_makes() {
    // The output of a compressor changes with its version; that it can be read is enough.
    compare(&targets(), |name| Compressor::ALL.iter().all(|compressor| compressor.name() != name));
}

#[test]
fn corpus_and_what_becomes_of_it_are_errors_or_commands() {
    replay(targets().into(), CHANGES, |changed, random| fit_length(changed, random));
}

/// Mostly with a length that fits: the rest of the message is looked at then.
fn fit_length(bytes: &mut [u8], random: &mut impl Rng) {
    if bytes.len() >= 4 && random.random_bool(0.8) {
        let length = i32::try_from(bytes.len()).unwrap();
        bytes[..4].copy_from_slice(&length.to_le_bytes());
    }
}

/// A body that stays BSON gets further than one that does not.
#[test]
fn commands_with_values_changed_at_any_depth_are_read_or_refused() {
    let mut random = StdRng::seed_from_u64(11);
    let (mut read, mut refused) = (0, 0);
    for command in examples::commands() {
        for _ in 0..CHANGES_OF_VALUES {
            let mut changed = command.clone();
            if random.random_bool(0.3) {
                changed.extend(generic());
            }
            for _ in 0..random.random_range(1..=3) {
                change_a_value(&mut changed, &mut random);
            }
            changed.insert("$db", "d");
            let Ok(request) = Request::of(&changed) else { continue };
            let outcome = std::panic::catch_unwind(|| mongotx_gateway::read(&request).is_ok());
            match outcome {
                Ok(true) => read += 1,
                Ok(false) => refused += 1,
                Err(_) => panic!("{changed}"),
            }
        }
    }
    assert!(read > 1_000 && refused > 1_000, "read: {read}, refused: {refused}");
}

/// Goes down at random, and there drops, renames, adds or replaces a field.
fn change_a_value(document: &mut Document, random: &mut impl Rng) {
    let Some(field) = document.keys().cloned().collect::<Vec<_>>().choose(random).cloned() else {
        document.insert("x", values().choose(random).cloned().unwrap_or(Bson::Null));
        return;
    };
    let deeper = random.random_bool(0.5);
    match document.get_mut(&field) {
        Some(Bson::Document(inner)) if deeper => return change_a_value(inner, random),
        Some(Bson::Array(values)) if deeper => {
            if let Some(Bson::Document(inner)) = values.first_mut() {
                return change_a_value(inner, random);
            }
        }
        _ => {}
    }
    let value = values().choose(random).cloned().unwrap_or(Bson::Null);
    match random.random_range(0..5) {
        0 => drop(document.remove(&field)),
        1 => drop(document.insert(format!("{field}x"), value)),
        2 => drop(document.insert(field, vec![value])),
        _ => drop(document.insert(field, value)),
    }
}

#[tokio::test]
async fn changed_messages_disturb_no_other_connection() {
    let (_gateway, address) = gateway(Limits::default()).await;
    let entries: Vec<Vec<u8>> = messages().into_values().collect();
    let mut random = StdRng::seed_from_u64(7);
    let mut good = Raw::connect(address).await;
    for entry in entries.iter().cycle().take(200) {
        let mut bad = Raw::connect(address).await;
        let mut changed = change(entry, &entries, &mut random);
        fit_length(&mut changed, &mut random);
        bad.send(&changed).await;
        let answer = good.ask(doc! {"whatsmyuri": 1, "$db": "admin"}).await.unwrap();
        assert_eq!(answer.get_str("you").unwrap(), good.stream.local_addr().unwrap().to_string());
    }
}
