//! Snapshot and serializable by validation, explored completely. A small model beside the one of
//! commits, with the decisions of `protocol::lock`.
//!
//! A transaction reads as at read committed, without locks, and remembers an *entry* for each read:
//! the query and the answer. Before it is decided, when all its write locks are held, every entry
//! is run again between two looks at the stamps of all records. A decision sets the stamp of each
//! collection that it changes in the one write that decides. If all answers are equal and the
//! stamps unchanged, all answers are true at one moment. At serializable, an active rival may hold
//! a document that is read: an older transaction then waits for it, and a younger one gives way.
//!
//! Documents have the values 0 and 1, or are absent. With so few values a value often comes back,
//! which a comparison cannot notice, and an index on the value moves documents past a scan's
//! cursor.
//!
//! - `plan`: plans of explorations; `breakage`: rules that can be broken on purpose; `query`:
//!   values and queries as bits.
//! - `state`, `transaction`, `command`: the states; `scan`: the steps of one read; `statement`:
//!   those of a transaction's statements; `validating`, `quiet`, `deciding`, `ending`: those of its
//!   end; `steps`: the steps that are possible.
//! - `judge`: moments and serial orders by brute force; `properties`: the properties that must
//!   hold; `model`: all of it, as it is explored.
//!
//! Other models explore aborts and fences, late messages, unique values, and replica sets. This
//! model leaves out time (a wait ends when the rival is decided, quiet at any moment), decisions
//! that are sent twice, cursors that are not read to their end, reads that change by themselves
//! (`$$NOW`, `$rand`), aggregations that read several collections, and closed records.

pub mod breakage;
pub mod command;
pub mod deciding;
pub mod ending;
pub mod judge;
pub mod model;
pub mod plan;
pub mod properties;
pub mod query;
pub mod quiet;
pub mod scan;
pub mod state;
pub mod statement;
pub mod steps;
pub mod transaction;
pub mod validating;

pub use breakage::Breakage;
pub use model::{explore, explore_quietly};
pub use plan::{Asks, Level, Op, Plan, Start, TxPlan};
