//! The projection of a stored document on the fields that show its holder. Its result is read by
//! `sd2v::stored::lock_state`.

use bson::{Document, doc};
use sd2v::{
    names::{INSERT, READERS, REMOVE, WRITER},
    shard::ShardKey,
    stored::types_only,
};

/// A projection that shows the locks of a stored document, and where it is.
pub(crate) fn locks_only(key: &ShardKey) -> Document {
    let mut locks = doc! {WRITER: 1, READERS: 1, INSERT: 1, REMOVE: 1};
    locks.extend(types_only());
    key.show_in(&mut locks);
    locks
}
