//! Sweeps of the holder's record, restarts of the server, and time.

use super::{
    lease,
    plan::Plan,
    state::{Newcomer, OWN, Own, State, THEIRS},
    steps::Action,
};

/// Adds the next steps of the server, of sweeps and of time that are possible.
pub fn steps(plan: &Plan, state: &State, actions: &mut Vec<Action>) {
    if state.now < plan.end {
        actions.push(Action::Tick);
        if state.missed < plan.missed_ticks {
            actions.push(Action::MissTick);
        }
    }
    if plan.sweeps && state.record.closed.is_none() {
        if !state.record.fenced {
            actions.push(Action::Fence);
        }
        if state.record.fenced || matches!(state.own, Own::Open | Own::Over) {
            actions.push(Action::CloseOwn);
        }
    }
    if state.process < plan.restarts {
        let losses = [[false, false, false], [true, false, false], [false, true, false], [true, true, false]];
        actions.extend(losses.map(Action::Restart));
        if plan.newcomers > 0 {
            actions.extend(losses.map(|[first, second, _]| Action::Restart([first, second, true])));
        }
    }
    for (index, transaction) in state.transactions.iter().enumerate() {
        if transaction.decided && !transaction.known.seen {
            actions.push(Action::ReadById(index));
        }
    }
}

/// Lets one tick pass: the clocks go on, and leases that are over lapse.
pub fn tick(plan: &Plan, state: &mut State) {
    state.now += 1;
    lease::lapse(plan, state);
}

/// Time passes, and the holder's clock stands still.
pub fn miss_tick(state: &mut State) {
    state.now += 1;
    state.missed += 1;
}

/// A sweep fences the holder's record.
pub fn fence(state: &mut State) {
    state.record.fenced = true;
}

/// The holder or a sweep closes the holder's record, when everything in it is finished durably.
pub fn close_own(state: &mut State) {
    let own = &mut state.transactions[OWN];
    own.finished = [own.decided; 2];
    state.record.closed = Some(state.now);
}

/// The server starts again. These documents come back as they were before they were finished, if
/// their record is not closed.
pub fn restart(state: &mut State, back: [bool; 3]) {
    state.process += 1;
    if state.record.closed.is_none() {
        let finished = &mut state.transactions[OWN].finished;
        finished[0] &= !back[0];
        finished[1] &= !back[1];
    }
    if state.newcomer == Newcomer::Decided {
        state.transactions[THEIRS].finished[0] &= !back[2];
    }
}

/// The holder's users read a decided document by its `_id`, as the status of its transaction
/// demands.
pub fn read_by_id(state: &mut State, transaction: usize) {
    state.transactions[transaction].known.seen = true;
}
