//! The garbage collection's stage: everything about it that waits for a disk (section 3.3.2). What is collected, and when,
//! the node decides. It makes the log's next segment ahead, too.

use std::sync::Arc;

use super::BATCH;
use crate::core::Input;
use crate::log::{Collector, LogError, SegmentNumber};
use crate::server::board::Board;
use crate::server::event::Collect;
use crate::stage::{Outlet, Source, Stage};
use crate::storage::Storage;

/// How often is looked whether the log's folder is still there.
const CHECK_EVERY_MS: u64 = 1000;

pub(in crate::server) struct GcStage {
    pub(in crate::server) storage: Arc<dyn Storage>,
    pub(in crate::server) collector: Collector,
    pub(in crate::server) board: Arc<Board>,
    pub(in crate::server) source: Source<Collect>,
    pub(in crate::server) tell: Outlet<Input>,
    pub(in crate::server) batch: Vec<Collect>,
    pub(in crate::server) check_at_ms: u64,
}

impl GcStage {
    fn make_ahead(&self) -> Result<(), String> {
        match self.collector.make_ahead() {
            // Room may be made until the segment is needed. If not, the log says so then.
            Ok(()) | Err(LogError::Full { .. }) => {}
            Err(error) => return Err(error.to_string()),
        }
        self.board.note_space(self.collector.space());
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
            self.board.note_space(self.collector.space());
        }
        let handled = self.source.take(BATCH, &mut self.batch);
        let mut batch = std::mem::take(&mut self.batch);
        for collect in batch.drain(..) {
            match collect {
                Collect::Persist => {
                    self.storage.persist().map_err(|error| error.to_string())?;
                    self.tell.send(Input::StoragePersisted);
                }
                Collect::Write(record) => {
                    let state = postcard::to_stdvec(&record).map_err(|error| error.to_string())?;
                    self.collector.write(&state).map_err(|error| error.to_string())?;
                    self.tell.send(Input::GcRecorded);
                }
                Collect::Remove(through) => {
                    let through = SegmentNumber(through.0);
                    self.collector.remove_through(through).map_err(|error| error.to_string())?;
                    // There may have been no room for it before.
                    self.make_ahead()?;
                }
                Collect::MakeAhead => self.make_ahead()?,
            }
        }
        self.batch = batch;
        self.tell.flush();
        Ok(handled)
    }

    fn has_work(&self) -> bool {
        !self.source.is_empty() || !self.tell.is_clear()
    }

    fn deadline_ms(&self) -> Option<u64> {
        Some(self.check_at_ms)
    }
}
