//! One record per client: the default layout (decision record 0002).
//!
//! A client has one live record per lease length. The writer of each ([`writer`]) is a task that
//! sends one write at a time, as `protocol::Recorder` composes them; commits that arrive meanwhile
//! share the next one. A record that has grown, or that was lost, is replaced by a new one under a
//! new client id; the old one retires when it is finished.

mod asked;
mod slot;
mod writer;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use bson::{Bson, DateTime, oid::ObjectId};
use futures_util::future::{BoxFuture, join_all};
use protocol::{ClientId, Concern, Decided, Seq, TxId, TxStatus, id::database_tag, status::status_of};
use tokio::sync::Mutex as AsyncMutex;
use tracing::{Instrument, instrument::WithSubscriber};

use self::{
    asked::Asked,
    slot::{Answer, Asks, Slot},
};
use super::{
    changes::{Changes, Closed, Told},
    hold::Hold,
    quiet::Heard,
    records::{Records, StoredRecord},
    server::Server,
    standing::{Look, Standing},
    strangers,
    tag::{Tag, Tags},
    txlog::{Barrier, Fate, Started, TxLog},
};
use crate::{
    error::{Error, ErrorKind, Result},
    options::Namespace,
    steps::Step,
};

/// A record that lists more numbers than this is replaced by a new one.
const ROTATE_AT: usize = 1_000;
/// Different lease lengths that one client may use at a time: each has a record of its own.
const MAX_LEASES: usize = 8;
/// Decided statuses of other clients' transactions that are remembered.
const CACHED_STATUSES: usize = 10_000;
/// Ids tried by a client that registers. Each is taken with a probability of one to a million
/// millions.
const IDS_TRIED: usize = 4;

/// Between two looks whether a checkpoint holds transactions still.
const HELD_PAUSE: Duration = Duration::from_millis(200);

/// How long a decision of the same client is waited for before the record is asked.
const DECISION_WAIT: Duration = Duration::from_secs(1);

/// How often a transaction tries to begin while connections break, and the pause between two
/// attempts, which grows.
const STARTS_TRIED: u32 = 32;
const START_PAUSE: Duration = Duration::from_millis(5);

/// Rises when a connection for record writes is begun, and when it is made: a write acknowledged in
/// the epoch in which a transaction began ran in the same server process.
pub(crate) type Epoch = Arc<AtomicU64>;

/// Connections, records and limits that the slots and their writers share.
pub(crate) struct Shared {
    /// For everything but record writes.
    pub(crate) server: Arc<Server>,
    /// For record writes alone: one connection.
    pub(crate) recorder: Server,
    pub(crate) epoch: Epoch,
    /// The last epoch in which a command over that connection was answered.
    answered: AtomicU64,
    pub(crate) records: Records,
    pub(crate) commit_timeout: Duration,
    pub(crate) hold: Hold,
    /// When a checkpoint was seen to hold transactions, the last time.
    held_at: Mutex<Option<Instant>>,
    /// Whether the database of the records is noted in `mongotx.deployment`.
    noted: AtomicBool,
    by_client: RwLock<HashMap<ClientId, Arc<Slot>>>,
    asked: Mutex<Asked>,
}

impl Shared {
    fn slot(&self, client: ClientId) -> Option<Arc<Slot>> {
        self.by_client.read().ok()?.get(&client).cloned()
    }

    /// A command over the connection for record writes was answered; the epoch was `before` when it
    /// was sent. There is one such connection at a time: if no other was begun meanwhile, it is the
    /// one that answered.
    fn note_answered(&self, before: u64) {
        if self.epoch.load(SeqCst) == before {
            self.answered.fetch_max(before, SeqCst);
        }
    }

