//! Making documents clean after a decision: one command per collection for as many transactions as
//! have come together ([`backlog`], decision 0038).
//!
//! A transaction leaves the list when the server has answered, for each of its documents, that its
//! lock is gone: because of this finish, or one before it, or because a later transaction of this
//! client has taken the document over. Interrupted anywhere, the rest is finished by clients that
//! meet it: every statement is conditional on the lock it removes.

mod backlog;
mod done;
mod work;

use std::{
    collections::{BTreeMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use futures_util::future;
use protocol::{Decided, TxId};
use sd2v::statement;
use tokio::{sync::Notify, task::JoinHandle, time::Instant};

use self::{
    backlog::{Backlog, Flight, LARGE, MAX_LARGE, MAX_WAITING, Next},
    work::{Part, Work},
};
use super::{
    address::{Address, among},
    roll,
    server::Server,
    siblings::Claims,
    txlog::TxLog,
};
use crate::{
    error::{Error, ErrorKind, Result},
    options::Namespace,
    steps::Step,
};

/// Documents named in one statement.
pub(crate) const IDS_PER_STATEMENT: usize = 1_000;
/// How long a caller waits until its documents are free.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a reader waits for what is being finished before it does it itself.
const MOMENT: Duration = Duration::from_millis(100);
/// Pauses between two attempts while the server is away: the first, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// Documents that a transaction has locked in one collection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    /// Addresses of write-locked documents.
    pub(crate) written: Vec<Address>,
    /// Addresses of read-locked documents.
    pub(crate) read: Vec<Address>,
    /// How many of the write-locked ones are known to have been.
    pub(crate) own: usize,
    /// Whether some of them were inserted.
    pub(crate) inserts: bool,
    /// Whether some of them were removed.
    pub(crate) removes: bool,
}

/// A decided transaction, whose documents are to be made clean.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) id: Decided,
    pub(crate) committed: bool,
    pub(crate) held: Vec<(Namespace, Held)>,
    /// Dropped with the job: then others of this client may have what it held.
    pub(crate) claims: Option<Claims>,
}

/// Handle by which jobs are handed over. When the last copy is dropped, all waiting jobs are
/// finished at once.
#[derive(Clone)]
pub(crate) struct Finisher(Arc<Owned>);

struct Owned(Arc<Desk>);

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.backlog().shut();
        self.0.wake.notify_one();
    }
}

/// State that the task and its flights share with the callers that hand jobs over.
struct Desk {
    server: Arc<Server>,
    log: Arc<dyn TxLog>,
    backlog: Mutex<Backlog>,
    /// Wakes the task, because something is due earlier than was thought.
    wake: Notify,
    /// Reports that something has been finished, or left to others.
    done: Notify,
}

impl Finisher {
    /// Starts the task. `delay`: how long a document waits for others, at most. It ends when the
    /// last `Finisher` is dropped.
    pub(crate) fn start(server: Arc<Server>, log: Arc<dyn TxLog>, delay: Duration) -> Self {
        let backlog = Mutex::new(Backlog::new(delay));
        let desk = Arc::new(Desk { server, log, backlog, wake: Notify::new(), done: Notify::new() });
        tokio::spawn(dispatch(Arc::clone(&desk)));
        Self(Arc::new(Owned(desk)))
    }

    fn desk(&self) -> &Arc<Desk> {
        &self.0.0
    }

    /// Hands a job over. What may wait is bounded: commits ask for room before they are decided.
    pub(crate) fn hand_over(&self, job: Job) {
        let desk = self.desk();
        if desk.backlog().add(job, Instant::now()) {
            desk.wake.notify_one();
        }
    }

    /// Waits until there is room for what another commit leaves that holds so many documents.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] after `limit`.
    pub(crate) async fn room(&self, documents: usize, limit: Duration) -> Result<()> {
        let desk = self.desk();
        let has_room = |backlog: &Backlog| backlog.has_room(documents);
        if has_room(&desk.backlog()) {
            return Ok(());
        }
        desk.ask(Backlog::ask_all);
        match desk.until(limit, has_room).await {
            true => Ok(()),
            false => {
                let most = if documents < LARGE { MAX_WAITING } else { MAX_LARGE };
                let message = format!(
                    "for {limit:?} at least {most} documents of committed transactions have waited to be finished"
                );
                Err(Error::new(ErrorKind::Unavailable, message))
            }
        }
    }

