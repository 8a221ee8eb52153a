//! The stores that transactions run on, a file for each.
//!
//! Every store is set to answer a commit when it is on disk, and to run each transaction
//! serializably: all reads are checked when it commits.

mod dtranx;
mod etcd;
mod etcd_api;
mod redis;

use async_trait::async_trait;
use benchkit::run::Attempt;
use clap::ValueEnum;
use serde::Serialize;

use crate::{error::BenchError, settings::Settings, workload::Transaction};

/// Kinds of stores that can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// DTranx: every server has its part of the keys.
    Dtranx,
    /// etcd: Raft, one order for everything; transactions compare revisions.
    Etcd,
    /// Redis with its append-only file synced at every write; WATCH and MULTI.
    Redis,
}

impl Kind {
    /// Name of the store in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Dtranx => "dtranx",
            Self::Etcd => "etcd",
            Self::Redis => "redis",
        }
    }

    /// Starts the store and connects to it.
    pub(crate) async fn start(self, servers: u16, settings: &Settings) -> Result<Box<dyn Store>, BenchError> {
        Ok(match self {
            Self::Dtranx => Box::new(dtranx::Dtranx::start(servers, settings).await?),
            Self::Etcd => Box::new(etcd::Etcd::start(servers).await?),
            Self::Redis => Box::new(redis::Redis::start().await?),
        })
    }
}

/// A store that runs, with its servers. They end with it.
#[async_trait]
pub(crate) trait Store: Send + Sync {
    /// Gives each of so many keys a counter at 0, in values of so many bytes.
    async fn load(&self, keys: u64, value_bytes: u32) -> Result<(), BenchError>;

    /// A connection of its own for one transaction at a time.
    async fn worker(&self, value_bytes: u32) -> Result<Box<dyn Worker>, BenchError>;

    /// The values of all keys, read while no client writes.
    async fn values(&self, keys: u64) -> Result<Vec<Option<Vec<u8>>>, BenchError>;

    /// Size of all servers' logs, in bytes; 0 where it is not known.
    async fn log_bytes(&self) -> Result<u64, BenchError> {
        Ok(0)
    }

    /// Counts of all servers since they started; `None` where they do not report them.
    async fn served(&self) -> Result<Option<Served>, BenchError> {
        Ok(None)
    }
}

/// Work of a store's servers, by their own counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Served {
    /// Clients' requests to read: any number of keys each.
    pub(crate) reads: u64,
    /// Messages received and messages sent, from and to clients and servers: one between two
    /// servers counts twice.
    pub(crate) messages: u64,
}

impl Served {
    /// The work since an earlier state of the counters.
    pub(crate) fn since(self, before: Self) -> Self {
        let Self { reads, messages } = before;
        Self { reads: self.reads.saturating_sub(reads), messages: self.messages.saturating_sub(messages) }
    }
}

/// A client of the store.
#[async_trait]
pub(crate) trait Worker: Send {
    /// Tries a transaction once.
    async fn attempt(&mut self, transaction: &Transaction) -> Result<Attempt, BenchError>;
}

/// The two new values of a transfer, from the two old ones.
pub(crate) fn transferred(
    store: &'static str,
    from: Option<&[u8]>,
    to: Option<&[u8]>,
    bytes: u32,
) -> Result<(Vec<u8>, Vec<u8>), BenchError> {
    use crate::workload::{counter, value};
    match (from.and_then(counter), to.and_then(counter)) {
        (Some(from), Some(to)) => Ok((value(from - 1, bytes), value(to + 1, bytes))),
        _ => Err(BenchError::Broken { store, what: "a counter is gone".to_owned() }),
    }
}
