//! The protocol as pure code: no input or output, no clock, no randomness, no threads.
//!
//! Words first:
//! - [`id`]: servers, transactions, clients, places in the log.
//! - [`item`], [`range`], [`transaction`]: what is stored, and what a transaction read and writes.
//! - [`partition`]: which server holds a key, as configured; [`map`]: where ranges are that have
//!   moved.
//! - [`refusal`]: why a transaction is not committed, and what its client should do about it.
//! - [`message`]: messages between servers.
//! - [`record`]: records of the log.
//! - [`event`]: events of a server's node ([`Input`]) and what it wants done ([`Command`]).
//! - [`config`]: a node's times and limits.
//!
//! Then the machines, which share nothing and send each other events (`machine`):
//! - `tranx_service`: votes and decisions. In it, `complete`: which of a coordinator's numbers are
//!   done with; `coordinator`: transactions as a whole; `participant`: one server's parts of them;
//!   `epochs`: which epoch it is here, and [`snapshot`]: how the servers end one together;
//!   `journal`: the end of the log; `clients`: whose requests were carried out; `joining`: what a
//!   new server waits for before it takes part, and `joining_steps`: how it enters an epoch.
//! - `lock`: locks on keys and ranges, queues for them, and fences around ranges that move;
//!   `wanted`: the locks that a transaction needs.
//! - `acknowledgement`: the second phase, many transactions at once.
//! - [`recovery`]: a node from a log, before anything runs; `recovery_service`: inquiries about
//!   what other servers know, while everything runs; [`resolve`]: what an operator may decide when
//!   no server knows the outcome.
//! - `marks`: low-water marks in the log; `gc`: which segments of the log may go by them.
//! - `past_requests`: what became of requests that were made to earlier lives.
//! - [`node`]: these together, for one server.
//! - `group`: the machine of a member of a group.

#![warn(clippy::disallowed_methods, clippy::disallowed_types)]

pub(crate) mod acknowledgement;
mod clients;
mod complete;
pub mod config;
mod coordinator;
mod epochs;
pub mod event;
pub(crate) mod few;
pub(crate) mod flaw;
pub(crate) mod gc;
pub(crate) mod group;
pub mod id;
pub mod item;
pub(crate) mod joining;
mod joining_steps;
mod journal;
pub(crate) mod lock;
pub(crate) mod machine;
pub mod map;
mod marks;
pub mod message;
pub mod node;
mod participant;
pub mod partition;
pub mod past_requests;
pub mod range;
pub mod record;
pub mod recovery;
pub(crate) mod recovery_service;
pub mod refusal;
pub mod resolve;
pub mod snapshot;
pub mod standing;
pub mod transaction;
pub(crate) mod tranx_service;
mod wanted;

pub use config::NodeConfig;
pub use event::{CheckAnswer, Command, CommitAnswer, Input, SnapshotAnswer};
pub use id::{
    ClientId, Epoch, Incarnation, LogTicket, MessageId, RequestId, SegmentId, ServerId, StoreId, TranxId, ValidationId,
    WorkId,
};
pub use item::{Current, Item, Key, LimitError, Value};
pub use map::Map;
pub use message::{Message, Outcome, Settlement, SnapshotMessage, Vote};
pub use node::{Node, NodeStatus};
pub use partition::Partition;
pub use past_requests::RequestOutcome;
pub use range::KeyRange;
pub use record::{GcRecord, Record, SegmentSummary};
pub use recovery::Recovery;
pub use refusal::{Advice, Moved, Refusal};
pub use resolve::{Decision, Known, TransactionInDoubt, Undecided};
pub use standing::{Again, Standing};
pub use transaction::{Moving, Read, ScanRead, Transaction, Write};

#[cfg(test)]
mod tests;