    /// Runs a job without waiting for others; if the server is away, it is handed over.
    /// `one_by_one`: a command per document. The job goes on when the caller's future is dropped.
    pub(crate) async fn run_now(&self, job: Job, one_by_one: bool) {
        let this = self.clone();
        let work = tokio::spawn(async move {
            let Desk { server, log, .. } = &**this.desk();
            let epoch = epoch_before(&**log, job.id.id()).await;
            let parts = if one_by_one { split(&job.held) } else { vec![job.held.clone()] };
            for held in &parts {
                let whose = [Whose { id: job.id, committed: job.committed, held }];
                if let Err(error) = finish_all(server, &whose).await {
                    tracing::debug!(%error, transaction = %job.id.id(), "finishing will be tried again");
                    return this.hand_over(job);
                }
            }
            log.clean(job.id.id(), epoch).await;
        });
        // The task does not panic; were it cancelled, rivals would repair. A server that answers
        // nothing keeps it waiting, not the caller.
        let _ = tokio::time::timeout(PATIENCE, work).await;
    }

    /// Finishes what is left, and waits until nothing is.
    pub(crate) async fn until_idle(&self, limit: Duration) -> bool {
        self.desk().ask(Backlog::ask_all);
        self.desk().until(limit, Backlog::is_idle).await
    }

    /// Finishes what those of these transactions that wait here for that have left in a collection,
    /// waits a few answers of the server, and leaves those whose documents there are not known to
    /// be clean.
    pub(crate) async fn unfinished(&self, ns: &Namespace, mut ids: Vec<TxId>) -> Vec<TxId> {
        let desk = self.desk();
        let here = desk.backlog().ask_in(ns, &ids);
        if !here.is_empty() {
            desk.wake.notify_one();
            // A refused transaction is no longer open, and is not clean.
            let is_over = |backlog: &Backlog, (id, work): &(TxId, Arc<Work>)| {
                backlog.is_clean_in(ns, *id, work) || !backlog.is_open(*id)
            };
            desk.until(MOMENT, |backlog| here.iter().all(|one| is_over(backlog, one))).await;
            let backlog = desk.backlog();
            let is_clean =
                |id: &TxId| here.iter().any(|(other, work)| other == id && backlog.is_clean_in(ns, *id, work));
            ids.retain(|id| !is_clean(id));
        }
        ids
    }

    /// Notes that a caller waits for the documents of this transaction, in case it is decided.
    pub(crate) fn ask(&self, id: TxId) {
        self.desk().ask(|backlog| backlog.ask(id));
    }

    /// Finishes what is left in a collection, and waits for that a few answers of the server.
    pub(crate) async fn clear(&self, ns: &Namespace) {
        let over = self.desk().backlog().ask_for(ns);
        self.until_over(over).await;
    }

    /// The same before a query that would probably meet what is left, and need it finished: one of
    /// the last has.
    pub(crate) async fn clear_before_query(&self, ns: &Namespace) {
        let over = self.desk().backlog().ask_before_query(ns);
        self.until_over(over).await;
    }

    async fn until_over(&self, over: Option<Arc<AtomicBool>>) {
        let Some(over) = over else { return };
        let desk = self.desk();
        desk.wake.notify_one();
        desk.until(MOMENT, |_| over.load(SeqCst)).await;
    }

    /// Could a query of this collection meet what this client has committed and not finished?
    pub(crate) fn has_left(&self, ns: &Namespace) -> bool {
        self.desk().backlog().has_left(ns)
    }

    /// Whom this client has committed by now that may have left something in this collection: the
    /// unsafe versions in documents that they hold from now on are the latest. `None`: they are
    /// more than `most`.
    pub(crate) fn committed_in(&self, ns: &Namespace, most: usize) -> Option<Vec<TxId>> {
        self.desk().backlog().committed_in(ns, most)
    }

    /// A query of a collection has met these transactions. True if all of them have been finished
    /// for it.
    pub(crate) async fn finish_for_query(&self, ns: &Namespace, ids: Vec<TxId>) -> bool {
        self.desk().backlog().met_by_query(ns);
        self.unfinished(ns, ids).await.is_empty()
    }

    /// Is something that was handed over by then not finished in this collection?
    pub(crate) fn has_open(&self, ns: &Namespace, by: ByNow) -> bool {
        self.desk().backlog().has_open(ns, by)
    }

