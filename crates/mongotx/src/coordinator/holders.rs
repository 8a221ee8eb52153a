//! What became of who held a document when it was fetched.

use std::collections::HashMap;

use protocol::{TxId, TxStatus};

use super::{Core, finisher::ByNow};
use crate::error::Result;

/// What became of a transaction that held a document when it was fetched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder {
    pub(crate) status: TxStatus,
    /// It was committed before the fetch was sent: the unsafe version that was fetched is what it has committed.
    pub(crate) had_committed: bool,
}

impl Core {
    /// Of holders of documents that were fetched after `by_now`. The records are asked only about whom this client had not committed by
    /// then.
    pub(crate) async fn holders(&self, ids: &[TxId], by_now: ByNow) -> Result<HashMap<TxId, Holder>> {
        let known = |id: &TxId| self.finisher.was_committed(*id, by_now);
        let (known, unknown): (Vec<TxId>, Vec<TxId>) = ids.iter().copied().partition(known);
        let statuses = self.log.statuses(&unknown).await?;
        let known = known.into_iter().map(|id| (id, Holder { status: TxStatus::Committed, had_committed: true }));
        let asked = unknown.into_iter().zip(statuses);
        Ok(known.chain(asked.map(|(id, status)| (id, Holder { status, had_committed: false }))).collect())
    }
}
