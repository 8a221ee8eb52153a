//! What a target of the benchmark has to do, and the list of targets.
//!
//! Loading and checking the documents is the same for all of them: see `ledger.rs`.

use ::mongotx::Layout;
use bson::{Document, doc};
use clap::ValueEnum;
use futures_util::future::BoxFuture;

use super::{super::BenchError, mongotx::MongoTx, native::Native, plain::Plain};
use crate::connect::with_option;

/// The collection of accounts, in a database of the measurement's own.
pub(crate) const ACCOUNTS: &str = "accounts";

/// A target, as `--targets` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// MongoTx with one record per client.
    Mongotx,
    /// MongoTx with one record per transaction, as published.
    Published,
    /// The same two updates without a transaction.
    Plain,
    /// MongoDB's own transactions, on a replica set.
    Native,
}

impl Kind {
    /// The name in the table.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Mongotx => "MongoTx",
            Self::Published => "MongoTx, published layout",
            Self::Plain => "no transaction",
            Self::Native => "native transactions",
        }
    }

    /// What its answer waits for.
    pub(crate) fn durability(self) -> &'static str {
        match self {
            Self::Mongotx | Self::Published => "the decision is written with {w: 1, j: true}",
            Self::Plain => "the second update is written with {w: 1, j: true}, and the log keeps the order",
            Self::Native => "commitTransaction with {w: \"majority\", j: true}",
        }
    }

    /// Whether it runs on the replica set.
    pub(crate) fn needs_replica_set(self) -> bool {
        self == Self::Native
    }
}

/// One transfer between two different accounts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub(crate) from: i32,
    pub(crate) to: i32,
    pub(crate) amount: i64,
}

impl Transfer {
    /// The two updates, the same for every target: filter and operators.
    pub(crate) fn updates(&self) -> [(Document, Document); 2] {
        let change = |id: i32, by: i64| (doc! {"_id": id}, doc! {"$inc": {"balance": by}});
        [change(self.from, -self.amount), change(self.to, self.amount)]
    }
}

/// How one attempt of a transfer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Committed, as durably as the target promises.
    Done,
    /// A rival was in the way and nothing was changed: try again.
    Conflict,
}

/// A target, connected.
pub(crate) trait Target: Send + Sync {
    /// One client with a session of its own.
    fn worker(&self) -> BoxFuture<'_, Result<Box<dyn Worker>, BenchError>>;
    /// Commands that were sent so far, by the driver's command monitoring.
    fn commands(&self) -> u64;
    /// Ends the work that goes on after the last answer, and the connection.
    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), BenchError>>;
}

/// One client of a target.
pub(crate) trait Worker: Send {
    /// Tries a transfer once.
    fn transfer(&mut self, transfer: Transfer) -> BoxFuture<'_, Result<Outcome, BenchError>>;
}

/// Connects a target to a server, with a pool that has a connection for every client.
pub(crate) async fn connect(kind: Kind, uri: &str, db: &str, clients: u32) -> Result<Box<dyn Target>, BenchError> {
    let uri = with_option(uri, "maxPoolSize", clients.max(10));
    Ok(match kind {
        Kind::Mongotx => Box::new(MongoTx::connect(&uri, db, Layout::ClientRecord).await?),
        Kind::Published => Box::new(MongoTx::connect(&uri, db, Layout::Published).await?),
        Kind::Plain => Box::new(Plain::connect(&uri, db).await?),
        Kind::Native => Box::new(Native::connect(&uri, db).await?),
    })
}
