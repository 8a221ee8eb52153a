//! Planned histories of transactions, every interleaving of them, and Adya's anomalies in their
//! results.
//!
//! ```
//! let plans = txcheck::parse_plans(&["R(A) W(A) C", "R(A) W(A) C"]).unwrap();
//! let orders = txcheck::interleavings(&plans, 100).unwrap();
//! assert_eq!(orders.len(), 20);
//! ```
//!
//! Transactions that really run at once, in an order that is not planned, are [`lists`].
//!
//! For tests only, and pure: [`plan`] describes the steps of each transaction, [`mod@interleave`]
//! lists the orders, [`mod@run`] runs one through an [`Executor`] and keeps all results in a
//! [`History`], [`mod@judge`] names the anomalies in that history. Deliberately absent: databases,
//! threads, time, chance.
//!
//! Every write appends a value of its own to the item it writes. So a read of an item shows the
//! order of all its versions, and the writer of each is known: the history need not be guessed.

pub mod history;
pub mod interleave;
pub mod judge;
pub mod lists;
pub mod plan;
pub mod run;

pub use history::{Event, History, Log, Tx, Value};
pub use interleave::interleavings;
pub use judge::{Anomaly, Report, judge};
pub use plan::{Item, Op, Plan, parse_plans};
pub use run::{Executor, Refused, run_plans};
