//! A bounded lock-free queue into a stage: many senders, one stage that takes batches.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crossbeam_queue::ArrayQueue;

use super::counters::{Counters, QueueCounter};
use super::signal::Signal;

struct Shared<E> {
    ring: ArrayQueue<E>,
    signal: Arc<Signal>,
    counter: Arc<QueueCounter>,
}

/// Makes a queue of so many events into the stage whose thread answers `signal`.
pub fn queue<E>(
    name: &'static str,
    capacity: usize,
    signal: &Arc<Signal>,
    counters: &Counters,
) -> (Inlet<E>, Source<E>) {
    let capacity = capacity.max(1);
    let counter = counters.queue(name, capacity as u64);
    let shared = Arc::new(Shared { ring: ArrayQueue::new(capacity), signal: signal.clone(), counter });
    (Inlet { shared: shared.clone() }, Source { shared })
}

/// The end that events go into.
pub struct Inlet<E> {
    shared: Arc<Shared<E>>,
}

impl<E> Clone for Inlet<E> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<E> Inlet<E> {
    /// Puts an event in and wakes the stage.
    ///
    /// # Errors
    /// The event itself, when the queue is full: the caller has to refuse it.
    pub fn offer(&self, event: E) -> Result<(), E> {
        match self.shared.ring.push(event) {
            Ok(()) => {
                self.shared.signal.ring();
                Ok(())
            }
            Err(event) => {
                self.shared.counter.refused.fetch_add(1, Ordering::Relaxed);
                Err(event)
            }
        }
    }

    /// A sending end for a stage that must not lose events.
    pub fn outlet(&self) -> Outlet<E> {
        Outlet { inlet: self.clone(), kept: VecDeque::new(), is_news: false }
    }
}

/// One stage's end, which keeps what does not fit, in order.
pub struct Outlet<E> {
    inlet: Inlet<E>,
    kept: VecDeque<E>,
    /// True if an event was put in since the stage was woken.
    is_news: bool,
}

impl<E> Outlet<E> {
    /// Puts an event in, or keeps it until there is room. No thread is woken before
    /// [`Outlet::flush`].
    pub fn send(&mut self, event: E) {
        if self.kept.is_empty() {
            match self.inlet.shared.ring.push(event) {
                Ok(()) => self.is_news = true,
                Err(event) => self.keep(event),
            }
        } else {
            self.keep(event);
        }
    }

    /// Hands on the events that were kept, as far as there is room, and wakes the stage. Returns
    /// whether none is kept any more.
    pub fn flush(&mut self) -> bool {
        while let Some(event) = self.kept.pop_front() {
            if let Err(event) = self.inlet.shared.ring.push(event) {
                self.kept.push_front(event);
                break;
            }
            self.is_news = true;
        }
        if std::mem::take(&mut self.is_news) && !self.inlet.shared.ring.is_empty() {
            self.inlet.shared.signal.ring();
        }
        self.kept.is_empty()
    }

    /// Number of events that wait for the stage, about.
    pub fn waiting(&self) -> usize {
        self.kept.len() + self.inlet.shared.ring.len()
    }

    /// Returns true if no event is kept back.
    pub fn is_clear(&self) -> bool {
        self.kept.is_empty()
    }

    fn keep(&mut self, event: E) {
        self.inlet.shared.counter.kept_back.fetch_add(1, Ordering::Relaxed);
        self.kept.push_back(event);
    }
}

/// The end that a stage takes batches from.
pub struct Source<E> {
    shared: Arc<Shared<E>>,
}

impl<E> Source<E> {
    /// Moves up to `most` events into `batch`. Returns their number.
    pub fn take(&self, most: usize, batch: &mut Vec<E>) -> usize {
        let (ring, counter) = (&self.shared.ring, &self.shared.counter);
        // Most looks find nothing, and looking costs less than trying to take.
        let waiting = if ring.is_empty() { 0 } else { ring.len() };
        let before = batch.len();
        batch.extend(std::iter::from_fn(|| ring.pop()).take(waiting.min(most)));
        let taken = batch.len() - before;
        counter.length.store(waiting.saturating_sub(taken) as u64, Ordering::Relaxed);
        if taken > 0 {
            counter.longest.fetch_max(waiting as u64, Ordering::Relaxed);
        }
        taken
    }

    /// Returns true if the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.shared.ring.is_empty()
    }
}
