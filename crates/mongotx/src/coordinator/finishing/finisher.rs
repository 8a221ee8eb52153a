//! Making documents clean after a decision: one command per collection for as many transactions as
//! have come together ([`backlog`], decision 0038).
//!
//! A transaction leaves the list when the server has answered, for each of its documents, that its
//! lock is gone: because of this finish, or one before it, or because a later transaction of this
//! client has taken the document over. Interrupted anywhere, the rest is finished by clients that
//! meet it: every statement is conditional on the lock it removes.
//!
//! | module | content |
//! | --- | --- |
//! | [`backlog`] | which transactions wait, and when their documents are due |
//! | [`flights`] | the task that takes what is due, and what it does when the server refuses or is away |
//! | [`commands`] | the commands that make documents clean |
//! | [`work`], [`recently_finished`] | one transaction while it is being finished, and for a moment after it |

mod backlog;
mod commands;
mod flights;
mod recently_finished;
mod work;

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use bson::oid::ObjectId;
use protocol::{Decided, TxId};
use tokio::{runtime::Handle, sync::Notify, time::Instant};

pub(crate) use self::commands::IDS_PER_STATEMENT;
use self::{
    backlog::{AwaitedWork, Backlog, LARGE, MAX_LARGE, MAX_WAITING, NextStep},
    commands::{LeftDocuments, finish_all, split},
    flights::{dispatch, epoch_before},
    work::Part,
};
use crate::{
    coordinator::{log::txlog::TxLog, request::address::Address, server::Server, siblings::Claims},
    error::{Error, ErrorKind, Result},
    options::Namespace,
};

/// Time that a caller waits until its documents are free.
const FINISH_WAIT: Duration = Duration::from_secs(5);
/// Time that a reader waits for the finisher before it finishes a document itself.
const MOMENT: Duration = Duration::from_millis(100);

/// Documents that a transaction has locked in one collection.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldDocuments {
    /// Addresses of the write-locked documents.
    pub(crate) written: Vec<Address>,
    /// Addresses of the read-locked documents.
    pub(crate) read: Vec<Address>,
    /// Number of the write-locked documents that are known to have been locked.
    pub(crate) own: usize,
    /// True if some of them were inserted.
    pub(crate) inserts: bool,
    /// True if some of them were removed.
    pub(crate) removes: bool,
}

/// A decided transaction, whose documents are to be made clean.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) id: Decided,
    pub(crate) committed: bool,
    pub(crate) held: Vec<(Namespace, HeldDocuments)>,
    /// Dropped with the job: then others of this client may have what it held.
    pub(crate) claims: Option<Claims>,
}

/// Handle by which jobs are handed over. When the last copy is dropped, all waiting jobs are
/// finished at once.
#[derive(Clone)]
pub(crate) struct Finisher(Arc<TaskOwner>);

/// Ends the task when the last copy of the handle is dropped.
struct TaskOwner(Arc<FinisherState>);

impl Drop for TaskOwner {
    fn drop(&mut self) {
        self.0.backlog().shut();
        self.0.wake.notify_one();
    }
}

