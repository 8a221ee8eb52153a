//! The holder's flag, its lists, and the beginning and the end of its lease.

use super::{
    breakage::Breakage,
    newcomer,
    plan::Plan,
    state::{List, Message, State, Task},
    steps::{Action, Command},
};

/// Adds the next steps of the holder's lease that are possible.
pub fn steps(plan: &Plan, state: &State, actions: &mut Vec<Action>) {
    match state.holder.task {
        Task::Off if !state.holder.gave_up => actions.push(Action::Send(Command::Flag)),
        Task::Off => {}
        Task::Flags(message) => actions.push(message.step(Command::Flag)),
        Task::Runs => actions.push(Action::Drop),
        Task::Dropped { .. } => actions.push(Action::Send(Command::Unset)),
        Task::Unsets(message) => actions.push(message.step(Command::Unset)),
    }
    if plan.has(Breakage::FlagBesideUnset) && state.holder.task == Task::Unsets(Message::Sent) {
        actions.push(Action::ForgetUnset);
    }
    if state.holder.stray {
        actions.push(Action::LateUnset);
    }
    let is_early = plan.has(Breakage::FlagAfterList) && matches!(state.holder.task, Task::Flags(_));
    match state.holder.list {
        None if state.holder.task == Task::Runs || is_early => actions.push(Action::Send(Command::List)),
        Some(List { alone: None, .. }) => actions.push(Action::CarryOut(Command::List)),
        Some(_) if !is_early => actions.push(Action::Answer(Command::List)),
        _ => {}
    }
}

/// The holder sends the command that writes its flag.
pub fn send_flag(state: &mut State) {
    state.holder.task = Task::Flags(Message::Sent);
}

/// The server writes the flag into the record, if it is neither fenced nor closed. It has a new
/// name, so that what is under way about earlier ones changes nothing.
pub fn carry_out_flag(state: &mut State) {
    if !state.record.fenced && state.record.closed.is_none() {
        state.record.flag = true;
        newcomer::forget_flag(state);
    }
    state.holder.task = Task::Flags(Message::Done);
}

/// The flag is written, or was refused: then the first list says so.
pub fn answer_flag(state: &mut State) {
    state.holder.task = Task::Runs;
}

/// The holder sends a list of the open records.
pub fn send_list(state: &mut State) {
    state.holder.list = Some(List { sent: state.clock(), owns: !state.holder.gave_up, alone: None });
}

/// The server lists the open records, and looks at the holder's own. A record that was given up
/// counts as another client's.
pub fn carry_out_list(plan: &Plan, state: &mut State) {
    let record = state.record;
    let is_flagged = record.flag && !record.fenced && record.closed.is_none();
    let unchecked = plan.has(Breakage::OwnRecordUnchecked) || plan.has(Breakage::FlagAfterList);
    let others = newcomer::is_listed(state);
    if let Some(list) = &mut state.holder.list {
        list.alone = Some(!others && list.owns && (is_flagged || unchecked));
    }
}

/// The holder acts on a list.
pub fn answer_list(plan: &Plan, state: &mut State) {
    let Some(list) = state.holder.list.take() else { return };
    match state.holder.task {
        Task::Runs if list.alone == Some(true) => renew(plan, state, list),
        Task::Runs => end(plan, state, true),
        // The list was sent in an earlier period, and the task does not wait for it any more.
        _ => {}
    }
}

fn renew(plan: &Plan, state: &mut State, list: List) {
    if state.holder.lease.is_none() && !plan.has(Breakage::LapseKeepsPeriod) {
        new_period(state);
    }
    let since = if plan.has(Breakage::CountedFromAnswer) { state.clock() } else { list.sent };
    state.holder.lease = Some(since);
    lapse(plan, state);
}

/// The task ends: the lease is dropped, and then the flag is taken away.
pub fn end(plan: &Plan, state: &mut State, because_of_list: bool) {
    if plan.has(Breakage::UnsetFirst) {
        state.holder.task = Task::Unsets(Message::Sent);
        return;
    }
    let met = because_of_list && state.holder.lease.is_some() && newcomer::is_listed(state);
    drop_lease(plan, state);
    state.holder.task = Task::Dropped { met };
}

/// The holder drops the lease.
pub fn drop_lease(plan: &Plan, state: &mut State) {
    state.holder.lease = None;
    new_period(state);
    if !plan.has(Breakage::ListOutlivesDrop) {
        state.holder.list = None;
    }
}

fn new_period(state: &mut State) {
    state.holder.settled = [None; 2];
    state.holder.settling = None;
    if let Some(query) = &mut state.holder.query {
        query.same_period = false;
    }
}

/// A lease that has run out is none.
pub fn lapse(plan: &Plan, state: &mut State) {
    let clock = state.clock();
    state.holder.lease = state.holder.lease.filter(|since| clock - since < plan.lease);
}

/// Sends the command that takes the flag away.
pub fn send_unset(state: &mut State) {
    state.holder.task = Task::Unsets(Message::Sent);
}

/// The server takes the flag away.
pub fn carry_out_unset(state: &mut State) {
    state.record.flag = false;
    state.holder.task = Task::Unsets(Message::Done);
}

/// The server removes the flag from the record.
pub fn answer_unset(plan: &Plan, state: &mut State) {
    if plan.has(Breakage::UnsetFirst) {
        drop_lease(plan, state);
    }
    state.holder.task = Task::Off;
}

/// The holder does not wait for the answer of the command that takes the flag away.
pub fn forget_unset(state: &mut State) {
    state.holder.task = Task::Off;
    state.holder.stray = true;
}

/// The server takes the flag away by a command that was forgotten.
pub fn late_unset(state: &mut State) {
    state.record.flag = false;
    state.holder.stray = false;
}
