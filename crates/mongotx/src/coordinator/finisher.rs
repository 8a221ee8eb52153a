//! Making documents clean after a decision: one command per collection for as many transactions as are waiting.
//!
//! A task takes all jobs that have come since its last round. Interrupted anywhere, what is left is finished by
//! whoever meets it: every statement is conditional on the lock it removes.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use futures_util::future;
use protocol::{Decided, TxId};
use sd2v::statement;
use tokio::sync::{Notify, mpsc};

use super::{
    address::{Address, among},
    roll,
    server::Server,
    siblings::Claims,
    txlog::TxLog,
};
use crate::{
    error::{ErrorKind, Result},
    options::Namespace,
    steps::Step,
};

/// Documents named in one statement.
pub(crate) const IDS_PER_STATEMENT: usize = 1_000;
/// How long a caller waits until its documents are free.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a reader waits for what is being finished before it does it itself.
const MOMENT: Duration = Duration::from_millis(100);
/// Jobs that are kept because the server refuses one of their documents; more are left to whoever meets them.
const MAX_REFUSED: usize = 1_000;
/// Pauses between two attempts at such jobs: the first, and the longest.
const REFUSED_PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// What a transaction locked in one collection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    /// Write-locked documents.
    pub(crate) written: Vec<Address>,
    /// Read-locked documents.
    pub(crate) read: Vec<Address>,
    /// Some were inserted.
    pub(crate) inserts: bool,
    /// Some were removed.
    pub(crate) removes: bool,
}

/// A decided transaction.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) id: Decided,
    pub(crate) committed: bool,
    pub(crate) held: Vec<(Namespace, Held)>,
    /// Dropped with the job: then others of this client may have what it held.
    pub(crate) claims: Option<Claims>,
}

/// Where jobs are left.
#[derive(Clone)]
pub(crate) struct Finisher {
    server: Arc<Server>,
    log: Arc<dyn TxLog>,
    jobs: mpsc::UnboundedSender<Job>,
    waiting: Arc<Waiting>,
}

/// The jobs that were handed over and are not done.
#[derive(Default)]
struct Waiting {
    open: Mutex<HashMap<TxId, Arc<AtomicBool>>>,
    /// Some have been done, or left to others.
    done: Notify,
}

impl Waiting {
    fn open(&self) -> MutexGuard<'_, HashMap<TxId, Arc<AtomicBool>>> {
        // Nothing panics while it is held.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its documents are clean.
    fn note_clean(&self, id: TxId) {
        if let Some(clean) = self.open().get(&id) {
            clean.store(true, SeqCst);
        }
    }

    fn close(&self, ids: impl IntoIterator<Item = TxId>) {
        let mut open = self.open();
        ids.into_iter().for_each(|id| drop(open.remove(&id)));
        drop(open);
        self.done.notify_waiters();
    }

    async fn until(&self, limit: Duration, enough: impl Fn(&HashMap<TxId, Arc<AtomicBool>>) -> bool) -> bool {
        let wait = async {
            loop {
                let done = self.done.notified();
                if enough(&self.open()) {
                    return;
                }
                done.await;
            }
        };
        tokio::time::timeout(limit, wait).await.is_ok()
    }
}

impl Finisher {
    /// Starts the task. It ends when the last `Finisher` is dropped.
    pub(crate) fn start(server: Arc<Server>, log: Arc<dyn TxLog>) -> Self {
        let (jobs, queue) = mpsc::unbounded_channel();
        let finisher = Self { server: Arc::clone(&server), log: Arc::clone(&log), jobs, waiting: Arc::default() };
        let waiting = Arc::clone(&finisher.waiting);
        tokio::spawn(async move { run(server, log, queue, waiting).await });
        finisher
    }

    /// Hands a job over. The queue is bounded by the transactions that are open.
    pub(crate) fn hand_over(&self, job: Job) {
        let id = job.id.id();
        self.waiting.open().insert(id, Arc::default());
        if self.jobs.send(job).is_err() {
            self.waiting.close([id]);
        }
    }

    /// Runs a job without waiting for others; if the server is away, it is handed over. `one_by_one`: a command per
    /// document. The job goes on when the caller's future is dropped.
    pub(crate) async fn run_now(&self, job: Job, one_by_one: bool) {
        let this = self.clone();
        let work = tokio::spawn(async move {
            let epoch = this.log.epoch();
            let parts = if one_by_one { split(&job) } else { vec![job.clone()] };
            for part in &parts {
                if let Err(error) = finish_all(&this.server, std::slice::from_ref(part)).await {
                    tracing::debug!(%error, transaction = %job.id.id(), "finishing will be tried again");
                    return this.hand_over(job);
                }
            }
            this.log.clean(job.id.id(), epoch).await;
        });
        // The task does not panic; were it cancelled, rivals would repair. A server that answers nothing keeps it waiting,
        // not the caller.
        let _ = tokio::time::timeout(PATIENCE, work).await;
    }

