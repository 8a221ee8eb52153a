//! Properties of the read lease: what must hold in every state (L1 to L3), and what must be
//! reachable, so that they say something.

use super::{
    query::counting_answer,
    state::{Answer, Known, Message, Newcomer, OWN, Own, Query, State, THEIRS, Task},
    steps::ReadLeaseModel,
};

/// L1: a query that counts shows all of what was acknowledged before it was sent.
pub fn acknowledged_is_shown(model: &ReadLeaseModel, state: &State) -> bool {
    known_is_shown(model, state, |known| known.acknowledged)
}

/// L2: a query that counts shows all of what the holder's users had seen a part of.
pub fn seen_is_shown(model: &ReadLeaseModel, state: &State) -> bool {
    known_is_shown(model, state, |known| known.seen)
}

fn known_is_shown(model: &ReadLeaseModel, state: &State, is_known: impl Fn(&Known) -> bool) -> bool {
    let Some((query, answer)) = counting_answer(&model.plan, state) else { return true };
    !query.known.iter().zip(answer.misses).any(|(known, misses)| is_known(known) && misses)
}

/// L3: a query that counts shows all of what the newcomer had decided when the query was carried
/// out.
pub fn decided_is_shown(model: &ReadLeaseModel, state: &State) -> bool {
    let answer = counting_answer(&model.plan, state);
    !model.plan.strict || answer.is_none_or(|(_, answer)| !answer.misses[THEIRS])
}

/// The holder believes the answer to a plain query.
pub fn counts(model: &ReadLeaseModel, state: &State) -> bool {
    counting_answer(&model.plan, state).is_some()
}

/// A query comes back when the lease has run out: the holder was paused, or the answer was late.
pub fn comes_too_late(_: &ReadLeaseModel, state: &State) -> bool {
    let answered = |query: Query| query.answer.is_some() && query.same_period;
    state.holder.query.is_some_and(answered) && state.holder.lease.is_none()
}

/// A query comes back after a restart.
pub fn comes_from_another_process(model: &ReadLeaseModel, state: &State) -> bool {
    let answered = state.holder.query.filter(|query| query.answer.is_some());
    state.holder.lease.is_some()
        && answered.is_some_and(|query| query.process != state.holder.process)
        && !counts(model, state)
}

/// A query counts and shows the holder's transaction, which was acknowledged before.
pub fn shows_own(model: &ReadLeaseModel, state: &State) -> bool {
    let shows = |(query, answer): (&Query, Answer)| query.known[OWN].acknowledged && answer.shows[OWN];
    counting_answer(&model.plan, state).is_some_and(shows)
}

/// A query counts and shows the holder's transaction, of which something is left in the other
/// collection.
pub fn shows_own_where_clean(model: &ReadLeaseModel, state: &State) -> bool {
    matches!(state.own, Own::Finishing(1, Message::Sent)) && shows_own(model, state)
}

/// A query counts although the newcomer was there before, and shows its transaction.
pub fn shows_theirs(model: &ReadLeaseModel, state: &State) -> bool {
    counting_answer(&model.plan, state).is_some_and(|(_, answer)| answer.shows[THEIRS])
}

/// Reachable: the newcomer has decided.
pub fn newcomer_decides(_: &ReadLeaseModel, state: &State) -> bool {
    state.newcomer == Newcomer::Decided
}

/// The newcomer has waited for as long as it has to, with the flag still there.
pub fn newcomer_waits(model: &ReadLeaseModel, state: &State) -> bool {
    matches!(state.newcomer, Newcomer::Waits(since) if state.now >= since + model.plan.wait())
}

/// The newcomer does not have to wait to the end, because the flag is gone.
pub fn newcomer_is_let_in(model: &ReadLeaseModel, state: &State) -> bool {
    state.newcomer == Newcomer::Free && state.now < model.plan.wait()
}

/// The holder has dropped its lease because of the newcomer.
pub fn drops(_: &ReadLeaseModel, state: &State) -> bool {
    state.holder.task == Task::Dropped { met: true }
}

/// The holder holds its lease although its record is closed.
pub fn holds_when_closed(_: &ReadLeaseModel, state: &State) -> bool {
    state.record.closed.is_some() && state.holder.lease.is_some()
}
