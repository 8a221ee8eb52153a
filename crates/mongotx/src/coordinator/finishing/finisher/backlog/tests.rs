//! Tests of [`super`], with documents that no server holds: which documents fly, and when.

use bson::{Bson, oid::ObjectId};
use protocol::{ClientId, Decided};

use super::*;
use crate::coordinator::{finishing::finisher::recently_finished::MAX_FINISHED, request::address::Address};

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
        (ns(coll), HeldDocuments { written, ..HeldDocuments::default() })
    });
    Job { id: Decided::by_owner(id(seq)), committed: true, held: held.collect(), claims: None }
}

/// The flights that are due at `now`.
fn flights(backlog: &mut Backlog, now: Instant) -> Vec<Flight> {
    match backlog.next(now) {
        NextStep::Fly(flights) => flights,
        _ => Vec::new(),
    }
}

/// The numbers of the transactions of each.
fn numbers(flights: &[Flight]) -> Vec<Vec<u64>> {
    flights.iter().map(|flight| flight.parts.iter().map(|part| part.work.id.id().seq).collect()).collect()
}

fn is_open(backlog: &Backlog, seq: u64) -> bool {
    backlog.open.contains_key(&id(seq))
}

/// The server process that has made everything clean, where a test does not name it.
const PROCESS: Option<ObjectId> = Some(ObjectId::from_bytes([7; 12]));

fn land(backlog: &mut Backlog, flight: &Flight) {
    land_in(backlog, flight, PROCESS);
}

fn land_in(backlog: &mut Backlog, flight: &Flight, process: Option<ObjectId>) {
    for part in &flight.parts {
        part.work.part_is_clean(1, process);
        backlog.clean(part);
    }
    backlog.ended(flight);
}

/// Time at which the next flight is due.
fn due(backlog: &mut Backlog, now: Instant) -> Option<Instant> {
    match backlog.next(now) {
        NextStep::Sleep(until) => until,
        _ => None,
    }
}

#[test]
fn flies_when_nothing_has_come_for_so_long_and_not_before() {
    let (mut backlog, now) = (Backlog::new(DELAY), Instant::now());
    assert!(backlog.add(job(1, &[("a", 2)]), now), "somebody has to wake up in time");
    assert_eq!(due(&mut backlog, now), Some(now + DELAY));
    assert!(!backlog.add(job(2, &[("a", 2)]), now + DELAY / 2));
    assert_eq!(due(&mut backlog, now + DELAY), Some(now + DELAY * 3 / 2));
    assert_eq!(numbers(&flights(&mut backlog, now + DELAY * 3 / 2)), [[1, 2]]);
}

#[test]
fn waits_no_longer_than_is_bounded_where_more_comes_all_the_while() {
    let (mut backlog, now) = (Backlog::new(DELAY), Instant::now());
    for n in 0..8 {
        backlog.add(job(n.into(), &[("a", 1)]), now + DELAY * n / 2);
    }
    assert_eq!(due(&mut backlog, now + DELAY * 7 / 2), Some(now + DELAY * BUSY));
    assert_eq!(flights(&mut backlog, now + DELAY * BUSY).len(), 1);
}

#[test]
fn what_several_have_left_does_not_wait_for_more() {
    let (mut backlog, now) = (Backlog::new(DELAY), Instant::now());
    for n in 1..SEVERAL as u64 {
        assert_eq!(backlog.add(job(n, &[("a", 1)]), now), n == 1);
    }
    let last = now + DELAY / 2;
    assert!(backlog.add(job(99, &[("a", 1), ("b", 1)]), last));
    assert_eq!(due(&mut backlog, last), Some(now + DELAY));
    assert_eq!(flights(&mut backlog, now + DELAY)[0].parts.len(), SEVERAL);
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
    assert!(over.load(SeqCst) && is_open(&backlog, 1), "it is not all of the transaction");
    assert!(backlog.ask_for(&ns("a")).is_none());
    backlog.hurry(id(1));
    let flown = flights(&mut backlog, now);
    land(&mut backlog, &flown[0]);
    assert!(!is_open(&backlog, 1) && is_open(&backlog, 2));
}

