//! Properties of the majority's data that must hold in every state.

use protocol::status::status_of;

use super::{
    state::{State, Step},
    steps::ReplicasModel,
};
use crate::{server::times, state::Reported};

/// M1: all of the transaction's writes are there if it is committed, and none if it is not.
pub fn all_or_nothing(_: &ReplicasModel, state: &State) -> bool {
    let data = &state.members.durable.data;
    let committed = data.is_committed(state.tx());
    data.docs.iter().all(|doc| {
        let seen = doc.seen(|tx| status_of(data.record(tx.client), tx.seq)).unwrap_or((doc.stored, doc.safe));
        times(seen.1, 0) == u16::from(committed)
    })
}

/// M2: an outcome that was reported to the user is true, whichever member is primary.
pub fn answers_are_true(_: &ReplicasModel, state: &State) -> bool {
    let committed = state.members.durable.data.is_committed(state.tx());
    match state.owner.reported {
        Some(Reported::Committed) => committed,
        Some(Reported::RolledBack) => !committed,
        Some(Reported::Indeterminate) | None => true,
    }
}

/// M3: when no process has a step left, every document is clean and the record gone.
pub fn quiescent_is_clean(model: &ReplicasModel, state: &State) -> bool {
    let data = &state.members.durable.data;
    let clean = data.docs.iter().all(|doc| doc.lock == Default::default() && doc.pending.is_none());
    model.has_progress(state) || (clean && data.records[0].is_none() && is_over(state))
}

fn is_over(state: &State) -> bool {
    !state.owner.alive || state.owner.step == Step::Over
}

/// Not vacuous: the transaction can commit, and every process can come to its end.
pub fn commits(_: &ReplicasModel, state: &State) -> bool {
    state.owner.reported == Some(Reported::Committed) && state.owner.step == Step::Over
}

/// Not vacuous: a member is primary for the second time, after another.
pub fn comes_back(_: &ReplicasModel, state: &State) -> bool {
    state.members.all[0].primary && state.members.all[0].term > 2
}

/// Not vacuous: two members take themselves for the primary.
pub fn two_primaries(_: &ReplicasModel, state: &State) -> bool {
    state.members.all.iter().filter(|member| member.primary).count() > 1
}