    /// The epoch, if its connection has been answered. One that was begun only may end at a server
    /// process that begins later, and proves nothing about what was done before.
    fn answered_epoch(&self) -> Option<u64> {
        let epoch = self.epoch.load(SeqCst);
        (self.answered.load(SeqCst) == epoch).then_some(epoch)
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Records::read_durably`]. The read of a record of this client's own is not taken for
    /// that of a rival.
    async fn read_durably(&self, over: &Server, client: ClientId) -> Result<Option<StoredRecord>> {
        if self.slot(client).is_none() {
            return self.records.read_durably(over, client).await;
        }
        self.asked().begin();
        let mut own = OwnAsking { shared: self, left: None };
        let found = self.records.read_durably(over, client).await?;
        own.left = found.as_ref().map(|record| (client, record.asked_at));
        Ok(found)
    }

    /// The number of the connection over which a write may be sent that rests on it (decision
    /// 0039).
    fn bound_to(&self) -> Option<u64> {
        self.answered_epoch().filter(|_| self.recorder.is_bound())
    }

    /// From now on the server is asked about this client's transactions, as about anybody's.
    fn forget(&self, client: ClientId) {
        if let Ok(mut slots) = self.by_client.write() {
            slots.remove(&client);
        }
    }

    /// Whether a checkpoint keeps clients from registering now. If one did a moment ago, the server
    /// is not asked again.
    async fn is_held(&self) -> Result<bool> {
        let held_at = || self.held_at.lock().unwrap_or_else(PoisonError::into_inner);
        if held_at().is_some_and(|at| at.elapsed() < HELD_PAUSE / 2) {
            return Ok(true);
        }
        let is_held = self.hold.stands(&self.recorder).await?;
        *held_at() = is_held.then(Instant::now);
        Ok(is_held)
    }

    /// A record for transactions that are to come. `None`: a checkpoint holds them.
    async fn register(&self, lease_ms: u64, ns: &Namespace) -> Result<Option<Slot>> {
        if self.is_held().await? {
            return Ok(None);
        }
        let Self { server, recorder, records, .. } = self;
        let since = Instant::now();
        server.at(Step::BeforeRegister).await;
        records.prepare(recorder).await?;
        if !self.noted.load(SeqCst) {
            strangers::note_database(recorder, &records.ns.db).await;
            self.noted.store(true, SeqCst);
        }
        let client = self.insert_record(lease_ms, ns).await?;
        records.probe(recorder, client).await?;
        server.at(Step::AfterRegister).await;
        // After the record was made: either the checkpoint is seen here, or the record is seen by
        // the checkpoint.
        let is_held = self.is_held().await;
        if !matches!(is_held, Ok(false)) {
            records.retire(recorder, client, Some(0)).await?;
            return is_held.map(|_| None);
        }
        tracing::debug!(%client, "registered");
        Ok(Some(Slot::new(client, lease_ms, ns.clone(), since)))
    }

    /// A record under an id that no other has.
    async fn insert_record(&self, lease_ms: u64, ns: &Namespace) -> Result<ClientId> {
        let Self { recorder, records, .. } = self;
        let tag = database_tag(&records.ns.db);
        for _ in 0..IDS_TRIED {
            let before = self.epoch.load(SeqCst);
            let made = strangers::server_seconds(recorder).await?;
            self.note_answered(before);
            let client = ClientId::compose(u32::try_from(made).unwrap_or(0), tag, rand::random());
            if records.insert(recorder, client, lease_ms, ns).await? {
                return Ok(client);
            }
        }
        Err(Error::new(ErrorKind::Unavailable, format!("{IDS_TRIED} client ids were taken, one after the other")))
    }
}

/// A durable read of a record of the client's own, until it is answered or given up.
struct OwnAsking<'a> {
    shared: &'a Shared,
    left: Option<(ClientId, Option<DateTime>)>,
}

impl Drop for OwnAsking<'_> {
    fn drop(&mut self) {
        self.shared.asked().end(self.left.take());
    }
}

/// Runs to its end, in a task of its own, what goes over the connection for record writes: a
/// command whose future is dropped half-way breaks its connection, and with that epoch everything
/// that the client has open would be rolled back.
async fn to_its_end<T: Send + 'static>(work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    let stopped = |_| Err(Error::new(ErrorKind::Unavailable, "a command about a client record was stopped"));
    tokio::spawn(work.in_current_span().with_current_subscriber()).await.unwrap_or_else(stopped)
}

pub(crate) struct ClientRecordLog {
    shared: Arc<Shared>,
    current: Arc<AsyncMutex<HashMap<u64, Arc<Slot>>>>,
    decided: Mutex<HashMap<TxId, TxStatus>>,
}

impl ClientRecordLog {
    pub(crate) fn new(
        server: Arc<Server>,
        recorder: Server,
        epoch: Epoch,
        records: Records,
        commit_timeout: Duration,
    ) -> Self {
        let noted = AtomicBool::new(false);
        let (answered, by_client, asked) = (AtomicU64::new(0), RwLock::default(), Mutex::default());
        let (hold, held_at) = (Hold::new(&records.ns.db), Mutex::default());
        let shared = Shared {
            server,
            recorder,
            epoch,
            answered,
            records,
            commit_timeout,
            hold,
            held_at,
            noted,
            by_client,
            asked,
        };
        Self { shared: Arc::new(shared), current: Arc::default(), decided: Mutex::default() }
    }

    /// The same as [`ClientRecordLog::current_slot`], when no checkpoint holds transactions.
    async fn slot_when_free(&self, lease_ms: u64, ns: &Namespace, deadline: Instant) -> Result<Arc<Slot>> {
        loop {
            if let Some(slot) = self.current_slot(lease_ms, ns).await? {
                return Ok(slot);
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

    /// The slot for new transactions with this lease, registered. `None`: a checkpoint holds them.
    async fn current_slot(&self, lease_ms: u64, ns: &Namespace) -> Result<Option<Arc<Slot>>> {
        let mut current = Arc::clone(&self.current).lock_owned().await;
        match current.get(&lease_ms) {
            Some(slot) if slot.is_usable(ROTATE_AT, self.shared.epoch.load(SeqCst)) => {
                return Ok(Some(Arc::clone(slot)));
            }
            Some(slot) => slot.retire_when_finished(),
            None if current.len() >= MAX_LEASES => {
                let message = format!("a client uses at most {MAX_LEASES} different leases at a time");
                return Err(Error::invalid(2, message));
            }
            None => {}
        }
        let (shared, ns) = (Arc::clone(&self.shared), ns.clone());
        to_its_end(async move {
            let Some(slot) = shared.register(lease_ms, &ns).await? else { return Ok(None) };
            let slot = Arc::new(slot);
            if let Ok(mut slots) = shared.by_client.write() {
                slots.insert(slot.client, Arc::clone(&slot));
            }
            tokio::spawn(writer::run(Arc::downgrade(&shared), Arc::clone(&slot)));
            current.insert(lease_ms, Arc::clone(&slot));
            Ok(Some(slot))
        })
        .await
    }

    /// The status as far as it is known without asking the server. A decision of this client's that
    /// is under way is waited for: its answer is there before that of a durable read of the record,
    /// which would stand in its way, too.
    async fn known_status(&self, id: TxId) -> Option<TxStatus> {
        if let Some(slot) = self.shared.slot(id.client) {
            slot.until_settled(id.seq, DECISION_WAIT).await;
            // The owner knows from the server it spoke to that the transaction is finished. A
            // server that was killed since may have brought its locks back, and only the record
            // that came back with them can say so.
            return slot.status(id.seq).filter(|status| *status != TxStatus::Finished);
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

    /// Their records. What they say besides "active" is made durable first: who acts on it changes
    /// documents, and a server that is killed must not come back with those changes and without the
    /// reason for them.
    async fn ask_records(&self, ids: &[TxId]) -> Result<HashMap<ClientId, StoredRecord>> {
        let Shared { server, records, .. } = &*self.shared;
        let mut clients: Vec<ClientId> = ids.iter().map(|id| id.client).collect();
        clients.sort_unstable();
        clients.dedup();
        let found = records.read(server, &clients).await?;
        let mut found: HashMap<ClientId, StoredRecord> =
            found.into_iter().map(|record| (record.client, record)).collect();
        for client in clients {
            let Some(record) = found.get(&client) else {
                // A new primary may not know yet how much the majority has, and one that was cut
                // off what others have.
                match self.shared.read_durably(server, client).await? {
                    Some(record) => drop(found.insert(client, record)),
                    None => strangers::check_gone(server, &records.ns.db, client).await?,
                }
                continue;
            };
            let expired = record.expired && !record.record.fenced && !record.closed;
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
                    strangers::check_gone(server, &records.ns.db, client).await?;
                    found.remove(&client)
                }
            };
        }
        Ok(found)
    }
}

impl TxLog for ClientRecordLog {
    fn owns(&self, client: ClientId) -> bool {
        self.shared.slot(client).is_some()
    }

    fn start(&self, lease_ms: u64, ns: &Namespace) -> BoxFuture<'_, Result<Started>> {
        let ns = ns.clone();
        Box::pin(async move {
            let deadline = Instant::now() + self.shared.commit_timeout;
            for round in 0..STARTS_TRIED {
                if round > 1 {
                    tokio::time::sleep(START_PAUSE * round).await;
                }
                let slot = self.slot_when_free(lease_ms, &ns, deadline).await?;
                slot.enlist(&ns).await?;
                let Some(epoch) = self.shared.answered_epoch() else {
                    self.barrier(slot.client).await?;
                    continue;
                };
                // The last thing done here: a number whose caller has gone would stay open, and the
                // record with it.
                if let Some(seq) = slot.allocate(epoch) {
                    let id = TxId { client: slot.client, seq };
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
            match self.shared.slot(id.client) {
                Some(slot) => slot.enlist(ns).await,
                None => Err(lost(id)),
            }
        })
    }

    fn standing(&self, started: Started) -> Standing {
        match self.shared.slot(started.id.client) {
            Some(slot) if self.epoch() == started.epoch => slot.standing(started.id.seq),
            _ => Standing::Lost,
        }
    }

    fn vouch(&self, started: Started, look: Look) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let (shared, id) = (Arc::clone(&self.shared), started.id);
            let look = to_its_end(async move {
                let over = if look == Look::AtServer { &shared.recorder } else { &*shared.server };
                shared.records.read(over, &[id.client]).await
            });
            let record = look.await?.pop().map(|found| found.record);
            let killed = record.as_ref().is_some_and(|record| record.killed.contains(&id.seq));
            if killed {
                let message = "the transaction was rolled back by somebody else, one by one";
                return Err(Error::new(ErrorKind::Expired, message).for_transaction(Some(id)));
            }
            let stands = status_of(record.as_ref(), id.seq) == TxStatus::Active && self.epoch() == started.epoch;
            if stands { Ok(()) } else { Err(lost(id)) }
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
            let Some(slot) = self.shared.slot(started.id.client) else { return Err(lost(started.id)) };
            Ok(match slot.commit(started, concern, Asks { changed, heard }).await? {
                Answer::Committed => Some(Decided::by_owner(started.id)),
                Answer::ValidateAgain => None,
            })
        })
    }

    fn changes<'a>(&'a self, known: &'a Closed) -> BoxFuture<'a, Result<Told>> {
        Box::pin(async move { self.shared.records.changes(&self.shared.server, known).await })
    }

    fn own_changes(&self, tags: &Tags) -> Changes {
        let slots = self.shared.by_client.read().unwrap_or_else(PoisonError::into_inner);
        Changes(slots.values().map(|slot| (slot.client, Arc::new(slot.stamps(tags)))).collect())
    }

    fn ask_for_quiet(&self, by: ObjectId, tags: Vec<Bson>) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.shared.records.ask_for_quiet(&self.shared.server, by, tags).await })
    }

    fn end_quiet(&self, by: ObjectId) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.shared.records.end_quiet(&self.shared.server, by).await })
    }

    fn heard_of(&self, id: TxId) -> Option<ObjectId> {
        self.shared.slot(id.client)?.heard_of()
    }

    fn rolled_back(&self, id: TxId) -> BoxFuture<'_, Decided> {
        if let Some(slot) = self.shared.slot(id.client) {
            slot.note_rolled_back(id.seq);
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
        if let Some(slot) = self.shared.slot(id.client) {
            slot.note_clean(id.seq, epoch);
        }
        Box::pin(async {})
    }

    fn barrier(&self, client: ClientId) -> BoxFuture<'_, Result<Barrier>> {
        Box::pin(async move {
            let shared = Arc::clone(&self.shared);
            let found = to_its_end(async move {
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

    fn was_asked(&self) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move {
            let slots = self.shared.by_client.read().unwrap_or_else(PoisonError::into_inner).keys().copied().collect();
            let clients: Vec<ClientId> = slots;
            let look = self.shared.asked().look();
            let found = self.shared.records.asked_at(&self.shared.server, &clients).await?;
            Ok(self.shared.asked().looked(&look, &clients, &found))
        })
    }

    fn fate(&self, id: TxId) -> BoxFuture<'_, Result<Fate>> {
        Box::pin(async move {
            let Shared { server, records, .. } = &*self.shared;
            if records.read(server, &[id.client]).await?.iter().any(|r| r.expired && !r.record.fenced && !r.closed) {
                records.fence_expired(server, id.client).await?;
            }
            let Some(found) = self.shared.read_durably(server, id.client).await? else { return Ok(Fate::Unknown) };
            Ok(match status_of(Some(&found.record), id.seq) {
                TxStatus::Active => Fate::Active,
                TxStatus::Committed | TxStatus::Finished => Fate::Committed,
                TxStatus::RolledBack => Fate::RolledBack,
            })
        })
    }

    fn kill(&self, id: TxId) -> BoxFuture<'_, Result<Fate>> {
        Box::pin(async move {
            let Shared { server, records, .. } = &*self.shared;
            records.kill(server, id.client, id.seq).await?;
            self.fate(id).await
        })
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let slots: Vec<Arc<Slot>> = self.current.lock().await.drain().map(|(_, slot)| slot).collect();
            for slot in slots {
                slot.retire_when_finished();
                slot.until_closed(self.shared.commit_timeout).await?;
            }
            Ok(())
        })
    }
}

fn lost(id: TxId) -> Error {
    let message = "the transaction's client record was fenced: its lease had expired, or the server lost what it had acknowledged";
    Error::new(ErrorKind::Expired, message).for_transaction(Some(id))
}
