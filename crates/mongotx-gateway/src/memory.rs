//! The memory that messages of all connections take together, and its limit.
//!
//! Counted are the bytes of requests, as they arrive and when they are decompressed, of answers
//! until they are sent, of documents that are kept between commands for `getMore`, and of results
//! of writes that are remembered. What would exceed the limit is refused, or not kept; there is no
//! waiting for memory.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use prometheus_client::metrics::gauge::Gauge;

/// Memory that all connections together may hold.
pub(crate) struct Memory {
    limit_bytes: AtomicUsize,
    taken_bytes: AtomicUsize,
    shown: Gauge,
}

/// Memory that one connection, or one cursor, has taken. Dropping it gives it back.
pub(crate) struct HeldMemory {
    memory: Arc<Memory>,
    bytes: usize,
}

/// The memory that is left does not suffice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the gateway has no memory left for this message: all connections together hold {limit_bytes} bytes, the limit (--max-memory-mib); try again"
)]
pub(crate) struct MemoryFull {
    /// The limit that would be exceeded.
    pub(crate) limit_bytes: usize,
}

/// Part of the limit (one over it) that may be kept between commands: clients that do not fetch
/// their answers leave the rest to messages.
const KEPT_PART: usize = 2;

impl Memory {
    /// `shown`: the gauge of the bytes that are taken.
    pub(crate) fn new(limit_bytes: usize, shown: Gauge) -> Arc<Self> {
        Arc::new(Self { limit_bytes: AtomicUsize::new(limit_bytes), taken_bytes: AtomicUsize::new(0), shown })
    }

    /// The most that may be taken when something is to be kept between commands.
    pub(crate) fn kept_limit_bytes(&self) -> usize {
        self.limit_bytes.load(Relaxed) / KEPT_PART
    }

    /// Sets the limit. Memory that was taken before stays taken.
    pub(crate) fn limit(&self, bytes: usize) {
        self.limit_bytes.store(bytes, Relaxed);
    }

    /// A holder that has taken nothing yet.
    pub(crate) fn hold(self: &Arc<Self>) -> HeldMemory {
        HeldMemory { memory: Arc::clone(self), bytes: 0 }
    }
}

impl HeldMemory {
    /// Takes more.
    ///
    /// # Errors
    /// When there is not so much left. What is held stays so.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), MemoryFull> {
        self.grow_within(bytes, self.memory.limit_bytes.load(Relaxed))
    }

    /// Takes more for what is kept between commands, which is less than may be taken for a message.
    ///
    /// # Errors
    /// When there is not so much left. What is held stays so.
    pub(crate) fn grow_kept(&mut self, bytes: usize) -> Result<(), MemoryFull> {
        self.grow_within(bytes, self.memory.kept_limit_bytes())
    }

    fn grow_within(&mut self, bytes: usize, limit: usize) -> Result<(), MemoryFull> {
        let more = |taken: usize| taken.checked_add(bytes).filter(|sum| *sum <= limit);
        match self.memory.taken_bytes.fetch_update(Relaxed, Relaxed, more) {
            Ok(_) => {
                self.note(bytes);
                Ok(())
            }
            Err(_) => Err(MemoryFull { limit_bytes: limit }),
        }
    }

    /// Takes more, whatever the limit is: for what is there already and is small.
    pub(crate) fn grow_anyway(&mut self, bytes: usize) {
        self.memory.taken_bytes.fetch_add(bytes, Relaxed);
        self.note(bytes);
    }

    /// Gives so much back, or what there is.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.memory.taken_bytes.fetch_sub(bytes, Relaxed);
        self.memory.shown.dec_by(as_gauge(bytes));
        self.bytes -= bytes;
    }

    /// Gives back all memory that this holder has taken.
    pub(crate) fn clear(&mut self) {
        self.shrink(self.bytes);
    }

    fn note(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.memory.shown.inc_by(as_gauge(bytes));
    }
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        self.clear();
    }
}

fn as_gauge(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_takes_more_than_there_is_and_everything_is_given_back() {
        let shown = Gauge::default();
        let memory = Memory::new(100, shown.clone());
        let (mut one, mut two) = (memory.hold(), memory.hold());
        assert_eq!(one.grow(60), Ok(()));
        assert_eq!(two.grow(41), Err(MemoryFull { limit_bytes: 100 }));
        assert_eq!(two.grow(usize::MAX), Err(MemoryFull { limit_bytes: 100 }));
        assert_eq!(two.grow(40), Ok(()));
        assert_eq!(shown.get(), 100);
        drop(one);
        assert_eq!(two.grow(60), Ok(()));
        two.grow_anyway(5);
        assert_eq!(shown.get(), 105);
        two.clear();
        assert_eq!((shown.get(), memory.hold().grow(100)), (0, Ok(())));
    }

    #[test]
    fn what_is_kept_leaves_half_to_messages() {
        let memory = Memory::new(100, Gauge::default());
        let (mut kept, mut message) = (memory.hold(), memory.hold());
        assert_eq!(kept.grow_kept(51), Err(MemoryFull { limit_bytes: 50 }));
        assert_eq!(kept.grow_kept(50), Ok(()));
        assert_eq!(message.grow(50), Ok(()));
        kept.shrink(10);
        assert_eq!(kept.grow_kept(1), Err(MemoryFull { limit_bytes: 50 }), "messages count");
        assert_eq!(message.grow(10), Ok(()));
        message.clear();
        kept.shrink(usize::MAX);
        assert_eq!(kept.grow_kept(50), Ok(()));
    }
}
