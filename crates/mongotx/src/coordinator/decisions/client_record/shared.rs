//! The connections and records of one client, which its live records and their writers share: which
//! live has which record, registering, and durable reads.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use bson::{DateTime, oid::ObjectId};
use protocol::{ClientId, id::database_tag};
use tokio::runtime::Handle;
use tracing::{Instrument, instrument::WithSubscriber};

use super::{
    durable_reads::DurableReads,
    live_record::{LiveRecord, RecordTimes},
};
use crate::{
    coordinator::{
        log::{
            hold::Hold,
            record_databases::note_database,
            records::{Records, StoredRecord},
        },
        queries::read_lease::{Newcomer, ReadLease, outwait},
        server::Server,
    },
    error::{Error, ErrorKind, Result},
    options::Namespace,
    steps::Step,
};

/// Ids tried by a client that registers. Each is taken with a probability of one to a million
/// millions.
const IDS_TRIED: usize = 4;

/// Between two looks whether a checkpoint holds transactions still.
pub(super) const HELD_PAUSE: Duration = Duration::from_millis(200);

/// Rises when a connection for record writes is begun, and when it is made: a write acknowledged in
/// the epoch in which a transaction began ran in the same server process.
pub(crate) type Epoch = Arc<AtomicU64>;

/// A record that says that its client may hold a read lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flagged {
    pub(super) client: ClientId,
    /// Name of the read lease.
    pub(super) by: ObjectId,
}

/// Connections, records and limits that the live records and their writers share.
pub(crate) struct Shared {
    /// Connections for everything but record writes.
    pub(super) server: Arc<Server>,
    /// One connection, for record writes alone.
    pub(super) recorder: Server,
    pub(super) epoch: Epoch,
    /// The last epoch in which a command over that connection was answered.
    answered: AtomicU64,
    pub(super) records: Records,
    pub(super) commit_timeout: Duration,
    hold: Hold,
    /// Time at which a checkpoint was last seen to hold transactions.
    held_at: Mutex<Option<Instant>>,
    /// True if the database of the records is noted in `mongotx.deployment`.
    noted: AtomicBool,
    pub(super) by_client: RwLock<HashMap<ClientId, Arc<LiveRecord>>>,
    durable_reads: Mutex<DurableReads>,
    /// A record that is being made.
    registering: Mutex<Option<ClientId>>,
    /// The record that says that this client may hold a read lease, or the last one that did.
    reader: Mutex<Option<Flagged>>,
    read_lease: Arc<ReadLease>,
    /// The client's runtime, in which all work on records is done: the caller's may end before it.
    pub(super) runtime: Handle,
}

impl Shared {
    pub(crate) fn new(
        server: Arc<Server>,
        recorder: Server,
        epoch: Epoch,
        records: Records,
        commit_timeout: Duration,
        read_lease: Arc<ReadLease>,
    ) -> Self {
        let noted = AtomicBool::new(false);
        let (answered, by_client, durable_reads) = (AtomicU64::new(0), RwLock::default(), Mutex::default());
        let (hold, held_at) = (Hold::new(&records.ns.db), Mutex::default());
        let (registering, reader) = (Mutex::default(), Mutex::default());
        Self {
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
            durable_reads,
            registering,
            reader,
            read_lease,
            runtime: Handle::current(),
        }
    }

