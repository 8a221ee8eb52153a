//! The client's own changes besides the transaction: decisions and plain writes, and how it counts
//! them.

use super::{
    breakage::Breakage,
    plan::{Docs, Plan},
    server,
    state::{Change, Message, State},
    steps::{Action, Own},
};

/// Value of the client's first plain write.
const VALUE: u8 = 2;

/// Adds the next steps of the client's own changes that are possible.
pub fn steps(plan: &Plan, state: &State, actions: &mut Vec<Action>) {
    each(&state.client.decisions, Own::Decision, plan, actions);
    each(&state.client.plain, Own::Plain, plan, actions);
}

/// The client makes its changes of one kind one after the other.
fn each(changes: &[Change], own: fn(usize) -> Own, plan: &Plan, actions: &mut Vec<Action>) {
    let mut is_free = true;
    for (index, change) in changes.iter().enumerate() {
        match *change {
            Change::Out if is_free => actions.push(Action::Send(own(index))),
            Change::Under(message) => {
                actions.push(message.step(own(index)));
                if plan.losses {
                    actions.push(Action::Lose(own(index)));
                }
            }
            Change::Known => actions.push(Action::HandOver(index)),
            Change::Lost(Message::Sent) => actions.push(Action::CarryOut(own(index))),
            _ => {}
        }
        is_free &= matches!(change, Change::Over | Change::Lost(_));
    }
}

impl Message {
    fn step(self, own: Own) -> Action {
        match self {
            Self::Sent => Action::CarryOut(own),
            Self::Done => Action::Answer(own),
        }
    }
}

fn docs(plan: &Plan, own: Own) -> Docs {
    match own {
        Own::Decision(index) => plan.decisions[index],
        Own::Plain(index) => [0, 1].map(|doc| doc == plan.plain[index]),
    }
}

fn change(state: &mut State, own: Own) -> &mut Change {
    match own {
        Own::Decision(index) => &mut state.client.decisions[index],
        Own::Plain(index) => &mut state.client.plain[index],
    }
}

/// Returns true if a change counts as one that is being made.
fn is_counted(plan: &Plan, own: Own, change: Change) -> bool {
    let is_decision = matches!(own, Own::Decision(_));
    let (from_answer, forgets) = if is_decision {
        (Breakage::DecisionFromAnswer, Breakage::UnknownDecisionUncounted)
    } else {
        (Breakage::PlainFromAnswer, Breakage::UnknownPlainUncounted)
    };
    match change {
        Change::Out | Change::Over => false,
        Change::Under(_) => !plan.has(from_answer),
        Change::Known => !plan.has(Breakage::UncountedBeforeFinisher),
        Change::Lost(_) => !plan.has(forgets),
    }
}

/// Returns true if the client is changing the document now.
pub fn is_changing(plan: &Plan, state: &State, doc: usize) -> bool {
    let decisions = (0..).map(Own::Decision).zip(&state.client.decisions);
    let plain = (0..).map(Own::Plain).zip(&state.client.plain);
    decisions.chain(plain).any(|(own, change)| is_counted(plan, own, *change) && docs(plan, own)[doc])
}

/// Returns true if the client has changed the document since the transaction began, or changes it
/// now.
pub fn has_changed(plan: &Plan, state: &State, doc: usize) -> bool {
    state.tx.changed[doc] || is_changing(plan, state, doc)
}

/// A change goes on. If it has counted until now, or begins to count when it is over, then it has
/// ended, which the transaction has to know if it has begun.
fn go_on(plan: &Plan, state: &mut State, own: Own, next: Change) {
    let before = std::mem::replace(change(state, own), next);
    let ends = is_counted(plan, own, before) && !is_counted(plan, own, next);
    let is_late = plan.has(Breakage::PlainFromAnswer) && next == Change::Over;
    if state.tx.has_base && (ends || is_late) {
        let docs = docs(plan, own);
        (0..2).for_each(|doc| state.tx.changed[doc] |= docs[doc]);
    }
}

/// The client counts its change, and sends it.
pub fn send(plan: &Plan, state: &mut State, own: Own) {
    go_on(plan, state, own, Change::Under(Message::Sent));
}

/// The server carries the change out.
pub fn carry_out(plan: &Plan, state: &mut State, own: Own) {
    state.client.process = state.server.process;
    let before = *change(state, own);
    let is_lost = matches!(before, Change::Lost(_));
    *change(state, own) = if is_lost { Change::Lost(Message::Done) } else { Change::Under(Message::Done) };
    match own {
        Own::Decision(index) => server::decide(plan, state, plan.decisions[index], true),
        Own::Plain(index) => server::write(state, plan.plain[index], VALUE + u8::from(index > 0)),
    }
}

/// The client learns that its change is made.
pub fn answer(plan: &Plan, state: &mut State, own: Own) {
    let next = if matches!(own, Own::Decision(_)) { Change::Known } else { Change::Over };
    go_on(plan, state, own, next);
}

/// The finisher has the transaction now: reads that begin later show it.
pub fn hand_over(plan: &Plan, state: &mut State, index: usize) {
    state.server.before = None;
    go_on(plan, state, Own::Decision(index), Change::Over);
}

/// The client will never learn what becomes of its change.
pub fn lose(plan: &Plan, state: &mut State, own: Own) {
    if let Change::Under(message) = *change(state, own) {
        go_on(plan, state, own, Change::Lost(message));
    }
}
