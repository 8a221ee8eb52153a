//! Repairs of documents with a rival's lock. The rival's status is read; what is decided is
//! repaired. A rival that is not decided is left to the transaction that met it, which waits
//! ([`super::lock_wait`]) or fails.
//!
//! | file | content |
//! | --- | --- |
//! | this one | the locks of one document |
//! | [`orphans`] | locks of transactions that are over, or unknown: kept, then undone |
//! | [`unfinishable`] | committed documents that the server refuses to finish |

mod orphans;
mod unfinishable;

use std::sync::Arc;

use protocol::{
    Decided, LockState, Repair, TxId, TxStatus,
    lock::{Encounter, meet_writer, repair_rolled_back},
};
use sd2v::statement::{self, FoundBy};

pub(crate) use self::unfinishable::is_refused;
use super::{documents, finisher::Finisher};
use crate::{
    coordinator::{catalog::Catalog, log::txlog::TxLog, request::address::Address, server::Server},
    error::Result,
    options::Namespace,
    steps::Step,
};

/// Mends what decided transactions have left, of whatever client.
pub(crate) struct Repairs {
    server: Arc<Server>,
    log: Arc<dyn TxLog>,
    /// Finishes this client's own, with everything else that waits.
    finisher: Finisher,
    catalog: Arc<Catalog>,
    /// Name of the database that orphans are kept in.
    tx_database: String,
}

impl Repairs {
    pub(crate) fn new(
        server: Arc<Server>,
        log: Arc<dyn TxLog>,
        finisher: Finisher,
        catalog: Arc<Catalog>,
        tx_database: &str,
    ) -> Self {
        Self { server, log, finisher, catalog, tx_database: tx_database.to_owned() }
    }

    /// Repairs what decided rivals left on a document. Returns an active rival, if there is one.
    pub(crate) async fn clear_locks(
        &self,
        ns: &Namespace,
        at: &Address,
        lock: &LockState,
        me: Option<TxId>,
    ) -> Result<Option<TxId>> {
        let readers: Vec<TxId> = lock.readers.iter().copied().filter(|reader| Some(*reader) != me).collect();
        let writer = lock.writer.filter(|writer| Some(*writer) != me);
        let asked: Vec<TxId> = writer.into_iter().chain(readers.iter().copied()).collect();
        let statuses = self.log.statuses(&asked).await?;
        let status =
            |id: TxId| asked.iter().position(|other| *other == id).map_or(TxStatus::RolledBack, |at| statuses[at]);
        if let Some(writer) = writer {
            let Some(decided) = Decided::by_status(writer, status(writer)) else { return Ok(Some(writer)) };
            match meet_writer(lock, status(writer)) {
                Encounter::Active => return Ok(Some(writer)),
                // This client's own, with everything else that waits.
                Encounter::Repair(_) if self.finisher.unfinished(ns, vec![writer]).await.is_empty() => {}
                Encounter::Repair(repair) => {
                    let finishes = status(writer) == TxStatus::Committed;
                    match self.repair(ns, at, decided, repair, finishes).await {
                        Err(refused) if finishes && is_refused(&refused) => {
                            return Err(self.unfinishable(ns, &at.id, writer, &refused).await);
                        }
                        repaired => repaired?,
                    }
                }
                Encounter::FetchAgain => self.undo_orphan(ns, at, decided).await?,
            }
        }
        let dead: Vec<Decided> =
            readers.iter().filter_map(|reader| Decided::by_status(*reader, status(*reader))).collect();
        if !dead.is_empty() {
            let statement = statement::unlock_readers(at.filter(), &dead);
            self.server.repair(ns, vec![statement]).await?.ok()?;
        }
        Ok(readers.into_iter().find(|reader| status(*reader) == TxStatus::Active))
    }

    /// The writer finished before its status was read. A lock of it that is still there arrived
    /// late.
    async fn undo_orphan(&self, ns: &Namespace, at: &Address, writer: Decided) -> Result<()> {
        if let Some(lock) = self.server.fetch_locks(ns, at).await?
            && lock.writer == Some(writer.id())
        {
            self.keep_orphans(ns, &at.filter(), &[writer.id()]).await?;
            self.repair(ns, at, writer, repair_rolled_back(&lock), false).await?;
        }
        Ok(())
    }

    /// One repair of one document, conditional on the lock it removes.
    #[tracing::instrument(name = "mongotx.repair", level = "debug", skip_all, fields(%ns, id = %at, writer = %writer.id(), finishes))]
    async fn repair(
        &self,
        ns: &Namespace,
        at: &Address,
        writer: Decided,
        repair: Repair,
        finishes: bool,
    ) -> Result<()> {
        let (who, writers) = (at.filter(), [writer]);
        self.server.at(Step::BeforeRepair).await;
        let server = &self.server;
        let done = match repair {
            Repair::ReplaceWithUnsafe => documents::replace(server, ns, &who, &writers).await?,
            Repair::DropUnsafe => documents::undo(server, ns, &who, &writers, false).await?,
            Repair::Delete => {
                let delete = match finishes {
                    true => statement::finish_delete(who, &writers, FoundBy::Id),
                    false => statement::undo_delete(who, &writers),
                };
                server.repair_by_delete(ns, vec![delete]).await?.ok()?.n
            }
        };
        let counters = &self.server.counters;
        counters.add(if finishes { &counters.finished_for_others } else { &counters.undone_for_others }, done as u64);
        self.server.at(Step::AfterRepair).await;
        Ok(())
    }
}
