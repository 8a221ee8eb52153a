//! Unique values between pending and committed versions, explored completely: a small model beside
//! the one of locks and commits, with the decisions of `protocol::unique` and `protocol::lock`.
//!
//! The server enforces two unique indexes, and refuses a write that would break one:
//! - the user's, on (safe value, slot): clean documents have no slot, so their values are
//!   different;
//! - the mirrored one, on the pending value, over the documents that have one.
//!
//! A statement *places* its value (lock and copy, change) and then *checks* which safe versions
//! have it. A committed transaction whose document cannot be finished, because another of its own
//! still has the safe value, first sets the slot on all that it still has locked.
//!
//! - `plan`: plans of explorations; `breakage`: rules that can be broken on purpose.
//! - `documents`: the stored documents and the indexes; `state`: the states.
//! - `operation`: a statement; `combined_writes`: statements that are sent together; `ending`:
//!   commit, rollback, finishing; `repair`: repairs by the owner, rivals and the janitor.
//! - `steps`: the steps that are possible; `properties`: the properties that must hold; `model`:
//!   all of it, as it is explored.
//!
//! The other model explores the storage and decision of statuses (in this one they are an atomic
//! map), restarts of the server, and late messages. A read of several documents is one step per
//! document, because the check needs no snapshot.

pub mod breakage;
pub mod combined_writes;
pub mod documents;
pub mod ending;
pub mod model;
pub mod operation;
pub mod plan;
pub mod properties;
pub mod repair;
pub mod state;
pub mod steps;

pub use breakage::Breakage;
pub use model::{explore, explore_quietly};
pub use plan::{End, Faults, Op, Plan, Sent, TxPlan};