#[test]
fn who_asks_in_one_collection_leaves_the_others_to_wait() {
    let (mut backlog, now) = (Backlog::new(DELAY), Instant::now());
    backlog.add(job(1, &[("a", 1), ("b", 1)]), now);
    backlog.add(job(2, &[("b", 1)]), now);
    assert!(backlog.ask_in(&ns("c"), &[id(1)]).is_empty(), "it is not known to have left anything there");
    let here = backlog.ask_in(&ns("a"), &[id(1), id(2), id(3)]);
    let [AwaitedWork { id: one, work, was_left: true }] = here.as_slice() else { panic!("{} are there", here.len()) };
    assert!(*one == id(1) && !backlog.is_clean_in(&ns("a"), id(1), work, PROCESS));
    let flown = flights(&mut backlog, now);
    assert_eq!(numbers(&flown), [[1]]);
    land(&mut backlog, &flown[0]);
    assert!(
        backlog.is_clean_in(&ns("a"), id(1), work, PROCESS) && !backlog.is_clean_in(&ns("b"), id(1), work, PROCESS)
    );
    assert_eq!(backlog.ask_in(&ns("a"), &[id(1)]).len(), 1, "it was there, and is clean");
    assert!(flights(&mut backlog, now).is_empty(), "the other collection was not requested");

    let here = backlog.ask_in(&ns("b"), &[id(2)]);
    let flown = flights(&mut backlog, now);
    assert_eq!(numbers(&flown), [[1, 2]]);
    flown[0].parts.iter().for_each(|part| backlog.close(&part.work));
    backlog.ended(&flown[0]);
    let work = &here[0].work;
    assert!(!is_open(&backlog, 2) && !backlog.is_clean_in(&ns("b"), id(2), work, PROCESS), "the server has refused it");
}

