//! One record per client: the default layout (decision record 0002).
//!
//! A client has one live record per lease length. The writer of each ([`writer`]) is a task that
//! sends one write at a time, as `protocol::Recorder` composes them; commits that arrive meanwhile
//! share the next one. A record that has grown, or that was lost, is replaced by a new one under a
//! new client id; the old one retires when it is finished.
//!
//! | module | content |
//! | --- | --- |
//! | this one | the interface of the log: transactions of this client, and the outcomes of others' |
//! | [`shared`] | connections and records that all parts use; registering, and reading records |
//! | [`live_record`] | one live record: the state machine, and the transactions that wait for it |
//! | [`writer`] | the task that sends the writes of one record |
//! | [`durable_reads`] | whether a rival has read a record of this client's |

mod durable_reads;
mod live_record;
mod shared;
mod writer;

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError, atomic::Ordering::SeqCst},
    time::{Duration, Instant},
};

use bson::{Bson, Document, oid::ObjectId};
use futures_util::future::{BoxFuture, join_all};
use protocol::{ClientId, Concern, Decided, Seq, TxId, TxStatus, status::status_of};
use tokio::sync::Mutex as AsyncMutex;

pub(crate) use self::shared::{Epoch, Shared};
use self::{
    live_record::{Answer, CommitConditions, LiveRecord},
    shared::{Flagged, HELD_PAUSE},
};
use crate::{
    coordinator::{
        log::{
            missing_record,
            records::StoredRecord,
            txlog::{Barrier, Outcome, RecordConnection, Standing, Started, TxLog},
        },
        stamps::{
            changes::{Changes, RecordScan},
            closed_records::ClosedRecords,
            quiet::{Heard, Length},
            tag::{Tag, Tags},
        },
    },
    error::{Error, ErrorKind, Result},
    options::Namespace,
};

/// A record that lists more numbers than this is replaced by a new one.
const ROTATE_AT: usize = 1_000;
/// Different lease lengths that one client may use at a time: each has a record of its own.
const MAX_LEASES: usize = 8;
/// Decided statuses of other clients' transactions that are remembered.
const CACHED_STATUSES: usize = 10_000;
/// Time that a decision of the same client is waited for before the record is read.
const DECISION_WAIT: Duration = Duration::from_secs(1);

/// Number of times that a transaction tries to begin while connections break, and the pause between
/// two attempts, which grows.
const STARTS_TRIED: u32 = 32;
const START_PAUSE: Duration = Duration::from_millis(5);

/// The log that decides transactions in one record for each client, several by one write.
pub(crate) struct ClientRecordLog {
    shared: Arc<Shared>,
    current: Arc<AsyncMutex<HashMap<u64, Arc<LiveRecord>>>>,
    decided: Mutex<HashMap<TxId, TxStatus>>,
}

impl ClientRecordLog {
    pub(crate) fn new(shared: Shared) -> Self {
        Self { shared: Arc::new(shared), current: Arc::default(), decided: Mutex::default() }
    }

    /// The same as [`ClientRecordLog::current_record`], when no checkpoint holds transactions.
    async fn record_when_free(&self, lease_ms: u64, ns: &Namespace, deadline: Instant) -> Result<Arc<LiveRecord>> {
        loop {
            if let Some(live) = self.current_record(lease_ms, ns).await? {
                return Ok(live);
            }
            if Instant::now() >= deadline {
                let waited = self.shared.commit_timeout.as_secs_f32();
                let message = format!(
                    "transactions are held by a checkpoint (`mongotx checkpoint`), and this one has waited for {waited} s"
                );
                return Err(Error::new(ErrorKind::Unavailable, message));
            }
            tokio::time::sleep(HELD_PAUSE).await;
        }
    }

