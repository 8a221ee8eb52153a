//! The client library: transactions that read without locks, remember what they saw, and are judged
//! when they commit (section 3.2).
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
//! The calls of [`Client`] block, those of [`AsyncClient`] are futures; each lasts for a limited
//! time ([`ClientOptions::request_ms`]). A client may be shared by many threads or tasks: their
//! requests go out together.
//!
//! `state`, `scan` and `retry` say what a transaction is, and wait for nothing; `asynchronous`
//! sends requests to servers through a link (`link`, `socket`) and waits for answers (`call`,
//! `reply`); `blocking` waits for `asynchronous`. `unknown` is a commit without an answer,
//! `ask_again` sends it again. `stores` counts when servers turn out to have other stores; `roster`
//! has the servers, also those that join.

mod ask_again;
mod asynchronous;
mod blocking;
mod cache;
mod call;
mod error;
mod inner;
mod link;
mod options;
mod outcome;
mod reply;
mod retry;
mod roster;
mod scan;
mod socket;
mod state;
mod stores;
mod unknown;

pub use asynchronous::{AsyncClient, AsyncSnapshot, AsyncTransaction, RangeMoved};
pub use blocking::{Client, Snapshot, Transaction};
pub use error::{Error, Result};
pub use options::ClientOptions;
pub use outcome::{Committed, Scanned};
pub use socket::{MAX_WAITING, greet};
pub use unknown::Unknown;

pub(crate) use link::{Answer, Done, Link, Ticket};
pub(crate) use stores::Generation;
