//! DTranx: a distributed key-value store with serializable transactions, after *DTranx: A SEDA-based Distributed and
//! Transactional Key Value Store with Persistent Memory Log* (called "the paper" here).
//!
//! - [`core`]: the commit protocol, garbage collection and recovery as pure state machines: an event in, commands out.
//! - [`log`]: the write-ahead log on its media.
//! - [`storage`]: what is stored, in an LSM tree or in memory.
//! - [`sim`]: whole clusters simulated on one thread.

pub mod core;
pub mod log;
pub mod sim;
pub mod storage;