    /// Waits until nothing is left to finish.
    pub(crate) async fn until_idle(&self, limit: Duration) -> bool {
        self.waiting.until(limit, HashMap::is_empty).await
    }

    /// Waits for those of these transactions that are being finished here, a few answers of the server, and leaves those
    /// whose documents are not known to be clean.
    pub(crate) async fn unfinished(&self, mut ids: Vec<TxId>) -> Vec<TxId> {
        let here: HashMap<TxId, Arc<AtomicBool>> = {
            let open = self.waiting.open();
            ids.iter().filter_map(|id| Some((*id, Arc::clone(open.get(id)?)))).collect()
        };
        if !here.is_empty() {
            self.waiting.until(MOMENT, |open| here.keys().all(|id| !open.contains_key(id))).await;
            ids.retain(|id| !here.get(id).is_some_and(|clean| clean.load(SeqCst)));
        }
        ids
    }
}

async fn run(server: Arc<Server>, log: Arc<dyn TxLog>, mut queue: mpsc::UnboundedReceiver<Job>, waiting: Arc<Waiting>) {
    let (mut jobs, mut refused) = (Vec::new(), Refused::default());
    loop {
        let received = match refused.due_in() {
            None => queue.recv_many(&mut jobs, 1_000).await,
            Some(pause) => match tokio::time::timeout(pause, queue.recv_many(&mut jobs, 1_000)).await {
                Ok(received) => received,
                Err(_) => {
                    let place = Place { server: &server, log: &*log, waiting: &waiting, queue: &queue };
                    refused.try_again(&place).await;
                    continue;
                }
            },
        };
        if received == 0 {
            return;
        }
        let round = std::mem::take(&mut jobs);
        let ids: Vec<TxId> = round.iter().map(|job| job.id.id()).collect();
        let place = Place { server: &server, log: &*log, waiting: &waiting, queue: &queue };
        refused.keep(finish_round(&place, round).await);
        waiting.close(ids);
    }
}

/// Jobs with a document that the server refuses to finish ([`super::unfinishable`]): until it gives in, their numbers stay in
/// the client's record.
#[derive(Default)]
struct Refused {
    jobs: Vec<Job>,
    again: Option<(Instant, Duration)>,
}

impl Refused {
    fn due_in(&self) -> Option<Duration> {
        let (at, _) = self.again.filter(|_| !self.jobs.is_empty())?;
        Some(at.saturating_duration_since(Instant::now()))
    }

    fn keep(&mut self, jobs: Vec<Job>) {
        for job in jobs {
            if self.jobs.len() >= MAX_REFUSED {
                tracing::warn!(transaction = %job.id.id(), "left a transaction that cannot be finished to others");
                continue;
            }
            self.jobs.push(job);
            if self.jobs.len() == 1 {
                self.again = Some((Instant::now() + REFUSED_PAUSE.0, REFUSED_PAUSE.0));
            }
        }
    }

    async fn try_again(&mut self, place: &Place<'_>) {
        let pause = self.again.map_or(REFUSED_PAUSE.0, |(_, pause)| (pause * 2).min(REFUSED_PAUSE.1));
        let mut left = Vec::new();
        for job in std::mem::take(&mut self.jobs) {
            let epoch = place.log.epoch();
            match finish_all(place.server, std::slice::from_ref(&job)).await {
                Ok(()) => place.done(job, epoch).await,
                Err(_) => left.push(job),
            }
        }
        self.jobs = left;
        self.again = Some((Instant::now() + pause, pause));
    }
}

/// A job per document.
fn split(job: &Job) -> Vec<Job> {
    let one = |ns: &Namespace, held: Held| Job {
        id: job.id,
        committed: job.committed,
        held: vec![(ns.clone(), held)],
        claims: None,
    };
    let documents = job.held.iter().flat_map(|(ns, held)| {
        let flags = Held { inserts: held.inserts, removes: held.removes, ..Held::default() };
        let written = held.written.iter().map(move |at| (ns, Held { written: vec![at.clone()], ..flags.clone() }));
        let read = held.read.iter().map(move |at| (ns, Held { read: vec![at.clone()], ..Held::default() }));
        written.chain(read)
    });
    documents.map(|(ns, held)| one(ns, held)).collect()
}

/// What a round works with.
struct Place<'a> {
    server: &'a Server,
    log: &'a dyn TxLog,
    waiting: &'a Waiting,
    queue: &'a mpsc::UnboundedReceiver<Job>,
}