    /// Runs a command over the connection for record writes to its end, in a task of its own: a
    /// command whose future is dropped half-way breaks its connection, and with that epoch
    /// everything that the client has open would be rolled back.
    pub(super) async fn to_its_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let task = self.runtime.spawn(work.in_current_span().with_current_subscriber());
        let stopped = |_| Err(Error::new(ErrorKind::Unavailable, "a command about a client record was stopped"));
        task.await.unwrap_or_else(stopped)
    }

    pub(super) fn live(&self, client: ClientId) -> Option<Arc<LiveRecord>> {
        self.by_client.read().ok()?.get(&client).cloned()
    }

    /// A command over the connection for record writes was answered; the epoch was `before` when it
    /// was sent. There is one such connection at a time: if no other was begun meanwhile, it is the
    /// one that answered.
    pub(super) fn note_answered(&self, before: u64) {
        if self.epoch.load(SeqCst) == before {
            self.answered.fetch_max(before, SeqCst);
        }
    }

    /// The epoch, if its connection has been answered. One that was begun only may end at a server
    /// process that begins later, and proves nothing about what was done before.
    pub(super) fn answered_epoch(&self) -> Option<u64> {
        let epoch = self.epoch.load(SeqCst);
        (self.answered.load(SeqCst) == epoch).then_some(epoch)
    }

    pub(super) fn durable_reads(&self) -> MutexGuard<'_, DurableReads> {
        self.durable_reads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The clients whose records are this client's.
    pub(super) fn own(&self) -> Vec<ClientId> {
        let registering = *self.registering();
        let live_records = self.by_client.read().unwrap_or_else(PoisonError::into_inner);
        live_records.keys().copied().chain(registering).collect()
    }

    pub(super) fn registering(&self) -> MutexGuard<'_, Option<ClientId>> {
        self.registering.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn reader(&self) -> MutexGuard<'_, Option<Flagged>> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a record as [`Records::read_durably`] does. The read of a record of this client's own
    /// is not taken for that of a rival.
    pub(super) async fn read_durably(&self, over: &Server, client: ClientId) -> Result<Option<StoredRecord>> {
        if self.live(client).is_none() {
            return self.records.read_durably(over, client).await;
        }
        self.durable_reads().begin();
        let mut own = OwnAsking { shared: self, left: None };
        let found = self.records.read_durably(over, client).await?;
        own.left = found.as_ref().map(|record| (client, record.asked_at));
        Ok(found)
    }

    /// The number of the connection over which a write may be sent that rests on it (decision
    /// 0039).
    pub(super) fn bound_to(&self) -> Option<u64> {
        self.answered_epoch().filter(|_| self.recorder.is_bound())
    }

    /// From now on the statuses of this client's transactions are read from the server, like those
    /// of any other client.
    pub(super) fn forget(&self, client: ClientId) {
        if let Ok(mut live_records) = self.by_client.write() {
            live_records.remove(&client);
        }
    }

    /// The same of a record that is lost: what is committed in it need not be known to this client.
    pub(super) fn lose(&self, client: ClientId) {
        self.forget(client);
        self.read_lease.lose();
    }

    /// Returns true if a checkpoint keeps clients from registering now. If one did a moment ago,
    /// the server is not queried again.
    pub(super) async fn is_held(&self) -> Result<bool> {
        let held_at = || self.held_at.lock().unwrap_or_else(PoisonError::into_inner);
        if held_at().is_some_and(|at| at.elapsed() < HELD_PAUSE / 2) {
            return Ok(true);
        }
        let is_held = self.hold.stands(&self.recorder).await?;
        *held_at() = is_held.then(Instant::now);
        Ok(is_held)
    }

    /// A record for transactions that are to come. `None`: a checkpoint holds them.
    pub(super) async fn register(&self, lease_ms: u64, ns: &Namespace) -> Result<Option<LiveRecord>> {
        if self.is_held().await? {
            return Ok(None);
        }
        let Self { server, recorder, records, .. } = self;
        let since = Instant::now();
        server.at(Step::BeforeRegister).await;
        records.prepare(recorder).await?;
        if !self.noted.load(SeqCst) {
            note_database(recorder, &records.ns.db).await;
            self.noted.store(true, SeqCst);
        }
        let client = self.insert_record(lease_ms, ns).await?;
        let registered = Instant::now();
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
        Ok(Some(LiveRecord::new(client, lease_ms, ns.clone(), RecordTimes { since, registered })))
    }

    /// Waits until no other client reads without probes: each that looks for open records from now
    /// on sees this one. Before that no transaction of the record may lock anything.
    pub(super) async fn outwait_readers(&self, live: &LiveRecord) -> Result<()> {
        let wait = async || {
            let own_lease = self.reader().map(|reader| reader.by);
            let newcomer = Newcomer { client: live.client, since: live.registered, own_lease };
            outwait(&self.records, &self.server, &self.own(), newcomer).await
        };
        live.readers_are_gone.get_or_try_init(wait).await.map(drop)
    }

    /// A record under an id that no other has.
    async fn insert_record(&self, lease_ms: u64, ns: &Namespace) -> Result<ClientId> {
        let Self { recorder, records, .. } = self;
        let tag = database_tag(&records.ns.db);
        for _ in 0..IDS_TRIED {
            let before = self.epoch.load(SeqCst);
            let made = recorder.seconds().await?;
            self.note_answered(before);
            let client = ClientId::compose(u32::try_from(made).unwrap_or(0), tag, rand::random());
            // From the moment at which it is there, it is no stranger's.
            *self.registering() = Some(client);
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
        self.shared.durable_reads().end(self.left.take());
    }
}
