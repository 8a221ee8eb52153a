//! What decided transactions have left locked and nobody has finished yet, by collection, and when that is to be done.
//!
//! | what is left in a collection is finished | |
//! | --- | --- |
//! | when so many documents have come together | [`TOGETHER`] |
//! | when the first of them has waited so long | the client's `finish_delay` |
//! | at once | if somebody asks, if something of it was rolled back or is read-locked, when the client ends, and for a second when rivals have met what waited |
//!
//! A collection is finished by one flight at a time: what comes meanwhile goes with the next.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use protocol::{Decided, TxId};
use tokio::time::Instant;

use super::{Held, Job};
use crate::{coordinator::siblings::Claims, options::Namespace};

/// Documents of one collection that are finished as soon as they have come together.
pub(super) const TOGETHER: usize = 64;
/// How long nothing waits when rivals have met what did.
const EAGER: Duration = Duration::from_secs(1);
/// Documents that may wait: more make commits wait.
pub(super) const MAX_WAITING: usize = 1_000;
/// A transaction that holds so many documents of one collection has a flight of its own.
const LARGE: usize = 1_000;
/// Documents of such transactions that may be under way: more make commits wait.
const MAX_LARGE: usize = 100_000;
/// Queries of a collection before which it is finished, after one that has met what waits there.
const FORESIGHT: u8 = 8;
/// Collections of which that is known.
const MAX_MET: usize = 10_000;
/// Jobs that are kept because the server refuses one of their documents; more are left to whoever meets them.
const MAX_REFUSED: usize = 1_000;
/// Pauses between two attempts at such jobs: the first, and the longest.
const REFUSED_PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// A decided transaction, while it is being finished.
pub(super) struct Work {
    pub(super) id: Decided,
    pub(super) committed: bool,
    /// Given back when everything is clean, or when the server refuses something.
    claims: Mutex<Option<Claims>>,
    /// Parts that are under way, or wait for it.
    open: AtomicUsize,
    /// Parts that are not clean.
    unclean: AtomicUsize,
    /// The connection epoch before the first of its documents was finished.
    epoch: AtomicU64,
    /// All of its documents are clean.
    clean: AtomicBool,
}

