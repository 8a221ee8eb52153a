//! TPC-C: a wholesale supplier's orders, payments and deliveries, after revision 5.11 of the TPC's
//! specification, on documents. "Clause" in this folder means a clause of that specification.
//!
//! [`load`] fills the database with [`rows`] in one of three layouts ([`schema`]); a client deals
//! transactions ([`deck`]), draws their [`input`] and runs them ([`tx`]); [`check`] checks the
//! consistency conditions afterwards.
//!
//! Deliberately absent: terminals with screens, and the queue of deferred deliveries (clause
//! 2.7.2): a delivery is a transaction like the others.

pub mod check;
mod client;
pub mod deck;
pub mod draw;
pub mod how;
pub mod ids;
pub mod input;
pub mod kind;
pub mod load;
pub mod natural;
pub mod nurand;
pub mod options;
pub mod rows;
pub mod scale;
pub mod schema;
pub mod tx;
mod workload;

pub use options::TpccOptions;
