//! Documents that decided transactions have left locked and that are not finished yet, by
//! collection, and the time at which they are to be finished.
//!
//! | documents left in a collection are finished | |
//! | --- | --- |
//! | when this many documents have come together | [`TOGETHER`] |
//! | when no document was left there for this long | the client's `finish_delay` |
//! | when more and more is left there, and the first of it has waited longer than that | [`BUSY`] times as long; as long, if [`SEVERAL`] transactions have left something |
//! | at once | if a caller waits for it, if something of it was rolled back or is read-locked, when the client ends, and for a second when rivals have met what waited |
//!
//! A collection is finished by one flight at a time: documents that come meanwhile go with the next
//! one.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use bson::oid::ObjectId;
use protocol::TxId;
use tokio::time::Instant;

use super::{
    ByNow, CommitTime, HeldDocuments, Job,
    recently_finished::RecentlyFinished,
    work::{Part, Work},
};
use crate::{backoff::Backoff, options::Namespace};

/// Documents of one collection that are finished as soon as they have come together.
pub(super) const TOGETHER: usize = 64;
/// Factor of the delay that a document waits where others come all the while.
const BUSY: u32 = 4;
/// Transactions that have left something in a collection: of more than these, a transaction that
/// takes documents over does not name all.
const SEVERAL: usize = 16;
/// Time for which no document waits when rivals have met some that did.
const EAGER: Duration = Duration::from_secs(1);
/// A delay that callers hardly notice. With a delay no longer than this, no look is needed whether
/// rivals have met what waits.
const UNNOTICED: Duration = Duration::from_millis(5);
/// Pause between two such looks.
const LOOKS: Duration = Duration::from_millis(100);
/// Documents that may wait: more make commits wait of transactions that are not large.
pub(super) const MAX_WAITING: usize = 1_000;
/// Number of documents of one collection from which on a transaction has a flight of its own.
pub(super) const LARGE: usize = 1_000;
/// Documents of such transactions that may be under way: more make commits of large transactions
/// wait.
pub(super) const MAX_LARGE: usize = 100_000;
/// Queries of a collection before which it is finished, after one that has met what waits there.
const FORESIGHT: u8 = 8;
/// Collections of which that is known.
const MAX_MET: usize = 10_000;
/// Jobs that are kept because the server refuses one of their documents; others are left to the
/// clients that meet them.
const MAX_REFUSED: usize = 1_000;
/// Pauses between two attempts at such jobs.
const REFUSED_PAUSES: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));

/// Documents of one collection that one command finishes.
pub(super) struct Flight {
    /// The collection, if it is the one flight of that.
    lane: Option<Namespace>,
    pub(super) parts: Vec<Part>,
    /// True if a caller waits for the flight.
    pub(super) is_urgent: bool,
    over: Arc<AtomicBool>,
    large: usize,
}

/// Documents of one collection that wait to be finished.
struct Batch {
    parts: Vec<Part>,
    documents: usize,
    since: Instant,
    /// Time at which the last of them came.
    latest: Instant,
    urgent: bool,
    over: Arc<AtomicBool>,
}

impl Batch {
    fn due(&self, delay: Duration) -> Instant {
        match () {
            () if self.urgent || self.documents >= TOGETHER => self.since,
            () if self.parts.len() >= SEVERAL => self.since + delay,
            () => (self.latest + delay).min(self.since + delay * BUSY),
        }
    }
}

/// Documents of one collection that wait, and the flight there that is under way.
#[derive(Default)]
struct Lane {
    waiting: Option<Batch>,
    flying: Option<Arc<AtomicBool>>,
}

/// A transaction that was handed over, and is not done.
struct OpenTransaction {
    number: u64,
    work: Arc<Work>,
    namespaces: Vec<Namespace>,
    /// The collections where it is not known to be clean.
    left: Vec<Namespace>,
}

