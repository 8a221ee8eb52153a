//! The decisions of the MongoTx protocol, and nothing else.
//!
//! Everything here is a pure function or a state machine without input or output: no driver, no
//! BSON, no clock, no randomness. The model (`crates/protocol-model`) explores the very code that
//! the library (`crates/mongotx`) runs.
//!
//! - [`id`]: what names a transaction.
//! - [`status`]: the outcome of a transaction, read from a client record.
//! - [`decided`]: transactions whose leftovers any client may repair.
//! - [`lock`]: which version of a document a reader may see, whether a writer is admitted, how a
//!   leftover is repaired.
//! - [`recorder`]: the owner's side of the client record: stamps, group commit, the low-water mark.
//! - [`unique`]: whether a value that has to be unique is free.
//!
//! A commit, as the owner of a record decides it:
//!
//! ```
//! use protocol::{ClientRecord, Concern, Recorder, TxStatus, recorder::{TransactionEnd, Verdict}, status::status_of};
//!
//! let mut recorder = Recorder::new();
//! let seq = recorder.allocate();
//! // The transaction's first prepared write is sent in connection epoch 1.
//! assert!(recorder.request_commit(seq, Concern::Journaled, 1));
//!
//! // The first write to the record is evidence that the server has kept what was prepared.
//! let evidence = recorder.next_write(false).unwrap();
//! assert!(evidence.decides.is_empty());
//! assert_eq!(recorder.acknowledged(1), Verdict::GoOn(vec![]));
//! // The second one decides.
//! let decision = recorder.next_write(false).unwrap();
//! assert_eq!((decision.demands, decision.decides.as_slice()), (evidence.stamp, &[seq][..]));
//! assert_eq!(recorder.acknowledged(1), Verdict::GoOn(vec![TransactionEnd::Committed(seq)]));
//!
//! // Another client reads the outcome from the record.
//! let record = ClientRecord { low: decision.low, committed: decision.committed.into_iter().collect(), ..Default::default() };
//! assert_eq!(status_of(Some(&record), seq), TxStatus::Committed);
//! ```
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
