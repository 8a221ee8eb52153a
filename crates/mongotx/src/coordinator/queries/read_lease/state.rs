//! The lease as the client knows it, and the rules about it. Sends nothing.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bson::oid::ObjectId;
use protocol::TxId;
use tokio::sync::Notify;

use super::decisions::{Begun, Decisions, FoundBy, Written};
use crate::{
    backoff::Backoff,
    coordinator::{
        asked::{fields::Fields, own_key::OwnKey},
        stamps::moment::Moment,
    },
    options::Namespace,
};

/// Time that the lease is held after the client sent the read that shows that it is alone.
pub(super) const LENGTH: Duration = Duration::from_secs(1);
/// Time that a lease is kept that no query uses.
const IDLE: Duration = Duration::from_secs(5);
/// Number of probed queries within [`WINDOW`] that are worth a lease.
const WORTH: u32 = 200;
const WINDOW: Duration = Duration::from_secs(5);
/// Pauses before another attempt, twice as long each time that a lease was not held for longer than
/// the last one: the first, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// Pauses before another query without a probe, in a collection where decisions have made the last
/// one worthless.
const BUSY: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(2));
/// Pause between two times that what is left in a collection is finished for queries: what is
/// committed meanwhile is finished together.
const FINISHING: Duration = Duration::from_millis(10);
/// Time for which a collection that could not be settled is left alone, and one whose settling was
/// given up.
const UNSETTLED: Duration = Duration::from_secs(10);
const GIVEN_UP: Duration = Duration::from_secs(1);
/// The most collections that are remembered.
const MAX_COLLECTIONS: usize = 10_000;

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

/// The right to send one query of a collection without a probe, beside what transactions of this
/// client have left there (decision 0077).
#[derive(Clone, Debug)]
pub(crate) struct PermitBeside {
    /// Number of the lease: another one for each that is taken.
    lease: u64,
    /// The server process in which the collection is settled.
    pub(super) process: ObjectId,
    /// Number of the last decision that had begun in any collection.
    decisions: u64,
    /// Fields on which it depends which documents the query finds.
    found_by: FoundBy,
    /// The decisions that were under way in the collection.
    open: Vec<Begun>,
}

/// Decisions beside which a query was carried out.
pub(crate) struct Meanwhile {
    /// The query finds documents by their `_id`s alone.
    is_by_id: bool,
    /// Those that were under way when it was permitted.
    open: Vec<Begun>,
    /// Those that have begun since.
    later: Vec<Begun>,
}

impl Meanwhile {
    /// Returns true if this transaction has begun to be decided since the query was permitted.
    pub(crate) fn has_begun_later(&self, id: TxId) -> bool {
        self.later.iter().any(|one| one.id == id)
    }

    /// Returns true if they all together have written to one document of the answer at most.
    /// Documents that have come or gone count whether they are in the answer or not.
    pub(super) fn have_written_to_one(&self, answer: &[Option<OwnKey>]) -> bool {
        let mut written = HashSet::new();
        for one in self.open.iter().chain(&self.later) {
            let Some(documents) = &one.documents else { return false };
            let may_come_or_go = self.is_by_id && one.fields == Fields::All;
            let is_counted = |key: &&OwnKey| may_come_or_go || answer.iter().flatten().any(|shown| shown == *key);
            written.extend(documents.iter().filter(is_counted));
        }
        let has_others = !self.open.is_empty() || !self.later.is_empty();
        written.len() <= 1 && !(has_others && answer.contains(&None))
    }
}

/// A transaction that is being decided. If it is dropped without an outcome, because its task was
/// stopped for instance, its collections are probed from then on.
pub(crate) struct Deciding {
    lease: Arc<ReadLease>,
    number: u64,
    written: Vec<Written>,
}

impl Deciding {
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
    collections: HashMap<Namespace, Collection>,
    settling: HashSet<Namespace>,
    /// Collections in which the last query has met what this client has left, and the time before
    /// which that is not finished for another one.
    met: HashMap<Namespace, Instant>,
    decisions: Decisions,
    /// Collections in which a query beside what is left was in vain, and the time until which there
    /// is no other.
    in_vain: HashMap<Namespace, (Instant, Backoff)>,
    demand: Demand,
    /// The client has been shut down.
    is_closed: bool,
}

/// Knowledge about one collection in this lease.
enum Collection {
    /// The collection was settled in this server process. `Some`: its queries have probes until
    /// this time; the back-off gives the length of the next such period.
    Settled(ObjectId, Option<(Instant, Backoff)>),
    /// The collection could not be settled. No attempt is made before this time.
    Unsettled(Instant),
}

/// Probed queries, and when they are worth a lease.
#[derive(Default)]
struct Demand {
    since: Option<Instant>,
    queries: u32,
    /// A task takes or keeps a lease.
    is_kept: bool,
    /// Time before which no attempt is made.
    not_before: Option<Instant>,
    /// Length of the last pause.
    pause: Duration,
}