/// A transaction that a caller wants finished in one collection.
pub(super) struct AwaitedWork {
    pub(super) id: TxId,
    pub(super) work: Arc<Work>,
    /// True if something of it was left there at that moment.
    pub(super) was_left: bool,
}

/// The next step of the finisher's task.
pub(super) enum NextStep {
    /// Flights that have to be sent now.
    Fly(Vec<Flight>),
    /// The server has refused these before.
    TryAgain(Vec<Part>),
    /// Sleep until this time, or until something comes.
    Sleep(Option<Instant>),
    /// No document waits and no transaction will come any more: the task ends.
    End,
}

/// The documents that decided transactions have left, and when each of them is to be finished.
pub(super) struct Backlog {
    delay: Duration,
    /// Time until which documents are finished at once and none waits: rivals have met some that
    /// waited.
    eager_until: Option<Instant>,
    /// Time of the last look whether rivals have met what waits.
    looked: Option<Instant>,
    /// True if such a look is under way.
    is_looking: bool,
    lanes: HashMap<Namespace, Lane>,
    at_once: Vec<Flight>,
    open: HashMap<TxId, OpenTransaction>,
    /// Number of committed transactions among these, by the collections where they are not known to
    /// be clean.
    committed: HashMap<Namespace, usize>,
    /// Committed transactions that are not open any more.
    recent: RecentlyFinished,
    /// Number of transactions that were ever handed over.
    numbers: u64,
    /// Number of documents that wait for a flight.
    waiting: usize,
    /// Number of waiting documents that belong to large transactions.
    large: usize,
    flying: usize,
    /// Before how many more queries of a collection it is finished.
    met: HashMap<Namespace, u8>,
    refused: Vec<Part>,
    /// Collections that these have documents of.
    refused_in: HashSet<Namespace>,
    /// True if there were more than [`MAX_REFUSED`], in whatever collections.
    has_left_refused: bool,
    again: Option<(Instant, Backoff)>,
    closed: bool,
}

fn documents(held: &HeldDocuments) -> usize {
    held.written.len() + held.read.len()
}

impl Backlog {
    pub(super) fn new(delay: Duration) -> Self {
        Self {
            delay,
            eager_until: None,
            looked: None,
            is_looking: false,
            lanes: HashMap::new(),
            at_once: Vec::new(),
            open: HashMap::new(),
            committed: HashMap::new(),
            recent: RecentlyFinished::default(),
            numbers: 0,
            waiting: 0,
            large: 0,
            flying: 0,
            met: HashMap::new(),
            refused: Vec::new(),
            refused_in: HashSet::new(),
            has_left_refused: false,
            again: None,
            closed: false,
        }
    }

    /// A transaction is decided. True if there is something to do earlier than was thought.
    pub(super) fn add(&mut self, job: Job, now: Instant) -> bool {
        let Job { id, committed, held, claims } = job;
        let held: Vec<(Namespace, HeldDocuments)> = held.into_iter().filter(|(_, held)| documents(held) > 0).collect();
        let urgent = !committed || held.iter().any(|(_, held)| !held.read.is_empty());
        let alone = held.is_empty() || held.iter().any(|(_, held)| documents(held) >= LARGE);
        let parts = if alone { 1 } else { held.len() };
        let work = Arc::new(Work::new(id, committed, claims, parts));
        let namespaces: Vec<Namespace> = held.iter().map(|(ns, _)| ns.clone()).collect();
        self.numbers += 1;
        let left = namespaces.clone();
        if committed {
            namespaces.iter().for_each(|ns| *self.committed.entry(ns.clone()).or_default() += 1);
        }
        self.open.insert(id.id(), OpenTransaction { number: self.numbers, work: Arc::clone(&work), namespaces, left });
        if alone {
            let large = held.iter().map(|(_, held)| documents(held)).sum();
            self.large += large;
            let parts = vec![Part { work, held }];
            self.at_once.push(Flight { lane: None, parts, is_urgent: true, over: Arc::default(), large });
            return true;
        }
        let mut wakes = false;
        for (ns, held) in held {
            wakes |= self.put(ns, held, Arc::clone(&work), urgent, now);
        }
        wakes
    }