impl Work {
    /// Nobody of this client waits for it any more.
    pub(super) fn release(&self) {
        drop(self.claims.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// How many of these documents are locked, unless somebody else has finished them.
    fn locked(&self, held: &[(Namespace, Held)]) -> usize {
        let claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |(ns, held): &(Namespace, Held)| match &*claims {
            Some(claims) => {
                let (claimed, left) = claims.count(ns);
                held.own.saturating_sub(claimed) + left
            }
            None => 0,
        };
        held.iter().map(of).sum()
    }

    /// A part is clean, since connection epoch `epoch`. Answers the transaction's epoch, if that was the last part.
    pub(super) fn part_is_clean(&self, epoch: u64) -> Option<u64> {
        self.epoch.fetch_min(epoch, SeqCst);
        let last = self.unclean.fetch_sub(1, SeqCst) == 1;
        if last {
            self.clean.store(true, SeqCst);
            self.release();
        }
        last.then(|| self.epoch.load(SeqCst))
    }

    pub(super) fn is_clean(&self) -> bool {
        self.clean.load(SeqCst)
    }
}

/// What a transaction has left in some collections: in one, but for those that have a flight of their own.
pub(super) struct Part {
    pub(super) work: Arc<Work>,
    pub(super) held: Vec<(Namespace, Held)>,
}

impl Part {
    /// How many documents there are to finish, unless somebody else does.
    pub(super) fn locked(&self) -> usize {
        if self.work.committed { self.work.locked(&self.held) } else { 0 }
    }
}

/// What is finished together.
pub(super) struct Flight {
    /// The collection, if it is the one flight of that.
    lane: Option<Namespace>,
    pub(super) parts: Vec<Part>,
    over: Arc<AtomicBool>,
    large: usize,
}

/// What waits in a collection.
struct Batch {
    parts: Vec<Part>,
    documents: usize,
    since: Instant,
    urgent: bool,
    over: Arc<AtomicBool>,
}

impl Batch {
    fn due(&self, delay: Duration) -> Instant {
        if self.urgent || self.documents >= TOGETHER { self.since } else { self.since + delay }
    }
}

#[derive(Default)]
struct Lane {
    waiting: Option<Batch>,
    flying: Option<Arc<AtomicBool>>,
}

/// A transaction that was handed over, and is not done.
struct Open {
    number: u64,
    work: Arc<Work>,
    namespaces: Vec<Namespace>,
}

/// What is to be done next.
pub(super) enum Next {
    /// These have to set off.
    Fly(Vec<Flight>),
    /// The server has refused these before.
    TryAgain(Vec<Part>),
    /// Nothing until then, or until something comes.
    Sleep(Option<Instant>),
    /// Nothing any more.
    End,
}

pub(super) struct Backlog {
    delay: Duration,
    /// Rivals have met what waited here: until then nothing waits.
    eager_until: Option<Instant>,
    lanes: HashMap<Namespace, Lane>,
    at_once: Vec<Flight>,
    open: HashMap<TxId, Open>,
    /// How many were ever handed over.
    numbers: u64,
    /// Documents that wait.
    waiting: usize,
    /// Documents of large transactions.
    large: usize,
    flying: usize,
    /// Before how many more queries of a collection it is finished.
    met: HashMap<Namespace, u8>,
    refused: Vec<Part>,
    again: Option<(Instant, Duration)>,
    closed: bool,
}

fn documents(held: &Held) -> usize {
    held.written.len() + held.read.len()
}

impl Backlog {
    pub(super) fn new(delay: Duration) -> Self {
        Self {
            delay,
            eager_until: None,
            lanes: HashMap::new(),
            at_once: Vec::new(),
            open: HashMap::new(),
            numbers: 0,
            waiting: 0,
            large: 0,
            flying: 0,
            met: HashMap::new(),
            refused: Vec::new(),
            again: None,
            closed: false,
        }
    }

    /// A transaction is decided. True if there is something to do earlier than was thought.
    pub(super) fn add(&mut self, job: Job, now: Instant) -> bool {
        let Job { id, committed, held, claims } = job;
        let held: Vec<(Namespace, Held)> = held.into_iter().filter(|(_, held)| documents(held) > 0).collect();
        let urgent = !committed || held.iter().any(|(_, held)| !held.read.is_empty());
        let alone = held.is_empty() || held.iter().any(|(_, held)| documents(held) >= LARGE);
        let parts = if alone { 1 } else { held.len() };
        let work = Arc::new(Work {
            id,
            committed,
            claims: Mutex::new(claims),
            open: AtomicUsize::new(parts),
            unclean: AtomicUsize::new(parts),
            epoch: AtomicU64::new(u64::MAX),
            clean: AtomicBool::new(false),
        });
        let namespaces = held.iter().map(|(ns, _)| ns.clone()).collect();
        self.numbers += 1;
        self.open.insert(id.id(), Open { number: self.numbers, work: Arc::clone(&work), namespaces });
        if alone {
            let large = held.iter().map(|(_, held)| documents(held)).sum();
            self.large += large;
            self.at_once.push(Flight { lane: None, parts: vec![Part { work, held }], over: Arc::default(), large });
            return true;
        }
        let mut wakes = false;
        for (ns, held) in held {
            wakes |= self.put(ns, held, Arc::clone(&work), urgent, now);
        }
        wakes
    }

    /// How long a document waits, as things are.
    fn delay(&self, now: Instant) -> Duration {
        if self.eager_until.is_some_and(|until| now < until) { Duration::ZERO } else { self.delay }
    }

    /// Somebody else has finished what waited here: he had to find out what became of it, which is dear.
    pub(super) fn met_by_rivals(&mut self, now: Instant) {
        self.eager_until = Some(now + EAGER);
    }

    fn put(&mut self, ns: Namespace, held: Held, work: Arc<Work>, urgent: bool, now: Instant) -> bool {
        let delay = self.delay(now);
        let lane = self.lanes.entry(ns.clone()).or_default();
        let is_first = lane.waiting.is_none();
        let batch = lane.waiting.get_or_insert_with(|| Batch {
            parts: Vec::new(),
            documents: 0,
            since: now,
            urgent: false,
            over: Arc::default(),
        });
        let was_due = batch.due(delay) <= now;
        self.waiting += documents(&held);
        batch.documents += documents(&held);
        batch.urgent |= urgent;
        batch.parts.push(Part { work, held: vec![(ns, held)] });
        lane.flying.is_none() && (is_first || (!was_due && batch.due(delay) <= now))
    }

    pub(super) fn next(&mut self, now: Instant) -> Next {
        let (mut flights, delay) = (std::mem::take(&mut self.at_once), self.delay(now));
        let mut earliest: Option<Instant> = None;
        for (ns, lane) in self.lanes.iter_mut().filter(|(_, lane)| lane.flying.is_none()) {
            let Some(due) = lane.waiting.as_ref().map(|batch| batch.due(delay)) else { continue };
            if due > now && !self.closed {
                earliest = Some(earliest.map_or(due, |earliest| earliest.min(due)));
            } else if let Some(batch) = lane.waiting.take() {
                lane.flying = Some(Arc::clone(&batch.over));
                self.waiting -= batch.documents;
                flights.push(Flight { lane: Some(ns.clone()), parts: batch.parts, over: batch.over, large: 0 });
            }
        }
        self.flying += flights.len();
        if !flights.is_empty() {
            return Next::Fly(flights);
        }
        if self.closed {
            return if self.flying == 0 { Next::End } else { Next::Sleep(None) };
        }
        match self.again.filter(|_| !self.refused.is_empty()) {
            Some((at, _)) if at <= now => Next::TryAgain(std::mem::take(&mut self.refused)),
            Some((at, _)) => Next::Sleep(Some(earliest.map_or(at, |earliest| earliest.min(at)))),
            None => Next::Sleep(earliest),
        }
    }

    /// A flight is over.
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

    /// A part is clean, or nobody here goes on with it for now.
    pub(super) fn close(&mut self, work: &Work) {
        if work.open.fetch_sub(1, SeqCst) == 1 {
            self.open.remove(&work.id.id());
        }
    }

    /// The server refuses a document of this part: until it gives in, the number stays in the client's record.
    pub(super) fn keep(&mut self, part: Part, now: Instant) {
        if self.refused.len() >= MAX_REFUSED {
            tracing::warn!(transaction = %part.work.id.id(), "left a transaction that cannot be finished to others");
            return;
        }
        if self.refused.is_empty() {
            self.again = Some((now + REFUSED_PAUSE.0, REFUSED_PAUSE.0));
        }
        self.refused.push(part);
    }

    /// What was refused has been tried again, and these parts are refused still.
    pub(super) fn keep_again(&mut self, left: Vec<Part>, now: Instant) {
        let pause = self.again.map_or(REFUSED_PAUSE.0, |(_, pause)| (pause * 2).min(REFUSED_PAUSE.1));
        self.refused.extend(left);
        self.again = (!self.refused.is_empty()).then_some((now + pause, pause));
    }

    /// Nobody wants to wait for these transactions.
    pub(super) fn ask(&mut self, ids: &[TxId]) {
        for open in ids.iter().filter_map(|id| self.open.get(id)) {
            for ns in &open.namespaces {
                urge(&mut self.lanes, ns);
            }
        }
    }

    /// Nor for anything.
    pub(super) fn ask_all(&mut self) {
        self.lanes.values_mut().filter_map(|lane| lane.waiting.as_mut()).for_each(|batch| batch.urgent = true);
    }

    /// Nor for what is left in this collection by now. Answers what becomes true when that is done.
    pub(super) fn ask_for(&mut self, ns: &Namespace) -> Option<Arc<AtomicBool>> {
        urge(&mut self.lanes, ns);
        let lane = self.lanes.get(ns)?;
        lane.waiting.as_ref().map(|batch| &batch.over).or(lane.flying.as_ref()).cloned()
    }

    /// A query of a collection is about to be sent. Has one of the last met what waited there? Then as [`Backlog::ask_for`].
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

    /// Does something wait in this collection, or is it being finished?
    pub(super) fn has_left(&self, ns: &Namespace) -> bool {
        self.lanes.contains_key(ns)
    }

    pub(super) fn has_room(&self) -> bool {
        self.waiting < MAX_WAITING && self.large < MAX_LARGE
    }

    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn is_open(&self, id: TxId) -> bool {
        self.open.contains_key(&id)
    }

    /// The work of a transaction that is not done.
    pub(super) fn work(&self, id: TxId) -> Option<Arc<Work>> {
        self.open.get(&id).map(|open| Arc::clone(&open.work))
    }

    /// How many have been handed over by now.
    pub(super) fn handed_over(&self) -> u64 {
        self.numbers
    }

    /// Was it committed, and among the first so many that were handed over?
    pub(super) fn was_committed(&self, id: TxId, handed_over: u64) -> bool {
        self.open.get(&id).is_some_and(|open| open.work.committed && open.number <= handed_over)
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
mod tests {
    use bson::Bson;
    use protocol::ClientId;

    use super::*;
    use crate::coordinator::address::Address;

    const DELAY: Duration = Duration::from_millis(5);

    fn ns(coll: &str) -> Namespace {
        Namespace::new("db", coll)
    }

    fn id(seq: u64) -> TxId {
        TxId { client: ClientId([1; 12]), seq }
    }

    fn job(seq: u64, held: &[(&str, usize)]) -> Job {
        let address = |n: usize| Address::bare(Bson::Int64(n as i64));
        let held = held.iter().map(|(coll, count)| {
            let written = (0..*count).map(address).collect();
            (ns(coll), Held { written, ..Held::default() })
        });
        Job { id: Decided::by_owner(id(seq)), committed: true, held: held.collect(), claims: None }
    }

    /// What sets off now.
    fn flights(backlog: &mut Backlog, now: Instant) -> Vec<Flight> {
        match backlog.next(now) {
            Next::Fly(flights) => flights,
            _ => Vec::new(),
        }
    }

    /// The numbers of the transactions of each.
    fn numbers(flights: &[Flight]) -> Vec<Vec<u64>> {
        flights.iter().map(|flight| flight.parts.iter().map(|part| part.work.id.id().seq).collect()).collect()
    }

    fn land(backlog: &mut Backlog, flight: &Flight) {
        for part in &flight.parts {
            part.work.part_is_clean(1);
            backlog.close(&part.work);
        }
        backlog.ended(flight);
    }

    #[test]
    fn flies_when_the_first_has_waited_long_enough_and_not_before() {
        let (mut backlog, now) = (Backlog::new(DELAY), Instant::now());
        assert!(backlog.add(job(1, &[("a", 2)]), now), "somebody has to wake up in time");
        assert!(!backlog.add(job(2, &[("a", 2)]), now + DELAY / 2));
        assert!(matches!(backlog.next(now + DELAY / 2), Next::Sleep(Some(until)) if until == now + DELAY));
        assert_eq!(numbers(&flights(&mut backlog, now + DELAY)), [[1, 2]]);
    }

    #[test]
    fn flies_when_enough_documents_have_come_together() {
        let (mut backlog, now) = (Backlog::new(DELAY), Instant::now());
        backlog.add(job(1, &[("a", TOGETHER - 1)]), now);
        assert!(flights(&mut backlog, now).is_empty());
        assert!(backlog.add(job(2, &[("a", 1), ("b", 1)]), now));
        assert_eq!(numbers(&flights(&mut backlog, now)), [[1, 2]], "the other collection waits");
    }

    #[test]
    fn flies_at_once_for_who_asks_and_nothing_else_does() {
        let (mut backlog, now) = (Backlog::new(DELAY), Instant::now());
        backlog.add(job(1, &[("a", 1), ("b", 1)]), now);
        backlog.add(job(2, &[("c", 1)]), now);
        let over = backlog.ask_for(&ns("a")).unwrap();
        let flown = flights(&mut backlog, now);
        assert_eq!(numbers(&flown), [[1]]);
        land(&mut backlog, &flown[0]);
        assert!(over.load(SeqCst) && backlog.is_open(id(1)), "it is not all of the transaction");
        assert!(backlog.ask_for(&ns("a")).is_none());
        backlog.ask(&[id(1)]);
        let flown = flights(&mut backlog, now);
        land(&mut backlog, &flown[0]);
        assert!(!backlog.is_open(id(1)) && backlog.is_open(id(2)));
    }

    #[test]
    fn queries_ask_for_a_while_after_one_has_met_something() {
        let (mut backlog, now) = (Backlog::new(DELAY), Instant::now());
        backlog.add(job(1, &[("a", 1)]), now);
        assert!(backlog.has_left(&ns("a")) && backlog.ask_before_query(&ns("a")).is_none());
        backlog.met_by_query(&ns("a"));
        assert!(backlog.ask_before_query(&ns("b")).is_none(), "another collection");
        for _ in 0..FORESIGHT {
            assert!(backlog.ask_before_query(&ns("a")).is_some());
        }
        assert!(backlog.ask_before_query(&ns("a")).is_none());
    }

    #[test]
    fn what_comes_during_a_flight_goes_with_the_next() {
        let (mut backlog, now) = (Backlog::new(DELAY), Instant::now());
        backlog.add(job(1, &[("a", TOGETHER)]), now);
        let first = flights(&mut backlog, now);
        let over = backlog.ask_for(&ns("a")).unwrap();
        backlog.add(job(2, &[("a", TOGETHER)]), now);
        assert!(flights(&mut backlog, now).is_empty(), "one flight at a time");
        land(&mut backlog, &first[0]);
        assert!(over.load(SeqCst));
        assert_eq!(numbers(&flights(&mut backlog, now)), [[2]]);
    }

    #[test]
    fn rolled_back_and_read_locked_documents_do_not_wait() {
        let (mut backlog, now) = (Backlog::new(DELAY), Instant::now());
        backlog.add(Job { committed: false, ..job(1, &[("a", 1)]) }, now);
        assert_eq!(numbers(&flights(&mut backlog, now)), [[1]]);
        let mut reads = job(2, &[("b", 1)]);
        reads.held[0].1.read = reads.held[0].1.written.clone();
        backlog.add(reads, now);
        assert_eq!(numbers(&flights(&mut backlog, now)), [[2]]);
    }

    #[test]
    fn nothing_waits_for_a_while_when_rivals_have_met_what_did() {
        let (mut backlog, now) = (Backlog::new(DELAY), Instant::now());
        backlog.met_by_rivals(now);
        assert!(backlog.add(job(1, &[("a", 1)]), now));
        assert_eq!(numbers(&flights(&mut backlog, now)), [[1]]);
        backlog.add(job(2, &[("b", 1)]), now + EAGER);
        assert!(flights(&mut backlog, now + EAGER).is_empty());
    }

    #[test]
    fn a_large_transaction_is_in_nobodys_way() {
        let (mut backlog, now) = (Backlog::new(DELAY), Instant::now());
        backlog.add(job(1, &[("a", LARGE), ("b", 1)]), now);
        backlog.add(job(2, &[("a", TOGETHER)]), now);
        assert_eq!(numbers(&flights(&mut backlog, now)), [vec![1], vec![2]]);
        assert!(backlog.has_room());
    }

    #[test]
    fn a_transaction_that_holds_nothing_is_done_too() {
        let (mut backlog, now) = (Backlog::new(DELAY), Instant::now());
        assert!(backlog.add(job(1, &[]), now));
        let flown = flights(&mut backlog, now);
        assert_eq!(flown[0].parts[0].work.part_is_clean(7), Some(7));
    }

    #[test]
    fn commits_wait_while_a_thousand_documents_do() {
        let (mut backlog, now) = (Backlog::new(DELAY), Instant::now());
        backlog.add(job(0, &[("a", TOGETHER)]), now);
        let flown = flights(&mut backlog, now);
        for seq in 1..=10 {
            assert!(backlog.has_room());
            backlog.add(job(seq, &[("a", 100)]), now);
        }
        assert!(!backlog.has_room());
        land(&mut backlog, &flown[0]);
        assert_eq!(flights(&mut backlog, now)[0].parts.len(), 10);
        assert!(backlog.has_room());
    }

    #[test]
    fn a_number_is_clean_since_the_earliest_epoch_of_its_parts() {
        let (mut backlog, now) = (Backlog::new(DELAY), Instant::now());
        backlog.add(job(1, &[("a", 1), ("b", 1)]), now);
        let work = backlog.work(id(1)).unwrap();
        assert_eq!(work.part_is_clean(3), None);
        assert!(!work.is_clean());
        assert_eq!(work.part_is_clean(4), Some(3));
        assert!(work.is_clean());
    }

    #[test]
    fn what_was_refused_is_tried_again_after_pauses_that_grow() {
        let (mut backlog, now) = (Backlog::new(DELAY), Instant::now());
        backlog.add(job(1, &[("a", TOGETHER)]), now);
        let mut flown = flights(&mut backlog, now);
        let part = flown[0].parts.pop().unwrap();
        backlog.close(&part.work);
        backlog.ended(&flown[0]);
        backlog.keep(part, now);
        assert!(backlog.is_idle(), "nobody waits for it");
        let first = now + REFUSED_PAUSE.0;
        assert!(matches!(backlog.next(now), Next::Sleep(Some(until)) if until == first));
        let Next::TryAgain(parts) = backlog.next(first) else { panic!("not tried again") };
        backlog.keep_again(parts, first);
        assert!(matches!(backlog.next(first), Next::Sleep(Some(until)) if until == first + 2 * REFUSED_PAUSE.0));
    }

    #[test]
    fn nothing_waits_when_the_client_ends() {
        let (mut backlog, now) = (Backlog::new(DELAY), Instant::now());
        backlog.add(job(1, &[("a", 1)]), now);
        backlog.shut();
        let flown = flights(&mut backlog, now);
        assert_eq!(numbers(&flown), [[1]]);
        assert!(matches!(backlog.next(now), Next::Sleep(None)));
        land(&mut backlog, &flown[0]);
        assert!(matches!(backlog.next(now), Next::End));
    }

    #[test]
    fn only_what_was_committed_before_is_known_to_be() {
        let (mut backlog, now) = (Backlog::new(DELAY), Instant::now());
        backlog.add(job(1, &[("a", 1)]), now);
        backlog.add(Job { committed: false, ..job(2, &[("a", 1)]) }, now);
        let known = backlog.handed_over();
        backlog.add(job(3, &[("a", 1)]), now);
        assert_eq!([1, 2, 3].map(|seq| backlog.was_committed(id(seq), known)), [true, false, false]);
    }
}
