//! The commit protocol of MongoTx as a model that is explored completely, by every interleaving and
//! every fault within a budget.
//!
//! The decisions are those of the crate `protocol`, the very functions that the library runs: the
//! admission of locks, the meaning of a status, the visible version, the repair of leftovers, and
//! the whole of `Recorder`. The model adds their environment: a server that can lose unjournaled
//! data, messages that arrive late, and clients that die or sleep.
//!
//! - `plan`: plans of explorations; `mutation`: rules that can be broken on purpose.
//! - `state`, `server`: the states; `action`, `steps`: the steps, and those that are possible.
//! - `transaction`, `course`, `combined_writes`, `client`, `meeting`, `janitor`, `reader`,
//!   `faults`: the effects of the steps; `expiry`: the TTL monitor, and a transaction's measures
//!   against it.
//! - `properties`: the properties that must hold; `model`: all of it, as it is explored.
//! - `shared`: parts of a state that are copied only when they change.
//!
//! These parts are models of their own, because their states would multiply with those above:
//!
//! - `unique`: unique indexes between pending and committed values.
//! - `reading`: read locks, and statements of transactions that others have ended.
//! - `read_lease`: a client that reads without probes while it is alone; `beside_own_changes`: its
//!   queries beside what its own transactions have left.
//! - `unchanged_reads`: validations that take reads for unchanged.
//! - `replicas`: a replica set whose primaries change.
//! - `checkpoint`: a pause of all decisions, for copies of one moment.
//! - `validation`: snapshot and serializable by validation.
//!
//! The tests explore each plan completely, in a minute or two for all of them on two cores.
//! `MODEL_DEEP=1 cargo test -p protocol-model` gives the plans that grow fastest one more fault,
//! which takes several times as long.
//!
//! The model leaves out one-phase commit, shards, rotation of records, write concerns below
//! "journaled", time (except for expired dates), and what each file's header lists. Writes that
//! were deleted with a document from outside are not judged any more; all other writes are.
//! Removals by the TTL monitor are judged: a document may go when its date is over, but no
//! committed write may go with it.

#![warn(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod action;
pub mod beside_own_changes;
pub mod checkpoint;
pub mod client;
pub mod combined_writes;
pub mod course;
pub mod expiry;
pub mod explore;
pub mod faults;
pub mod janitor;
pub mod meeting;
pub mod model;
pub mod mutation;
pub mod plan;
pub mod properties;
pub mod read_lease;
pub mod reader;
pub mod reading;
pub mod replicas;
pub mod server;
pub mod shared;
pub mod state;
pub mod steps;
pub mod transaction;
pub mod unchanged_reads;
pub mod unique;
pub mod validation;

pub use explore::{Report, explore};
pub use mutation::Mutation;
pub use plan::{Faults, Op, Plan, Read, TxPlan};