    /// Current delay between the arrival of a document and its flight.
    fn delay(&self, now: Instant) -> Duration {
        if self.eager_until.is_some_and(|until| now < until) { Duration::ZERO } else { self.delay }
    }

    /// Returns true if it is time to look whether rivals have met what waited. The look counts as
    /// begun then.
    pub(super) fn looks_now(&mut self, now: Instant) -> bool {
        let is_time = !self.is_looking && self.looked.is_none_or(|last| now >= last + LOOKS);
        let looks = is_time && self.delay(now) > UNNOTICED;
        if looks {
            self.looked = Some(now);
            self.is_looking = true;
        }
        looks
    }

    /// Notes that the look has ended.
    pub(super) fn has_looked(&mut self) {
        self.is_looking = false;
    }

    /// Notes that another client has finished documents that waited here. It had to ask for the
    /// transaction's status, which is expensive.
    pub(super) fn met_by_rivals(&mut self, now: Instant) {
        self.eager_until = Some(now + EAGER);
    }

    fn put(&mut self, ns: Namespace, held: HeldDocuments, work: Arc<Work>, urgent: bool, now: Instant) -> bool {
        let delay = self.delay(now);
        let lane = self.lanes.entry(ns.clone()).or_default();
        let is_first = lane.waiting.is_none();
        let batch = lane.waiting.get_or_insert_with(|| Batch {
            parts: Vec::new(),
            documents: 0,
            since: now,
            latest: now,
            urgent: false,
            over: Arc::default(),
        });
        let was_due = batch.due(delay);
        batch.latest = now;
        self.waiting += documents(&held);
        batch.documents += documents(&held);
        batch.urgent |= urgent;
        batch.parts.push(Part { work, held: vec![(ns, held)] });
        lane.flying.is_none() && (is_first || batch.due(delay) < was_due)
    }

    pub(super) fn next(&mut self, now: Instant) -> NextStep {
        let (mut flights, delay) = (std::mem::take(&mut self.at_once), self.delay(now));
        let mut earliest: Option<Instant> = None;
        for (ns, lane) in self.lanes.iter_mut().filter(|(_, lane)| lane.flying.is_none()) {
            let Some(due) = lane.waiting.as_ref().map(|batch| batch.due(delay)) else { continue };
            if due > now && !self.closed {
                earliest = Some(earliest.map_or(due, |earliest| earliest.min(due)));
            } else if let Some(batch) = lane.waiting.take() {
                lane.flying = Some(Arc::clone(&batch.over));
                self.waiting -= batch.documents;
                let Batch { parts, urgent: is_urgent, over, .. } = batch;
                flights.push(Flight { lane: Some(ns.clone()), parts, is_urgent, over, large: 0 });
            }
        }
        self.flying += flights.len();
        if !flights.is_empty() {
            return NextStep::Fly(flights);
        }
        if self.closed {
            return if self.flying == 0 { NextStep::End } else { NextStep::Sleep(None) };
        }
        match self.again.filter(|_| !self.refused.is_empty()) {
            Some((at, _)) if at <= now => NextStep::TryAgain(std::mem::take(&mut self.refused)),
            Some((at, _)) => NextStep::Sleep(Some(earliest.map_or(at, |earliest| earliest.min(at)))),
            None => NextStep::Sleep(earliest),
        }
    }

    /// Takes note that a flight was answered or given up.
    pub(super) fn ended(&mut self, flight: &Flight) {
        flight.over.store(true, SeqCst);
        self.flying -= 1;
        self.large -= flight.large;
        if let Some(ns) = &flight.lane
            && let Some(lane) = self.lanes.get_mut(ns)
        {
            lane.flying = None;
            if lane.waiting.is_none() {
                self.lanes.remove(ns);
            }
        }
    }

