//! Comparison of two answers: they are the same to the byte, the order of fields included, but for
//! what the server makes anew (ObjectIds, the current date).

use bson::{Bson, Document, doc, oid::ObjectId};

use crate::differential::subject::{Answer, Written};

/// ObjectIds of the generated data begin with four zero bytes, those made by a server or a driver
/// with the time.
pub(crate) fn is_made_anew(value: &Bson) -> bool {
    matches!(value, Bson::ObjectId(id) if id.bytes()[..4] != [0; 4])
}

/// To the byte, but for what is made anew.
pub(crate) fn same(one: &Document, other: &Document) -> bool {
    bytes(&one.clone().into()) == bytes(&other.clone().into())
}

/// Returns true if both sides have refused the same writes. The document at which an update of many
/// stops, and so the code, is not promised.
pub(crate) fn both_refused(plain: &Answer, ours: &Answer) -> bool {
    let places = |answer: &Answer| match answer {
        Answer::Refused { writes, .. } => Some(writes.iter().map(|(index, _)| *index).collect::<Vec<_>>()),
        _ => None,
    };
    places(plain).is_some() && places(plain) == places(ours)
}

/// Why two answers differ, if they do.
pub(crate) fn difference(plain: &Answer, ours: &Answer, ordered: bool) -> Option<String> {
    let same = match (plain, ours) {
        (Answer::Documents(plain), Answer::Documents(ours)) => {
            let bytes = |all: &[Document]| all.iter().map(|one| bytes(&Bson::Document(one.clone()))).collect();
            same_lists(bytes(plain), bytes(ours), ordered)
        }
        (Answer::Values(plain), Answer::Values(ours)) => {
            // Whether 1 or 1.0 is shown depends on which was met first.
            let bytes = |value| bytes(&same_numbers(value));
            same_lists(plain.iter().map(bytes).collect(), ours.iter().map(bytes).collect(), ordered)
        }
        (Answer::Count(plain), Answer::Count(ours)) => plain == ours,
        (Answer::Written(plain), Answer::Written(ours)) => normal_written(plain) == normal_written(ours),
        (
            Answer::Refused { code: plain, writes: plain_writes, duplicate, .. },
            Answer::Refused { code: ours, writes: our_writes, duplicate: our_duplicate, .. },
        ) => same_codes(*plain, plain_writes, *ours, our_writes) && same_keys(duplicate, our_duplicate),
        _ => false,
    };
    (!same).then(|| format!("plain:   {}\nMongoTx: {}", show(plain), show(ours)))
}

/// Errors of the driver itself have no code of the server.
fn same_codes(
    plain: Option<i32>,
    plain_writes: &[(usize, i32)],
    ours: Option<i32>,
    our_writes: &[(usize, i32)],
) -> bool {
    plain.is_none()
        || same_code(plain, ours)
            && plain_writes.len() == our_writes.len()
            && plain_writes
                .iter()
                .zip(our_writes)
                .all(|(one, other)| one.0 == other.0 && same_code(Some(one.1), Some(other.1)))
}

/// A document may have two faults: a key that another one has, and a value that another index
/// refuses (difference D10).
fn same_code(plain: Option<i32>, ours: Option<i32>) -> bool {
    const OF_INDEXES: [i32; 5] = [11000, 171, 16755, 16766, 17262];
    let of_index = |code: Option<i32>| code.is_some_and(|code| OF_INDEXES.contains(&code));
    plain == ours || of_index(plain) && of_index(ours)
}

type Key = Option<(String, Option<String>)>;

/// Returns true if the keys match: only for writes of one document, because among several each has
/// a key of its own.
fn same_keys(plain: &Key, ours: &Key) -> bool {
    match (plain, ours) {
        (Some((index, Some(value))), Some((our_index, Some(our_value)))) => (index, value) == (our_index, our_value),
        (Some((index, _)), Some((our_index, _))) => index == our_index,
        _ => true,
    }
}

