//! Updates by `_id` that the server refuses where the document is held (decision 0047).
//!
//! A filter that names an `_id` and nothing else takes the server's shortest way. So the condition
//! that no transaction holds the document stands in the update: [`guarded`] adds a `$rename` of
//! every reserved field into the `_id`. Without a reserved field in the document this changes
//! nothing. With one, whatever its value, the server fails: an `_id` that is no object has no
//! fields, and never changes.
//!
//! [`Samples`] find out whether a server does so, before any such update is sent.

use bson::{
    Binary, Bson, DateTime, Document, RawBsonRef, RawDocument, RawDocumentBuf, doc, oid::ObjectId, raw::cstr,
    spec::BinarySubtype,
};
use protocol::{ClientId, TxId};

use crate::{
    expression::path,
    names::{INSERT, READERS, REMOVE, RESERVED, SLOT, UNSAFE, WRITER, tx_id_to_bson},
};

const RENAME: &str = "$rename";
const ID: &str = "_id";

/// Longer updates are not guarded: with the guard they might not fit into a command.
const LONGEST_BYTES: usize = 1024 * 1024;

/// The argument of `$rename`, with every reserved name.
fn guard() -> Document {
    RESERVED.iter().map(|name| ((*name).to_owned(), format!("{ID}.{name}").into())).collect()
}

/// Returns true if the document with this `_id` may be updated so: the `_id` stands for itself in a
/// filter, and has no fields.
pub fn has_no_fields(id: RawBsonRef<'_>) -> bool {
    matches!(
        id,
        RawBsonRef::ObjectId(_)
            | RawBsonRef::String(_)
            | RawBsonRef::Int32(_)
            | RawBsonRef::Int64(_)
            | RawBsonRef::Double(_)
            | RawBsonRef::Binary(_)
    )
}

/// The update with the guard. `None`: it is no update by operators, renames fields itself, changes
/// the `_id`, or is long.
pub fn guarded(update: &Document) -> Option<Document> {
    let are_others = |targets: &Bson| {
        targets.as_document().is_some_and(|targets| targets.keys().all(|target| path::head(target) != ID))
    };
    let is_simple = |(name, targets): (&String, &Bson)| name.starts_with('$') && name != RENAME && are_others(targets);
    if update.is_empty() || !update.iter().all(is_simple) {
        return None;
    }
    let mut guarded = update.clone();
    guarded.insert(RENAME, guard());
    Some(guarded)
}

/// Like [`guarded`], for an update in bytes.
pub fn guarded_raw(update: &RawDocument) -> Option<RawDocumentBuf> {
    let mut is_empty = true;
    for operator in update.iter() {
        let (name, RawBsonRef::Document(targets)) = operator.ok()? else { return None };
        let mut others = targets.iter_elements();
        let are_others = others.all(|target| target.is_ok_and(|target| path::head(target.key().as_str()) != ID));
        if !name.as_str().starts_with('$') || name == cstr!("$rename") || !are_others {
            return None;
        }
        is_empty = false;
    }
    if is_empty || update.as_bytes().len() > LONGEST_BYTES {
        return None;
    }
    let mut guarded = update.to_owned();
    guarded.append(cstr!("$rename"), RawDocumentBuf::try_from(&guard()).ok()?);
    Some(guarded)
}

/// Returns true if it is a statement of `updates` that names an `_id` and nothing else, with the
/// guard.
pub fn is_guarded(statement: &Document) -> bool {
    let update = statement.get("u").and_then(Bson::as_document);
    let is_point = statement.get("q").and_then(Bson::as_document).is_some_and(|filter| {
        let id = filter.get(ID).filter(|_| filter.len() == 1);
        id.and_then(|id| bson::RawBson::try_from(id.clone()).ok()).is_some_and(|id| has_no_fields(id.as_raw_bson_ref()))
    });
    is_point && update.and_then(|update| update.get(RENAME)) == Some(&guard().into())
}

/// Documents in every state that the stored format knows, and in some that it does not, by which a
/// server shows what it does with guarded updates.
#[derive(Clone, Debug)]
pub struct Samples(Vec<Document>);

/// The time at which a sample was made: none of them stays.
pub const MADE: &str = "made";

impl Samples {
    /// Makes the samples. Their `_id`s are derived from `seed`, which must be unique.
    pub fn new(seed: ObjectId, made: DateTime) -> Self {
        let mut samples = Vec::new();
        let writer = tx_id_to_bson(TxId { client: ClientId(seed.bytes()), seq: 7 });
        for state in [doc! {}, updated(&writer), doc! {READERS: [writer.clone()]}] {
            samples.extend(std::iter::repeat_n(state, KINDS));
        }
        samples.extend(others(&writer));
        let sample = |(place, state): (usize, Document)| {
            let mut sample = doc! {ID: id_of(&seed, place), MADE: made, "n": 1, "gone": true};
            sample.extend(state);
            sample
        };
        Self(samples.into_iter().enumerate().map(sample).collect())
    }

