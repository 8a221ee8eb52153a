//! The read stage: what clients read, without locks. Several of them may share the work.

use std::sync::Arc;

use super::BATCH;
use crate::core::{KeyRange, transaction::MAX_TRANSACTION_ITEMS};
use crate::server::event::{Outgoing, ReadFor};
use crate::stage::{Outlet, Source, Stage};
use crate::storage::{ScanLimit, Storage};
use crate::wire::{Ask, FRAME_LIMIT_BYTES, Reply, Response};

/// What one answer holds at most, in bytes of keys and values: a frame has room for that and one item more.
const ANSWER_LIMIT_BYTES: usize = FRAME_LIMIT_BYTES / 2;

pub(in crate::server) struct ReadStage {
    pub(in crate::server) storage: Arc<dyn Storage>,
    pub(in crate::server) source: Source<ReadFor>,
    pub(in crate::server) outgoing: Outlet<Outgoing>,
    pub(in crate::server) batch: Vec<ReadFor>,
}

impl ReadStage {
    fn answer(&self, ask: Ask) -> Reply {
        match ask {
            Ask::Get(keys) => self.get(&keys),
            Ask::Scan { range, items } => self.scan(&range, items),
            Ask::Commit(_) | Ask::Status => Reply::Refused("this is no read".to_owned()),
        }
    }

    fn get(&self, keys: &[crate::core::Key]) -> Reply {
        if keys.len() > MAX_TRANSACTION_ITEMS {
            return Reply::Refused(format!("{} keys at once; the limit is {MAX_TRANSACTION_ITEMS}", keys.len()));
        }
        let (mut items, mut bytes) = (Vec::with_capacity(keys.len()), 0);
        for key in keys {
            match self.storage.get(key) {
                Ok(item) => {
                    bytes += item.as_ref().map_or(0, |item| item.value.as_bytes().len());
                    items.push(item);
                }
                Err(error) => return Reply::Refused(error.to_string()),
            }
            if bytes > ANSWER_LIMIT_BYTES {
                return Reply::Refused(format!("more than {ANSWER_LIMIT_BYTES} bytes at once; read fewer keys"));
            }
        }
        Reply::Values(items)
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
        if !self.outgoing.flush() {
            return Ok(0);
        }
        let mut batch = std::mem::take(&mut self.batch);
        let handled = self.source.take(BATCH, &mut batch);
        for ReadFor { client, id, ask } in batch.drain(..) {
            let response = Response { id, reply: self.answer(ask) };
            self.outgoing.send(Outgoing::Client(client, response));
        }
        self.batch = batch;
        self.outgoing.flush();
        Ok(handled)
    }

    fn has_work(&self) -> bool {
        !self.source.is_empty() || !self.outgoing.is_clear()
    }
}