/// A value as the server shows it in its message; `None` where that takes more than a line.
pub(crate) fn shown_value(value: &Bson) -> Option<String> {
    match value {
        Bson::Int32(n) => Some(n.to_string()),
        Bson::String(text) => Some(format!("\"{text}\"")),
        Bson::Null => Some("null".to_owned()),
        Bson::Boolean(flag) => Some(flag.to_string()),
        _ => None,
    }
}

fn same_lists(mut plain: Vec<Vec<u8>>, mut ours: Vec<Vec<u8>>, ordered: bool) -> bool {
    if !ordered {
        plain.sort();
        ours.sort();
    }
    plain == ours
}

type Ids = Vec<(usize, Vec<u8>)>;

fn normal_written(written: &Written) -> (Ids, Ids, [u64; 3]) {
    let ids = |ids: &[(usize, Bson)]| ids.iter().map(|(at, id)| (*at, bytes(id))).collect();
    (ids(&written.inserted), ids(&written.upserted), [written.matched, written.modified, written.deleted])
}

fn bytes(value: &Bson) -> Vec<u8> {
    doc! {"": normal(value)}.to_vec().unwrap()
}

/// Equal numbers become equal bytes.
fn same_numbers(value: &Bson) -> Bson {
    match value {
        Bson::Int32(n) => f64::from(*n).into(),
        Bson::Int64(n) => (*n as f64).into(),
        Bson::Double(n) => (n + 0.0).into(),
        Bson::Decimal128(n) => n.to_string().parse::<f64>().unwrap().into(),
        Bson::Document(fields) => {
            Bson::Document(fields.iter().map(|(name, value)| (name.clone(), same_numbers(value))).collect())
        }
        Bson::Array(items) => Bson::Array(items.iter().map(same_numbers).collect()),
        other => other.clone(),
    }
}

/// Equal numbers become equal bytes, arrays lose their order, and documents too if `any_order`.
pub(crate) fn loose(value: &Bson, any_order: bool) -> Bson {
    match value {
        Bson::Document(fields) => {
            let mut fields: Vec<(String, Bson)> =
                fields.iter().map(|(name, value)| (name.clone(), loose(value, any_order))).collect();
            if any_order {
                fields.sort_by(|one, other| one.0.cmp(&other.0));
            }
            Bson::Document(fields.into_iter().collect())
        }
        Bson::Array(items) => {
            let mut items: Vec<Bson> = items.iter().map(|item| loose(item, any_order)).collect();
            items.sort_by_cached_key(bytes);
            Bson::Array(items)
        }
        other => same_numbers(other),
    }
}

/// Values that are made anew become one value of their type.
pub(crate) fn normal(value: &Bson) -> Bson {
    const LONG_AGO_MS: i64 = 1_700_000_000_000;
    match value {
        made if is_made_anew(made) => ObjectId::from_bytes([0xFF; 12]).into(),
        Bson::DateTime(at) if at.timestamp_millis() > LONG_AGO_MS => bson::DateTime::MAX.into(),
        Bson::Timestamp(at) if i64::from(at.time) > LONG_AGO_MS / 1000 => {
            bson::Timestamp { time: u32::MAX, increment: 0 }.into()
        }
        Bson::Document(fields) => {
            Bson::Document(fields.iter().map(|(name, value)| (name.clone(), normal(value))).collect())
        }
        Bson::Array(items) => Bson::Array(items.iter().map(normal).collect()),
        other => other.clone(),
    }
}

fn show(answer: &Answer) -> String {
    match answer {
        Answer::Documents(documents) => {
            let lines: Vec<String> = documents.iter().map(|document| format!("\n    {document}")).collect();
            format!("{} documents{}", documents.len(), lines.concat())
        }
        Answer::Values(values) => format!("{values:?}"),
        other => format!("{other:?}"),
    }
}