impl Demand {
    fn is_enough(&mut self, now: Instant) -> bool {
        if self.is_kept || self.not_before.is_some_and(|at| now < at) {
            return false;
        }
        if self.since.is_none_or(|since| now >= since + WINDOW) {
            self.since = Some(now);
            self.queries = 0;
        }
        self.queries += 1;
        self.is_kept = self.queries >= WORTH;
        self.is_kept
    }

    /// Notes the end of a task that has held leases for this time.
    fn ended(&mut self, held: Duration, now: Instant) {
        let pause = match held > self.pause {
            true => PAUSE.0,
            false => (2 * self.pause).clamp(PAUSE.0, PAUSE.1),
        };
        *self = Self { not_before: Some(now + pause), pause, ..Self::default() };
    }
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
pub(super) enum May<'a> {
    Not,
    /// The collection has to be settled before.
    Settle(Settling<'a>),
    Ask,
}

/// A collection that is being settled. Dropped before that has ended, it is not.
pub(super) struct Settling<'a> {
    lease: &'a ReadLease,
    ns: Namespace,
    number: u64,
    process: ObjectId,
    outcome: Option<bool>,
}

impl Settling<'_> {
    /// Nothing decided is left in the collection, or something is.
    pub(super) fn ended(mut self, is_settled: bool) {
        self.outcome = Some(is_settled);
    }
}

