//! The holder's own transaction: its decision, and the finish of its two documents.

use super::{
    breakage::Breakage,
    lease,
    plan::Plan,
    state::{Message, OWN, Own, State},
    steps::{Action, Command},
};

/// Adds the next steps of the holder's own transaction that are possible.
pub fn steps(plan: &Plan, state: &State, actions: &mut Vec<Action>) {
    match state.own {
        Own::Open => actions.push(Action::Register),
        Own::Registered => actions.push(Action::Send(Command::Decision)),
        Own::Deciding(message) => {
            actions.push(message.step(Command::Decision));
            if plan.lost_answers {
                actions.push(Action::LoseAnswer);
            }
        }
        Own::Acknowledged => actions.push(Action::HandOver),
        Own::Finishing(_, message) => actions.push(message.step(Command::Finish)),
        Own::Unknown(Message::Sent) => actions.push(Action::CarryOut(Command::Decision)),
        Own::Unknown(Message::Done) | Own::Over => {}
    }
}

/// Returns true if the transaction keeps plain queries of the collection away: it may be decided,
/// and its documents there are not all known to be finished (decision 0072).
pub fn is_unfinished(plan: &Plan, state: &State, collection: usize) -> bool {
    let wrote = state.transactions[OWN].collections.contains(&collection);
    wrote
        && match state.own {
            Own::Registered | Own::Deciding(_) => !plan.has(Breakage::RegisteredAtHandOver),
            Own::Acknowledged => {
                !plan.has(Breakage::RegisteredAtHandOver) && !plan.has(Breakage::DroppedBeforeHandOver)
            }
            Own::Finishing(0, _) => true,
            Own::Finishing(document, _) => {
                let is_left = state.transactions[OWN].collections[document] == collection;
                is_left && !plan.has(Breakage::FirstFinishEnds)
            }
            Own::Open | Own::Unknown(_) | Own::Over => false,
        }
}

/// The transaction is registered as deciding.
pub fn register(state: &mut State) {
    state.own = Own::Registered;
}

/// The client sends the decision of its transaction.
pub fn send_decision(state: &mut State) {
    state.own = Own::Deciding(Message::Sent);
}

/// The server decides the transaction, unless its record is fenced or closed.
pub fn carry_out_decision(state: &mut State) {
    state.transactions[OWN].decided = !state.record.fenced && state.record.closed.is_none();
    state.own = match state.own {
        Own::Unknown(_) => Own::Unknown(Message::Done),
        _ => Own::Deciding(Message::Done),
    };
}

/// The transaction is acknowledged, or known not to be committed.
pub fn answer_decision(state: &mut State) {
    let transaction = &mut state.transactions[OWN];
    transaction.known.acknowledged = transaction.decided;
    state.own = if transaction.decided { Own::Acknowledged } else { Own::Over };
}

/// The answer to the decision is lost: the record is given up, and the lease is dropped. The task
/// that keeps the lease finds out by its next list.
pub fn lose_answer(plan: &Plan, state: &mut State) {
    let Own::Deciding(message) = state.own else { return };
    state.own = Own::Unknown(message);
    if !plan.has(Breakage::UnknownKeepsLease) {
        state.holder.gave_up = true;
        lease::drop_lease(plan, state);
    }
}

/// The transaction is handed over to the finisher, and then no longer registered as deciding.
pub fn hand_over(state: &mut State) {
    state.own = Own::Finishing(0, Message::Sent);
}

/// The server finishes a document.
pub fn carry_out_finish(state: &mut State) {
    if let Own::Finishing(document, _) = state.own {
        state.transactions[OWN].finished[document] = true;
        state.own = Own::Finishing(document, Message::Done);
    }
}

/// A document is finished; the next one follows.
pub fn answer_finish(state: &mut State) {
    state.own = match state.own {
        Own::Finishing(0, _) => Own::Finishing(1, Message::Sent),
        _ => Own::Over,
    };
}