    /// The record for new transactions with this lease, registered. `None`: a checkpoint holds
    /// them.
    async fn current_record(&self, lease_ms: u64, ns: &Namespace) -> Result<Option<Arc<LiveRecord>>> {
        let mut current = Arc::clone(&self.current).lock_owned().await;
        match current.get(&lease_ms).cloned() {
            Some(live) if live.is_usable(ROTATE_AT, self.shared.epoch.load(SeqCst)) => {
                return Ok(Some(live));
            }
            Some(live) => live.retire_when_finished(),
            None if current.len() >= MAX_LEASES && !retire_unused(&mut current) => {
                let message = format!("a client uses at most {MAX_LEASES} different leases at a time");
                return Err(Error::invalid(2, message));
            }
            None => {}
        }
        let (shared, ns) = (Arc::clone(&self.shared), ns.clone());
        self.shared
            .to_its_end(async move {
                let live = shared.register(lease_ms, &ns).await;
                let live = live.map(|live| live.map(Arc::new));
                if let (Ok(Some(live)), Ok(mut live_records)) = (&live, shared.by_client.write()) {
                    live_records.insert(live.client, Arc::clone(live));
                }
                *shared.registering() = None;
                let Some(live) = live? else { return Ok(None) };
                shared.runtime.spawn(writer::send_record_writes(Arc::downgrade(&shared), Arc::clone(&live)));
                current.insert(lease_ms, Arc::clone(&live));
                Ok(Some(live))
            })
            .await
    }

    /// The status as far as it is known without asking the server. A decision of this client's that
    /// is under way is waited for: its answer is there before that of a durable read of the record,
    /// which would stand in its way, too.
    async fn known_status(&self, id: TxId) -> Option<TxStatus> {
        if let Some(live) = self.shared.live(id.client) {
            live.until_settled(id.seq, DECISION_WAIT).await;
            // The owner knows from the server it spoke to that the transaction is finished. A
            // server that was killed since may have brought its locks back, and only the record
            // that came back with them can say so.
            return live.status(id.seq).filter(|status| *status != TxStatus::Finished);
        }
        self.decided.lock().ok()?.get(&id).copied()
    }

    fn remember(&self, statuses: impl IntoIterator<Item = (TxId, TxStatus)>) {
        let Ok(mut decided) = self.decided.lock() else { return };
        for (id, status) in statuses {
            if matches!(status, TxStatus::Committed | TxStatus::RolledBack) {
                if decided.len() >= CACHED_STATUSES {
                    decided.clear();
                }
                decided.insert(id, status);
            }
        }
    }

    /// Reads the records of these transactions. Any status besides "active" is made durable first:
    /// a client that acts on it changes documents, and a server that is killed must not come back
    /// with those changes and without the reason for them.
    async fn ask_records(&self, ids: &[TxId]) -> Result<HashMap<ClientId, StoredRecord>> {
        let Shared { server, records, .. } = &*self.shared;
        let mut clients: Vec<ClientId> = ids.iter().map(|id| id.client).collect();
        clients.sort_unstable();
        clients.dedup();
        let found = records.read(server, &clients).await?;
        let mut found: HashMap<ClientId, StoredRecord> =
            found.into_iter().map(|record| (record.client, record)).collect();
        records.let_them_beat(found.values().filter(|record| record.is_to_be_fenced())).await;
        for client in clients {
            let Some(record) = found.get(&client) else {
                // A new primary may not know yet how much the majority has, and one that was cut
                // off what others have.
                match self.shared.read_durably(server, client).await? {
                    Some(record) => drop(found.insert(client, record)),
                    None => missing_record::check_orphaned(server, &records.ns.db, client).await?,
                }
                continue;
            };
            let expired = record.is_to_be_fenced();
            let active = |id: &TxId| status_of(Some(&record.record), id.seq) == TxStatus::Active;
            if !expired && ids.iter().filter(|id| id.client == client).all(active) {
                continue;
            }
            if expired {
                records.fence_expired(server, client).await?;
            }
            match self.shared.read_durably(server, client).await? {
                Some(record) => {
                    // A client that meets one of them will meet the next.
                    let of_client = |seq: &Seq| (TxId { client, seq: *seq }, TxStatus::Committed);
                    self.remember(record.record.committed.iter().map(of_client));
                    found.insert(client, record)
                }
                None => {
                    missing_record::check_orphaned(server, &records.ns.db, client).await?;
                    found.remove(&client)
                }
            };
        }
        Ok(found)
    }
}

