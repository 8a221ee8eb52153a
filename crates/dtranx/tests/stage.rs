//! Queues and threads of the stages.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dtranx::stage::{Counters, Crew, Inlet, Outlet, Signal, Source, Stage, Worker, queue};

/// Hands every event on to one of the next until it has been handed on often enough. `entry` brings new ones.
struct Relay {
    name: &'static str,
    entry: Source<u64>,
    internal: Source<u64>,
    next: Vec<Outlet<u64>>,
    done: Arc<AtomicU64>,
    batch: Vec<u64>,
}

impl Stage for Relay {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&mut self, _: u64) -> Result<usize, String> {
        self.internal.take(8, &mut self.batch);
        if self.flush() {
            self.entry.take(8, &mut self.batch);
        }
        let handled = self.batch.len();
        for hops in self.batch.drain(..) {
            match hops {
                0 => drop(self.done.fetch_add(1, Ordering::Relaxed)),
                u64::MAX => return Err("no more".to_owned()),
                hops => {
                    let at = hops as usize % self.next.len();
                    self.next[at].send(hops - 1);
                }
            }
        }
        self.flush();
        Ok(handled)
    }

    fn has_work(&self) -> bool {
        !self.internal.is_empty() || !self.entry.is_empty() || self.next.iter().any(|next| !next.is_clear())
    }
}

impl Relay {
    fn flush(&mut self) -> bool {
        for next in &mut self.next {
            next.flush();
        }
        self.next.iter().all(Outlet::is_clear)
    }
}

struct Ring {
    entries: Vec<Inlet<u64>>,
    done: Arc<AtomicU64>,
    crew: Crew,
    counters: Counters,
}

/// Stages with queues of one or two events, of which each sends to some others: the worst place for a deadlock.
fn joined(names: &[&'static str], next: &[&[usize]], threads: usize) -> Ring {
    let counters = Counters::new();
    let signals: Vec<_> = (0..threads).map(|_| Arc::new(Signal::new())).collect();
    let into = |at: usize, capacity| queue(names[at], capacity, &signals[at % threads], &counters);
    let (entries, from_entries): (Vec<_>, Vec<_>) = (0..names.len()).map(|at| into(at, 4)).unzip();
    let (inlets, sources): (Vec<Inlet<u64>>, Vec<_>) = (0..names.len()).map(|at| into(at, 1 + at % 2)).unzip();
    let done = Arc::new(AtomicU64::new(0));
    let mut workers: Vec<_> = signals.iter().map(|signal| Worker::new(signal.clone(), None)).collect();
    for (at, (entry, internal)) in from_entries.into_iter().zip(sources).enumerate() {
        let next = next[at].iter().map(|to| inlets[*to].outlet()).collect();
        let relay = Relay { name: names[at], entry, internal, next, done: done.clone(), batch: Vec::new() };
        workers[at % threads].add(Box::new(relay), &counters);
    }
    let crew = Crew::start(workers, Instant::now()).unwrap();
    Ring { entries, done, crew, counters }
}

/// Two stages that send to each other.
fn ring(threads: usize) -> Ring {
    joined(&["a", "b"], &[&[1], &[0]], threads)
}

/// As in a server: one asks four others, which answer it; two of these get requests of their own.
fn star(threads: usize) -> Ring {
    let mut star = joined(
        &["transaction", "ack", "recovery", "lock", "storage"],
        &[&[1, 2, 3, 4], &[0], &[0], &[0], &[0]],
        threads,
    );
    star.entries.truncate(3);
    star
}

#[test]
fn full_circle_of_tiny_queues_never_deadlocks() {
    for ring in [ring(1), ring(2)] {
        work_off(&ring, 2000);
    }
}

#[test]
fn full_star_of_tiny_queues_never_deadlocks() {
    for star in [star(1), star(2)] {
        work_off(&star, 500);
    }
}

/// Has so many events handed on ten times each.
fn work_off(ring: &Ring, events: usize) {
    let mut refused = 0_u64;
    for number in 0..events {
        while ring.entries[number % ring.entries.len()].offer(9).is_err() {
            refused += 1;
            std::thread::yield_now();
            assert!(refused < 100_000_000, "stuck at {number}");
        }
    }
    let begun = Instant::now();
    while ring.done.load(Ordering::Relaxed) < events as u64 {
        assert!(begun.elapsed() < Duration::from_secs(60), "stuck");
        std::thread::sleep(Duration::from_millis(1));
    }
    let readings = ring.counters.read();
    let handled: u64 = readings.stages.iter().map(|stage| stage.handled).sum();
    assert_eq!(handled, events as u64 * 10);
    let counted: u64 = readings.queues.iter().map(|queue| queue.refused).sum();
    assert_eq!(counted, refused);
    assert!(readings.stages.iter().all(|stage| stage.largest_batch <= 16 && stage.batches <= stage.handled));
}

#[test]
fn full_queue_refuses_and_gives_the_event_back() {
    let counters = Counters::new();
    let (inlet, source) = queue("q", 2, &Arc::new(Signal::new()), &counters);
    inlet.offer(1).unwrap();
    inlet.offer(2).unwrap();
    assert_eq!(inlet.offer(3), Err(3));
    let mut batch = Vec::new();
    assert_eq!(source.take(10, &mut batch), 2);
    assert_eq!(batch, [1, 2]);
    let reading = &counters.read().queues[0];
    assert_eq!((reading.refused, reading.longest, reading.length, reading.capacity), (1, 2, 0, 2));
}

#[test]
fn outlet_keeps_order_when_the_queue_is_full() {
    let counters = Counters::new();
    let (inlet, source) = queue("q", 1, &Arc::new(Signal::new()), &counters);
    let mut outlet = inlet.outlet();
    let mut batch = Vec::new();
    (1..=3).for_each(|event| outlet.send(event));
    assert!(!outlet.is_clear());
    source.take(10, &mut batch);
    // There is room now, but others were here before.
    outlet.send(4);
    for _ in 0..4 {
        outlet.flush();
        source.take(10, &mut batch);
    }
    assert_eq!(batch, [1, 2, 3, 4]);
    assert!(outlet.is_clear());
    assert_eq!(counters.read().queues[0].kept_back, 3);
}

#[test]
fn failure_of_one_stage_ends_all_and_is_told() {
    let ring = ring(2);
    ring.entries[1].offer(u64::MAX).unwrap();
    let begun = Instant::now();
    let error = loop {
        if let Err(error) = ring.crew.wait(Duration::from_millis(100)) {
            break error;
        }
        assert!(begun.elapsed() < Duration::from_secs(60));
    };
    assert_eq!(error.to_string(), "the b stage failed: no more");
    assert!(ring.crew.is_over());
}
