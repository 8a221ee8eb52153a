//! The end of a transaction: its documents are finished, or it is rolled back.
//!
//! `finish` hands what is held to the finisher, once the transaction is committed
//! (`crate::command::commit`). `roll_back` tells the log, then undoes what is held.

use std::{collections::HashSet, sync::Arc};

use bson::doc;
use protocol::Decided;

use super::Transaction;
use crate::{
    coordinator::{
        Core,
        finisher::{Held, Job},
        siblings::Left,
    },
    error::{Error, ErrorKind},
    options::{Layout, Namespace},
};

impl Transaction {
    /// Notes that the transaction's documents will be free within moments.
    pub(crate) fn ending(&self) {
        if let Some(claims) = &self.claims {
            claims.ending();
        }
    }

    /// The job for the finisher, once the transaction is decided.
    fn into_job(self, id: Decided, committed: bool) -> Job {
        self.ending();
        let held = self.held.into_iter().map(|(ns, set)| (ns, set.into_held()));
        Job { id, committed, held: held.collect(), claims: self.claims }
    }
}

impl Core {
    /// Finishes the transaction. As long as the read locks of a transaction that only read are
    /// there, other clients cannot know that it has ended: the answer waits for that.
    pub(crate) async fn finish(&self, tx: Transaction, decided: Decided) {
        let wrote = tx.has_written_anything();
        let job = tx.into_job(decided, true);
        if !wrote {
            return self.finisher.run_now(job, false).await;
        }
        if self.options.layout == Layout::Published {
            // As published: each document by itself, before the answer.
            self.finisher.run_now(job, true).await;
        } else {
            self.hand_over(job);
        }
    }

    /// From now on others may take over what the transaction holds, unless it is to go.
    fn hand_over(&self, job: Job) {
        let claims = job.claims.clone();
        let removes = |(ns, held): &(Namespace, Held)| held.removes.then(|| ns.clone());
        let kept: HashSet<Namespace> = job.held.iter().filter_map(removes).collect();
        let id = job.id.id();
        self.finisher.hand_over(job);
        if let Some(claims) = claims
            && claims.leave(|ns| kept.contains(ns)) == Left::Wanted
        {
            self.finisher.ask(id);
        }
    }

    /// Step 4, waiting until the documents are free again (or handed to the finisher when the
    /// server is away).
    #[tracing::instrument(name = "mongotx.rollback", level = "debug", skip_all, fields(transaction = tx.id().map(tracing::field::display)))]
    pub(crate) async fn roll_back(&self, tx: Transaction) {
        if let Some(id) = tx.id() {
            tx.ending();
            let decided = self.log.rolled_back(id).await;
            self.finisher.run_now(tx.into_job(decided, false), false).await;
        }
    }

    async fn hand_over_undone(&self, tx: Transaction) {
        if let Some(id) = tx.id() {
            tx.ending();
            let decided = self.log.rolled_back(id).await;
            self.finisher.hand_over(tx.into_job(decided, false));
        }
    }

    pub(crate) fn count_abort(&self, error: &Error) {
        let counters = &self.server.counters;
        let counter = match error.kind() {
            ErrorKind::Conflict => &counters.aborts_conflict,
            ErrorKind::Expired => &counters.aborts_expired,
            _ => &counters.aborts_unavailable,
        };
        counters.add(counter, 1);
    }
}

/// Rolls back, in the background, a transaction that was dropped without commit. It runs on the
/// client's own runtime: the caller may be where none runs.
pub(crate) fn abandon(core: &Arc<Core>, tx: Transaction) {
    if tx.id().is_some() {
        let this = Arc::clone(core);
        core.runtime.spawn(async move { this.hand_over_undone(tx).await });
    }
}
