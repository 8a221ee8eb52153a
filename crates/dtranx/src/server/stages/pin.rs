//! The pin of a log: while a member is given the items, no segment goes, because the member needs
//! the entries from there on. The GC log is written all the same.

use crate::log::{Collector, SegmentNumber};
use crate::server::member_event::Transfer;
use crate::stage::Outlet;

/// Whether the log is pinned, and what has to wait for that.
#[derive(Default)]
pub(in crate::server) struct Pin {
    is_set: bool,
    /// Segments up to this one would have gone meanwhile.
    held_back: Option<SegmentNumber>,
    /// The stage that asks for pins, in a member of a group.
    asks: Option<Outlet<Transfer>>,
}

impl Pin {
    /// No pin yet, of the log of a group's member.
    pub(in crate::server) fn new(asks: Outlet<Transfer>) -> Self {
        Self { asks: Some(asks), ..Self::default() }
    }

    /// Pins the log, and says from where on it is kept.
    pub(super) fn set(&mut self, pin: u64, collector: &Collector) {
        self.is_set = true;
        if let Some(asks) = &mut self.asks {
            asks.send(Transfer::Pinned { pin, from: collector.beginning() });
        }
    }

    /// Returns true if segments up to this one have to wait.
    pub(super) fn holds_back(&mut self, through: SegmentNumber) -> bool {
        if self.is_set {
            self.held_back = self.held_back.max(Some(through));
        }
        self.is_set
    }

    /// Ends the pin. Returns the last of the segments that have waited.
    pub(super) fn release(&mut self) -> Option<SegmentNumber> {
        self.is_set = false;
        self.held_back.take()
    }

    pub(super) fn flush(&mut self) {
        if let Some(asks) = &mut self.asks {
            asks.flush();
        }
    }

    pub(super) fn is_clear(&self) -> bool {
        self.asks.as_ref().is_none_or(Outlet::is_clear)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::log::{LogOptions, Memory, TranxLog};
    use crate::stage::{Counters, Signal, queue};

    #[test]
    fn segments_wait_for_the_end_of_the_pin() {
        let (inlet, source) = queue("test", 8, &Arc::new(Signal::new()), &Counters::new());
        let log = TranxLog::open(Arc::new(Memory::new()), &LogOptions::new(1, 4096), |_, _| Ok(())).unwrap();
        let mut pin = Pin::new(inlet.outlet());
        assert!(!pin.holds_back(SegmentNumber(3)));
        pin.set(7, &log.collector);
        let mut told = Vec::new();
        source.take(8, &mut told);
        assert!(matches!(&told[..], [Transfer::Pinned { pin: 7, from }] if *from == log.collector.beginning()));
        assert!(pin.holds_back(SegmentNumber(5)) && pin.holds_back(SegmentNumber(4)));
        assert_eq!(pin.release(), Some(SegmentNumber(5)));
        assert!(!pin.holds_back(SegmentNumber(6)));
        assert_eq!(pin.release(), None);
    }
}
