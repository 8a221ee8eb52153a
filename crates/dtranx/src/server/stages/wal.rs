//! The WAL stage: appends a batch of records, makes it durable once, says so once (group commit).

use std::sync::Arc;

use super::BATCH;
use super::summaries::Summaries;
use crate::core::machine::{GcEvent, TranxEvent};
use crate::core::{LogTicket, SegmentId};
use crate::log::{Position, SegmentNumber, TranxLog};
use crate::server::event::{Append, Garbage};
use crate::server::stats::ServerStats;
use crate::stage::{Outlet, Source, Stage};

/// Time that a record nothing waits for may wait for an urgent one, in milliseconds.
const LAZY_MS: u64 = 5;

/// Time that the seal behind what was persisted last may wait for the next record before it is made
/// durable by itself, in milliseconds.
const SEAL_MS: u64 = 100;

pub(in crate::server) struct WalStage {
    log: TranxLog,
    stats: Arc<ServerStats>,
    source: Source<Append>,
    tell: Outlet<TranxEvent>,
    gc: Outlet<Garbage>,
    batch: Vec<Append>,
    buffer: Vec<u8>,
    segment: SegmentNumber,
    summaries: Summaries,
    /// The last record that was appended, and the last that was reported as durable.
    appended: LogTicket,
    reported: LogTicket,
    persist_at_ms: Option<u64>,
    seal_at_ms: Option<u64>,
}

impl WalStage {
    pub(in crate::server) fn new(
        log: TranxLog,
        stats: Arc<ServerStats>,
        source: Source<Append>,
        tell: Outlet<TranxEvent>,
        gc: Outlet<Garbage>,
    ) -> Self {
        let segment = log.current();
        let mut stage = Self {
            log,
            stats,
            source,
            tell,
            gc,
            batch: Vec::new(),
            buffer: Vec::new(),
            segment,
            summaries: Summaries::new(SegmentId(segment.0)),
            appended: LogTicket(0),
            reported: LogTicket(0),
            persist_at_ms: None,
            seal_at_ms: None,
        };
        stage.stats.note_space(stage.log.space());
        stage.gc.send(Garbage::MakeAhead);
        stage
    }

    fn append(&mut self, append: &Append) -> Result<(), String> {
        self.buffer.clear();
        let buffer = std::mem::take(&mut self.buffer);
        self.buffer = postcard::to_extend(&append.record, buffer).map_err(|error| error.to_string())?;
        let segment = self.log.append(&self.buffer).map_err(|error| error.to_string())?;
        if segment != self.segment {
            // The log has synced what is in the segment before.
            self.summaries.begin(SegmentId(segment.0));
            self.count();
            self.segment = segment;
            self.gc.send(Garbage::MakeAhead);
            self.stats.note_space(self.log.space());
        }
        // The block that is being gathered is the next entry.
        let entry = Position { term: 0, index: self.log.last().index + 1 };
        self.summaries.note(entry, &append.record);
        self.appended = append.ticket;
        Ok(())
    }

    /// Counts what is synced: this server runs alone, so that is committed.
    fn count(&mut self) {
        for (segment, summary) in self.summaries.commit(self.log.last().index) {
            self.gc.send(Garbage::Event(GcEvent::Sealed { segment, summary }));
        }
    }

    fn persist(&mut self, now_ms: u64) -> Result<(), String> {
        self.log.persist().map_err(|error| error.to_string())?;
        self.count();
        self.persist_at_ms = None;
        self.seal_at_ms = Some(now_ms + SEAL_MS);
        self.reported = self.appended;
        self.tell.send(TranxEvent::Logged { through: self.reported });
        Ok(())
    }
}

impl Stage for WalStage {
    fn name(&self) -> &'static str {
        "wal"
    }

    fn run(&mut self, now_ms: u64) -> Result<usize, String> {
        let mut batch = std::mem::take(&mut self.batch);
        let handled = self.source.take(BATCH, &mut batch);
        for append in &batch {
            self.append(append)?;
        }
        let hurry = batch.iter().any(|append| append.durable);
        batch.clear();
        self.batch = batch;
        if hurry || self.persist_at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
            self.persist(now_ms)?;
        } else if self.seal_at_ms.is_some_and(|at_ms| at_ms <= now_ms) && self.appended == self.reported {
            self.log.persist().map_err(|error| error.to_string())?;
            self.seal_at_ms = None;
        } else if self.appended > self.reported && self.persist_at_ms.is_none() {
            self.persist_at_ms = Some(now_ms + LAZY_MS);
        }
        self.tell.flush();
        self.gc.flush();
        Ok(handled)
    }

    fn has_work(&self) -> bool {
        !self.source.is_empty() || !self.tell.is_clear() || !self.gc.is_clear()
    }

    fn deadline_ms(&self) -> Option<u64> {
        [self.persist_at_ms, self.seal_at_ms].into_iter().flatten().min()
    }
}