/// Retires the records of leases that no transaction has any more, and forgets them. Returns true
/// if there were any.
fn retire_unused(current: &mut HashMap<u64, Arc<LiveRecord>>) -> bool {
    let before = current.len();
    current.retain(|_, live| {
        let is_used = !live.is_unused();
        if !is_used {
            live.retire_when_finished();
        }
        is_used
    });
    current.len() < before
}

impl TxLog for ClientRecordLog {
    fn owns(&self, client: ClientId) -> bool {
        self.shared.live(client).is_some()
    }

    fn start(&self, lease_ms: u64, ns: &Namespace) -> BoxFuture<'_, Result<Started>> {
        let ns = ns.clone();
        Box::pin(async move {
            let deadline = Instant::now() + self.shared.commit_timeout;
            for round in 0..STARTS_TRIED {
                if round > 1 {
                    tokio::time::sleep(START_PAUSE * round).await;
                }
                let live = self.record_when_free(lease_ms, &ns, deadline).await?;
                self.shared.outwait_readers(&live).await?;
                match live.enlist(&ns).await {
                    // The record was given up or closed while this transaction waited for it.
                    Err(gone) if gone.kind() == ErrorKind::Expired => continue,
                    listed => listed?,
                }
                let Some(epoch) = self.shared.answered_epoch() else {
                    self.barrier(live.client).await?;
                    continue;
                };
                // The last thing done here: a number whose caller has gone would stay open, and the
                // record with it.
                if let Some(seq) = live.allocate(epoch) {
                    let id = TxId { client: live.client, seq };
                    return Ok(Started { id, epoch });
                }
            }
            let message =
                format!("the connection for record writes was lost {STARTS_TRIED} times, one after the other");
            Err(Error::new(ErrorKind::Unavailable, message))
        })
    }

    fn enlist<'a>(&'a self, id: TxId, ns: &'a Namespace) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            match self.shared.live(id.client) {
                Some(live) => live.enlist(ns).await,
                None => Err(lost(id)),
            }
        })
    }

    fn standing(&self, started: Started) -> Standing {
        match self.shared.live(started.id.client) {
            Some(live) if self.epoch() == started.epoch => live.standing(started.id.seq),
            _ => Standing::Lost,
        }
    }

    fn vouch(&self, started: Started, connection: RecordConnection) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let (shared, id) = (Arc::clone(&self.shared), started.id);
            let look = self.shared.to_its_end(async move {
                let over = if connection == RecordConnection::AtServer { &shared.recorder } else { &*shared.server };
                shared.records.read(over, &[id.client]).await
            });
            let record = look.await?.pop().map(|found| found.record);
            let killed = record.as_ref().is_some_and(|record| record.killed.contains(&id.seq));
            if killed {
                let message = "the transaction was aborted by another client";
                return Err(Error::new(ErrorKind::Expired, message).for_transaction(Some(id)));
            }
            let stands = status_of(record.as_ref(), id.seq) == TxStatus::Active && self.epoch() == started.epoch;
            if stands {
                return Ok(());
            }
            if record.is_none_or(|record| record.fenced) {
                self.shared.live(id.client).iter().for_each(|live| live.suspect());
            }
            Err(lost(id))
        })
    }

    fn commit(
        &self,
        started: Started,
        concern: Concern,
        changed: Vec<Tag>,
        heard: Heard,
    ) -> BoxFuture<'_, Result<Option<Decided>>> {
        Box::pin(async move {
            let Some(live) = self.shared.live(started.id.client) else { return Err(lost(started.id)) };
            Ok(match live.commit(started, concern, CommitConditions { changed, heard }).await? {
                Answer::Committed => Some(Decided::by_owner(started.id)),
                Answer::ValidateAgain => None,
            })
        })
    }

    fn changes<'a>(&'a self, known: &'a ClosedRecords) -> BoxFuture<'a, Result<RecordScan>> {
        Box::pin(async move { self.shared.records.changes(&self.shared.server, known).await })
    }

    fn ask_for_changes(&self, known: &ClosedRecords) -> Option<(&str, Document)> {
        let records = &self.shared.records;
        Some((&records.ns.db, records.ask_for_changes(&self.shared.server, known)))
    }

    fn own_changes(&self, tags: &Tags) -> Changes {
        let live_records = self.shared.by_client.read().unwrap_or_else(PoisonError::into_inner);
        Changes(live_records.values().map(|live| (live.client, Arc::new(live.stamps(tags)))).collect())
    }

    fn ask_for_quiet(&self, by: ObjectId, tags: Vec<Bson>, length: Length) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.shared.records.ask_for_quiet(&self.shared.server, by, tags, length).await })
    }

    fn end_quiet(&self, by: ObjectId) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.shared.records.end_quiet(&self.shared.server, by).await })
    }

    fn heard_of(&self, id: TxId) -> Option<ObjectId> {
        self.shared.live(id.client)?.heard_of()
    }

    fn others_are_there(&self) -> BoxFuture<'_, Result<bool>> {
        let Shared { server, records, .. } = &*self.shared;
        Box::pin(async move { records.others_are_there(server, &self.shared.own()).await })
    }

    fn flag_reader<'a>(&'a self, by: ObjectId, lease_ms: u64, ns: &'a Namespace) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let Shared { server, records, commit_timeout, .. } = &*self.shared;
            let live = self.record_when_free(lease_ms, ns, Instant::now() + *commit_timeout).await?;
            let (before, now) = (*self.shared.reader(), Flagged { client: live.client, by });
            if before == Some(now) {
                return Ok(true);
            }
            if !records.flag_reader(server, live.client, by).await? {
                return Ok(false);
            }
            // The flag stays in the record before: a newcomer that looks at all records, one after
            // the other, must not miss both.
            *self.shared.reader() = Some(now);
            Ok(true)
        })
    }

    fn is_sole_reader(&self, by: ObjectId) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move {
            let Shared { server, records, .. } = &*self.shared;
            loop {
                let (own, reader) = (self.shared.own(), *self.shared.reader());
                // A record that was given up counts as another client's, for this client as well.
                let Some(reader) = reader.filter(|reader| own.contains(&reader.client) && reader.by == by) else {
                    return Ok(false);
                };
                let is_alone = records.is_sole_reader(server, &own, reader.client, by).await?;
                // A record of its own that was made meanwhile is no stranger's.
                if is_alone || self.shared.own().iter().all(|client| own.contains(client)) {
                    return Ok(is_alone);
                }
            }
        })
    }

    fn unflag_reader(&self, by: ObjectId) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.shared.records.unflag_reader(&self.shared.server, by).await })
    }

    fn rolled_back(&self, id: TxId) -> BoxFuture<'_, Decided> {
        if let Some(live) = self.shared.live(id.client) {
            live.note_rolled_back(id.seq);
        }
        Box::pin(async move { Decided::by_owner(id) })
    }

    fn epoch(&self) -> u64 {
        self.shared.epoch.load(SeqCst)
    }

    fn answered_epoch(&self) -> u64 {
        self.shared.answered_epoch().unwrap_or(0)
    }

    fn clean(&self, id: TxId, epoch: u64) -> BoxFuture<'_, ()> {
        if let Some(live) = self.shared.live(id.client) {
            live.note_clean(id.seq, epoch);
        }
        Box::pin(async {})
    }

    fn barrier(&self, client: ClientId) -> BoxFuture<'_, Result<Barrier>> {
        Box::pin(async move {
            let shared = Arc::clone(&self.shared);
            let found = self.shared.to_its_end(async move {
                let before = shared.epoch.load(SeqCst);
                let found = shared.read_durably(&shared.recorder, client).await?;
                shared.note_answered(before);
                Ok(found)
            });
            let (found, epoch) = (found.await?, self.epoch());
            Ok(match found {
                Some(found) => Barrier { epoch, fenced: found.record.fenced, namespaces: found.namespaces },
                None => Barrier { epoch, fenced: false, namespaces: Vec::new() },
            })
        })
    }

    fn statuses<'a>(&'a self, ids: &'a [TxId]) -> BoxFuture<'a, Result<Vec<TxStatus>>> {
        Box::pin(async move {
            let known = join_all(ids.iter().map(|id| self.known_status(*id))).await;
            let unknown: Vec<TxId> =
                ids.iter().zip(&known).filter(|(_, known)| known.is_none()).map(|(id, _)| *id).collect();
            let records = if unknown.is_empty() { HashMap::new() } else { self.ask_records(&unknown).await? };
            Ok(ids
                .iter()
                .zip(known)
                .map(|(id, known)| {
                    known.unwrap_or_else(|| {
                        let status = status_of(records.get(&id.client).map(|found| &found.record), id.seq);
                        self.remember([(*id, status)]);
                        status
                    })
                })
                .collect())
        })
    }

    fn are_active<'a>(&'a self, ids: &'a [TxId]) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let (own, others): (Vec<_>, Vec<_>) =
                ids.iter().map(|id| (*id, self.shared.live(id.client))).partition(|(_, live)| live.is_some());
            let is_active = |(id, live): &(TxId, Option<Arc<LiveRecord>>)| {
                live.as_ref().is_some_and(|live| live.status(id.seq) == Some(TxStatus::Active))
            };
            let is_known = |id: &TxId| self.decided.lock().is_ok_and(|decided| decided.contains_key(id));
            let others: Vec<TxId> = others.into_iter().map(|(id, _)| id).collect();
            if !own.iter().all(is_active) || others.iter().any(is_known) {
                return Ok(false);
            }
            if others.is_empty() {
                return Ok(true);
            }
            let clients: BTreeSet<ClientId> = others.iter().map(|id| id.client).collect();
            let clients: Vec<ClientId> = clients.into_iter().collect();
            let found = self.shared.records.read(&self.shared.server, &clients).await?;
            Ok(others.iter().all(|id| {
                let record = found.iter().find(|found| found.client == id.client).map(|found| &found.record);
                record.is_some() && status_of(record, id.seq) == TxStatus::Active
            }))
        })
    }

    fn was_asked(&self) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move {
            let clients = self.shared.own();
            let look = self.shared.durable_reads().look();
            let found = self.shared.records.asked_at(&self.shared.server, &clients).await?;
            Ok(self.shared.durable_reads().looked(&look, &clients, &found))
        })
    }

    fn outcome(&self, id: TxId) -> BoxFuture<'_, Result<Outcome>> {
        Box::pin(async move {
            let Shared { server, records, .. } = &*self.shared;
            let found = records.read(server, &[id.client]).await?;
            if found.iter().any(StoredRecord::is_to_be_fenced) {
                records.let_them_beat(found.iter()).await;
                records.fence_expired(server, id.client).await?;
            }
            let Some(found) = self.shared.read_durably(server, id.client).await? else { return Ok(Outcome::Unknown) };
            Ok(match status_of(Some(&found.record), id.seq) {
                TxStatus::Active => Outcome::Active,
                TxStatus::Committed | TxStatus::Finished => Outcome::Committed,
                TxStatus::RolledBack => Outcome::RolledBack,
            })
        })
    }

    fn abort(&self, id: TxId) -> BoxFuture<'_, Result<Outcome>> {
        Box::pin(async move {
            let Shared { server, records, .. } = &*self.shared;
            records.abort(server, id.client, id.seq).await?;
            self.outcome(id).await
        })
    }

    fn await_concern(&self, concern: Document) -> BoxFuture<'_, Result<Option<Document>>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { shared.records.await_concern(&shared.recorder, concern).await })
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let live_records: Vec<Arc<LiveRecord>> = self.current.lock().await.drain().map(|(_, live)| live).collect();
            for live in live_records {
                live.retire_when_finished();
                live.until_closed(self.shared.commit_timeout).await?;
            }
            Ok(())
        })
    }
}

fn lost(id: TxId) -> Error {
    let message = "the transaction's client record was fenced: its lease had expired, or the server lost what it had acknowledged";
    Error::new(ErrorKind::Expired, message).for_transaction(Some(id))
}