impl Place<'_> {
    /// The job's documents are clean since connection epoch `epoch`.
    async fn done(&self, job: Job, epoch: u64) {
        self.waiting.note_clean(job.id.id());
        drop(job.claims);
        self.log.clean(job.id.id(), epoch).await;
    }
}

/// While the server is away, this goes on for as long as the client lives: a number that is not finished would keep its
/// record open. Answers the jobs with a document that the server refuses; the others are done.
async fn finish_round(place: &Place<'_>, round: Vec<Job>) -> Vec<Job> {
    let mut pause = Duration::from_millis(50);
    let mut epoch = place.log.epoch();
    for attempt in 1.. {
        match finish_all(place.server, &round).await {
            Ok(()) => break,
            Err(error) if error.kind() == ErrorKind::Unavailable && !place.queue.is_closed() => {
                tracing::debug!(%error, attempt, "finishing waits for the server");
            }
            Err(error) if error.kind() == ErrorKind::Unavailable => return Vec::new(),
            Err(_) if round.len() > 1 => return finish_each(place, round).await,
            Err(error) => {
                tracing::warn!(%error, "a document of a decided transaction cannot be finished");
                return finish_apart(place, round).await;
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(5));
        epoch = place.log.epoch();
    }
    for job in round {
        place.done(job, epoch).await;
    }
    Vec::new()
}

/// The server refuses something of one of them; the others do not wait until it gives in.
async fn finish_each(place: &Place<'_>, round: Vec<Job>) -> Vec<Job> {
    let mut refused = Vec::new();
    for job in round {
        refused.extend(Box::pin(finish_round(place, vec![job])).await);
    }
    refused
}

/// The server refuses one of the documents: each is finished by itself. Nobody of this client waits for the rest.
async fn finish_apart(place: &Place<'_>, round: Vec<Job>) -> Vec<Job> {
    let mut refused = Vec::new();
    for mut job in round {
        for part in split(&job) {
            if let Err(error) = finish_all(place.server, std::slice::from_ref(&part)).await {
                tracing::debug!(%error, transaction = %job.id.id(), "this document cannot be finished");
            }
        }
        job.claims = None;
        refused.push(job);
    }
    refused
}

/// Everything the jobs hold, merged by collection.
#[derive(Default)]
struct Merged {
    forward: Side,
    back: Side,
    readers: Vec<Decided>,
    read: Vec<Address>,
}

#[derive(Default)]
struct Side {
    writers: Vec<Decided>,
    at: Vec<Address>,
    deletes: bool,
}

async fn finish_all(server: &Server, jobs: &[Job]) -> Result<()> {
    let mut merged: BTreeMap<&Namespace, Merged> = BTreeMap::new();
    for job in jobs {
        for (ns, held) in &job.held {
            let entry = merged.entry(ns).or_default();
            if !held.written.is_empty() {
                let side = if job.committed { &mut entry.forward } else { &mut entry.back };
                side.writers.push(job.id);
                side.at.extend(held.written.iter().cloned());
                side.deletes |= if job.committed { held.removes } else { held.inserts };
            }
            if !held.read.is_empty() {
                entry.readers.push(job.id);
                entry.read.extend(held.read.iter().cloned());
            }
        }
    }
    // Together, so that what was locked first is not free last. Each goes to its end even if another fails.
    let each = merged.into_iter().map(|(ns, merged)| finish_collection(server, ns, merged));
    future::join_all(each).await.into_iter().collect()
}

async fn finish_collection(server: &Server, ns: &Namespace, merged: Merged) -> Result<()> {
    let Merged { forward, back, readers, read } = merged;
    if !forward.at.is_empty() {
        server.at(Step::BeforeFinish).await;
        roll(server, ns, &forward, true).await?;
        server.at(Step::AfterFinish).await;
    }
    if !back.at.is_empty() {
        server.at(Step::BeforeUndo).await;
        roll(server, ns, &back, false).await?;
        server.at(Step::AfterUndo).await;
    }
    for some in read.chunks(IDS_PER_STATEMENT) {
        server.repair(ns, vec![statement::unlock_readers(among(some), &readers)]).await?.ok()?;
    }
    Ok(())
}

async fn roll(server: &Server, ns: &Namespace, side: &Side, forward: bool) -> Result<()> {
    for some in side.at.chunks(IDS_PER_STATEMENT) {
        match forward {
            true => roll::forward_at(server, ns, some, &side.writers, side.deletes).await?,
            false => drop(roll::back(server, ns, &among(some), &side.writers, side.deletes).await?),
        }
    }
    Ok(())
}