    /// The number of commits so far, for [`Finisher::was_committed`].
    pub(crate) fn by_now(&self) -> ByNow {
        self.desk().backlog().by_now()
    }

    /// When was this transaction committed, if this client has committed it and had not finished it
    /// at that moment? Its documents may be locked still, and do not change any more: of one that
    /// was committed before, the unsafe version in a document that was fetched after that moment is
    /// what it has committed, whether it has been finished since or not. `None`: that is not known
    /// here.
    pub(crate) fn when_committed(&self, id: TxId, by: ByNow) -> Option<When> {
        self.desk().backlog().when_committed(id, by)
    }

    /// Is it known here that it was committed, and not finished, at that moment?
    pub(crate) fn was_committed(&self, id: TxId, by: ByNow) -> bool {
        self.when_committed(id, by) == Some(When::Before)
    }
}

/// Time of a commit, relative to a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// Before the moment in question, or at it.
    Before,
    /// After the moment in question.
    Since,
}

/// A moment, as far as this client's commits go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByNow {
    /// Number of commits that have been handed over.
    handed_over: u64,
    /// How many of those that were committed have been finished.
    finished: u64,
}

impl ByNow {
    /// Whether the commit with this number was handed over before the moment, or since.
    fn of(self, number: u64) -> When {
        if number <= self.handed_over { When::Before } else { When::Since }
    }
}

impl Desk {
    fn backlog(&self) -> MutexGuard<'_, Backlog> {
        // Nothing panics while it is held.
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, asks: impl FnOnce(&mut Backlog)) {
        asks(&mut self.backlog());
        self.wake.notify_one();
    }

    async fn until(&self, limit: Duration, enough: impl Fn(&Backlog) -> bool) -> bool {
        let wait = async {
            loop {
                let done = self.done.notified();
                if enough(&self.backlog()) {
                    return;
                }
                done.await;
            }
        };
        tokio::time::timeout(limit, wait).await.is_ok()
    }

    fn next(&self) -> Next {
        self.backlog().next(Instant::now())
    }

    /// A part is clean since connection epoch `epoch`.
    async fn clean(&self, part: Part, epoch: u64) {
        if let Some(epoch) = part.work.part_is_clean(epoch) {
            self.log.clean(part.work.id.id(), epoch).await;
        }
        self.backlog().clean(&part);
        self.done.notify_waiters();
    }

    /// The server refuses a document of a part.
    fn keep(&self, part: Part) {
        part.work.release();
        let mut backlog = self.backlog();
        backlog.close(&part.work);
        backlog.keep(part, Instant::now());
    }
}

async fn dispatch(desk: Arc<Desk>) {
    loop {
        match desk.next() {
            Next::Fly(flights) => {
                for flight in flights {
                    tokio::spawn(fly(Arc::clone(&desk), flight));
                }
            }
            Next::TryAgain(parts) => drop(tokio::spawn(try_again(Arc::clone(&desk), parts))),
            Next::Sleep(None) => desk.wake.notified().await,
            Next::Sleep(Some(until)) => drop(tokio::time::timeout_at(until, desk.wake.notified()).await),
            Next::End => return,
        }
    }
}

/// Finds out whether rivals have asked this client's record about holders of documents (a rival
/// that reads a document by its `_id` finishes nothing). The look goes on when no caller waits for
/// it: stopped half-way, it would take its connection along.
fn look_for_rivals(desk: &Arc<Desk>) -> JoinHandle<()> {
    let looking = Arc::clone(desk);
    tokio::spawn(async move {
        let asked = looking.log.was_asked().await;
        let mut backlog = looking.backlog();
        backlog.has_looked();
        match asked {
            Ok(true) => {
                backlog.met_by_rivals(Instant::now());
                looking.wake.notify_one();
            }
            Ok(false) => {}
            Err(error) => tracing::debug!(%error, "the client records could not be looked at"),
        }
    })
}

async fn fly(desk: Arc<Desk>, mut flight: Flight) {
    if !flight.is_urgent && desk.backlog().looks_now(Instant::now()) {
        // Finishing does not wait long for a server that has only the records.
        let _ = tokio::time::timeout(MOMENT, look_for_rivals(&desk)).await;
    }
    finish_parts(&desk, std::mem::take(&mut flight.parts)).await;
    desk.backlog().ended(&flight);
    desk.done.notify_waiters();
    desk.wake.notify_one();
}

