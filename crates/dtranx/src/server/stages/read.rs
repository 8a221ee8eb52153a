//! The read stage: reads of clients that are not in the cache, without locks. Several of them may
//! share the work.

use std::sync::Arc;

use super::BATCH;
use crate::core::{Epoch, Key, KeyRange, Refusal, SnapshotAnswer, transaction::MAX_TRANSACTION_ITEMS};
use crate::server::event::{ReadFor, ToClient};
use crate::server::reads::{self, ANSWER_LIMIT_BYTES};
use crate::server::stats::ServerStats;
use crate::stage::{Outlet, Source, Stage};
use crate::storage::{FoundAt, History, ScanLimit, Storage, TooOld};
use crate::wire::{Ask, Reply, Response};

pub(in crate::server) struct ReadStage {
    storage: Arc<dyn Storage>,
    history: Arc<History>,
    stats: Arc<ServerStats>,
    source: Source<ReadFor>,
    to_clients: Outlet<ToClient>,
    batch: Vec<ReadFor>,
}

impl ReadStage {
    pub(in crate::server) fn new(
        storage: Arc<dyn Storage>,
        history: Arc<History>,
        stats: Arc<ServerStats>,
        source: Source<ReadFor>,
        to_clients: Outlet<ToClient>,
    ) -> Self {
        Self { storage, history, stats, source, to_clients, batch: Vec::new() }
    }

    fn answer(&self, ask: Ask) -> Reply {
        match ask {
            Ask::Get(keys) => reads::stored(&*self.storage, &keys),
            Ask::Scan { range, items } => self.scan(&range, items),
            Ask::GetAt { epoch, .. } | Ask::ScanAt { epoch, .. } if epoch >= self.stats.epoch() => {
                Reply::Refused(format!("there is no snapshot {epoch}: the server is in epoch {}", self.stats.epoch()))
            }
            Ask::GetAt { epoch, keys } => self.get_at(epoch, &keys),
            Ask::ScanAt { epoch, range, items } => self.scan_at(epoch, &range, items),
            Ask::Commit(_) | Ask::CommitAgain { .. } | Ask::Status | Ask::Snapshot | Ask::Fate { .. } => {
                Reply::Refused("this is no read".to_owned())
            }
        }
    }

    fn get_at(&self, epoch: Epoch, keys: &[Key]) -> Reply {
        if keys.len() > MAX_TRANSACTION_ITEMS {
            return Reply::Refused(format!("{} keys at once; the limit is {MAX_TRANSACTION_ITEMS}", keys.len()));
        }
        match self.history.get(&*self.storage, epoch, keys) {
            Ok(Ok(items)) => reads::within_limit(items),
            Ok(Err(old)) => self.too_old(old),
            Err(error) => Reply::Refused(error.to_string()),
        }
    }

    fn scan_at(&self, epoch: Epoch, range: &KeyRange, items: u32) -> Reply {
        match self.history.scan(&*self.storage, epoch, range, limit(items)) {
            Ok(Ok(FoundAt { items, through })) => Reply::FoundAt { items, through },
            Ok(Err(old)) => self.too_old(old),
            Err(error) => Reply::Refused(error.to_string()),
        }
    }

    fn too_old(&self, TooOld(why): TooOld) -> Reply {
        let server = self.stats.server;
        Reply::Snapshot(SnapshotAnswer::Refused(Refusal::SnapshotTooOld { server, why }))
    }

    fn scan(&self, range: &KeyRange, items: u32) -> Reply {
        match self.storage.scan(range, limit(items)) {
            Ok(found) => Reply::Found { items: found.items, complete: found.complete },
            Err(error) => Reply::Refused(error.to_string()),
        }
    }
}

fn limit(items: u32) -> ScanLimit {
    ScanLimit { items: (items as usize).clamp(1, MAX_TRANSACTION_ITEMS), bytes: ANSWER_LIMIT_BYTES }
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
