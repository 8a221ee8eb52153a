//! Indexes: as the application specifies them, and as they are stored beside the unsafe versions.
//!
//! | the application's index | stored as | why |
//! | --- | --- | --- |
//! | any | itself | answers queries on safe versions |
//! | unique | `_mongotx_unique.NAME`: the key with [`crate::names::SLOT`] as its last field, instead of itself | documents that wait to be inserted all lack the field; documents of one transaction may exchange values |
//! | TTL | itself without the expiry, and `_mongotx_ttl.NAME`, which holds unlocked documents only | the server must not remove what a transaction holds |
//! | unique, `2d`, `2dsphere`, hashed, of several fields; any other on request | besides, `_mongotx_unsafe.NAME`: the same on `_unsafe.FIELD` | the server refuses at the write what it would refuse when the document is finished; queries on unsafe versions |
//!
//! - `form`: from one to the other, and back for listings.
//! - `keys`: the keys of a document through arrays, and the condition for others that have them.
//! - `unique`: which values a document has in a unique index, and which others have them.
//! - `frozen`: indexes that keep locks out while a collection is renamed.
//! - `expiry`: which documents a TTL index removes.
//! - `plan`: the answer to an `explain`, with the application's indexes in it.
//! - `stats`: the documents of `$indexStats`, likewise.

mod expiry;
mod form;
mod frozen;
mod keys;
mod plan;
mod stats;
mod unique;

pub use crate::update::{touches, touches_stored};
pub use expiry::Expiry;
pub use form::{
    Creation, Index, PENDING_INDEX, has_slot, interpret, interpret_beside, is_of_pending, left_behind, missing_index,
    pending_index, plan_creation, shown, shown_key,
};
pub use frozen::{freeze, holds_while_renamed, is_frozen};
pub use plan::show_plan;
pub(crate) use stats::show_statistics;
pub use unique::Unique;