/// Finishing is not journaled by itself: a server that was killed brings locks back.
#[test]
fn what_an_earlier_process_has_made_clean_is_not_known_to_be() {
    let (mut backlog, now, later) = (Backlog::new(DELAY), Instant::now(), Some(ObjectId::from_bytes([8; 12])));
    backlog.add(job(1, &[("a", 1), ("b", 1)]), now);
    let here = backlog.ask_in(&ns("a"), &[id(1)]);
    let work = &here[0].work;
    assert!(backlog.has_committed(&ns("a")) && backlog.is_left_in(&ns("a"), id(1)));
    let flown = flights(&mut backlog, now);
    land_in(&mut backlog, &flown[0], PROCESS);
    assert!(!backlog.has_committed(&ns("a")) && !backlog.is_left_in(&ns("a"), id(1)));
    assert!(backlog.has_committed(&ns("b")), "the other collection has to be finished still");
    let is_clean = |backlog: &Backlog, process| backlog.is_clean_in(&ns("a"), id(1), work, process);
    assert!(is_clean(&backlog, PROCESS) && !is_clean(&backlog, later));
    backlog.hurry(id(1));
    let flown = flights(&mut backlog, now);
    land_in(&mut backlog, &flown[0], later);
    assert!(!is_open(&backlog, 1) && !backlog.has_committed(&ns("b")));
    assert!(!is_clean(&backlog, PROCESS) && !is_clean(&backlog, later), "each has made a part of it clean");
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
fn a_large_transaction_delays_no_other() {
    let (mut backlog, now) = (Backlog::new(DELAY), Instant::now());
    backlog.add(job(1, &[("a", LARGE), ("b", 1)]), now);
    backlog.add(job(2, &[("a", TOGETHER)]), now);
    assert_eq!(numbers(&flights(&mut backlog, now)), [vec![1], vec![2]]);
    assert!(backlog.has_room(1) && backlog.has_room(LARGE));
    backlog.add(job(3, &[("a", MAX_LARGE)]), now);
    assert!(backlog.has_room(LARGE - 1), "small ones do not wait for large ones");
    assert!(!backlog.has_room(LARGE), "large ones do");
    let flown = flights(&mut backlog, now);
    land(&mut backlog, &flown[0]);
    assert!(backlog.has_room(LARGE));
}

#[test]
fn a_transaction_that_holds_nothing_is_done_too() {
    let (mut backlog, now) = (Backlog::new(DELAY), Instant::now());
    assert!(backlog.add(job(1, &[]), now));
    let flown = flights(&mut backlog, now);
    assert_eq!(flown[0].parts[0].work.part_is_clean(7, PROCESS), Some(7));
}

#[test]
fn commits_wait_while_a_thousand_documents_do() {
    let (mut backlog, now) = (Backlog::new(DELAY), Instant::now());
    backlog.add(job(0, &[("a", TOGETHER)]), now);
    let flown = flights(&mut backlog, now);
    for seq in 1..=10 {
        assert!(backlog.has_room(1));
        backlog.add(job(seq, &[("a", 100)]), now);
    }
    assert!(!backlog.has_room(1));
    land(&mut backlog, &flown[0]);
    assert_eq!(flights(&mut backlog, now)[0].parts.len(), 10);
    assert!(backlog.has_room(1));
}

#[test]
fn a_number_is_clean_since_the_earliest_epoch_of_its_parts() {
    let (mut backlog, now) = (Backlog::new(DELAY), Instant::now());
    backlog.add(job(1, &[("a", 1), ("b", 1)]), now);
    let work = Arc::clone(&backlog.open[&id(1)].work);
    assert_eq!(work.part_is_clean(3, PROCESS), None);
    assert!(!work.is_clean());
    assert_eq!(work.part_is_clean(4, PROCESS), Some(3));
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
    assert!(backlog.is_idle(), "no caller waits for it");
    let first = now + REFUSED_PAUSES.coming();
    assert!(matches!(backlog.next(now), NextStep::Sleep(Some(until)) if until == first));
    let NextStep::TryAgain(parts) = backlog.next(first) else { panic!("not tried again") };
    backlog.keep_again(parts, first);
    assert!(
        matches!(backlog.next(first), NextStep::Sleep(Some(until)) if until == first + 2 * REFUSED_PAUSES.coming())
    );
}

#[test]
fn nothing_waits_when_the_client_ends() {
    let (mut backlog, now) = (Backlog::new(DELAY), Instant::now());
    backlog.add(job(1, &[("a", 1)]), now);
    backlog.shut();
    let flown = flights(&mut backlog, now);
    assert_eq!(numbers(&flown), [[1]]);
    assert!(matches!(backlog.next(now), NextStep::Sleep(None)));
    land(&mut backlog, &flown[0]);
    assert!(matches!(backlog.next(now), NextStep::End));
}

#[test]
fn only_what_was_committed_before_is_known_to_be() {
    let (mut backlog, now) = (Backlog::new(DELAY), Instant::now());
    backlog.add(job(1, &[("a", 1)]), now);
    backlog.add(Job { committed: false, ..job(2, &[("a", 1)]) }, now);
    let known = backlog.by_now();
    backlog.add(job(3, &[("a", 1)]), now);
    let are_known = |backlog: &Backlog, by: ByNow| [1, 2, 3].map(|seq| backlog.when_committed(id(seq), by));
    let expected = [Some(CommitTime::Before), None, Some(CommitTime::Since)];
    assert_eq!(are_known(&backlog, known), expected);
    for flight in flights(&mut backlog, now) {
        land(&mut backlog, &flight);
    }
    assert!(backlog.is_idle());
    assert_eq!(are_known(&backlog, known), expected, "they are finished now, and one was committed then");
    assert_eq!(are_known(&backlog, backlog.by_now()), [None; 3], "who shows their locks from now on was written late");
    let added = |seq: u64| backlog.recent.add(id(seq + 4), seq + 4);
    (0..MAX_FINISHED as u64).for_each(added);
    assert_eq!(are_known(&backlog, known), [None; 3], "too many have been finished since");
}

#[test]
fn looks_for_rivals_now_and_then_and_not_where_nothing_waits_for_long() {
    let (mut backlog, now) = (Backlog::new(DELAY * 10), Instant::now());
    assert!(backlog.looks_now(now));
    assert!(!backlog.looks_now(now + LOOKS), "one look at a time");
    backlog.has_looked();
    assert!(!backlog.looks_now(now + LOOKS / 2) && backlog.looks_now(now + LOOKS));
    backlog.has_looked();
    backlog.met_by_rivals(now + LOOKS);
    assert!(!backlog.looks_now(now + LOOKS * 2), "nothing waits for a second");
    assert!(backlog.looks_now(now + LOOKS + EAGER));
    assert!(!Backlog::new(DELAY).looks_now(now));
}
