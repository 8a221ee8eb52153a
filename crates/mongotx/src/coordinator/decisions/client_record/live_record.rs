//! One live record: the state machine, the transactions that wait for it, and the writes that it
//! still has to make. What a reader's quiet keeps back is decided in [`quiet`].

mod quiet;

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bson::oid::ObjectId;
use protocol::{
    ClientId, ClientRecord, Concern, Recorder, Seq, TxId, TxStatus,
    recorder::{self, RecordWrite, TransactionEnd},
};
use tokio::sync::{Notify, OnceCell, oneshot};

pub(super) use self::quiet::Refusal;
use super::lost;
use crate::{
    coordinator::{
        log::txlog::{Standing, Started},
        stamps::{
            changes::Stamps,
            quiet::{Conditions, Heard, Length},
            tag::{Tag, Tags},
        },
    },
    error::{Error, ErrorKind, Result},
    options::Namespace,
};

/// Commits that may wait at a time.
const MAX_WAITING: usize = 10_000;

/// A record of this client to which its transactions belong, as long as it can be written.
pub(crate) struct LiveRecord {
    pub(crate) client: ClientId,
    /// Time at which the record was acknowledged.
    pub(super) registered: Instant,
    /// Set when no other client reads without probes any more: transactions may lock documents.
    pub(super) readers_are_gone: OnceCell<()>,
    lease: Duration,
    state: Mutex<State>,
    /// Wakes the writer: there is something to write.
    pub(super) wake: Notify,
    /// Reports that the outcome of a record write is known.
    pub(super) settled: Notify,
    closed: Notify,
}

/// State of a live record: its next write, and the transactions that wait for one.
struct State {
    recorder: Recorder,
    waiters: HashMap<Seq, oneshot::Sender<Result<Answer>>>,
    /// The conditions of each transaction that waits to be decided.
    commit_conditions: HashMap<Seq, CommitConditions>,
    /// The last quiet in the record of which it is known that it is over.
    heard: Option<ObjectId>,
    /// Transactions held back for the quiet of a reader, and since when.
    held: HashMap<Seq, Instant>,
    /// Length of the last quiet that was met in the record.
    length: Length,
    /// Time at which the transactions held back are tried again.
    again: Option<Instant>,
    /// The change stamps that were acknowledged.
    stamps: Stamps,
    listed: HashSet<Namespace>,
    enlisting: Vec<(Namespace, oneshot::Sender<Result<()>>)>,
    /// A statement has found the record fenced or gone.
    is_suspected: bool,
    last_write: Instant,
    /// Time at which the write that is under way was composed.
    composed: Instant,
    /// Time at which the last write that was acknowledged was composed: the record's sign of life
    /// is no older.
    alive: Instant,
    retiring: bool,
    closed: bool,
}

/// Collections that a record lists before it is replaced; a transaction under way may add more.
const MOST_COLLECTIONS: usize = 1_000;

/// Next action of the record's writer.
pub(super) enum NextAction {
    /// Send this record write, which also lists these collections.
    Write(RecordWrite, Vec<Namespace>),
    /// Nothing until woken, or until this time has passed.
    Sleep(Duration),
    /// All transactions are finished and the record shows it: it can retire.
    Retire,
    /// The record cannot be used any more.
    Stop,
}

/// Conditions that a transaction puts on the write that decides it.
pub(super) struct CommitConditions {
    /// Tags of the collections that the transaction has written to.
    pub(super) changed: Vec<Tag>,
    pub(super) heard: Heard,
}

/// Answer to a transaction that has requested its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Committed,
    /// A reader has had quiet meanwhile: the transaction has to be validated again.
    ValidateAgain,
}

/// Times of a new record.
pub(super) struct RecordTimes {
    /// Time before the record was sent: its sign of life is no older.
    pub(super) since: Instant,
    /// Time after the record was acknowledged.
    pub(super) registered: Instant,
}

