//! The end of a transaction: its commit, or its roll-back.
//!
//! `commit` records what was changed in watched collections ([`crate::coordinator::events`]),
//! validates what was read ([`crate::command::validation`]), looks after what may expire
//! ([`crate::coordinator::expiry`]), decides through the log, then hands what is held to the
//! finisher. `roll_back` tells the log, then undoes what is held.

use std::{collections::HashSet, sync::Arc};

use bson::doc;
use protocol::{Concern, Decided};
use tracing::instrument::{Instrument, WithSubscriber};

use super::Transaction;
use crate::{
    coordinator::{
        Core,
        finisher::{Held, Job},
        siblings::Left,
    },
    error::{Error, ErrorKind, Result},
    options::{Layout, Namespace},
};

/// Times that a transaction is validated because readers have had quiet in between.
const VALIDATIONS: usize = 16;

impl Transaction {
    /// Notes that the transaction's documents will be free within moments.
    fn ending(&self) {
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
    /// Step 3, to its end even if the caller's future is dropped: what is decided must be finished.
    pub(crate) async fn commit(self: &Arc<Self>, tx: Transaction) -> Result<()> {
        let (this, id) = (Arc::clone(self), tx.id());
        tokio::spawn(async move { this.decide(tx).await }.in_current_span().with_current_subscriber())
            .await
            .unwrap_or_else(|stopped| {
                let message = format!("the commit was stopped with its runtime: {stopped}");
                Err(Error::new(ErrorKind::Indeterminate, message).for_transaction(id))
            })
    }

    #[tracing::instrument(name = "mongotx.commit", level = "debug", skip_all, fields(transaction = tx.id().map(tracing::field::display)))]
    async fn decide(self: &Arc<Self>, mut tx: Transaction) -> Result<()> {
        let counters = &self.server.counters;
        if let Err(error) = tx.check_undoubted() {
            self.roll_back(tx).await;
            counters.add(&counters.aborts_expired, 1);
            return Err(error);
        }
        let id = tx.id();
        match self.validate_and_decide(&mut tx).await {
            Ok(None) => {
                counters.add(&counters.commits, 1);
                Ok(())
            }
            Ok(Some(decided)) => {
                counters.add(&counters.commits, 1);
                let concern = tx.concern();
                self.finish(tx, decided).await;
                self.spread(concern).await.map_err(|error| error.for_transaction(id))
            }
            Err(error) if error.kind() == ErrorKind::Indeterminate && tx.is_deciding => {
                counters.add(&counters.indeterminate, 1);
                Err(error.for_transaction(id))
            }
            Err(error) => {
                self.count_abort(&error);
                self.roll_back(tx).await;
                Err(error.for_transaction(id))
            }
        }
    }

    /// Validates the transaction and decides it; again, when a reader has had quiet in between.
    /// `None`: there was nothing to decide.
    async fn validate_and_decide(self: &Arc<Self>, tx: &mut Transaction) -> Result<Option<Decided>> {
        let recorded = self.record_events(tx).await?;
        for _ in 0..VALIDATIONS {
            let over = self.heard_of(tx);
            self.validate(tx).await?;
            self.end_quiet(tx).await;
            let Some(started) = tx.started else { return Ok(None) };
            self.outlive(tx).await?;
            if tx.has_written_anything() {
                self.finisher.room(tx.count_held(), self.options.commit_timeout).await?;
            }
            tx.ending();
            tx.is_deciding = true;
            let decided = self.log.commit(started, tx.concern(), tx.changed(), tx.heard(over)).await?;
            if decided.is_some() {
                self.events_are_committed(&recorded);
                return Ok(decided);
            }
            tx.is_deciding = false;
            tx.check_alive()?;
        }
        let message = format!("{VALIDATIONS} times readers have passed the transaction by after it was validated");
        Err(Error::new(ErrorKind::Conflict, message))
    }

    /// Finishes the transaction. As long as the read locks of a transaction that only read are
    /// there, other clients cannot know that it has ended: the answer waits for that.
    async fn finish(&self, tx: Transaction, decided: Decided) {
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

    /// The decision is on the majority. Waits for more members than that, where they were asked
    /// for.
    async fn spread(&self, concern: Concern) -> Result<()> {
        let Concern::Nodes(n) = concern else { return Ok(()) };
        if n < 2 {
            return Ok(());
        }
        let limit = i64::try_from(self.options.commit_timeout.as_millis()).unwrap_or(i64::MAX);
        let wanted = doc! {"w": i64::from(n), "j": true, "wtimeout": limit};
        let missed = self.records().await_concern(&self.server, wanted).await.map_err(Error::or_indeterminate)?;
        let Some(missed) = missed else { return Ok(()) };
        let reason = missed.get_str("errmsg").unwrap_or("the server gave no reason");
        let message = format!("the transaction is committed, but {n} members do not all have it yet: {reason}");
        Err(Error::new(ErrorKind::Indeterminate, message))
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
