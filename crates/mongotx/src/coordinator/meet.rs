//! Meeting a rival's lock: ask for the rival's fate, repair what is decided, wait or fail for what
//! is not.

use std::time::{Duration, Instant};

use bson::{Bson, doc};
use protocol::{
    Decided, LockState, Repair, TxId, TxStatus,
    lock::{Encounter, meet_writer, roll_back},
};
use sd2v::statement;

use super::{Core, address::Address, roll, server::Server, unfinishable::is_refused};
use crate::{
    backoff::Backoff,
    error::{Conflict, Error, Result},
    options::Namespace,
    steps::Step,
    waiting::{self, Shown},
};

impl Core {
    /// Repairs what decided rivals left on a document. Answers an active rival, if there is one.
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
                    let forward = status(writer) == TxStatus::Committed;
                    match self.repair(ns, at, decided, repair, forward).await {
                        Err(refused) if forward && is_refused(&refused) => {
                            return Err(self.unfinishable(ns, &at.id, writer, &refused).await);
                        }
                        repaired => repaired?,
                    }
                }
                Encounter::FetchAgain => self.roll_back_orphan(ns, at, decided).await?,
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
    async fn roll_back_orphan(&self, ns: &Namespace, at: &Address, writer: Decided) -> Result<()> {
        if let Some(lock) = self.server.fetch_locks(ns, at).await?
            && lock.writer == Some(writer.id())
        {
            self.keep_orphans(ns, &at.filter(), &[writer.id()]).await?;
            self.repair(ns, at, writer, roll_back(&lock), false).await?;
        }
        Ok(())
    }

    /// One repair of one document, conditional on the lock it removes.
    #[tracing::instrument(name = "mongotx.repair", level = "debug", skip_all, fields(%ns, id = %at, writer = %writer.id(), forward))]
    async fn repair(&self, ns: &Namespace, at: &Address, writer: Decided, repair: Repair, forward: bool) -> Result<()> {
        let (who, writers) = (at.filter(), [writer]);
        self.server.at(Step::BeforeRepair).await;
        let server = &self.server;
        let done = match repair {
            Repair::ReplaceWithUnsafe => roll::replace(server, ns, &who, &writers).await?,
            Repair::DropUnsafe => roll::back(server, ns, &who, &writers, false).await?,
            Repair::Delete => {
                let delete = if forward { statement::finish_delete } else { statement::undo_delete };
                server.repair_by_delete(ns, vec![delete(who, &writers)]).await?.ok()?.n
            }
        };
        let counters = &self.server.counters;
        counters.add(if forward { &counters.rolled_forward } else { &counters.rolled_back }, done as u64);
        self.server.at(Step::AfterRepair).await;
        Ok(())
    }
}

/// The first pause before a rival is looked at again, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// The time that an action waits for rivals.
pub(crate) struct Patience {
    until: Instant,
    limit: Duration,
    backoff: Backoff,
    noticed: bool,
    /// The rival that was waited for last, for those who look on: as long as this one is patient.
    shown: Option<(TxId, Shown)>,
}

impl Patience {
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            until: Instant::now() + limit,
            limit,
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
            noticed: false,
            shown: None,
        }
    }

    /// Is it the first time that something was in the way?
    pub(crate) fn notice(&mut self) -> bool {
        !std::mem::replace(&mut self.noticed, true)
    }

    /// The moment at which the action stops waiting.
    pub(crate) fn deadline(&self) -> Instant {
        self.until
    }

    /// The document, the rival and the limit.
    pub(crate) fn conflict(&self, ns: &Namespace, id: &Bson, rival: TxId) -> Error {
        let conflict = Conflict { namespace: ns.clone(), id: id.clone(), rival };
        let why = match self.limit {
            _ if Instant::now() < self.until => "write conflict with a transaction that waits for this one".to_owned(),
            Duration::ZERO => "write conflict".to_owned(),
            limit => format!("write conflict that lasted longer than the {limit:?} this call waits"),
        };
        Error::conflict_with(conflict, &why)
    }

    /// Waits a little for `rival`, or fails with [`Patience::conflict`].
    pub(crate) async fn wait_for(&mut self, server: &Server, ns: &Namespace, id: &Bson, rival: TxId) -> Result<()> {
        if Instant::now() >= self.until {
            return Err(self.conflict(ns, id, rival));
        }
        server.counters.add(&server.counters.waits, 1);
        if self.shown.as_ref().is_none_or(|(shown, _)| *shown != rival) {
            // The old wait is dropped first; dropped later, it would hide the new one.
            self.shown = None;
            self.shown = Some((rival, waiting::show(ns, rival)));
        }
        self.breathe().await;
        Ok(())
    }

    /// A pause that grows, and never lasts longer than it has grown: half of it is left to chance.
    pub(crate) async fn breathe(&mut self) {
        let jitter = rand::random_range(0.5..1.0);
        tokio::time::sleep(self.backoff.next_pause().mul_f64(jitter)).await;
    }
}
