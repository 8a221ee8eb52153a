//! The garbage collection's stage (section 3.3.2): which segments may go, and everything about that
//! which waits for a disk. It makes the log's next segment ahead, too.

use std::sync::{Arc, OnceLock};

use super::BATCH;
use super::pin::Pin;
use crate::core::gc::Gc;
use crate::core::machine::{GcEvent, Outbox, Turn};
use crate::core::{Command, GcRecord, NodeConfig};
use crate::log::{Collector, LogError, SegmentNumber};
use crate::server::event::Garbage;
use crate::server::stats::ServerStats;
use crate::stage::{Source, Stage};
use crate::storage::{History, Storage};

/// Time between two checks that the log's folder is still there, in milliseconds.
const CHECK_EVERY_MS: u64 = 1000;

pub(in crate::server) struct GcStage {
    pub(in crate::server) gc: Gc,
    pub(in crate::server) config: Arc<NodeConfig>,
    pub(in crate::server) storage: Arc<dyn Storage>,
    /// Replaced items that are kept for snapshots; empty as long as no node runs here.
    pub(in crate::server) history: Arc<OnceLock<Arc<History>>>,
    pub(in crate::server) collector: Collector,
    pub(in crate::server) pin: Pin,
    pub(in crate::server) stats: Arc<ServerStats>,
    pub(in crate::server) source: Source<Garbage>,
    pub(in crate::server) batch: Vec<Garbage>,
    /// Time of the next check that the log's folder is still there.
    pub(in crate::server) check_at_ms: u64,
    /// The last marks. A segment that becomes complete is looked at by these: to a log at rest no
    /// others come.
    pub(in crate::server) marks: Option<GcRecord>,
}

impl GcStage {
    /// Handles an event, and looks at once whether a segment that it calls complete may go.
    fn collect(&mut self, event: GcEvent) -> Result<(), String> {
        if let GcEvent::Collect(marks) = &event {
            self.marks = Some(marks.clone());
        }
        let marks = self.marks.clone().filter(|_| matches!(event, GcEvent::Sealed { .. }));
        self.handle(event)?;
        marks.map_or(Ok(()), |marks| self.handle(GcEvent::Collect(marks)))
    }

    /// Handles an event, and the commands that follow from it, one step after the other.
    fn handle(&mut self, event: GcEvent) -> Result<(), String> {
        let mut next = Some(event);
        while let Some(event) = next.take() {
            let mut out = Outbox::default();
            // This machine has no clock.
            self.gc.on(&mut Turn { now_ms: 0, config: &self.config, out: &mut out }, event);
            for command in out.commands {
                next = self.carry_out(command)?;
            }
        }
        Ok(())
    }

    fn carry_out(&mut self, command: Command) -> Result<Option<GcEvent>, String> {
        match command {
            // Transactions below the marks were applied before the marks were raised.
            Command::PersistStorage => {
                self.storage.persist().map_err(|error| error.to_string())?;
                Ok(Some(GcEvent::Persisted))
            }
            Command::WriteGcRecord(record) => {
                let state = postcard::to_stdvec(&record).map_err(|error| error.to_string())?;
                self.collector.write(&state).map_err(|error| error.to_string())?;
                Ok(Some(GcEvent::Recorded))
            }
            Command::RemoveSegments { through } => {
                let through = SegmentNumber(through.0);
                if !self.pin.holds_back(through) {
                    self.remove(through)?;
                }
                Ok(None)
            }
            command => Err(format!("a command that it cannot carry out: {command:?}")),
        }
    }

    fn remove(&mut self, through: SegmentNumber) -> Result<(), String> {
        self.collector.remove_through(through).map_err(|error| error.to_string())?;
        // There may have been no room for it before.
        self.make_ahead()
    }

    fn make_ahead(&self) -> Result<(), String> {
        match self.collector.make_ahead() {
            // Room may be made until the segment is needed. If not, the log says so then.
            Ok(()) | Err(LogError::Full { .. }) => {}
            Err(error) => return Err(error.to_string()),
        }
        self.stats.note_space(self.collector.space());
        Ok(())
    }
}

impl Stage for GcStage {
    fn name(&self) -> &'static str {
        "gc"
    }

    fn run(&mut self, now_ms: u64) -> Result<usize, String> {
        if self.check_at_ms <= now_ms {
            self.check_at_ms = now_ms + CHECK_EVERY_MS;
            self.collector.check().map_err(|error| error.to_string())?;
            self.stats.note_space(self.collector.space());
            if let Some(history) = self.history.get() {
                let (bytes, from) = history.expire(now_ms);
                self.stats.note_kept(bytes, from);
            }
        }
        let mut batch = std::mem::take(&mut self.batch);
        let handled = self.source.take(BATCH, &mut batch);
        for garbage in batch.drain(..) {
            match garbage {
                Garbage::Event(event) => self.collect(event)?,
                Garbage::MakeAhead => self.make_ahead()?,
                Garbage::Pin { pin } => self.pin.set(pin, &self.collector),
                Garbage::Release => {
                    if let Some(through) = self.pin.release() {
                        self.remove(through)?;
                    }
                }
            }
        }
        self.pin.flush();
        self.batch = batch;
        Ok(handled)
    }

    fn has_work(&self) -> bool {
        !self.source.is_empty() || !self.pin.is_clear()
    }

    fn deadline_ms(&self) -> Option<u64> {
        Some(self.check_at_ms)
    }
}
