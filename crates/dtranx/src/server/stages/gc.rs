//! The garbage collection's stage: everything about it that waits for a disk (section 3.3.2). What is collected, and when,
//! the node decides.

use std::sync::Arc;

use super::BATCH;
use crate::core::Input;
use crate::log::{Collector, SegmentNumber};
use crate::server::event::Collect;
use crate::stage::{Outlet, Source, Stage};
use crate::storage::Storage;

/// How often is looked whether the log's folder is still there.
const CHECK_EVERY_MS: u64 = 1000;

pub(in crate::server) struct GcStage {
    pub(in crate::server) storage: Arc<dyn Storage>,
    pub(in crate::server) collector: Collector,
    pub(in crate::server) source: Source<Collect>,
    pub(in crate::server) tell: Outlet<Input>,
    pub(in crate::server) batch: Vec<Collect>,
    pub(in crate::server) check_at_ms: u64,
}

impl Stage for GcStage {
    fn name(&self) -> &'static str {
        "gc"
    }

    fn run(&mut self, now_ms: u64) -> Result<usize, String> {
        if self.check_at_ms <= now_ms {
            self.check_at_ms = now_ms + CHECK_EVERY_MS;
            self.collector.check().map_err(|error| error.to_string())?;
        }
        let handled = self.source.take(BATCH, &mut self.batch);
        for collect in self.batch.drain(..) {
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
                }
            }
        }
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