    /// The documents of all samples, to be inserted.
    pub fn documents(&self) -> &[Document] {
        &self.0
    }

    /// `_id`s of all samples, in order.
    pub fn ids(&self) -> Vec<Bson> {
        self.0.iter().filter_map(|sample| sample.get(ID).cloned()).collect()
    }

    /// One guarded update for each sample. The server may change only samples that no transaction
    /// holds, each once.
    pub fn updates(&self) -> Vec<Document> {
        let update = doc! {"$set": {"n": 2, "a.b": 1}, "$unset": {"gone": ""}, "$max": {"z": 3}};
        let guarded = guarded(&update).unwrap_or_default();
        self.ids().into_iter().map(|id| doc! {"q": {ID: id}, "u": guarded.clone()}).collect()
    }

    /// Number of samples that no transaction holds.
    pub fn free(&self) -> usize {
        self.0.iter().filter(|sample| !is_held(sample)).count()
    }

    /// The places of all others: the updates that the server has to refuse.
    pub fn held(&self) -> Vec<usize> {
        self.0.iter().enumerate().filter(|(_, sample)| is_held(sample)).map(|(place, _)| place).collect()
    }

    /// Returns true if the samples are what they have to be after these updates.
    pub fn are_as_they_should_be(&self, found: &[Document]) -> bool {
        let expected = |sample: &Document| {
            let mut sample = sample.clone();
            if !is_held(&sample) {
                sample.remove("gone");
                sample.extend(doc! {"n": 2, "a": {"b": 1}, "z": 3});
            }
            sample
        };
        found.len() == self.0.len() && self.0.iter().all(|sample| found.contains(&expected(sample)))
    }
}

fn is_held(sample: &Document) -> bool {
    RESERVED.iter().any(|name| sample.contains_key(name))
}

fn updated(writer: &Bson) -> Document {
    doc! {WRITER: writer.clone(), UNSAFE: {"n": 5}}
}

/// Kinds of `_id` of [`has_no_fields`].
const KINDS: usize = 6;

/// The states that are not tried with every kind of `_id`: the other rows of the stored format, and
/// fields that are damaged.
fn others(writer: &Bson) -> Vec<Document> {
    let mut others = vec![
        doc! {WRITER: writer.clone(), REMOVE: true},
        doc! {WRITER: writer.clone(), INSERT: true, UNSAFE: {"n": 5}, SLOT: {"b": 1}},
        doc! {WRITER: writer.clone(), INSERT: true, REMOVE: true, SLOT: 1},
        doc! {WRITER: writer.clone(), UNSAFE: {"n": 5}, SLOT: {"_id": 1}},
        doc! {WRITER: writer.clone(), UNSAFE: {"n": 5}, READERS: [writer.clone()]},
        doc! {READERS: [writer.clone(), writer.clone()]},
    ];
    let values =
        [Bson::Null, 1.into(), "x".into(), true.into(), doc! {}.into(), doc! {"x": [1]}.into(), Bson::Array(vec![])];
    for name in RESERVED {
        others.extend(values.iter().map(|value| doc! {name: value.clone()}));
    }
    others
}

