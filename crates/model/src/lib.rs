//! The commit protocol of MongoTx as a model that is explored completely, by every interleaving and
//! every fault within a budget.
//!
//! The decisions are those of the crate `protocol`, the very functions that the library runs: who
//! may lock, what a status means, which version is seen, how a leftover is repaired, and the whole
//! of `Recorder`. The model adds what is around them: a server that can lose what is not journaled,
//! messages that arrive late, clients that die or sleep.
//!
//! - `plan`: what one exploration contains; `mutation`: what can be broken on purpose.
//! - `state`, `server`: what there is; `action`, `steps`: which steps there are.
//! - `transaction`, `course`, `together`, `client`, `meeting`, `janitor`, `reader`, `faults`: what
//!   the steps do; `expiry`: the TTL monitor, and what a transaction does about it.
//! - `properties`: what must hold; `model`: all of it, as it is explored.
//! - `shared`: parts of a state that are copied only when they change.
//!
//! Models of their own, because their states would multiply with these:
//!
//! - `unique`: unique indexes between pending and committed values.
//! - `reading`: read locks, and statements of transactions that others have ended.
//! - `replicas`: a replica set whose primaries change.
//! - `checkpoint`: a pause of all decisions, for copies of one moment.
//! - `validation`: snapshot and serializable by validation.
//!
//! The tests explore each plan completely, in a minute or two for all of them on two cores.
//! `MODEL_DEEP=1 cargo test -p model` gives the plans that grow fastest one more fault, which takes
//! several times as long.
//!
//! Left out, besides what each file's header says: one-phase commit, shards, rotation of records,
//! concerns below "journaled", time (but for dates that are over). A document that is deleted from
//! outside is not judged any more, as far as the writes that were deleted with it go; everything
//! else is. What the TTL monitor removes is judged: a document may go when its date is over, but no
//! commit with it.

#![warn(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod action;
pub mod checkpoint;
pub mod client;
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
pub mod reader;
pub mod reading;
pub mod replicas;
pub mod server;
pub mod shared;
pub mod state;
pub mod steps;
pub mod together;
pub mod transaction;
pub mod unique;
pub mod validation;

pub use explore::{Report, explore};
pub use mutation::Mutation;
pub use plan::{Faults, Op, Plan, Read, TxPlan};
