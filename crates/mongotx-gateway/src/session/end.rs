//! Rolled-back transactions: each is reported by one line in the log and one more in a counter.

use std::{sync::Arc, time::Instant};

use super::{Lsid, machine::State};
use crate::{
    activity::transactions::{EndedTransaction, Rival, Snapshot, Transactions},
    failure::Failure,
    metrics::{AbortReason, Metrics, Repeated},
};

/// Counters, log and list of the transactions that were rolled back.
#[derive(Clone, Copy)]
pub(crate) struct AbortListeners<'a> {
    pub(crate) metrics: &'a Metrics,
    pub(crate) transactions: &'a Transactions,
}

impl AbortListeners<'_> {
    /// A transaction was rolled back. `shown`: what others saw of it. The refusal's words are not
    /// logged, they may have parts of documents in them.
    pub(crate) fn report(
        self,
        lsid: &Lsid,
        number: i64,
        reason: AbortReason,
        failure: Option<&Failure>,
        shown: Option<Snapshot>,
    ) {
        self.metrics.aborted(reason);
        let code = failure.map_or(0, |failure| failure.code);
        let rival = failure.and_then(|failure| failure.rival);
        let rival = rival.map(|id| Rival { id, shown: self.transactions.find(id).map(|open| open.now()) });
        log(lsid, number, reason, code, shown.as_ref(), rival.as_ref());
        if let Some(shown) = shown {
            self.transactions.ended(EndedTransaction { at: Instant::now(), reason: reason.name(), code, shown, rival });
        }
    }
}

/// Writes one line to the log about a transaction that was rolled back.
fn log(lsid: &Lsid, number: i64, reason: AbortReason, code: i32, shown: Option<&Snapshot>, rival: Option<&Rival>) {
    if !tracing::enabled!(tracing::Level::INFO) {
        return;
    }
    let who = shown.map(|shown| Arc::clone(&shown.who));
    let rivals = rival.and_then(|rival| rival.shown.as_ref());
    tracing::info!(
        session = %lsid, number, reason = reason.name(), code,
        transaction = shown.and_then(|shown| shown.id).map(display),
        connection = who.as_ref().map(|who| who.connection),
        user = who.as_ref().and_then(|who| who.user.as_ref()).map(|user| debug(user.to_string())),
        application = who.as_ref().and_then(|who| who.application.as_deref()).map(debug),
        host = who.as_ref().map(|who| display(&who.host)),
        namespace = shown.and_then(|shown| shown.statement.namespace()).map(debug),
        shape = shown.and_then(|shown| shown.statement.shape()).map(display),
        rival = rival.map(|rival| display(rival.id)),
        rival_is = rivals.map(display),
        "a transaction was rolled back",
    );
}

/// The states of a transaction before and after the command that was to end it.
pub(crate) struct Transition {
    pub(crate) before: State,
    pub(crate) after: State,
}

/// Counts how a transaction has ended, if it has. `commits`: it was to be committed, not rolled
/// back.
pub(crate) fn count(
    abort_listeners: AbortListeners<'_>,
    lsid: &Lsid,
    number: i64,
    commits: bool,
    states: Transition,
    failure: Option<&Failure>,
    shown: Option<Snapshot>,
) {
    let metrics = abort_listeners.metrics;
    let Transition { before, after } = states;
    if commits && matches!(before, State::Committed | State::InDoubt) {
        metrics.retried(Repeated::Commit);
    }
    match (before, after) {
        (State::Open | State::InDoubt, State::Committed) => {
            metrics.committed.inc();
        }
        (State::Open | State::InDoubt, State::Aborted) => {
            let reason = if commits { AbortReason::of(failure, AbortReason::NotCommitted) } else { AbortReason::Asked };
            abort_listeners.report(lsid, number, reason, failure, shown);
        }
        _ => {}
    }
}
