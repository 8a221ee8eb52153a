//! The reserved field names of a stored document: the one file that spells them.

use bson::{
    Binary, Bson, RawDocumentBuf, doc,
    oid::ObjectId,
    raw::{CStr, cstr},
    rawdoc,
    spec::BinarySubtype,
};
use protocol::{ClientId, TxId};

/// The unsafe version: what a transaction wrote and has not finished.
pub const UNSAFE: &str = "_unsafe";
/// Field with the id of the transaction that holds the write lock.
pub const WRITER: &str = "_xTxId";
/// Field with the ids of the transactions that hold read locks.
pub const READERS: &str = "_sTxIds";
/// `true`: the document has no safe version yet.
pub const INSERT: &str = "_insert";
/// `true`: the document goes when its writer commits.
pub const REMOVE: &str = "_remove";

/// Field that keeps a document out of the way of unique indexes: the last key field of each, absent
/// where the document's safe values count.
pub const SLOT: &str = "_slot";

/// All reserved names, in no particular order.
pub const RESERVED: [&str; 6] = [UNSAFE, WRITER, READERS, INSERT, REMOVE, SLOT];

/// [`UNSAFE`] as a key of BSON; likewise the next two.
pub(crate) const UNSAFE_KEY: &CStr = cstr!("_unsafe");
pub(crate) const WRITER_KEY: &CStr = cstr!("_xTxId");
pub(crate) const REMOVE_KEY: &CStr = cstr!("_remove");

/// The reserved names as keys of BSON, in the order in which a write outside a transaction demands
/// that they be absent.
pub(crate) const ABSENT: [&CStr; 6] =
    [WRITER_KEY, cstr!("_sTxIds"), cstr!("_insert"), REMOVE_KEY, UNSAFE_KEY, cstr!("_slot")];

/// The slot of a document that waits to be inserted: different for every `_id`, as no clean
/// document has it (a missing field counts as null), and under every collation.
pub fn slot_of(id: &Bson) -> Bson {
    match id {
        Bson::Null | Bson::Undefined | Bson::String(_) | Bson::Symbol(_) | Bson::Document(_) | Bson::Array(_) => {
            let bytes = doc! {"": id.clone()}.to_vec().unwrap_or_default();
            doc! {"b": Binary { subtype: BinarySubtype::Generic, bytes }}.into()
        }
        other => other.clone(),
    }
}

/// The stored form of a transaction id: `{c: ObjectId, n: Int64}`.
pub fn tx_id_to_bson(id: TxId) -> Bson {
    Bson::Document(doc! { "c": ObjectId::from_bytes(id.client.0), "n": id.seq as i64 })
}

/// The stored form of a transaction id, as bytes of BSON.
pub fn tx_id_to_raw(id: TxId) -> RawDocumentBuf {
    rawdoc! { "c": ObjectId::from_bytes(id.client.0), "n": id.seq as i64 }
}

/// Reads the stored form; `None` when it is anything else.
pub fn tx_id_from_bson(value: &Bson) -> Option<TxId> {
    let doc = value.as_document()?;
    let client = ClientId(doc.get_object_id("c").ok()?.bytes());
    let seq = u64::try_from(doc.get_i64("n").ok()?).ok()?;
    (doc.len() == 2).then_some(TxId { client, seq })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_the_names() {
        for (key, name) in [(UNSAFE_KEY, UNSAFE), (WRITER_KEY, WRITER), (REMOVE_KEY, REMOVE)] {
            assert_eq!(key.as_str(), name);
        }
        assert!(ABSENT.iter().all(|key| RESERVED.contains(&key.as_str())));
    }

    #[test]
    fn slots_differ_from_each_other_and_from_null_under_any_collation() {
        let ids: [Bson; 6] = [Bson::Null, "b".into(), "B".into(), doc! {"x": "b"}.into(), 1.into(), true.into()];
        let slots: Vec<Bson> = ids.iter().map(slot_of).collect();
        for (at, slot) in slots.iter().enumerate() {
            assert!(slot != &Bson::Null && !matches!(slot, Bson::String(_)), "{slot}");
            assert!(!slots[..at].contains(slot), "{slot}");
        }
    }
}
