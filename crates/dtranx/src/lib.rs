//! DTranx: a distributed key-value store with serializable transactions, after *DTranx: A
//! SEDA-based Distributed and Transactional Key Value Store with Persistent Memory Log* (called
//! "the paper" here).
//!
//! - [`core`]: the commit protocol, garbage collection and recovery as pure state machines: an
//!   event in, commands out.
//! - [`log`]: the write-ahead log on its media.
//! - [`storage`]: items, in an LSM tree or in memory.
//! - [`stage`]: queues, threads and counters of the stages.
//! - [`cluster`]: the static description of a cluster.
//! - [`wire`]: the protocol between servers and clients.
//! - [`server`]: the parts put together, on a network or embedded in a program.
//! - [`client`]: transactions for applications.
//! - [`remark`]: what servers and commands say to people.
//! - [`backup`]: all items in a file, as of one moment.
//! - [`sim`]: whole clusters simulated on one thread.

mod backoff;
pub mod backup;
pub mod client;
pub mod cluster;
pub mod core;
mod damage;
mod files;
mod folders;
pub mod log;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "the model is a test")]
mod model;
pub mod remark;
pub mod server;
pub mod sim;
pub mod stage;
pub mod storage;
pub mod wire;
