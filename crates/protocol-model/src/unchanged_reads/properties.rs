//! Properties of validation without reads: what must hold in every state (S1, S2), and what must be
//! reachable, so that they say something.

use super::{
    plan::Plan,
    state::{Phase, State},
    steps::UnaskedModel,
};

/// S1: what a committed transaction has read was so at one moment since its lock.
pub fn is_of_one_moment(_: &UnaskedModel, state: &State) -> bool {
    !state.is_committed() || state.tx.since_lock
}

/// S2: what a committed transaction has read was so at one moment since its validation began.
pub fn is_not_stale(_: &UnaskedModel, state: &State) -> bool {
    !state.is_committed() || state.tx.since_validation
}

fn commits_asking(state: &State, asked: usize) -> bool {
    state.is_committed() && state.tx.asks.iter().filter(|asks| **asks).count() == asked
}

/// Reachable: a transaction commits, and none of its reads was sent again.
pub fn commits_unasked(_: &UnaskedModel, state: &State) -> bool {
    commits_asking(state, 0) && state.tx.rounds == 1
}

/// Reachable: a transaction commits, and one of its reads was sent again.
pub fn commits_half_asked(_: &UnaskedModel, state: &State) -> bool {
    commits_asking(state, 1)
}

/// Reachable: a transaction commits, and both of its reads were sent again.
pub fn commits_asked(_: &UnaskedModel, state: &State) -> bool {
    commits_asking(state, 2)
}

/// Reachable: a document that was taken for unchanged at first is read again in a later round, and
/// the transaction commits.
pub fn commits_later(_: &UnaskedModel, state: &State) -> bool {
    state.is_committed() && state.tx.rounds > 1 && state.tx.first.is_some()
}

/// A transaction fails because what it has read has changed.
pub fn conflicts(_: &UnaskedModel, state: &State) -> bool {
    state.tx.phase == Phase::Failed && state.tx.rounds < Plan::ROUNDS
}

/// A transaction commits unasked when the other client's notice has come and gone.
pub fn commits_after_a_notice(model: &UnaskedModel, state: &State) -> bool {
    let wrote = (0..model.plan.their_plain.len()).all(|index| state.other.written[index]);
    commits_unasked(model, state) && wrote
}

/// A transaction commits unasked, and a notice was over before it began.
pub fn commits_after_an_end(model: &UnaskedModel, state: &State) -> bool {
    commits_unasked(model, state) && state.tx.first.is_some_and(|first| first.over != [0; 2])
}

/// Reachable: a transaction commits, and only documents that may change without a trace were read
/// again.
pub fn commits_beside_what_may_expire(_: &UnaskedModel, state: &State) -> bool {
    let tx = &state.tx;
    commits_asking(state, 1) && tx.rounds == 1 && tx.asks == tx.traceless
}

/// A transaction commits with one of its reads taken for unchanged, while a notice names the other.
pub fn commits_beside_a_notice(_: &UnaskedModel, state: &State) -> bool {
    commits_asking(state, 1) && state.client.look.is_some_and(|look| look.notices != [0; 2])
}

/// A transaction commits unasked, and has read what the client itself has written.
pub fn commits_unasked_after_a_change(model: &UnaskedModel, state: &State) -> bool {
    commits_unasked(model, state) && state.tx.read.iter().all(|read| read.is_some_and(|value| value > 0))
}
