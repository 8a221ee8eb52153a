//! Reads inside transactions, explored completely: read locks, and the answers that a transaction
//! gets after rivals have ended it. A small model beside the one of commits, with the decisions of
//! `protocol::lock`.
//!
//! A statement at repeatable read takes six steps:
//!
//! 1. It selects documents, as every reader sees them.
//! 2. It read-locks them by one update of many documents, which skips those that a rival holds for
//!    writing.
//! 3. If the update skipped some, the statement looks at each document that it has not locked. It
//!    deals with the lock of a rival, locks a free document after all, and takes only a document
//!    that is not there for removed.
//! 4. It reads again, under its locks.
//! 5. It checks whether the transaction lives.
//! 6. It answers.
//!
//! A statement at read committed takes steps 4 to 6. A statement that writes locks and changes its
//! document at once, and then takes steps 5 and 6.
//!
//! Step 5 reads the transaction's own record over the connection for records. The record must be
//! neither fenced nor aborted, and the server process must be the one in which the transaction took
//! its first lock. Others remove locks only after the record is fenced or aborted, or the process
//! ends with them. All values that were read before step 5 were therefore read under all the locks
//! that the transaction ever took.
//!
//! A document that is read again therefore needs no check of its old lock. A write of a document
//! that was read still demands the lock, in the condition that takes the write lock.
//!
//! - `plan`: plans of explorations; `breakage`: rules that can be broken on purpose.
//! - `state`: the states; `statement`, `writing`: the steps of a transaction; `steps`: the steps
//!   that are possible.
//! - `properties`: the properties that must hold; `model`: all of it, as it is explored.
//!
//! Other models explore the storage and decision of statuses (in this one they are an atomic map,
//! and a decision is an atomic step that sees the server's process), late messages and unique
//! values. This model has no predicates (a statement selects by `_id`; repeatable read does not
//! forbid phantoms), no waits (a transaction that meets an active rival rolls itself back), and no
//! reads of removed documents (which lock no document).

pub mod breakage;
pub mod model;
pub mod plan;
pub mod properties;
pub mod state;
pub mod statement;
pub mod steps;
pub mod writing;

pub use breakage::Breakage;
pub use model::explore;
pub use plan::{Faults, Op, Plan, TxPlan};