    /// Notes that a part is clean.
    pub(super) fn clean(&mut self, part: &Part) {
        let id = part.work.id.id();
        let mut clean = Vec::new();
        if let Some(open) = self.open.get_mut(&id) {
            clean.extend(open.left.extract_if(.., |ns| part.held.iter().any(|(clean, _)| clean == ns)));
            if part.work.committed && part.work.is_clean() {
                self.recent.add(id, open.number);
            }
        }
        if part.work.committed {
            clean.iter().for_each(|ns| self.forget_committed(ns));
        }
        self.close(&part.work);
    }

    /// Notes that a part is clean, or that this client does not go on with it for now.
    pub(super) fn close(&mut self, work: &Work) {
        if work.part_is_closed()
            && let Some(open) = self.open.remove(&work.id.id())
            && open.work.committed
        {
            open.left.iter().for_each(|ns| self.forget_committed(ns));
        }
    }

    fn forget_committed(&mut self, ns: &Namespace) {
        if let Some(count) = self.committed.get_mut(ns) {
            *count -= 1;
            if *count == 0 {
                self.committed.remove(ns);
            }
        }
    }

    /// The server refuses a document of this part: until it gives in, the number stays in the
    /// client's record.
    pub(super) fn keep(&mut self, part: Part, now: Instant) {
        if self.refused.len() >= MAX_REFUSED {
            tracing::warn!(transaction = %part.work.id.id(), "left a transaction that cannot be finished to others");
            self.has_left_refused = true;
            return;
        }
        if self.refused.is_empty() {
            let mut backoff = REFUSED_PAUSES;
            self.again = Some((now + backoff.next_pause(), backoff));
        }
        self.refused_in.extend(part.namespaces());
        self.refused.push(part);
    }

    /// Keeps the parts that the server has refused again, for a later attempt.
    pub(super) fn keep_again(&mut self, left: Vec<Part>, now: Instant) {
        let mut backoff = self.again.map_or(REFUSED_PAUSES, |(_, backoff)| backoff);
        let at = now + backoff.next_pause();
        self.refused.extend(left);
        self.refused_in = self.refused.iter().flat_map(Part::namespaces).collect();
        self.again = (!self.refused.is_empty()).then_some((at, backoff));
    }

    /// Makes everything that this transaction has left urgent.
    pub(super) fn hurry(&mut self, id: TxId) {
        for ns in self.open.get(&id).into_iter().flat_map(|open| &open.left) {
            urge(&mut self.lanes, ns);
        }
    }

    /// Makes what these transactions have left in one collection urgent, and returns those that are
    /// known to have left something there. What they have left elsewhere goes on waiting.
    pub(super) fn ask_in(&mut self, ns: &Namespace, ids: &[TxId]) -> Vec<AwaitedWork> {
        let here = ids.iter().filter_map(|id| Some((*id, self.open.get(id)?)));
        let here = here.filter(|(_, open)| open.namespaces.contains(ns));
        let here: Vec<AwaitedWork> = here
            .map(|(id, open)| AwaitedWork { id, work: Arc::clone(&open.work), was_left: open.left.contains(ns) })
            .collect();
        if here.iter().any(|one| one.was_left) {
            urge(&mut self.lanes, ns);
        }
        here
    }

    /// Returns true if documents of this transaction in a collection are not known to be clean.
    pub(super) fn is_left_in(&self, ns: &Namespace, id: TxId) -> bool {
        self.open.get(&id).is_some_and(|open| open.left.contains(ns))
    }

    /// Returns true if this server process has made the documents clean that this transaction has
    /// left in a collection, where it is known to have left some.
    pub(super) fn is_clean_in(&self, ns: &Namespace, id: TxId, work: &Work, process: Option<ObjectId>) -> bool {
        let is_clean = self.open.get(&id).map_or_else(|| work.is_clean(), |open| !open.left.contains(ns));
        is_clean && work.was_cleaned_by(process)
    }

    /// Makes everything that waits urgent, whatever its collection.
    pub(super) fn ask_all(&mut self) {
        self.lanes.values_mut().filter_map(|lane| lane.waiting.as_mut()).for_each(|batch| batch.urgent = true);
    }

