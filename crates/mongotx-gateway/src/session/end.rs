//! How transactions end when they are not committed, and telling so: one line in the log, one more in a counter.

use super::{Lsid, machine::State};
use crate::{
    failure::Failure,
    metrics::{AbortReason, Metrics, Repeated},
};

/// A transaction was rolled back. The refusal's words are not logged, they may have parts of documents in them.
pub(crate) fn tell(metrics: &Metrics, lsid: &Lsid, number: i64, reason: AbortReason, failure: Option<&Failure>) {
    metrics.aborted(reason);
    let code = failure.map_or(0, |failure| failure.code);
    tracing::info!(session = %lsid, number, reason = reason.name(), code, "a transaction was rolled back");
}

/// Counts how a transaction has ended, if it has. `commits`: it was to be committed, not rolled back.
pub(crate) fn count(
    metrics: &Metrics,
    lsid: &Lsid,
    number: i64,
    commits: bool,
    (before, after): (State, State),
    failure: Option<&Failure>,
) {
    if commits && matches!(before, State::Committed | State::InDoubt) {
        metrics.retried(Repeated::Commit);
    }
    match (before, after) {
        (State::Open | State::InDoubt, State::Committed) => {
            metrics.committed.inc();
        }
        (State::Open | State::InDoubt, State::Aborted) => {
            let reason = if commits { AbortReason::of(failure, AbortReason::NotCommitted) } else { AbortReason::Asked };
            tell(metrics, lsid, number, reason, failure);
        }
        _ => {}
    }
}