impl LiveRecord {
    pub(super) fn new(
        client: ClientId,
        lease_ms: u64,
        ns: Namespace,
        RecordTimes { since, registered }: RecordTimes,
    ) -> Self {
        let state = State {
            recorder: Recorder::new(),
            waiters: HashMap::new(),
            commit_conditions: HashMap::new(),
            heard: None,
            held: HashMap::new(),
            length: Length::default(),
            again: None,
            stamps: Stamps::new(),
            listed: HashSet::from([ns]),
            enlisting: Vec::new(),
            is_suspected: false,
            last_write: Instant::now(),
            composed: since,
            alive: since,
            retiring: false,
            closed: false,
        };
        Self {
            client,
            registered,
            readers_are_gone: OnceCell::new(),
            lease: Duration::from_millis(lease_ms),
            state: Mutex::new(state),
            wake: Notify::new(),
            settled: Notify::new(),
            closed: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is consistent between any two statements that could panic: none can.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if new transactions may be put into it, in this connection epoch. It lists
    /// every collection that they write to, and is written again with each decision: one that
    /// lists many is replaced.
    pub(super) fn is_usable(&self, rotate_at: usize, epoch: u64) -> bool {
        let state = self.state();
        !state.recorder.is_outlived(epoch)
            && !state.recorder.is_lost()
            && !state.retiring
            && !state.closed
            && state.recorder.listed() < rotate_at
            && state.listed.len().max(state.stamps.len()) < MOST_COLLECTIONS
    }

    /// Returns true if every transaction of the record is decided.
    pub(super) fn is_unused(&self) -> bool {
        !self.state().recorder.has_open()
    }

    /// `None` when the record has been replaced meanwhile, or is of no use in this connection
    /// epoch.
    pub(super) fn allocate(&self, epoch: u64) -> Option<Seq> {
        let mut state = self.state();
        let usable =
            !state.recorder.is_outlived(epoch) && !state.recorder.is_lost() && !state.retiring && !state.closed;
        usable.then(|| state.recorder.allocate())
    }

    /// Waits until no decision about the number is under way, at most for `limit`.
    pub(super) async fn until_settled(&self, seq: Seq, limit: Duration) {
        let settled = async {
            loop {
                let settled = self.settled.notified();
                if !self.state().recorder.is_being_decided(seq) {
                    return;
                }
                settled.await;
            }
        };
        // A caller that has waited for too long reads the record.
        let _ = tokio::time::timeout(limit, settled).await;
    }

    /// The status of this number. `None` while a decision about it is under way: others may have
    /// seen it on the server already, and then it must not be reported as active.
    pub(super) fn status(&self, seq: Seq) -> Option<TxStatus> {
        let state = self.state();
        (!state.recorder.is_being_decided(seq)).then(|| state.recorder.status(seq))
    }

    /// Returns whether the number can still be committed. An eighth of the lease is left to clocks
    /// that do not run alike.
    pub(super) fn standing(&self, seq: Seq) -> Standing {
        let state = self.state();
        match state.recorder.status(seq) {
            _ if state.recorder.is_lost() || state.closed => Standing::Lost,
            TxStatus::Active if state.alive.elapsed() < self.lease - self.lease / 8 => Standing::Sound,
            TxStatus::Active => Standing::Doubtful,
            _ => Standing::Lost,
        }
    }

    pub(super) fn note_rolled_back(&self, seq: Seq) {
        self.state().recorder.note_rolled_back(seq);
    }

    pub(super) fn note_clean(&self, seq: Seq, epoch: u64) {
        let mut state = self.state();
        state.recorder.note_clean(seq, epoch);
        if state.retiring {
            self.wake.notify_one();
        }
    }

    /// The record lists `ns` when this returns.
    pub(super) async fn enlist(&self, ns: &Namespace) -> Result<()> {
        let listed = {
            let mut state = self.state();
            if state.listed.contains(ns) {
                return Ok(());
            }
            if state.closed {
                return Err(gone());
            }
            let (sender, receiver) = oneshot::channel();
            state.enlisting.push((ns.clone(), sender));
            receiver
        };
        self.wake.notify_one();
        listed.await.unwrap_or_else(|_| Err(gone()))
    }

    pub(super) async fn commit(
        &self,
        started: Started,
        concern: Concern,
        conditions: CommitConditions,
    ) -> Result<Answer> {
        let decided = {
            let mut state = self.state();
            if state.waiters.len() >= MAX_WAITING {
                return Err(Error::new(
                    ErrorKind::Unavailable,
                    format!("{MAX_WAITING} commits are waiting for the server"),
                ));
            }
            if !state.recorder.request_commit(started.id.seq, concern, started.epoch) {
                return Err(lost(started.id));
            }
            let (sender, receiver) = oneshot::channel();
            state.waiters.insert(started.id.seq, sender);
            state.commit_conditions.insert(started.id.seq, conditions);
            receiver
        };
        self.wake.notify_one();
        decided.await.unwrap_or_else(|_| Err(gone())).map_err(|error| error.for_transaction(Some(started.id)))
    }

    /// The tags of the collections that these transactions have written to: they wait, so these are
    /// known.
    pub(super) fn changed_by(&self, decided: &[Seq]) -> BTreeSet<Tag> {
        let state = self.state();
        decided
            .iter()
            .filter_map(|seq| state.commit_conditions.get(seq))
            .flat_map(|conditions| conditions.changed.iter().copied())
            .collect()
    }

    /// The conditions of these transactions about quiet in their record.
    pub(super) fn conditions(&self, decided: &[Seq]) -> Conditions {
        self.state().conditions(decided)
    }

    /// The last quiet in the record of which it is known that it is over.
    pub(super) fn heard_of(&self) -> Option<ObjectId> {
        self.state().heard
    }

    /// Notes that a write with this stamp was acknowledged, which decides these transactions. It is
    /// called before the transactions hear of it.
    pub(super) fn note_stamps(&self, decided: &[Seq], stamp: u64) {
        let changed = self.changed_by(decided);
        self.state().stamps.extend(changed.into_iter().map(|tag| (tag, stamp as i64)));
    }

    /// The change stamps with these names.
    pub(super) fn stamps(&self, tags: &Tags) -> Stamps {
        let state = self.state();
        tags.iter().filter_map(|tag| Some((*tag, *state.stamps.get(tag)?))).collect()
    }

    pub(super) fn retire_when_finished(&self) {
        self.state().retiring = true;
        self.wake.notify_one();
    }

    pub(super) async fn until_closed(&self, limit: Duration) -> Result<()> {
        let closed = self.closed.notified();
        if self.state().closed {
            return Ok(());
        }
        tokio::time::timeout(limit, closed).await.map_err(|_| {
            Error::new(ErrorKind::Unavailable, "the client record could not be closed in time; a sweep will close it")
        })
    }

    /// A statement has found the record fenced or gone: a write finds out now, and when that is
    /// refused a new record follows. Until then transactions begin in one that decides nothing.
    pub(super) fn suspect(&self) {
        self.state().is_suspected = true;
        self.wake.notify_one();
    }

    /// `connection`: the number of the one over which a write may be sent that rests on it.
    pub(super) fn next_action(&self, connection: Option<u64>) -> NextAction {
        let mut state = self.state();
        if state.recorder.is_lost() {
            return NextAction::Stop;
        }
        let beat = self.lease / 3;
        let idle = state.last_write.elapsed();
        let now = Instant::now();
        if state.again.is_some_and(|again| again <= now) {
            state.again = None;
            state.recorder.release();
        }
        let flush = state.retiring && state.recorder.is_finished() && !state.recorder.is_settled();
        if let Some(write) = {
            let is_suspected = std::mem::take(&mut state.is_suspected);
            let anyway = idle >= beat || flush || is_suspected || !state.enlisting.is_empty();
            state.recorder.next_write_over(anyway, connection)
        } {
            state.composed = Instant::now();
            let names = state.enlisting.iter().map(|(ns, _)| ns.clone()).collect();
            return NextAction::Write(write, names);
        }
        if state.retiring && state.recorder.is_settled() {
            return NextAction::Retire;
        }
        let again = state.again.map(|again| again.saturating_duration_since(now));
        NextAction::Sleep(beat.saturating_sub(idle).min(again.unwrap_or(beat)))
    }

    /// Notes that the write was acknowledged.
    pub(super) fn acknowledged(&self, epoch: u64, names: &[Namespace]) -> recorder::Verdict {
        let mut state = self.state();
        state.last_write = Instant::now();
        state.alive = state.composed;
        let verdict = state.recorder.acknowledged(epoch);
        state.listed.extend(names.iter().cloned());
        let State { enlisting, listed, .. } = &mut *state;
        let (done, left): (Vec<_>, Vec<_>) = enlisting.drain(..).partition(|(ns, _)| listed.contains(ns));
        *enlisting = left;
        done.into_iter().for_each(|(_, sender)| drop(sender.send(Ok(()))));
        self.answer(&mut state, &verdict);
        verdict
    }

    /// A write that was bound to its connection was not answered.
    pub(super) fn connection_lost(&self) {
        self.state().recorder.connection_lost();
    }

    pub(super) fn examined(&self, record: Option<&ClientRecord>) -> recorder::Verdict {
        let mut state = self.state();
        let verdict = state.recorder.examined(record);
        self.answer(&mut state, &verdict);
        verdict
    }

    fn answer(&self, state: &mut State, verdict: &recorder::Verdict) {
        match verdict {
            recorder::Verdict::GoOn(outcomes) => state.answer(outcomes.clone(), self.client),
            recorder::Verdict::SendAgain => {}
            recorder::Verdict::Lost(outcomes) => {
                state.answer(outcomes.clone(), self.client);
                self.end(state);
            }
        }
    }

    /// The server has not settled the write in time: the transactions that it would have decided
    /// have an unknown outcome, the others are known not to be committed.
    pub(super) fn give_up(&self) {
        let mut state = self.state();
        let outcomes = state.recorder.abandon(None);
        state.answer(outcomes, self.client);
        self.end(&mut state);
    }

    pub(super) fn stamp(&self) -> u64 {
        self.state().recorder.stamp()
    }

    pub(super) fn finish_closing(&self) {
        self.end(&mut self.state());
    }

    fn end(&self, state: &mut State) {
        state.enlisting.drain(..).for_each(|(_, sender)| drop(sender.send(Err(gone()))));
        state.closed = true;
        self.closed.notify_waiters();
    }
}

impl State {
    fn answer(&mut self, outcomes: Vec<TransactionEnd>, client: ClientId) {
        for outcome in outcomes {
            let (seq, answer) = match outcome {
                TransactionEnd::Committed(seq) => (seq, Ok(Answer::Committed)),
                TransactionEnd::RolledBack(seq) => (seq, Err(lost(TxId { client, seq }))),
                TransactionEnd::Indeterminate(seq) => (seq, Err(unanswered())),
            };
            self.commit_conditions.remove(&seq);
            self.held.remove(&seq);
            if let Some(waiter) = self.waiters.remove(&seq) {
                let _ = waiter.send(answer);
            }
        }
    }
}

fn unanswered() -> Error {
    Error::new(ErrorKind::Indeterminate, "the commit was sent and its answer did not arrive in time")
}

fn gone() -> Error {
    Error::new(ErrorKind::Expired, "the client record was given up while the transaction waited for it")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn who_waits_for_a_record_to_list_a_collection_hears_that_it_is_closed() {
        let times = RecordTimes { since: Instant::now(), registered: Instant::now() };
        let live = Arc::new(LiveRecord::new(ClientId([1; 12]), 1_000, Namespace::new("d", "a"), times));
        live.enlist(&Namespace::new("d", "a")).await.unwrap();
        let waiting = Arc::clone(&live);
        let listed = tokio::spawn(async move { waiting.enlist(&Namespace::new("d", "b")).await });
        while live.state().enlisting.is_empty() {
            tokio::task::yield_now().await;
        }
        live.finish_closing();
        let heard = tokio::time::timeout(Duration::from_secs(60), listed).await.expect("it waits for ever");
        assert_eq!(heard.unwrap().unwrap_err().kind(), ErrorKind::Expired);
        assert_eq!(live.enlist(&Namespace::new("d", "b")).await.unwrap_err().kind(), ErrorKind::Expired);
    }

    #[test]
    fn a_record_that_lists_many_collections_takes_no_more_transactions() {
        let times = RecordTimes { since: Instant::now(), registered: Instant::now() };
        let live = LiveRecord::new(ClientId([1; 12]), 1_000, Namespace::new("d", "c0"), times);
        let listing = |many: usize| {
            live.state().listed.extend((0..many).map(|n| Namespace::new("d", &format!("c{n}"))));
            live.is_usable(1_000, 0)
        };
        assert!(listing(MOST_COLLECTIONS - 1));
        assert!(!listing(MOST_COLLECTIONS));
    }
}