    /// Makes what is left in this collection by now due at once. Returns a flag that becomes true
    /// when that is done; `None`: nothing is left.
    pub(super) fn ask_for(&mut self, ns: &Namespace) -> Option<Arc<AtomicBool>> {
        urge(&mut self.lanes, ns);
        let lane = self.lanes.get(ns)?;
        lane.waiting.as_ref().map(|batch| &batch.over).or(lane.flying.as_ref()).cloned()
    }

    /// A query of a collection is about to be sent. Has one of the last met what waited there? Then
    /// as [`Backlog::ask_for`].
    pub(super) fn ask_before_query(&mut self, ns: &Namespace) -> Option<Arc<AtomicBool>> {
        if !self.has_left(ns) {
            return None;
        }
        let left = self.met.get_mut(ns).filter(|left| **left > 0)?;
        *left -= 1;
        self.ask_for(ns)
    }

    /// A query has met what waits in this collection.
    pub(super) fn met_by_query(&mut self, ns: &Namespace) {
        if self.met.len() >= MAX_MET {
            self.met.clear();
        }
        self.met.insert(ns.clone(), FORESIGHT);
    }

    /// Returns true if documents wait in this collection, or are being finished.
    pub(super) fn has_left(&self, ns: &Namespace) -> bool {
        self.lanes.contains_key(ns)
    }

    /// Returns true if a committed transaction has documents of this collection that are not known
    /// to be clean, or the server has refused to finish one.
    pub(super) fn has_committed(&self, ns: &Namespace) -> bool {
        self.has_refused(ns) || self.committed.contains_key(ns)
    }

    /// Returns true if the server has refused to finish a document of this collection.
    pub(super) fn has_refused(&self, ns: &Namespace) -> bool {
        self.has_left_refused || self.refused_in.contains(ns)
    }

    /// Returns true if there is room for the documents of a transaction that holds this many. Small
    /// ones do not wait for large ones, whose documents may take minutes.
    pub(super) fn has_room(&self, documents: usize) -> bool {
        self.waiting < MAX_WAITING && (documents < LARGE || self.large < MAX_LARGE)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn by_now(&self) -> ByNow {
        ByNow { handed_over: self.numbers, finished: self.recent.finished() }
    }

    /// Transactions that are committed and may have left something in this collection. `None`:
    /// there are more than `most`.
    pub(super) fn committed_in(&self, ns: &Namespace, most: usize) -> Option<Vec<TxId>> {
        if !self.has_left(ns) {
            return Some(Vec::new());
        }
        let left = self.open.iter().filter(|(_, open)| open.work.committed && open.namespaces.contains(ns));
        let left: Vec<TxId> = left.map(|(id, _)| *id).take(most + 1).collect();
        (left.len() <= most).then_some(left)
    }

    /// Returns true if a transaction with documents of this collection that was handed over by that
    /// moment is not done, or the server has refused to finish one.
    pub(super) fn has_open(&self, ns: &Namespace, by: ByNow) -> bool {
        self.has_refused(ns)
            || self.open.values().any(|open| open.number <= by.handed_over && open.namespaces.contains(ns))
    }

    /// Returns whether it was committed before or after the moment, if it was not finished by then.
    pub(super) fn when_committed(&self, id: TxId, by: ByNow) -> Option<CommitTime> {
        match self.open.get(&id) {
            Some(open) => open.work.committed.then(|| by.of(open.number)),
            None => self.recent.when_committed(id, by),
        }
    }

    pub(super) fn shut(&mut self) {
        self.closed = true;
    }

    pub(super) fn is_shut(&self) -> bool {
        self.closed
    }
}

fn urge(lanes: &mut HashMap<Namespace, Lane>, ns: &Namespace) {
    if let Some(batch) = lanes.get_mut(ns).and_then(|lane| lane.waiting.as_mut()) {
        batch.urgent = true;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests;
