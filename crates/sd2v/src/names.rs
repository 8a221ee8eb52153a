//! The reserved field names of a stored document: the one file that spells them.

use bson::{Bson, doc, oid::ObjectId};
use protocol::{ClientId, TxId};

/// The unsafe version: what a transaction wrote and has not finished.
pub const UNSAFE: &str = "_unsafe";
/// Who holds the write lock.
pub const WRITER: &str = "_xTxId";
/// Who holds read locks.
pub const READERS: &str = "_sTxIds";
/// `true`: the document has no safe version yet.
pub const INSERT: &str = "_insert";
/// `true`: the document goes when its writer commits.
pub const REMOVE: &str = "_remove";

/// What keeps a document out of the way of unique indexes: the last key field of each, absent where the document's
/// safe values count.
pub const SLOT: &str = "_slot";

/// All of them.
pub const RESERVED: [&str; 6] = [UNSAFE, WRITER, READERS, INSERT, REMOVE, SLOT];

/// The stored form of a transaction id: `{c: ObjectId, n: Int64}`.
pub fn tx_id_to_bson(id: TxId) -> Bson {
    Bson::Document(doc! { "c": ObjectId::from_bytes(id.client.0), "n": id.seq as i64 })
}

/// Reads the stored form; `None` when it is anything else.
pub fn tx_id_from_bson(value: &Bson) -> Option<TxId> {
    let doc = value.as_document()?;
    let client = ClientId(doc.get_object_id("c").ok()?.bytes());
    let seq = u64::try_from(doc.get_i64("n").ok()?).ok()?;
    (doc.len() == 2).then_some(TxId { client, seq })
}
