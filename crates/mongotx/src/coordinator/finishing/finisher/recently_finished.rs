//! Committed transactions that have been finished a moment ago: a document that was fetched before
//! that may show their locks.

use std::collections::{HashMap, VecDeque};

use protocol::TxId;

use super::{ByNow, CommitTime};

/// Number of transactions remembered. A fetch that takes longer than finishing this many has to
/// read the records.
pub(super) const MAX_FINISHED: usize = 1_024;

/// Period in which a committed transaction was open: handed over, and not finished.
#[derive(Clone, Copy)]
struct Finished {
    /// Number of transactions that had been handed over with it.
    number: u64,
    /// Number of transactions that had been finished with it.
    finished: u64,
}

/// The last transactions that have been finished, [`MAX_FINISHED`] at most.
#[derive(Default)]
pub(super) struct RecentlyFinished {
    by_id: HashMap<TxId, Finished>,
    order: VecDeque<TxId>,
    finished: u64,
}

impl RecentlyFinished {
    pub(super) fn add(&mut self, id: TxId, number: u64) {
        if self.order.len() >= MAX_FINISHED
            && let Some(first) = self.order.pop_front()
        {
            self.by_id.remove(&first);
        }
        self.finished += 1;
        self.by_id.insert(id, Finished { number, finished: self.finished });
        self.order.push_back(id);
    }

    /// Number of transactions that have been finished.
    pub(super) fn finished(&self) -> u64 {
        self.finished
    }

    /// Returns whether it was committed before or after the moment, if it was not finished by then.
    /// A lock of one that was finished by then was written later, and does not say what it has
    /// committed: its server has been killed since, or a message was late.
    pub(super) fn when_committed(&self, id: TxId, by: ByNow) -> Option<CommitTime> {
        self.by_id.get(&id).filter(|one| by.finished < one.finished).map(|one| by.of(one.number))
    }
}
