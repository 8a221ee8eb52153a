//! The client library: transactions that read without locks, remember what they saw, and are judged when they commit
//! (section 3.2).
//!
//! ```no_run
//! # fn main() -> Result<(), dtranx::client::Error> {
//! use dtranx::client::{Client, ClientOptions};
//!
//! let client = Client::connect(&["127.0.0.1:7101".parse().unwrap()], ClientOptions::default())?;
//! client.transact(|tranx| {
//!     let balance = tranx.get("alice")?.map_or(0, |value| value.len());
//!     tranx.put("alice", vec![b'*'; balance + 1])
//! })?;
//! # Ok(())
//! # }
//! ```
//!
//! All calls block, each for a limited time ([`ClientOptions::request_ms`]). A client may be shared by many threads.

mod backoff;
mod cache;
mod database;
mod error;
mod link;
mod scan;
mod socket;
mod transact;
mod transaction;

pub use database::{Client, ClientOptions};
pub use error::{Error, Result, Unknown};
pub use transaction::{Committed, Scanned, Transaction};

pub(crate) use database::Inner;
pub(crate) use link::{Answer, Done, Link, Ticket};