/// State that the task and its flights share with the callers that hand jobs over.
struct FinisherState {
    server: Arc<Server>,
    log: Arc<dyn TxLog>,
    backlog: Mutex<Backlog>,
    /// The client's runtime: a job goes on when the caller's has ended.
    runtime: Handle,
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
        let runtime = Handle::current();
        let state = Arc::new(FinisherState { server, log, backlog, runtime, wake: Notify::new(), done: Notify::new() });
        state.runtime.spawn(dispatch(Arc::clone(&state)));
        Self(Arc::new(TaskOwner(state)))
    }

    fn state(&self) -> &Arc<FinisherState> {
        &self.0.0
    }

    /// Hands a job over. What may wait is bounded: commits ask for room before they are decided.
    pub(crate) fn hand_over(&self, job: Job) {
        let state = self.state();
        if state.backlog().add(job, Instant::now()) {
            state.wake.notify_one();
        }
    }

    /// Waits until there is room for the documents of another commit that holds this many.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] after `limit`.
    pub(crate) async fn room(&self, documents: usize, limit: Duration) -> Result<()> {
        let state = self.state();
        let has_room = |backlog: &Backlog| backlog.has_room(documents);
        if has_room(&state.backlog()) {
            return Ok(());
        }
        state.ask(Backlog::ask_all);
        match state.until(limit, has_room).await {
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
        let work = self.state().runtime.spawn(async move {
            let FinisherState { server, log, .. } = &**this.state();
            let epoch = epoch_before(&**log, job.id.id()).await;
            let parts = if one_by_one { split(&job.held) } else { vec![job.held.clone()] };
            for held in &parts {
                let left = [LeftDocuments { id: job.id, committed: job.committed, held }];
                if let Err(error) = finish_all(server, &left).await {
                    tracing::debug!(%error, transaction = %job.id.id(), "finishing will be tried again");
                    return this.hand_over(job);
                }
            }
            log.clean(job.id.id(), epoch).await;
        });
        // The task does not panic; were it cancelled, rivals would repair. A server that answers
        // nothing keeps it waiting, not the caller.
        let _ = tokio::time::timeout(FINISH_WAIT, work).await;
    }

    /// Finishes what is left, and waits until nothing is.
    pub(crate) async fn until_idle(&self, limit: Duration) -> bool {
        self.state().ask(Backlog::ask_all);
        self.state().until(limit, Backlog::is_idle).await
    }

    /// Finishes what these transactions have left in a collection, of those that wait here to be
    /// finished. Waits a few answers of the server, and returns the transactions whose documents
    /// there are not known to be clean. Documents that an earlier server process has made clean
    /// are not: the caller has met a lock, and a server that was killed brings locks back.
    pub(crate) async fn unfinished(&self, ns: &Namespace, mut ids: Vec<TxId>) -> Vec<TxId> {
        let state = self.state();
        let here = state.backlog().ask_in(ns, &ids);
        if !here.is_empty() {
            state.wake.notify_one();
            // A refused transaction is no longer open, and is not clean.
            state.until(MOMENT, |backlog| here.iter().all(|one| !backlog.is_left_in(ns, one.id))).await;
            let (nodes, backlog) = (&state.server.nodes, state.backlog());
            let process = nodes.process();
            // Of a server whose process is not known, only what was made clean since the caller
            // asked.
            let is_known = process.is_some() || nodes.are_several();
            let is_clean =
                |one: &AwaitedWork| (is_known || one.was_left) && backlog.is_clean_in(ns, one.id, &one.work, process);
            ids.retain(|id| !here.iter().any(|one| one.id == *id && is_clean(one)));
        }
        ids
    }

    /// Notes that a caller waits for the documents of this transaction, in case it is decided.
    pub(crate) fn hurry(&self, id: TxId) {
        self.state().ask(|backlog| backlog.hurry(id));
    }

    /// Finishes what is left in a collection, and waits for that a few answers of the server.
    pub(crate) async fn clear(&self, ns: &Namespace) {
        let over = self.state().backlog().ask_for(ns);
        self.until_over(over).await;
    }

    /// Makes the finisher finish what is left in a collection soon, without waiting for it.
    pub(crate) fn urge(&self, ns: &Namespace) {
        self.state().ask(|backlog| drop(backlog.ask_for(ns)));
    }

    /// The same before a query that would probably meet what is left, and need it finished: one of
    /// the last has.
    pub(crate) async fn clear_before_query(&self, ns: &Namespace) {
        let over = self.state().backlog().ask_before_query(ns);
        self.until_over(over).await;
    }

    async fn until_over(&self, over: Option<Arc<AtomicBool>>) {
        let Some(over) = over else { return };
        let state = self.state();
        state.wake.notify_one();
        state.until(MOMENT, |_| over.load(SeqCst)).await;
    }

    /// Returns true if a query of this collection could meet what this client has committed and not
    /// finished.
    pub(crate) fn has_left(&self, ns: &Namespace) -> bool {
        self.state().backlog().has_left(ns)
    }

    /// Returns true if this client has committed a transaction whose documents in this collection
    /// are not all known to be clean.
    pub(crate) fn has_committed(&self, ns: &Namespace) -> bool {
        self.state().backlog().has_committed(ns)
    }

    /// Transactions that this client has committed by now and that may have left something in this
    /// collection: the unsafe versions in documents that they hold from now on are the latest.
    /// `None`: they are more than `most`.
    pub(crate) fn committed_in(&self, ns: &Namespace, most: usize) -> Option<Vec<TxId>> {
        self.state().backlog().committed_in(ns, most)
    }

    /// Returns true if this transaction was handed over, and its documents in this collection are
    /// not all known to be clean. What the server has refused does not count
    /// ([`Finisher::has_refused`]).
    pub(crate) fn is_left_in(&self, ns: &Namespace, id: TxId) -> bool {
        self.state().backlog().is_left_in(ns, id)
    }

    /// Returns true if the server has refused to finish a document of this collection.
    pub(crate) fn has_refused(&self, ns: &Namespace) -> bool {
        self.state().backlog().has_refused(ns)
    }

    /// A query of a collection has met these transactions. True if all of them have been finished
    /// for it.
    pub(crate) async fn finish_for_query(&self, ns: &Namespace, ids: Vec<TxId>) -> bool {
        self.state().backlog().met_by_query(ns);
        self.unfinished(ns, ids).await.is_empty()
    }

    /// Returns true if something that was handed over by then is not finished in this collection.
    pub(crate) fn has_open(&self, ns: &Namespace, by: ByNow) -> bool {
        self.state().backlog().has_open(ns, by)
    }

    /// The number of commits so far, for [`Finisher::was_committed`].
    pub(crate) fn by_now(&self) -> ByNow {
        self.state().backlog().by_now()
    }

    /// Returns whether this transaction was committed before or after `by`, if this client has
    /// committed it and had not finished it at that moment. Its documents may be locked still, and
    /// do not change any more: of one that was committed before, the unsafe version in a document
    /// that was fetched after that moment is what it has committed, whether it has been finished
    /// since or not. `None`: that is not known here.
    pub(crate) fn when_committed(&self, id: TxId, by: ByNow) -> Option<CommitTime> {
        self.state().backlog().when_committed(id, by)
    }

    /// Returns true if it is known here that it was committed, and not finished, at that moment.
    pub(crate) fn was_committed(&self, id: TxId, by: ByNow) -> bool {
        self.when_committed(id, by) == Some(CommitTime::Before)
    }
}

/// Time of a commit, relative to a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitTime {
    /// The transaction was committed before that moment, or at it.
    Before,
    /// The transaction was committed after that moment.
    Since,
}

/// A moment, as far as this client's commits go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByNow {
    /// Number of commits that have been handed over.
    handed_over: u64,
    /// Number of those that were committed and have been finished.
    finished: u64,
}

impl ByNow {
    /// Returns whether the commit with this number was handed over before the moment, or since.
    fn of(self, number: u64) -> CommitTime {
        if number <= self.handed_over { CommitTime::Before } else { CommitTime::Since }
    }
}

impl FinisherState {
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

    fn next(&self) -> NextStep {
        self.backlog().next(Instant::now())
    }

    /// A part was made clean by this server process, since connection epoch `epoch`.
    async fn clean(&self, part: Part, epoch: u64, process: Option<ObjectId>) {
        if let Some(epoch) = part.work.part_is_clean(epoch, process) {
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
