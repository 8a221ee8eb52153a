//! The storage stage: compares versions and applies writes, in the order of the transaction stage's commands.

use std::sync::Arc;

use super::BATCH;
use crate::core::tranx_service::TranxEvent;
use crate::server::event::Store;
use crate::stage::{Outlet, Source, Stage};
use crate::storage::Storage;

pub(in crate::server) struct StorageStage {
    pub(in crate::server) storage: Arc<dyn Storage>,
    pub(in crate::server) source: Source<Store>,
    pub(in crate::server) tell: Outlet<TranxEvent>,
    pub(in crate::server) batch: Vec<Store>,
}

impl Stage for StorageStage {
    fn name(&self) -> &'static str {
        "storage"
    }

    fn run(&mut self, _: u64) -> Result<usize, String> {
        let handled = self.source.take(BATCH, &mut self.batch);
        for store in self.batch.drain(..) {
            match store {
                Store::Check { tranx, reads, scans } => {
                    let answer = self.storage.check(&reads, &scans).map_err(|error| error.to_string())?;
                    self.tell.send(TranxEvent::Checked { tranx, answer });
                }
                Store::Apply { tranx, writes } => {
                    self.storage.apply(tranx, &writes).map_err(|error| error.to_string())?;
                    self.tell.send(TranxEvent::Applied { tranx });
                }
            }
        }
        self.tell.flush();
        Ok(handled)
    }

    fn has_work(&self) -> bool {
        !self.source.is_empty() || !self.tell.is_clear()
    }
}
