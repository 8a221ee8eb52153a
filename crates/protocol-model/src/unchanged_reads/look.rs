//! The client's looks: at the stamps of all records, and for notices. The server reads the records
//! and the notices one after the other.

use super::{
    state::{Look, Looking, Phase, State},
    steps::Action,
};

/// Adds the next steps of a look that are possible.
pub fn steps(state: &State, actions: &mut Vec<Action>) {
    match state.client.looking {
        None if state.client.looks > 0 && state.is_before_validation() => actions.push(Action::Look),
        None => {}
        // The server takes the commands of a connection one after the other.
        Some(looking) if looking.later && state.tx.phase == Phase::Asks => {}
        Some(looking) => {
            if looking.stamps.is_none() {
                actions.push(Action::LookAtRecords);
            }
            if looking.notices.is_none() {
                actions.push(Action::LookForNotices);
            }
            if looking.stamps.is_some() && looking.notices.is_some() {
                actions.push(Action::AnswerLook);
            }
        }
    }
}

/// A look is sent that the transaction does not wait for.
pub fn send(state: &mut State) {
    state.client.looks -= 1;
    begin(state, false);
}

/// The client sends a look at the change stamps.
pub fn begin(state: &mut State, later: bool) {
    state.client.looking =
        Some(Looking { sent: state.now, process: state.client.process, later, stamps: None, notices: None });
}

/// The server reads the records.
pub fn at_records(state: &mut State) {
    state.client.process = state.server.process;
    if let Some(looking) = &mut state.client.looking {
        looking.stamps = Some([state.server.own, state.server.theirs]);
    }
}

/// The server looks for notices.
pub fn for_notices(state: &mut State) {
    state.client.process = state.server.process;
    if let Some(looking) = &mut state.client.looking {
        looking.notices = Some([state.server.notices, state.server.over]);
    }
}

/// The look is answered, and remembered. Returns the transaction's later look.
pub fn answer(state: &mut State) -> Option<Look> {
    let looking = state.client.looking.take()?;
    let [own, theirs] = looking.stamps?;
    let [notices, over] = looking.notices?;
    let look = Look { sent: looking.sent, process: looking.process, own, theirs, notices, over };
    state.client.look = Some(look);
    looking.later.then_some(look)
}
