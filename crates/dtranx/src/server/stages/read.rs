//! The read stage: what clients read and is not in the cache, without locks. Several of them may share the work.

use std::sync::Arc;

use super::BATCH;
use crate::core::{KeyRange, transaction::MAX_TRANSACTION_ITEMS};
use crate::server::event::{ReadFor, ToClient};
use crate::server::reads::{self, ANSWER_LIMIT_BYTES};
use crate::stage::{Outlet, Source, Stage};
use crate::storage::{ScanLimit, Storage};
use crate::wire::{Ask, Reply, Response};

pub(in crate::server) struct ReadStage {
    pub(in crate::server) storage: Arc<dyn Storage>,
    pub(in crate::server) source: Source<ReadFor>,
    pub(in crate::server) to_clients: Outlet<ToClient>,
    pub(in crate::server) batch: Vec<ReadFor>,
}

impl ReadStage {
    fn answer(&self, ask: Ask) -> Reply {
        match ask {
            Ask::Get(keys) => reads::stored(&*self.storage, &keys),
            Ask::Scan { range, items } => self.scan(&range, items),
            Ask::Commit(_) | Ask::Status => Reply::Refused("this is no read".to_owned()),
        }
    }

    fn scan(&self, range: &KeyRange, items: u32) -> Reply {
        let limit = ScanLimit { items: (items as usize).min(MAX_TRANSACTION_ITEMS), bytes: ANSWER_LIMIT_BYTES };
        match self.storage.scan(range, limit) {
            Ok(found) => Reply::Found { items: found.items, complete: found.complete },
            Err(error) => Reply::Refused(error.to_string()),
        }
    }
}

impl Stage for ReadStage {
    fn name(&self) -> &'static str {
        "read"
    }

    fn run(&mut self, _: u64) -> Result<usize, String> {
        if !self.to_clients.flush() {
            return Ok(0);
        }
        let mut batch = std::mem::take(&mut self.batch);
        let handled = self.source.take(BATCH, &mut batch);
        for ReadFor { client, id, ask } in batch.drain(..) {
            let response = Response { id, reply: self.answer(ask) };
            self.to_clients.send(ToClient { client, response });
        }
        self.batch = batch;
        self.to_clients.flush();
        Ok(handled)
    }

    fn has_work(&self) -> bool {
        !self.source.is_empty() || !self.to_clients.is_clear()
    }
}
