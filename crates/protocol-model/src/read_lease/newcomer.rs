//! The newcomer: it registers, waits until no client holds a lease, and decides a transaction.

use super::{
    breakage::Breakage,
    plan::Plan,
    state::{Message, Newcomer, State, THEIRS},
    steps::{Action, Command},
};

/// Adds the newcomer's next steps that are possible.
pub fn steps(plan: &Plan, state: &State, actions: &mut Vec<Action>) {
    match state.newcomer {
        Newcomer::Out if plan.newcomers > 0 => actions.push(Action::Send(Command::Insert)),
        Newcomer::Inserts { message, .. } => actions.push(message.step(Command::Insert)),
        Newcomer::Looks(_, message) => actions.push(message.step(Command::Look)),
        Newcomer::Waits(since) => {
            actions.push(Action::Send(Command::Look));
            if state.now >= since + plan.wait() {
                actions.push(Action::StopWaiting);
            }
        }
        Newcomer::Unflags(message) => actions.push(message.step(Command::Unflag)),
        Newcomer::Free if state.newcomers == plan.newcomers => actions.push(Action::Send(Command::TheirDecision)),
        Newcomer::Decides => actions.push(Action::CarryOut(Command::TheirDecision)),
        Newcomer::Closed if state.newcomers < plan.newcomers => actions.push(Action::Send(Command::Insert)),
        Newcomer::Free | Newcomer::Decided | Newcomer::Closed | Newcomer::Out => {}
    }
    if state.late_unflag {
        actions.push(Action::LateUnflag);
    }
    let theirs = &state.transactions[THEIRS];
    if theirs.decided && !theirs.known.acknowledged {
        actions.push(Action::Answer(Command::TheirDecision));
    }
    if theirs.is_missed(0) {
        actions.push(Action::FinishTheirs);
    }
    if is_listed(state) && !theirs.is_missed(0) {
        actions.push(Action::CloseTheirs);
    }
}

/// Returns true if the newcomer has an open record.
pub fn is_listed(state: &State) -> bool {
    match state.newcomer {
        Newcomer::Out | Newcomer::Closed => false,
        Newcomer::Inserts { message, .. } => message == Message::Done,
        _ => true,
    }
}

/// Returns true if a look would find the flag: in an open record, or in one that was closed less
/// than two leases ago.
fn is_flagged(plan: &Plan, state: &State) -> bool {
    let is_recent = |closed| state.now - closed < 2 * plan.lease && !plan.has(Breakage::ClosedFlagsIgnored);
    state.record.flag && state.record.closed.is_none_or(is_recent)
}

/// Sends the insert of the record.
pub fn send_insert(plan: &Plan, state: &mut State) {
    let careless = plan.has(Breakage::LookBeforeInsert) && !is_flagged(plan, state);
    let since = plan.has(Breakage::WaitFromSending).then_some(state.now);
    state.newcomers += 1;
    state.newcomer = Newcomer::Inserts { message: Message::Sent, since, careless };
}

/// The server inserts the record.
pub fn carry_out_insert(state: &mut State) {
    if let Newcomer::Inserts { message, .. } = &mut state.newcomer {
        *message = Message::Done;
    }
}

/// The record is inserted: from now on the newcomer waits, if it has to.
pub fn answer_insert(state: &mut State) {
    state.newcomer = match state.newcomer {
        Newcomer::Inserts { careless: false, since, .. } => Newcomer::Looks(since.unwrap_or(state.now), Message::Sent),
        _ => Newcomer::Free,
    };
}

/// Sends another look for the flag.
pub fn send_look(state: &mut State) {
    if let Newcomer::Waits(since) = state.newcomer {
        state.newcomer = Newcomer::Looks(since, Message::Sent);
    }
}

/// The server looks for the flag.
pub fn carry_out_look(plan: &Plan, state: &mut State) {
    if let Newcomer::Looks(since, _) = state.newcomer {
        state.found = is_flagged(plan, state);
        state.newcomer = Newcomer::Looks(since, Message::Done);
    }
}

/// The newcomer waits if the flag was there.
pub fn answer_look(state: &mut State) {
    let found = std::mem::take(&mut state.found);
    state.newcomer = match state.newcomer {
        Newcomer::Looks(since, _) if found => Newcomer::Waits(since),
        _ => Newcomer::Free,
    };
}

/// The newcomer has waited long enough: the flag is taken away, so that others do not wait.
pub fn stop_waiting(state: &mut State) {
    state.newcomer = Newcomer::Unflags(Message::Sent);
}

/// The server takes the flag away where it is of no use any more.
pub fn carry_out_unflag(plan: &Plan, state: &mut State) {
    unflag(plan, state);
    state.newcomer = Newcomer::Unflags(Message::Done);
}

fn unflag(plan: &Plan, state: &mut State) {
    let is_over = state.record.fenced || state.record.closed.is_some();
    state.record.flag &= !(is_over || plan.has(Breakage::LivingUnflagged));
}

/// The newcomer learns that the flag is taken away, and may decide.
pub fn answer_unflag(state: &mut State) {
    state.newcomer = Newcomer::Free;
}

/// The server carries out what a newcomer has sent that is gone.
pub fn late_unflag(plan: &Plan, state: &mut State) {
    unflag(plan, state);
    state.late_unflag = false;
}

/// The flag that is to be taken away is another one now.
pub fn forget_flag(state: &mut State) {
    state.late_unflag = false;
    if let Newcomer::Unflags(message) = &mut state.newcomer {
        *message = Message::Done;
    }
}

/// The client sends the decision of its transaction.
pub fn send_decision(state: &mut State) {
    state.newcomer = Newcomer::Decides;
}

/// The server decides the transaction.
pub fn carry_out_decision(state: &mut State) {
    state.transactions[THEIRS].decided = true;
    state.newcomer = Newcomer::Decided;
}

/// The newcomer's transaction is acknowledged.
pub fn acknowledge(state: &mut State) {
    state.transactions[THEIRS].known.acknowledged = true;
}

/// The newcomer, or a sweep after its death, finishes the document.
pub fn finish(state: &mut State) {
    state.transactions[THEIRS].finish(0);
}

/// The newcomer, or a sweep, closes the record, in which nothing is decided and unfinished. What
/// was not decided cannot be decided any more.
pub fn close(state: &mut State) {
    state.late_unflag |= state.newcomer == Newcomer::Unflags(Message::Sent);
    state.newcomer = Newcomer::Closed;
    state.found = false;
}