/// While the server is away, this goes on for as long as the client lives: a number that is not
/// finished would keep its record open. What the server refuses is kept; the others are done.
async fn finish_parts(desk: &Arc<Desk>, parts: Vec<Part>) {
    let mut pause = PAUSE.0;
    let id = parts.first().map(|part| part.work.id.id());
    let epoch = async || match id {
        Some(id) => epoch_before(&*desk.log, id).await,
        None => 0,
    };
    let mut before_it = epoch().await;
    for attempt in 1.. {
        let locked = || parts.iter().map(Part::locked).sum::<usize>();
        let before = locked();
        match finish_all(&desk.server, &whose(&parts)).await {
            Ok(finished) => {
                // Rivals may have finished the others; so may a transaction of this client that has
                // taken a document over and has not noted it yet.
                if attempt == 1 && finished < before.min(locked()) && desk.backlog().looks_now(Instant::now()) {
                    drop(look_for_rivals(desk));
                }
                break;
            }
            Err(error) if error.kind() == ErrorKind::Unavailable && !desk.backlog().is_shut() => {
                tracing::debug!(%error, attempt, "finishing waits for the server");
            }
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                let mut backlog = desk.backlog();
                return parts.iter().for_each(|part| backlog.close(&part.work));
            }
            Err(_) if parts.len() > 1 => return finish_each(desk, parts).await,
            Err(error) => {
                tracing::warn!(%error, "a document of a decided transaction cannot be finished");
                return finish_apart(desk, parts).await;
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE.1);
        before_it = epoch().await;
    }
    for part in parts {
        desk.clean(part, before_it).await;
    }
}

/// The connection epoch in which documents are going to be finished. What is finished in one that
/// has not been answered proves nothing: the record of `id` would be given up for it, with whatever
/// else is open in it.
async fn epoch_before(log: &dyn TxLog, id: TxId) -> u64 {
    // The first answer over a connection tells nothing of the epoch that began with it.
    for _ in 0..2 {
        let epoch = log.answered_epoch();
        if epoch != 0 {
            return epoch;
        }
        // The documents are not to wait for that, if their server answers and the other connection
        // cannot be made.
        if !matches!(tokio::time::timeout(PATIENCE, log.barrier(id.client)).await, Ok(Ok(_))) {
            tracing::debug!(transaction = %id, "its record could not be read before it is finished");
        }
    }
    log.answered_epoch()
}

/// The server refuses something of one of them; the others do not wait until it gives in.
async fn finish_each(desk: &Arc<Desk>, parts: Vec<Part>) {
    for part in parts {
        Box::pin(finish_parts(desk, vec![part])).await;
    }
}

/// Finishes each document by itself, because the server refuses one of them. No transaction of this
/// client waits for the rest.
async fn finish_apart(desk: &Desk, parts: Vec<Part>) {
    for part in parts {
        for held in split(&part.held) {
            let whose = [Whose { id: part.work.id, committed: part.work.committed, held: &held }];
            if let Err(error) = finish_all(&desk.server, &whose).await {
                tracing::debug!(%error, transaction = %part.work.id.id(), "this document cannot be finished");
            }
        }
        desk.keep(part);
    }
}

/// Tries once more to finish the parts that the server has refused, each by itself.
async fn try_again(desk: Arc<Desk>, parts: Vec<Part>) {
    let mut left = Vec::new();
    for part in parts {
        let epoch = epoch_before(&*desk.log, part.work.id.id()).await;
        match finish_all(&desk.server, &whose(std::slice::from_ref(&part))).await {
            Ok(_) => {
                if let Some(epoch) = part.work.part_is_clean(epoch) {
                    desk.log.clean(part.work.id.id(), epoch).await;
                }
            }
            Err(_) => left.push(part),
        }
    }
    desk.backlog().keep_again(left, Instant::now());
    desk.wake.notify_one();
}

/// Documents that a transaction has left, and its decision.
struct Whose<'a> {
    id: Decided,
    committed: bool,
    held: &'a [(Namespace, Held)],
}

fn whose(parts: &[Part]) -> Vec<Whose<'_>> {
    parts.iter().map(|part| Whose { id: part.work.id, committed: part.work.committed, held: &part.held }).collect()
}