impl Drop for Settling<'_> {
    fn drop(&mut self) {
        let mut state = self.lease.state();
        state.settling.remove(&self.ns);
        if state.lease != self.number {
            return;
        }
        if state.collections.len() >= MAX_COLLECTIONS {
            state.collections.clear();
        }
        let known = match self.outcome {
            Some(true) => Collection::Settled(self.process, None),
            Some(false) => Collection::Unsettled(Instant::now() + UNSETTLED),
            None => Collection::Unsettled(Instant::now() + GIVEN_UP),
        };
        state.collections.insert(self.ns.clone(), known);
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
        written: Vec<Written>,
        is_left: impl Fn(&Namespace, TxId) -> bool,
    ) -> Deciding {
        let number = self.state().decisions.begin(id, &written, is_left);
        Deciding { lease: Arc::clone(self), number, written }
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
    pub(super) fn may(&self, ns: &Namespace, process: ObjectId) -> May<'_> {
        if self.state().is_out(ns, Instant::now()) { May::Not } else { self.may_beside(ns, process) }
    }

    /// As [`Self::may`], for a query beside what is being decided.
    pub(super) fn may_beside(&self, ns: &Namespace, process: ObjectId) -> May<'_> {
        let mut state = self.state();
        match state.collections.get(ns) {
            _ if !state.is_held() => return May::Not,
            Some(Collection::Unsettled(until)) if Instant::now() < *until => return May::Not,
            Some(Collection::Settled(settled, _)) if *settled == process => return May::Ask,
            _ if state.settling.contains(ns) => return May::Not,
            _ => {}
        }
        state.settling.insert(ns.clone());
        May::Settle(Settling { lease: self, ns: ns.clone(), number: state.lease, process, outcome: None })
    }

    /// Returns true if a transaction that has written to this collection is being decided.
    pub(super) fn is_deciding(&self, ns: &Namespace) -> bool {
        self.state().decisions.are_open(ns)
    }

    /// Notes whether a query beside what is left was answered so. After one in vain the collection
    /// has none for a while, twice as long each time.
    pub(super) fn note_beside(&self, ns: &Namespace, is_answered: bool) {
        let (mut state, now) = (self.state(), Instant::now());
        if is_answered {
            state.in_vain.remove(ns);
            return;
        }
        if state.in_vain.len() >= MAX_COLLECTIONS {
            state.in_vain.clear();
        }
        let mut backoff = state.in_vain.get(ns).map_or(Backoff::new(BUSY.0, BUSY.1), |(_, backoff)| *backoff);
        let until = now + backoff.next_pause();
        state.in_vain.insert(ns.clone(), (until, backoff));
    }

    /// Returns true if a query beside what is left was in vain in this collection a moment ago.
    pub(super) fn was_in_vain(&self, ns: &Namespace) -> bool {
        self.state().in_vain.get(ns).is_some_and(|(until, _)| Instant::now() < *until)
    }

    /// Notes a query of a collection; `has_left`: this client has left something there. Returns
    /// true if that is to be finished now: not for the very first query that meets something, which
    /// may be the only one, and not again within a short time.
    pub(super) fn meets(&self, ns: &Namespace, has_left: bool) -> bool {
        let mut state = self.state();
        state.used = Some(Instant::now());
        if !has_left {
            // The time stands: what is left next is not finished within it.
            return false;
        }
        let now = Instant::now();
        if state.met.len() >= MAX_COLLECTIONS {
            state.met.retain(|_, until| now < *until);
        }
        match state.met.insert(ns.clone(), now + FINISHING) {
            Some(until) if now < until => {
                state.met.insert(ns.clone(), until);
                false
            }
            before => before.is_some(),
        }
    }

    /// The right to ask these collections, each of which was settled in this process.
    pub(super) fn permit(&self, collections: &[&Namespace], process: ObjectId) -> Option<Permit> {
        let state = self.state();
        let is_settled = |ns: &&Namespace| match state.collections.get(ns) {
            Some(Collection::Settled(settled, _)) => *settled == process && !state.decisions.are_open(ns),
            Some(Collection::Unsettled(_)) | None => false,
        };
        let may = state.is_held() && collections.iter().all(is_settled);
        may.then(|| Permit { lease: state.lease, process, decisions: state.decisions.last(collections) })
    }

    /// Returns true if the permit has been good all the time, now that the answer has come.
    pub(super) fn answers(&self, permit: Permit, collections: &[&Namespace]) -> bool {
        let mut state = self.state();
        if !state.is_held() || state.lease != permit.lease {
            return false;
        }
        // Part of what was decided meanwhile may be in the answer.
        let is_undisturbed = state.decisions.last(collections) == permit.decisions;
        for ns in collections {
            if let Some(Collection::Settled(_, busy)) = state.collections.get_mut(ns) {
                *busy = match is_undisturbed {
                    true => None,
                    false => {
                        let mut backoff = busy.map_or(Backoff::new(BUSY.0, BUSY.1), |(_, backoff)| backoff);
                        Some((Instant::now() + backoff.next_pause(), backoff))
                    }
                };
            }
        }
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
        let is_settled =
            matches!(state.collections.get(ns), Some(Collection::Settled(settled, _)) if *settled == process);
        if !state.is_held() || !is_settled {
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
    pub(super) fn begun_beside(&self, permit: &PermitBeside, ns: &Namespace) -> Option<Meanwhile> {
        let state = self.state();
        if !state.is_held() || state.lease != permit.lease {
            return None;
        }
        let later = state.decisions.since(ns, permit.decisions)?;
        let is_disturbed = later.iter().any(|one| permit.found_by.is_disturbed_by(&one.fields));
        let is_by_id = permit.found_by == FoundBy::Id;
        (!is_disturbed).then(|| Meanwhile { is_by_id, open: permit.open.clone(), later })
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
                if !self.state().demand.is_kept {
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
        let until = match self.collections.get(ns) {
            Some(Collection::Settled(_, Some((until, _))) | Collection::Unsettled(until)) => Some(*until),
            _ => None,
        };
        !self.is_held() || self.decisions.are_open(ns) || until.is_some_and(|until| now < until)
    }

    fn lose(&mut self) {
        self.lease += 1;
        self.held = None;
        self.collections.clear();
        self.met.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(n: u8) -> ObjectId {
        ObjectId::from_bytes([n; 12])
    }

    fn coll() -> Namespace {
        Namespace::new("db", "c")
    }

    fn id(seq: u64) -> TxId {
        TxId { client: protocol::ClientId([1; 12]), seq }
    }

    fn all() -> Written {
        Written { ns: coll(), fields: Fields::All, documents: None }
    }

    fn ago(time: Duration) -> Moment {
        Moment::now().earlier(time, Duration::ZERO)
    }

    /// A lease that is held, and in which the collection was settled in process 1.
    fn held() -> (Arc<ReadLease>, u64) {
        let lease = Arc::new(ReadLease::default());
        let number = lease.begin().unwrap();
        assert_eq!(lease.renew(number, Moment::now()), Some(number));
        settle(&lease, 1);
        (lease, number)
    }

    fn settle(lease: &ReadLease, n: u8) {
        let May::Settle(settling) = lease.may(&coll(), process(n)) else { panic!("it is not to be settled") };
        assert!(matches!(lease.may(&coll(), process(n)), May::Not), "somebody else does it");
        settling.ended(true);
    }

    fn permit(lease: &ReadLease) -> Option<Permit> {
        lease.permit(&[&coll()], process(1))
    }

    #[test]
    fn answers_are_believed_as_long_as_the_lease_is_held() {
        let (lease, number) = held();
        let given = permit(&lease).unwrap();
        assert!(lease.answers(given, &[&coll()]));
        assert_eq!(lease.renew(number, Moment::now()), Some(number));
        assert!(lease.answers(given, &[&coll()]), "a renewed lease is the same");
        lease.lose();
        assert!(!lease.answers(given, &[&coll()]) && permit(&lease).is_none());
        assert_eq!(lease.renew(number, Moment::now()), None, "this one is lost");
        assert!(!lease.is_current(number));
    }

    #[test]
    fn a_lease_that_has_run_out_and_is_renewed_is_another_one() {
        let (lease, number) = held();
        let given = permit(&lease).unwrap();
        lease.renew(number, ago(LENGTH)).unwrap();
        assert!(lease.asked() != Lease::Held && !lease.answers(given, &[&coll()]) && permit(&lease).is_none());
        let renewed = lease.renew(number, Moment::now()).unwrap();
        assert_ne!(renewed, number);
        assert!(!lease.answers(given, &[&coll()]) && permit(&lease).is_none());
        settle(&lease, 1);
        assert!(permit(&lease).is_some());
    }

    #[test]
    fn either_clock_ends_a_lease() {
        let (lease, number) = held();
        let suspended = Moment::now().earlier(Duration::ZERO, LENGTH);
        lease.renew(number, suspended).unwrap();
        assert!(lease.asked() != Lease::Held);
    }

    #[test]
    fn a_collection_is_settled_in_each_server_process() {
        let (lease, _) = held();
        let given = permit(&lease).unwrap();
        assert!(matches!(lease.may(&coll(), process(1)), May::Ask));
        assert!(lease.permit(&[&coll()], process(2)).is_none());
        settle(&lease, 2);
        assert!(lease.permit(&[&coll()], process(2)).is_some() && permit(&lease).is_none());
        assert!(lease.answers(given, &[&coll()]), "the process is compared by who gives the permit");
    }

    #[test]
    fn settling_that_is_given_up_is_not_tried_again_at_once() {
        let (lease, _) = held();
        drop(lease.may(&coll(), process(2)));
        assert!(matches!(lease.may(&coll(), process(2)), May::Not));
        let other = Namespace::new("db", "d");
        let May::Settle(settling) = lease.may(&other, process(1)) else { panic!("it is not to be settled") };
        lease.lose();
        let number = lease.begin().unwrap();
        lease.renew(number, Moment::now()).unwrap();
        settling.ended(true);
        assert!(lease.permit(&[&other], process(1)).is_none(), "it was settled in another lease");
    }

    #[test]
    fn what_is_being_decided_stands_in_the_way() {
        let (lease, _) = held();
        let before = permit(&lease).unwrap();
        let deciding = lease.deciding(id(1), vec![all()], |_, _| true);
        assert!(matches!(lease.may(&coll(), process(1)), May::Not) && permit(&lease).is_none());
        deciding.over();
        assert!(!lease.answers(before, &[&coll()]), "the answer may show a part of it");
        assert!(matches!(lease.may(&coll(), process(1)), May::Not), "not again at once");
        let (lease, _) = held();
        drop(lease.deciding(id(1), vec![all()], |_, _| true));
        assert!(permit(&lease).is_none(), "its outcome is not known");
    }

    #[test]
    fn what_is_left_is_finished_for_queries_from_time_to_time() {
        let (lease, _) = held();
        let meets = |has_left| lease.meets(&coll(), has_left);
        assert_eq!([meets(false), meets(true), meets(true)], [false; 3], "not at once");
        let mut times = 0;
        let begun = Instant::now();
        while times < 3 {
            times += u32::from(meets(true));
            assert!(!meets(false));
        }
        assert!(begun.elapsed() >= 2 * FINISHING, "it is finished together");
    }

    #[test]
    fn leases_are_wanted_where_many_queries_are_probed() {
        let lease = ReadLease::default();
        let wanted = |times| (0..times).filter(|_| lease.asked() == Lease::Wanted).count();
        assert_eq!(wanted(WORTH - 1), 0);
        assert_eq!(wanted(10 * WORTH), 1, "one task takes it");
        lease.ended();
        assert_eq!(wanted(WORTH), 0, "not again at once");
    }

    #[test]
    fn pauses_between_attempts_in_vain_grow() {
        let (mut demand, now) = (Demand::default(), Instant::now());
        let mut pauses = Vec::new();
        for held in [0, 0, 2, 3, 0, 0] {
            demand.ended(Duration::from_secs(held), now);
            pauses.push((demand.not_before.unwrap() - now).as_secs());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 10, 10]);
        demand.ended(Duration::from_secs(11), now);
        assert_eq!(demand.not_before.unwrap() - now, PAUSE.0, "it was worth it");
    }

    #[tokio::test]
    async fn a_client_that_is_shut_down_takes_no_lease() {
        let (lease, number) = held();
        lease.close(Duration::from_secs(60)).await;
        assert!(!lease.is_current(number) && lease.asked() != Lease::Held);
        assert_eq!((lease.begin(), lease.renew(number, Moment::now())), (None, None));
        assert!((0..2 * WORTH).all(|_| lease.asked() == Lease::Absent));
    }
}
