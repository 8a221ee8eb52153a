//! The lease as the client knows it, and the rules about it: when it is held, which permits it
//! gives, and whether the answer to a permitted query is to be believed. Sends nothing, and knows
//! no server: the task that renews the lease is in `keeper.rs`, its commands in `stored.rs`.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bson::oid::ObjectId;
use protocol::TxId;
use tokio::sync::Notify;

use super::{
    beside_own_changes::{ConcurrentDecisions, PermitBeside},
    collections::{Collections, Preparation, SettlingEnd},
    decisions::{CollectionChanges, Decisions, FoundBy},
    demand::Demand,
};
use crate::{coordinator::stamps::moment::Moment, options::Namespace};

/// Time that the lease is held after the client sent the read that shows that it is alone.
pub(super) const LENGTH: Duration = Duration::from_secs(1);
/// Time that a lease is kept that no query uses.
const IDLE: Duration = Duration::from_secs(5);
/// The right to send one query without a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Permit {
    /// Number of the lease: another one for each that is taken.
    lease: u64,
    /// The server process in which the collections are settled.
    pub(super) process: ObjectId,
    /// Number of the last decision that had begun in the collections.
    decisions: u64,
}

/// A transaction that is being decided. If it is dropped without an outcome, because its task was
/// stopped for instance, its collections are probed from then on.
pub(crate) struct DecisionInProgress {
    lease: Arc<ReadLease>,
    number: u64,
    written: Vec<CollectionChanges>,
}

impl DecisionInProgress {
    /// The transaction was handed to the finisher, or it is certain that it is not committed.
    pub(crate) fn over(self) {
        self.lease.state().decisions.end(self.number, &self.written);
    }
}

/// The lease of one client.
#[derive(Default)]
pub(crate) struct ReadLease {
    state: Mutex<State>,
    /// Wakes the task that keeps the lease, and the tasks that wait for its end.
    changed: Notify,
}

/// State of the lease: whether it is held, and what may be read under it.
#[derive(Default)]
struct State {
    /// Number of the last lease: it rises when one begins, is lost, or has run out.
    lease: u64,
    /// The moment at which the client sent the read that shows that it is alone, while it holds a
    /// lease.
    held: Option<Moment>,
    /// Times of the first and the last renewal of the leases that one task has held.
    renewed: Option<(Instant, Instant)>,
    /// Time of the last query that could use it.
    used: Option<Instant>,
    collections: Collections,
    decisions: Decisions,
    demand: Demand,
    /// The client has been shut down.
    is_closed: bool,
}

/// State of the lease, for a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lease {
    Held,
    /// A task is to be started that takes it.
    Wanted,
    Absent,
}

/// Permission to read a collection without a probe.
pub(super) enum ReadPermission<'a> {
    Refused,
    /// The collection has to be settled before.
    AfterSettling(SettlingCollection<'a>),
    Granted,
}

/// A collection that is being settled. Dropped before that has ended, it is not.
pub(super) struct SettlingCollection<'a> {
    lease: &'a ReadLease,
    ns: Namespace,
    number: u64,
    process: ObjectId,
    outcome: SettlingEnd,
}

impl SettlingCollection<'_> {
    /// Nothing decided is left in the collection, or something is.
    pub(super) fn ended(mut self, is_settled: bool) {
        self.outcome = if is_settled { SettlingEnd::Clean } else { SettlingEnd::NotClean };
    }
}

impl Drop for SettlingCollection<'_> {
    fn drop(&mut self) {
        let mut state = self.lease.state();
        state.collections.stop_settling(&self.ns);
        if state.lease == self.number {
            state.collections.note_settled(&self.ns, self.process, self.outcome);
        }
    }
}

impl ReadLease {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A transaction that has written this is about to be decided.
    /// `is_left` says whether a transaction that was decided has left something in a collection.
    pub(crate) fn deciding(
        self: &Arc<Self>,
        id: TxId,
        written: Vec<CollectionChanges>,
        is_left: impl Fn(&Namespace, TxId) -> bool,
    ) -> DecisionInProgress {
        let number = self.state().decisions.begin(id, &written, is_left);
        DecisionInProgress { lease: Arc::clone(self), number, written }
    }

