//! The storage stage: compares versions that are not in the cache, and applies writes, those of a
//! batch at once.

use std::sync::Arc;

use super::BATCH;
use crate::core::machine::TranxEvent;
use crate::core::{Epoch, TranxId, Write};
use crate::server::event::Store;
use crate::stage::{Outlet, Source, Stage};
use crate::storage::{History, Storage};

pub(in crate::server) struct StorageStage {
    storage: Arc<dyn Storage>,
    history: Arc<History>,
    source: Source<Store>,
    tell: Outlet<TranxEvent>,
    batch: Vec<Store>,
    commits: Vec<(TranxId, Vec<Write>)>,
    /// Epochs of the writes, in the same order.
    epochs: Vec<Epoch>,
}

impl StorageStage {
    pub(in crate::server) fn new(
        storage: Arc<dyn Storage>,
        history: Arc<History>,
        source: Source<Store>,
        tell: Outlet<TranxEvent>,
    ) -> Self {
        Self { storage, history, source, tell, batch: Vec::new(), commits: Vec::new(), epochs: Vec::new() }
    }
}

impl Stage for StorageStage {
    fn name(&self) -> &'static str {
        "storage"
    }

    fn run(&mut self, now_ms: u64) -> Result<usize, String> {
        let handled = self.source.take(BATCH, &mut self.batch);
        for store in self.batch.drain(..) {
            match store {
                Store::Check { work, reads, scans } => {
                    let answer = self.storage.check(&reads, &scans).map_err(|error| error.to_string())?;
                    self.tell.send(TranxEvent::Checked { work, answer });
                }
                Store::Apply { tranx, epoch, writes } => {
                    self.commits.push((tranx, writes));
                    self.epochs.push(epoch);
                }
            }
        }
        if !self.commits.is_empty() {
            let kept = self.history.replace(&*self.storage, &self.commits, &self.epochs, now_ms);
            kept.map_err(|error| error.to_string())?;
            self.epochs.clear();
            self.storage.apply(&self.commits).map_err(|error| error.to_string())?;
            for (tranx, _) in self.commits.drain(..) {
                self.tell.send(TranxEvent::Applied { tranx });
            }
        }
        self.tell.flush();
        Ok(handled)
    }

    fn has_work(&self) -> bool {
        !self.source.is_empty() || !self.tell.is_clear()
    }
}
