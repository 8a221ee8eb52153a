//! Events on their way from one stage to the next, through the servers' own queue and threads: the
//! number that goes through in a second, by the place where an event lies meanwhile (section 3.1).
//! Everything is as in a server, except that the stages have nothing else to do.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crossbeam_queue::ArrayQueue;
use dtranx::stage::{Counters, Crew, Outlet, Signal, Source, Stage, Worker, queue};

use crate::error::BenchError;

const NAME: &str = "dtranx";
/// Numbers in an event: about what a message between servers or a commit takes.
const NUMBERS: usize = 16;
/// Size of the queue, as in the servers.
const QUEUE_EVENTS: usize = 16 * 1024;
const BATCH: usize = 256;

/// An event; every number of it is the same.
pub(crate) struct Event([u64; NUMBERS]);

/// The place where events lie.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// Events lie in the slots of the queue.
    Slots,
    /// Allocated by the sender, freed by the receiver; the slots have pointers.
    Heap,
    /// Allocated, but the receiver puts events into a pool, from which the sender takes them: the
    /// paper's way.
    Pool,
}

/// Number of events in a second.
pub(crate) fn measure(place: Place, time: Duration) -> Result<f64, BenchError> {
    match place {
        Place::Slots => through(|number| Event([number; NUMBERS]), |event| event.0, time),
        Place::Heap => through(|number| Box::new(Event([number; NUMBERS])), |event| event.0, time),
        Place::Pool => {
            let pool = Arc::new(ArrayQueue::<Box<Event>>::new(QUEUE_EVENTS));
            let full = Arc::clone(&pool);
            let make = move |number| match full.pop() {
                Some(mut event) => {
                    event.0 = [number; NUMBERS];
                    event
                }
                None => Box::new(Event([number; NUMBERS])),
            };
            let read = move |event: Box<Event>| {
                let numbers = event.0;
                // Without room it is freed.
                drop(pool.push(event));
                numbers
            };
            through(make, read, time)
        }
    }
}

/// Lets two threads work for so long, and counts what came.
fn through<E: Send + 'static>(
    make: impl FnMut(u64) -> E + Send + 'static,
    read: impl FnMut(E) -> [u64; NUMBERS] + Send + 'static,
    time: Duration,
) -> Result<f64, BenchError> {
    let counters = Counters::new();
    let (sending, receiving) = (Arc::new(Signal::new()), Arc::new(Signal::new()));
    let (inlet, source) = queue("elements", QUEUE_EVENTS, &receiving, &counters);
    let came = Arc::new(AtomicU64::new(0));
    let mut sender = Worker::new(sending, None);
    sender.add(Box::new(Sender { outlet: inlet.outlet(), make, next: 0 }), &counters);
    let mut receiver = Worker::new(receiving, None);
    let receives = Receiver { source, read, batch: Vec::new(), came: Arc::clone(&came) };
    receiver.add(Box::new(receives), &counters);
    let failed = |error: &dyn std::fmt::Display| BenchError::store(NAME, error);
    let began = Instant::now();
    let mut crew = Crew::start(vec![sender, receiver], began).map_err(|error| failed(&error))?;
    crew.wait(time).map_err(|error| failed(&error))?;
    let (came, took) = (came.load(Ordering::Relaxed), began.elapsed());
    crew.end();
    Ok(came as f64 / took.as_secs_f64())
}

struct Sender<E, M> {
    outlet: Outlet<E>,
    make: M,
    next: u64,
}

impl<E: Send, M: FnMut(u64) -> E + Send> Stage for Sender<E, M> {
    fn name(&self) -> &'static str {
        "sender"
    }

    fn run(&mut self, _: u64) -> Result<usize, String> {
        if !self.outlet.flush() {
            return Ok(0);
        }
        for _ in 0..BATCH {
            self.outlet.send((self.make)(self.next));
            self.next += 1;
        }
        self.outlet.flush();
        Ok(BATCH)
    }

    fn has_work(&self) -> bool {
        true
    }
}

struct Receiver<E, R> {
    source: Source<E>,
    read: R,
    batch: Vec<E>,
    came: Arc<AtomicU64>,
}

impl<E: Send, R: FnMut(E) -> [u64; NUMBERS] + Send> Stage for Receiver<E, R> {
    fn name(&self) -> &'static str {
        "receiver"
    }

    fn run(&mut self, _: u64) -> Result<usize, String> {
        let handled = self.source.take(BATCH, &mut self.batch);
        let mut next = self.came.load(Ordering::Relaxed);
        for event in self.batch.drain(..) {
            let numbers = (self.read)(event);
            if numbers != [next; NUMBERS] {
                return Err(format!("event {next} came as {numbers:?}"));
            }
            next += 1;
        }
        self.came.store(next, Ordering::Relaxed);
        Ok(handled)
    }

    fn has_work(&self) -> bool {
        !self.source.is_empty()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_wherever_they_lie() {
        for place in [Place::Slots, Place::Heap, Place::Pool] {
            assert!(measure(place, Duration::from_millis(300)).unwrap() > 0.0, "{place:?}");
        }
    }
}
