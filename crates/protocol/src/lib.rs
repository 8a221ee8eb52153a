//! The decisions of the MongoTx protocol, and nothing else.
//!
//! Everything here is a pure function or a state machine without input or output: no driver, no
//! BSON, no clock, no randomness. The model (`crates/model`) explores the very code that the
//! library (`crates/mongotx`) runs.
//!
//! - [`id`]: what names a transaction.
//! - [`status`]: the fate of a transaction, read from a client record.
//! - [`decided`]: transactions whose leftovers any client may repair.
//! - [`lock`]: which version of a document a reader may see, whether a writer is admitted, how a
//!   leftover is repaired.
//! - [`recorder`]: the owner's side of the client record: stamps, group commit, the low-water mark.
//! - [`unique`]: whether a value that has to be unique is free.
//!
//! What is *not* here: how a document is stored (`sd2v`) and how commands are sent (`mongotx`).

#![warn(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod decided;
pub mod id;
pub mod lock;
pub mod recorder;
pub mod status;
pub mod unique;

pub use decided::Decided;
pub use id::{ClientId, Seq, TxId};
pub use lock::{LockState, Repair, Version};
pub use recorder::{Concern, Recorder};
pub use status::{ClientRecord, TxStatus};