/// Spreads what differs in the last bits of a number over all of them.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// The `_id` of the sample at this place. Each kind is followed by the next. Seeds that were made
/// one after the other have no `_id` in common.
fn id_of(seed: &ObjectId, place: usize) -> Bson {
    let mut bytes = seed.bytes();
    let number = bytes[4..].iter().fold(0, |number: u64, byte| number << 8 | u64::from(*byte)).wrapping_mul(SPREAD);
    let number = number.wrapping_add((place as u64) << 32);
    bytes[..4].copy_from_slice(&(place as u32).to_be_bytes());
    match place % KINDS {
        0 => Bson::ObjectId(ObjectId::from_bytes(bytes)),
        1 => Bson::String(format!("{seed}/{place}")),
        2 => Bson::Int32((number >> 32) as i32),
        3 => Bson::Int64(number as i64),
        4 => Bson::Double((number >> 12) as f64 + 0.5),
        _ => Bson::Binary(Binary { subtype: BinarySubtype::Generic, bytes: bytes.to_vec() }),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::{RawBson, rawdoc};

    use super::*;
    use crate::stored::lock_state;

    fn raw(document: &Document) -> RawDocumentBuf {
        RawDocumentBuf::try_from(document).unwrap()
    }

    #[test]
    fn both_forms_are_the_same_and_guard_every_reserved_field() {
        for update in
            [doc! {"$set": {"a": 1, "b.c": 2}}, doc! {"$inc": {"n": 1}, "$unset": {"_ids": ""}}, doc! {"$set": {}}]
        {
            let guarded = guarded(&update).unwrap();
            assert_eq!(guarded_raw(&raw(&update)).unwrap(), raw(&guarded));
            let renamed = guarded.get_document("$rename").unwrap();
            assert!(RESERVED.iter().all(|name| renamed.get_str(name).unwrap() == format!("_id.{name}")));
            assert_eq!(guarded.len(), update.len() + 1);
        }
    }

    #[test]
    fn whatever_is_no_update_by_operators_or_speaks_of_the_id_is_not_guarded() {
        for update in [
            doc! {},
            doc! {"a": 1},
            doc! {"$set": {"_id": 1}},
            doc! {"$set": {"a": 1, "_id.b": 1}},
            doc! {"$set": {"a": 1}, "$rename": {"a": "b"}},
            doc! {"$set": 5},
            doc! {"$set": {"a": 1}, "b": {}},
        ] {
            assert!(guarded(&update).is_none() && guarded_raw(&raw(&update)).is_none(), "{update}");
        }
        let long = doc! {"$set": {"a": "x".repeat(LONGEST_BYTES)}};
        assert!(guarded_raw(&raw(&long)).is_none());
        // A field that ends behind the document.
        assert!(guarded_raw(RawDocument::from_bytes(b"\x09\0\0\0\x12a\0\x01\0").unwrap()).is_none());
    }

    #[test]
    fn only_the_whole_guard_beside_an_id_without_fields_counts() {
        let update = guarded(&doc! {"$set": {"a": 1}}).unwrap();
        let statement = |q: Document, u: &Document| doc! {"q": q, "u": u.clone()};
        for id in [ObjectId::from_bytes([1; 12]).into(), "x".into(), 1.into(), 1_i64.into(), Bson::Double(1.0)] {
            assert!(is_guarded(&statement(doc! {"_id": id}, &update)));
        }
        for q in [
            doc! {},
            doc! {"_id": {"a": 1}},
            doc! {"_id": {"$gt": 1}},
            doc! {"_id": 1, "a": 1},
            doc! {"a": 1},
            doc! {"_id": Bson::Null},
        ] {
            assert!(!is_guarded(&statement(q.clone(), &update)), "{q}");
        }
        for name in RESERVED {
            let mut less = update.clone();
            less.get_document_mut("$rename").unwrap().remove(name);
            assert!(!is_guarded(&statement(doc! {"_id": 1}, &less)), "{name}");
        }
        assert!(!is_guarded(&statement(doc! {"_id": 1}, &doc! {"$set": {"a": 1}})));
    }

    fn samples(seed: u8) -> Samples {
        Samples::new(ObjectId::from_bytes([seed; 12]), DateTime::from_millis(0))
    }

    #[test]
    fn samples_have_each_state_with_each_kind_of_id_and_no_id_twice() {
        let (samples, next) = (samples(1), samples(2));
        let ids = samples.ids();
        assert!(next.ids().iter().all(|id| !ids.contains(id)));
        assert!(ids.iter().enumerate().all(|(place, id)| !ids[..place].contains(id)));
        let all = samples.documents();
        for id in &ids[..KINDS] {
            let kind = id.element_type();
            assert!(has_no_fields(RawBson::try_from(id.clone()).unwrap().as_raw_bson_ref()));
            let states: Vec<&Document> =
                all.iter().filter(|one| one.get("_id").unwrap().element_type() == kind).collect();
            let locks: Vec<_> = states.iter().filter_map(|state| lock_state(state).ok()).collect();
            assert!(
                locks.iter().any(|lock| lock.writer.is_some()) && locks.iter().any(|lock| !lock.readers.is_empty())
            );
            assert!(states.iter().any(|state| !is_held(state)));
        }
        assert_eq!((samples.free(), samples.held().len()), (KINDS, all.len() - KINDS));
        assert_eq!(samples.updates().len(), all.len());
        assert!(samples.updates().iter().all(is_guarded));
    }

    #[test]
    fn one_held_sample_that_was_changed_or_a_field_too_many_shows() {
        let samples = samples(1);
        let changed = doc! {"n": 2, "a": {"b": 1}, "z": 3};
        let mut found: Vec<Document> = samples.documents().to_vec();
        assert!(!samples.are_as_they_should_be(&found), "nothing was done");
        for one in &mut found[..KINDS] {
            one.remove("gone");
            one.extend(changed.clone());
        }
        assert!(samples.are_as_they_should_be(&found));
        for place in [0, KINDS, found.len() - 1] {
            let mut other = found.clone();
            other[place].insert("n", 9);
            assert!(!samples.are_as_they_should_be(&other), "{place}");
            other[place] = found[place].clone();
            other[place].insert("_slot", Bson::Null);
            assert!(!samples.are_as_they_should_be(&other), "{place}");
        }
        found.pop();
        assert!(!samples.are_as_they_should_be(&found));
    }

    #[test]
    fn ids_with_fields_are_none() {
        for id in [rawdoc! {"a": 1}.into(), RawBson::Null, RawBson::Array(bson::RawArrayBuf::new())] {
            assert!(!has_no_fields(id.as_raw_bson_ref()));
        }
    }
}