    /// A query is about to be sent. Is the lease held, or else, as one more is probed, to be taken
    /// now?
    pub(super) fn asked(&self) -> Lease {
        let mut state = self.state();
        match () {
            () if state.is_held() => Lease::Held,
            () if !state.is_closed && state.demand.is_enough(Instant::now()) => Lease::Wanted,
            () => Lease::Absent,
        }
    }

    /// Is nothing known that keeps this collection from being asked without a probe?
    pub(super) fn may_be_asked(&self, ns: &Namespace) -> bool {
        !self.state().is_out(ns, Instant::now())
    }

    /// May this collection be asked without a probe, as far as the lease goes?
    pub(super) fn permission(&self, ns: &Namespace, process: ObjectId) -> ReadPermission<'_> {
        if self.state().is_out(ns, Instant::now()) {
            ReadPermission::Refused
        } else {
            self.permission_beside(ns, process)
        }
    }

    /// As [`Self::permission`], for a query beside what is being decided.
    pub(super) fn permission_beside(&self, ns: &Namespace, process: ObjectId) -> ReadPermission<'_> {
        let mut state = self.state();
        if !state.is_held() {
            return ReadPermission::Refused;
        }
        match state.collections.prepare(ns, process) {
            Preparation::Nothing => ReadPermission::Granted,
            Preparation::Wait => ReadPermission::Refused,
            Preparation::Settle => {
                let (number, outcome) = (state.lease, SettlingEnd::GivenUp);
                ReadPermission::AfterSettling(SettlingCollection {
                    lease: self,
                    ns: ns.clone(),
                    number,
                    process,
                    outcome,
                })
            }
        }
    }

    /// Returns true if a transaction that has written to this collection is being decided.
    pub(super) fn is_deciding(&self, ns: &Namespace) -> bool {
        self.state().decisions.are_open(ns)
    }

    /// Notes whether a query beside what is left was answered so. After one in vain the collection
    /// has none for a while, twice as long each time.
    pub(super) fn note_beside(&self, ns: &Namespace, is_answered: bool) {
        self.state().collections.note_beside(ns, is_answered);
    }

    /// Returns true if a query beside what is left was in vain in this collection a moment ago.
    pub(super) fn was_in_vain(&self, ns: &Namespace) -> bool {
        self.state().collections.was_in_vain(ns)
    }

    /// Notes a query of a collection; `has_left`: this client has left something there. Returns
    /// true if that is to be finished now: not for the very first query that meets something, which
    /// may be the only one, and not again within a short time.
    pub(super) fn meets(&self, ns: &Namespace, has_left: bool) -> bool {
        let mut state = self.state();
        state.used = Some(Instant::now());
        // Without it, the time stands: what is left next is not finished within it.
        has_left && state.collections.meets_left(ns)
    }

    /// The right to ask these collections, each of which was settled in this process.
    pub(super) fn permit(&self, collections: &[&Namespace], process: ObjectId) -> Option<Permit> {
        let state = self.state();
        let is_settled = |ns: &&Namespace| state.collections.is_settled(ns, process) && !state.decisions.are_open(ns);
        let is_permitted = state.is_held() && collections.iter().all(is_settled);
        is_permitted.then(|| Permit { lease: state.lease, process, decisions: state.decisions.last(collections) })
    }

    /// Returns true if the permit has been good all the time, now that the answer has come.
    pub(super) fn answers(&self, permit: Permit, collections: &[&Namespace]) -> bool {
        let mut state = self.state();
        if !state.is_held() || state.lease != permit.lease {
            return false;
        }
        // Part of what was decided meanwhile may be in the answer.
        let is_undisturbed = state.decisions.last(collections) == permit.decisions;
        collections.iter().for_each(|ns| state.collections.note_answer(ns, is_undisturbed));
        is_undisturbed
    }

    /// The number of decisions that have begun, if none is under way in the collection.
    pub(super) fn begun_and_over(&self, ns: &Namespace) -> Option<u64> {
        self.state().decisions.begun_and_over(ns)
    }

    /// Notes that nothing of this client was left in the collection after [`Self::begun_and_over`].
    pub(super) fn nothing_is_left(&self, ns: &Namespace, by: u64) {
        self.state().decisions.nothing_is_left(ns, by);
    }

    /// The right to ask this collection beside what this client's transactions have left there, if
    /// it was settled in this process. `is_left` says whether a transaction that was decided has
    /// left something.
    pub(super) fn permit_beside(
        &self,
        ns: &Namespace,
        process: ObjectId,
        found_by: FoundBy,
        is_left: impl Fn(TxId) -> bool,
    ) -> Option<PermitBeside> {
        let mut state = self.state();
        if !state.is_held() || !state.collections.is_settled(ns, process) {
            return None;
        }
        state.used = Some(Instant::now());
        // One look at the state: what begins later has a higher number.
        let (lease, decisions) = (state.lease, state.decisions.begun());
        let open = state.decisions.beside(ns, &found_by, is_left)?;
        Some(PermitBeside { lease, process, decisions, found_by, open })
    }

    /// The decisions that were under way in the collection when the permit was given, and those
    /// that have begun since, if it has been good all the time, and none of them makes a difference
    /// to which documents are found.
    pub(super) fn begun_beside(&self, permit: &PermitBeside, ns: &Namespace) -> Option<ConcurrentDecisions> {
        let state = self.state();
        if !state.is_held() || state.lease != permit.lease {
            return None;
        }
        let later = state.decisions.since(ns, permit.decisions)?;
        ConcurrentDecisions::of(permit, later)
    }

    /// Begins a lease that is not held yet, and answers its number. `None`: the client has been
    /// shut down.
    pub(super) fn begin(&self) -> Option<u64> {
        let mut state = self.state();
        state.lose();
        state.used = Some(Instant::now());
        (!state.is_closed).then_some(state.lease)
    }

    /// The client was alone by a read that was sent at `asked`. Returns the number of the lease:
    /// one that had run out gets a new number. `None`: it was lost.
    pub(super) fn renew(&self, lease: u64, asked: Moment) -> Option<u64> {
        let mut state = self.state();
        if state.lease != lease || state.is_closed {
            return None;
        }
        if state.held.is_some() && !state.is_held() {
            state.lose();
        }
        let now = Instant::now();
        state.renewed = Some((state.renewed.map_or(now, |(first, _)| first), now));
        state.held = Some(asked);
        Some(state.lease)
    }

    /// Returns true if no query uses the lease any more.
    pub(super) fn is_idle(&self) -> bool {
        self.state().used.is_none_or(|used| used.elapsed() >= IDLE)
    }

    /// Returns true if this is the lease that is to be kept.
    pub(super) fn is_current(&self, lease: u64) -> bool {
        let state = self.state();
        state.lease == lease && !state.is_closed
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state().is_closed
    }

    /// Ends the lease: answers without a probe that were read, or are being read, count no more.
    pub(crate) fn lose(&self) {
        self.state().lose();
        self.changed.notify_waiters();
    }

    /// The task that takes and keeps the lease has ended.
    pub(super) fn ended(&self) {
        let mut state = self.state();
        let held = state.renewed.take().map_or(Duration::ZERO, |(first, last)| last - first);
        state.demand.ended(held, Instant::now());
        drop(state);
        self.changed.notify_waiters();
    }

    /// Sleeps, unless the lease is lost before.
    pub(super) async fn pause(&self, lease: u64, pause: Duration) {
        let changed = self.changed.notified();
        if self.is_current(lease) {
            let _ = tokio::time::timeout(pause, changed).await;
        }
    }

    /// Waits until the client is shut down.
    pub(super) async fn until_closed(&self) {
        loop {
            let changed = self.changed.notified();
            if self.is_closed() {
                return;
            }
            changed.await;
        }
    }

    /// Ends the lease for good, and waits at most for `limit` until its task has ended.
    pub(super) async fn close(&self, limit: Duration) {
        {
            let mut state = self.state();
            state.is_closed = true;
            state.lose();
        }
        self.changed.notify_waiters();
        let ended = async {
            loop {
                let changed = self.changed.notified();
                if !self.state().demand.is_kept() {
                    return;
                }
                changed.await;
            }
        };
        let _ = tokio::time::timeout(limit, ended).await;
    }
}

impl State {
    fn is_held(&self) -> bool {
        self.held.is_some_and(|since| since.elapsed() < LENGTH)
    }

    /// Is the collection to be probed now, whether it is settled or not?
    fn is_out(&self, ns: &Namespace, now: Instant) -> bool {
        !self.is_held() || self.decisions.are_open(ns) || self.collections.is_probed(ns, now)
    }

    fn lose(&mut self) {
        self.lease += 1;
        self.held = None;
        self.collections.lose();
    }
}

#[cfg(test)]
mod tests;
