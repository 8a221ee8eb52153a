//! Statuses of the transactions that held documents when these were fetched.

use std::{collections::HashMap, sync::Arc};

use protocol::{TxId, TxStatus};

use super::finisher::{ByNow, CommitTime, Finisher};
use crate::{coordinator::log::txlog::TxLog, error::Result};

/// A transaction that held a document when it was fetched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder {
    pub(crate) status: TxStatus,
    /// True if it was committed before the fetch was sent: then the unsafe version that was fetched
    /// is the committed one.
    pub(crate) had_committed: bool,
}

impl Holder {
    /// Returns true if it may have been committed after the fetch, and have written to the document
    /// again before that.
    pub(crate) fn is_news(&self) -> bool {
        self.status == TxStatus::Committed && !self.had_committed
    }
}

/// Finds the statuses of the holders of documents.
pub(crate) struct Holders {
    log: Arc<dyn TxLog>,
    finisher: Finisher,
}

impl Holders {
    pub(crate) fn new(log: Arc<dyn TxLog>, finisher: Finisher) -> Self {
        Self { log, finisher }
    }

    /// Holders of documents that were fetched after `by_now`. The records are read only for those
    /// of which this client does not know that it has committed them.
    pub(crate) async fn of(&self, ids: impl IntoIterator<Item = TxId>, by_now: ByNow) -> Result<HashMap<TxId, Holder>> {
        let when = |id: TxId| (id, self.finisher.when_committed(id, by_now));
        let (known, unknown): (Vec<_>, Vec<_>) = ids.into_iter().map(when).partition(|(_, when)| when.is_some());
        let unknown: Vec<TxId> = unknown.into_iter().map(|(id, _)| id).collect();
        let statuses = self.log.statuses(&unknown).await?;
        let asked = unknown.into_iter().zip(statuses);
        let asked = asked.map(|(id, status)| (id, Holder { status, had_committed: false }));
        let known = known.into_iter().map(|(id, when)| {
            (id, Holder { status: TxStatus::Committed, had_committed: when == Some(CommitTime::Before) })
        });
        Ok(known.chain(asked).collect())
    }
}
