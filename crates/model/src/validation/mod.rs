//! Snapshot and serializable by validation, explored completely. A small model beside the one of
//! commits, with the decisions of `protocol::lock`.
//!
//! A transaction reads as at read committed, without locks, and remembers an *entry* for each read:
//! the query and the answer. Before it is decided, when all its write locks are held, every entry
//! is run again between two looks at the stamps of all records; a decision sets the stamp of each
//! collection that it changes in the one write that decides. All answers equal and the stamps
//! unchanged: what was read is the truth of one moment. At serializable, active rivals that hold
//! what is read are waited for by the older and make the younger give way.
//!
//! Documents have the values 0 and 1, or are absent. So values come back, which is what a
//! comparison cannot see, and an index on the value moves documents past a scan's cursor.
//!
//! - `plan`: what one exploration contains; `breakage`: what can be broken on purpose; `query`:
//!   values and queries as bits.
//! - `state`, `transaction`, `command`: what there is; `scan`: the steps of one read; `statement`:
//!   those of a transaction's statements; `validating`, `quiet`, `deciding`, `ending`: those of its
//!   end; `steps`: which ones are possible.
//! - `judge`: moments and serial orders by brute force; `properties`: what must hold; `model`: all
//!   of it, as it is explored.
//!
//! Left out, because other models explore it: kills and fences, late messages, unique values,
//! replica sets. Left out altogether: time (a wait ends when the rival is decided, quiet at any
//! moment), decisions that are sent twice, cursors that are not read to their end, reads that
//! change by themselves (`$$NOW`, `$rand`), aggregations that read several collections, closed
//! records.

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
