//! The read stage: reads of clients that are not in the cache, without locks. Several of them may
//! share the work.

use std::sync::Arc;

use super::BATCH;
use crate::core::{Epoch, Key, KeyRange, Map, Moved, Refusal, SnapshotAnswer, transaction::MAX_TRANSACTION_ITEMS};
use crate::server::event::{ReadFor, ToClient};
use crate::server::holding::Holding;
use crate::server::reads::{self, ANSWER_LIMIT_BYTES};
use crate::server::stats::ServerStats;
use crate::stage::{Outlet, Source, Stage};
use crate::storage::{FoundAt, History, ScanLimit, Storage, TooOld};
use crate::wire::{Ask, Reply, Response};

pub(in crate::server) struct ReadStage {
    storage: Arc<dyn Storage>,
    history: Arc<History>,
    holding: Holding,
    stats: Arc<ServerStats>,
    source: Source<ReadFor>,
    to_clients: Outlet<ToClient>,
    batch: Vec<ReadFor>,
}

impl ReadStage {
    pub(in crate::server) fn new(
        storage: Arc<dyn Storage>,
        history: Arc<History>,
        holding: Holding,
        stats: Arc<ServerStats>,
        source: Source<ReadFor>,
        to_clients: Outlet<ToClient>,
    ) -> Self {
        Self { storage, history, holding, stats, source, to_clients, batch: Vec::new() }
    }

    fn answer(&self, ask: Ask) -> Reply {
        match ask {
            Ask::Get(keys) => reads::stored(&*self.storage, &self.holding, &keys),
            Ask::Scan { range, items } => self.scan(&range, items),
            Ask::GetAt { epoch, .. } | Ask::ScanAt { epoch, .. } if epoch >= self.stats.epoch() => Reply::Refused(
                format!("there is no snapshot {epoch}: the server has those before epoch {}", self.stats.epoch()),
            ),
            Ask::GetAt { epoch, keys } => self.get_at(epoch, &keys),
            Ask::ScanAt { epoch, range, items } => self.scan_at(epoch, &range, items),
            Ask::Commit(_)
            | Ask::CommitAgain { .. }
            | Ask::Status
            | Ask::Snapshot
            | Ask::RequestOutcome { .. }
            | Ask::AddMember { .. }
            | Ask::RemoveMember(_) => Reply::Refused("this is no read".to_owned()),
        }
    }

    fn get_at(&self, epoch: Epoch, keys: &[Key]) -> Reply {
        if keys.len() > MAX_TRANSACTION_ITEMS {
            return Reply::Refused(format!("{} keys at once; the limit is {MAX_TRANSACTION_ITEMS}", keys.len()));
        }
        let found = self.history.get(&*self.storage, epoch, keys, ANSWER_LIMIT_BYTES);
        if let Some(reply) = self.elsewhere_at(epoch, |map| self.holding.missing(map, keys)) {
            return reply;
        }
        match found {
            Ok(Ok(items)) => reads::within_limit(items),
            Ok(Err(old)) => self.too_old(old),
            Err(error) => Reply::Refused(error.to_string()),
        }
    }

    fn scan_at(&self, epoch: Epoch, range: &KeyRange, items: u32) -> Reply {
        let found = self.history.scan(&*self.storage, epoch, range, limit(items));
        if let Some(reply) = self.elsewhere_at(epoch, |map| self.holding.missing_range(map, range)) {
            return reply;
        }
        match found {
            Ok(Ok(FoundAt { items, through })) => Reply::FoundAt { items, through },
            Ok(Err(old)) => self.too_old(old),
            Err(error) => Reply::Refused(error.to_string()),
        }
    }

    /// The answer to a read as of a snapshot if this server did not hold then what is read.
    fn elsewhere_at(&self, epoch: Epoch, missing: impl FnOnce(&Map) -> Option<Moved>) -> Option<Reply> {
        match self.holding.map_at(&*self.storage, &self.history, epoch) {
            Ok(Ok(map)) => missing(&map).map(Reply::NotHere),
            Ok(Err(old)) => Some(self.too_old(old)),
            Err(error) => Some(Reply::Refused(error.to_string())),
        }
    }

    fn too_old(&self, TooOld(why): TooOld) -> Reply {
        let server = self.stats.server;
        Reply::Snapshot(SnapshotAnswer::Refused(Refusal::SnapshotTooOld { server, why }))
    }

    fn scan(&self, range: &KeyRange, items: u32) -> Reply {
        let found = self.storage.scan_items(range, limit(items));
        match self.holding.range_elsewhere(&*self.storage, range) {
            Ok(Some(moved)) => return Reply::NotHere(moved),
            Ok(None) => {}
            Err(error) => return Reply::Refused(error.to_string()),
        }
        match found {
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
