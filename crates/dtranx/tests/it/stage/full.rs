//! Tests of the rules for full queues (`docs/dtranx.md`), without threads and on threads. No stage
//! waits for room. A stage with events left to send goes on taking the answers to its requests, so
//! that every event is handed on in the end.
//!
//! Without threads the stages run in an order that a seed gives, and a failure occurs again with
//! the same seed. On threads the wake-ups are tested too; only the final result is known beforehand
//! there.

use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use dtranx::stage::Stage;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use crate::stage::relay::Net;

/// Number of times that each event is handed on.
const HOPS: u64 = 9;
/// Longest time without progress.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs `work` on a thread of its own, and fails without waiting for the thread if it takes too
/// long.
fn within_patience(what: &str, work: impl FnOnce() + Send + 'static) {
    let (tell, failed) = channel();
    let worker = thread::spawn(move || {
        work();
        let _ = tell.send(());
    });
    match failed.recv_timeout(PATIENCE) {
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("{what}: a stage waits"),
        _ => worker.join().unwrap_or_else(|panicked| std::panic::resume_unwind(panicked)),
    }
}

/// Runs every stage once, in a random order.
fn round(net: &mut Net, random: &mut impl Rng) {
    net.stages.shuffle(random);
    for stage in &mut net.stages {
        stage.run(0).unwrap();
    }
}

/// Offers more events than the stages take for 200 rounds, and then lets the stages finish.
fn flood(mut net: Net, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    for _ in 0..200 {
        for entry in &net.entries {
            while entry.offer(HOPS).is_ok() {}
        }
        round(&mut net, &mut random);
    }
    let mut rounds = 0;
    while net.stages.iter().any(Stage::has_work) {
        assert!(rounds < 10_000, "seed {seed}: the stages wait for each other: {:?}", net.counters.read().queues);
        round(&mut net, &mut random);
        rounds += 1;
    }
    let (admitted, done) = (net.tally.admitted(), net.tally.done());
    assert_eq!(done, admitted, "seed {seed}: events are lost");
    assert!(admitted > 50, "seed {seed}: only {admitted} events were let in");
}

#[test]
fn flooded_circle_hands_everything_on() {
    within_patience("circle", || (0..50).for_each(|seed| flood(Net::circle(1), seed)));
}

#[test]
fn flooded_star_hands_everything_on() {
    within_patience("star", || (0..50).for_each(|seed| flood(Net::star(1), seed)));
}

#[test]
fn full_circle_of_tiny_queues_never_deadlocks() {
    for threads in [1, 2] {
        work_off(Net::circle(threads), 2000);
    }
}

#[test]
fn full_star_of_tiny_queues_never_deadlocks() {
    for threads in [1, 2] {
        work_off(Net::star(threads), 500);
    }
}

/// Lets threads hand on this number of events.
fn work_off(mut net: Net, events: u64) {
    let crew = net.start();
    let (mut offered, mut refused, mut seen, mut changed) = (0, 0, 0, Instant::now());
    // A stage counts an event only after it has handled it, so the count is the last to change.
    while seen < events * (HOPS + 1) {
        if offered < events {
            match net.entries[offered as usize % net.entries.len()].offer(HOPS) {
                Ok(()) => offered += 1,
                Err(_) => refused += 1,
            }
        }
        let handled = net.counters.read().stages.iter().map(|stage| stage.handled).sum();
        if handled > seen {
            (seen, changed) = (handled, Instant::now());
        } else if changed.elapsed() > PATIENCE {
            // Dropping the crew would wait for its threads, some of which wait for ever.
            std::mem::forget(crew);
            panic!("nothing moves after {} of {events} events: {:?}", net.tally.done(), net.counters.read().queues);
        }
        thread::yield_now();
    }
    assert_eq!((seen, net.tally.done()), (events * (HOPS + 1), events));
    let readings = net.counters.read();
    let counted: u64 = readings.queues.iter().map(|queue| queue.refused).sum();
    assert_eq!(counted, refused);
    assert!(readings.stages.iter().all(|stage| stage.largest_batch <= 16 && stage.batches <= stage.handled));
}
