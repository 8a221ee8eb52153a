//! The commit of a transaction: it records what was changed in watched collections
//! ([`super::events`]), validates what was read ([`super::isolation::validation`]), looks after
//! what may expire ([`crate::coordinator::expiry`]), decides through the log, then hands what is
//! held to the finisher.

use std::{sync::Arc, time::Instant};

use bson::doc;
use protocol::{Concern, Decided, TxId};
use tracing::instrument::{Instrument, WithSubscriber};

use super::{events::EventLog, isolation::validation::Validation};
use crate::{
    coordinator::{
        Core, queries::read_lease::DecisionInProgress, stamps::own_changes::ChangeInProgress, transaction::Transaction,
    },
    error::{Error, ErrorKind, Result},
};

/// Times that a transaction is validated because readers have had quiet in between.
const VALIDATIONS: usize = 16;

/// A decision that is under way, in the client's memory.
struct Decision {
    lease: DecisionInProgress,
    own: ChangeInProgress,
}

impl Decision {
    /// The transaction was handed to the finisher, or it is certain that it is not committed.
    fn over(self) {
        self.lease.over();
        self.own.over();
    }

    /// The outcome of the decision is not known. The read lease is lost with it.
    fn give_up(self) {
        self.lease.over();
    }
}

impl Core {
    // A method of the client, because commands outside transactions commit their own by it, and
    // events are written by some of these commands when a transaction is committed.

    /// Step 3 of [`crate::coordinator::transaction`], to its end even if the caller's future is
    /// dropped: what is decided must be finished.
    pub(crate) async fn commit(self: &Arc<Self>, tx: Transaction) -> Result<()> {
        let (this, id) = (Arc::clone(self), tx.id());
        let commit = async move { Commit { core: &this }.decide(tx).await };
        let task = self.runtime.spawn(commit.in_current_span().with_current_subscriber());
        task.await.unwrap_or_else(|stopped| {
            let message = format!("the commit was stopped with the client's runtime: {stopped}");
            Err(Error::new(ErrorKind::Indeterminate, message).for_transaction(id))
        })
    }
}

/// One commit. It has the whole client, because it validates and records events.
struct Commit<'a> {
    core: &'a Arc<Core>,
}

impl Commit<'_> {
    #[tracing::instrument(name = "mongotx.commit", level = "debug", skip_all, fields(transaction = tx.id().map(tracing::field::display)))]
    async fn decide(&self, mut tx: Transaction) -> Result<()> {
        let counters = &self.core.server.counters;
        if let Err(error) = tx.check_undoubted() {
            self.core.lifecycle.count_abort(&error);
            self.core.lifecycle.roll_back(tx).await;
            return Err(error);
        }
        let id = tx.id();
        match self.validate_and_decide(&mut tx).await {
            Ok(None) => {
                counters.add(&counters.commits, 1);
                Ok(())
            }
            Ok(Some((decided, deciding))) => {
                counters.add(&counters.commits, 1);
                let concern = tx.concern();
                self.core.lifecycle.finish(tx, decided).await;
                deciding.over();
                self.spread(concern).await.map_err(|error| error.for_transaction(id))
            }
            Err(error) if error.kind() == ErrorKind::Indeterminate && tx.is_deciding => {
                counters.add(&counters.indeterminate, 1);
                Err(error.for_transaction(id))
            }
            Err(error) => {
                self.core.lifecycle.count_abort(&error);
                self.core.lifecycle.roll_back(tx).await;
                Err(error.for_transaction(id))
            }
        }
    }

    /// Validates the transaction and decides it; again, when a reader has had quiet in between.
    /// `None`: there was nothing to decide.
    async fn validate_and_decide(&self, tx: &mut Transaction) -> Result<Option<(Decided, Decision)>> {
        let recorded = EventLog::of(self.core).record(tx).await?;
        tx.note_next(true);
        let (until, mut times) = (Instant::now() + self.core.options.commit_timeout, 0);
        while times < VALIDATIONS && (times == 0 || Instant::now() < until) {
            times += 1;
            let over = self.core.quiet.heard_of(tx);
            Validation::of(self.core).validate_at_commit(tx).await?;
            self.core.quiet.end_quiet(tx).await;
            let Some(started) = tx.started else { return Ok(None) };
            self.core.expiries.outlive(tx).await?;
            if tx.has_written_anything() {
                self.core.finisher.room(tx.count_held(), self.core.options.commit_timeout).await?;
            }
            tx.ending();
            tx.is_deciding = true;
            let deciding = self.count_decision(tx, started.id);
            let decided = self.core.log.commit(started, tx.concern(), tx.changed(), tx.heard(over)).await;
            if decided.as_ref().is_err_and(|error| error.kind() == ErrorKind::Indeterminate) {
                // The transaction may be committed, and it is not this client any more that
                // finishes it.
                self.core.unprobed.lose_lease();
                deciding.give_up();
                return decided.map(|_| None);
            }
            if let Ok(Some(decided)) = decided {
                recorded.are_committed(self.core);
                return Ok(Some((decided, deciding)));
            }
            deciding.over();
            decided?;
            tx.is_deciding = false;
            tx.check_alive()?;
        }
        let message = format!("{times} times readers have passed the transaction by after it was validated");
        Err(Error::new(ErrorKind::Conflict, message))
    }

    /// The transaction is about to be decided: queries without a probe and validations of this
    /// client are to know of it from now on.
    fn count_decision(&self, tx: &Transaction, id: TxId) -> Decision {
        Decision {
            lease: self.core.unprobed.deciding(id, tx.written_collections()),
            own: self.core.server.own_changes().deciding(tx.changed_fields()),
        }
    }

    /// The decision is on the majority. Waits for more members than that, if the concern demands
    /// more.
    async fn spread(&self, concern: Concern) -> Result<()> {
        let Concern::Nodes(n) = concern else { return Ok(()) };
        if n < 2 {
            return Ok(());
        }
        let limit = i64::try_from(self.core.options.commit_timeout.as_millis()).unwrap_or(i64::MAX);
        let wanted = doc! {"w": i64::from(n), "j": true, "wtimeout": limit};
        // Whatever the error is, it concerns this question, and not the transaction.
        let reason = match self.core.log.await_concern(wanted).await {
            Ok(None) => return Ok(()),
            Ok(Some(missed)) => missed.get_str("errmsg").unwrap_or("the server gave no reason").to_owned(),
            Err(error) => error.to_string(),
        };
        let message =
            format!("the transaction is committed, but {n} members do not all have it, as far as is known: {reason}");
        Err(Error::spread_too_little(message))
    }
}
