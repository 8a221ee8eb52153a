//! The baseline of paper 001 (sections 2.3 and 4): every version of a document is a document of its
//! own, `{_id: {key, ver}, …}`, and transactions work in the way of Percolator (paper 000, section
//! 2.3). Read committed.
//!
//! A transaction's first version is its primary. All its versions carry a lock that names the
//! primary; the commit removes the primary's lock, and a client that meets another lock reads the
//! outcome from the primary. A transaction that is not decided ten seconds after its first write,
//! by the server's clock, may be rolled back by any client that meets it. Rivals never wait: of two
//! that write one document, the second one has a conflict.
//!
//! It is made as fast as it honestly can be:
//! - versions are inserted as they are written, in one command for all documents of an operation,
//!   and wait for no disk; only the commit, one command, does. A transaction that only reads sends
//!   nothing at its end;
//! - a document by its `_id`, and a range of `_id`s, is one command, on an index of `_id.key` and
//!   `_id.ver`, whose newest versions are first. A document that was read by its `_id` is written
//!   without being read again;
//! - a query is two commands however many documents it finds: the second one reads the later
//!   versions of all of them (the paper's has one for each). A third one is needed only where there
//!   are later versions that were not found;
//! - status is read only for locked versions of other transactions, for all in one command; a
//!   reader need not read that of a primary, whose own lock says all, nor that of transactions that
//!   its own process has committed;
//! - other documents are unlocked, and old versions removed, after the answer and for many
//!   transactions in one command.
//!
//! What it cannot do: repeatable reads; unique indexes (versions of one document share their
//! values), `aggregate`, update operators other than those every target has. The last version of a
//! deleted document, which is empty, stays: its number must not be used again. A query that takes
//! longer than old versions are kept may miss a document that changes meanwhile.

mod commit;
mod doubt;
mod finisher;
mod format;
mod names;
mod reading;
mod session;
mod store;
mod visible;
mod work;
mod writing;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bson::{Document, doc};
use futures_util::future::BoxFuture;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

use self::{
    finisher::{Finisher, QUEUE},
    format::{DONE, LOCK},
    session::MvccSession,
    store::Store,
    work::Work,
};
use super::{
    Connection, Feature, Index, Isolation, Session, Target, Traits,
    driver::{self, CountingDriver},
    entry::Entry,
};
use crate::error::BenchError;

/// Time within which the last transactions have to be finished.
const SETTLE: Duration = Duration::from_secs(60);

/// The entry of the target.
pub static ENTRY: Entry = Entry {
    traits: Traits {
        name: "mvcc",
        about: "the baseline of paper 001: a document for each version, transactions as Percolator's",
        transactional: true,
        needs_replica_set: false,
        on_dtranx: false,
        isolations: &[Isolation::ReadCommitted],
        waits: false,
        commit_waits: true,
        unjournaled: true,
        features: &[
            Feature::General,
            Feature::Insert,
            Feature::Range,
            Feature::Query,
            Feature::Near,
            Feature::OwnWrites,
        ],
    },
    connect: |connection| Box::pin(async { Ok(Box::new(Mvcc::connect(connection).await?) as Box<dyn Target>) }),
};

struct Mvcc {
    driver: CountingDriver,
    connection: Connection,
    store: Arc<Store>,
    work: mpsc::Sender<Work>,
    finisher: JoinHandle<()>,
}

impl Mvcc {
    async fn connect(connection: Connection) -> Result<Self, BenchError> {
        ENTRY.traits.check_isolation(connection.isolation)?;
        let driver = CountingDriver::connect(&connection).await?;
        let (work, queue) = mpsc::channel(QUEUE);
        let store = Store::new(driver.client.database(&connection.db), work.clone());
        let finisher = tokio::spawn(Finisher::new(Arc::downgrade(&store), queue).work_until_closed());
        Ok(Self { driver, connection, store, work, finisher })
    }
}

impl Target for Mvcc {
    fn create<'a>(&'a self, collection: &'a str, indexes: &'a [Index]) -> BoxFuture<'a, Result<(), BenchError>> {
        Box::pin(async move {
            if let Some(unique) = indexes.iter().find(|index| index.unique) {
                let reason = format!("mvcc cannot keep the unique index {}: versions share their values", unique.key);
                return Err(BenchError::Refused(reason));
            }
            let versions = Index { key: doc! {"_id.key": 1, "_id.ver": -1}, unique: false };
            let renamed = indexes.iter().map(|index| Index { key: names::fields(&index.key), unique: false });
            let indexes: Vec<Index> = std::iter::once(versions).chain(renamed).collect();
            driver::create(&self.store.db, collection, &indexes).await
        })
    }

    fn load<'a>(&'a self, collection: &'a str, documents: Vec<Document>) -> BoxFuture<'a, Result<(), BenchError>> {
        Box::pin(async move {
            let versions = documents.into_iter().map(format::first_version).collect::<Result<_, _>>()?;
            driver::load(&self.store.db, collection, versions).await
        })
    }

    fn session(&self) -> BoxFuture<'_, Result<Box<dyn Session>, BenchError>> {
        Box::pin(async move {
            Ok(Box::new(MvccSession::new(Arc::clone(&self.store), self.driver.concerns(&self.connection)))
                as Box<dyn Session>)
        })
    }

    fn commands(&self) -> BTreeMap<String, u64> {
        self.driver.commands()
    }

    /// Waits until all documents are unlocked; not until old versions are removed, because no
    /// reader depends on that.
    fn settle(&self) -> BoxFuture<'_, Result<(), BenchError>> {
        Box::pin(async move {
            let (done, flushed_signal) = oneshot::channel();
            let flushed = async {
                self.work.send(Work::Flush(done)).await.ok()?;
                flushed_signal.await.ok()
            };
            match tokio::time::timeout(SETTLE, flushed).await {
                Ok(Some(())) => Ok(()),
                _ => Err(BenchError::Failed(format!("mvcc: transactions were not finished within {SETTLE:?}"))),
            }
        })
    }

    fn leftovers<'a>(&'a self, collections: &'a [&'a str]) -> BoxFuture<'a, Result<Option<String>, BenchError>> {
        Box::pin(async move {
            let any = doc! {"$or": [{LOCK: {"$exists": true}}, {DONE: {"$exists": true}}]};
            for name in collections {
                let left = self.store.collection(name).find_one(any.clone()).await?;
                if let Some(id) = left.as_ref().and_then(|left| left.get("_id")) {
                    return Ok(Some(format!("the version {id} of {name} is still locked")));
                }
            }
            Ok(None)
        })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), BenchError>> {
        Box::pin(async move {
            self.finisher.abort();
            self.driver.client.shutdown().immediate(true).await;
            Ok(())
        })
    }
}