/// The same documents in groups of one, so that one that the server refuses holds up no other.
fn split(held: &[(Namespace, Held)]) -> Vec<Vec<(Namespace, Held)>> {
    let documents = held.iter().flat_map(|(ns, held)| {
        let flags = Held { inserts: held.inserts, removes: held.removes, ..Held::default() };
        let written = held.written.iter().map(move |at| (ns, Held { written: vec![at.clone()], ..flags.clone() }));
        let read = held.read.iter().map(move |at| (ns, Held { read: vec![at.clone()], ..Held::default() }));
        written.chain(read)
    });
    documents.map(|(ns, held)| vec![(ns.clone(), held)]).collect()
}

/// All parts that are finished together, merged by collection.
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

/// Answers how many documents it has rolled forward.
async fn finish_all(server: &Server, all: &[Whose<'_>]) -> Result<usize> {
    match all {
        [one] if one.held.iter().any(|(_, held)| held.written.len() + held.read.len() > IDS_PER_STATEMENT) => {
            finish_large(server, one).await
        }
        all => finish_together(server, all).await,
    }
}

/// Finishes what one transaction has left, as many documents at a time as a statement names: all of
/// them together would take their memory once more.
async fn finish_large(server: &Server, Whose { id, committed, held }: &Whose<'_>) -> Result<usize> {
    let mut finished = 0;
    for (ns, held) in *held {
        let flags = Held { inserts: held.inserts, removes: held.removes, ..Held::default() };
        let written = held.written.chunks(IDS_PER_STATEMENT);
        let written = written.map(|some| Held { written: some.to_vec(), ..flags.clone() });
        let read = held.read.chunks(IDS_PER_STATEMENT).map(|some| Held { read: some.to_vec(), ..Held::default() });
        for piece in written.chain(read) {
            let held = [(ns.clone(), piece)];
            finished += finish_together(server, &[Whose { id: *id, committed: *committed, held: &held }]).await?;
        }
    }
    Ok(finished)
}

async fn finish_together(server: &Server, all: &[Whose<'_>]) -> Result<usize> {
    let mut merged: BTreeMap<&Namespace, Merged> = BTreeMap::new();
    for Whose { id, committed, held } in all {
        for (ns, held) in *held {
            let entry = merged.entry(ns).or_default();
            if !held.written.is_empty() {
                let side = if *committed { &mut entry.forward } else { &mut entry.back };
                side.writers.push(*id);
                side.at.extend(held.written.iter().cloned());
                side.deletes |= if *committed { held.removes } else { held.inserts };
            }
            if !held.read.is_empty() {
                entry.readers.push(*id);
                entry.read.extend(held.read.iter().cloned());
            }
        }
    }
    // Together, so that what was locked first is not free last. Each goes to its end even if
    // another fails.
    let each = merged.into_iter().map(|(ns, merged)| finish_collection(server, ns, merged));
    future::join_all(each).await.into_iter().sum()
}

async fn finish_collection(server: &Server, ns: &Namespace, merged: Merged) -> Result<usize> {
    let Merged { mut forward, mut back, readers, read } = merged;
    let mut finished = 0;
    if !forward.at.is_empty() {
        server.at(Step::BeforeFinish).await;
        finished = roll(server, ns, &mut forward, true).await?;
        server.at(Step::AfterFinish).await;
    }
    if !back.at.is_empty() {
        server.at(Step::BeforeUndo).await;
        roll(server, ns, &mut back, false).await?;
        server.at(Step::AfterUndo).await;
    }
    for some in read.chunks(IDS_PER_STATEMENT) {
        server.repair(ns, vec![statement::unlock_readers(among(some), &readers)]).await?.ok()?;
    }
    Ok(finished)
}

async fn roll(server: &Server, ns: &Namespace, side: &mut Side, forward: bool) -> Result<usize> {
    name_once(&mut side.at);
    let mut rolled = 0;
    for some in side.at.chunks(IDS_PER_STATEMENT) {
        match forward {
            true => rolled += roll::forward_at(server, ns, some, &side.writers, side.deletes).await?,
            false => rolled += roll::back(server, ns, &among(some), &side.writers, side.deletes).await?,
        }
    }
    Ok(usize::try_from(rolled).unwrap_or(0))
}

/// A document that several transactions have changed, one after the other, is named once.
fn name_once(at: &mut Vec<Address>) {
    let mut named = HashSet::new();
    at.retain(|at| at.filter().to_vec().map_or(true, |name| named.insert(name)));
}
