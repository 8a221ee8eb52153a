//! The other client: its transactions, its notice, and its plain writes.

use super::{
    breakage::Breakage,
    plan::Plan,
    server,
    state::{Message, Notice, State},
    steps::Action,
};

/// Value of its first plain write.
const VALUE: u8 = 4;

/// Steps that are possible.
pub fn steps(plan: &Plan, state: &State, actions: &mut Vec<Action>) {
    if state.other.decided < plan.their_decisions.len() {
        actions.push(Action::TheyDecide);
    }
    if state.server.before.is_some() && plan.has(Breakage::ReadsOfAcknowledged) {
        actions.push(Action::TheyKnow);
    }
    if plan.their_plain.is_empty() {
        return;
    }
    match state.other.notice {
        Notice::Out if is_due(plan, state) => actions.push(Action::SendNotice),
        Notice::Posting(Message::Sent) => actions.push(Action::InsertNotice),
        Notice::Posting(Message::Done) => actions.push(Action::AnswerNotice),
        Notice::Out | Notice::Posted(_) => {}
    }
    if state.server.notice && may_go(plan, state) {
        actions.push(Action::RemoveNotice);
    }
    let (sent, at) = state.other.sent;
    if sent < plan.their_plain.len() && may_write(plan, state) {
        actions.push(Action::TheyWrite);
    }
    let in_time = state.now <= at + Plan::LATE;
    let under_way = (0..sent).filter(|index| !state.other.written[*index] && in_time);
    actions.extend(under_way.map(Action::TheirWrite));
}

fn is_due(plan: &Plan, state: &State) -> bool {
    !plan.has(Breakage::NoticeAfterWrite) || state.other.written[0]
}

/// Whether the notice may be removed.
fn may_go(plan: &Plan, state: &State) -> bool {
    let is_shut_down = (0..plan.their_plain.len()).all(|index| state.other.written[index]);
    state.now >= state.other.since + Plan::LIFE || plan.has(Breakage::NoticeRemovedAtShutdown) && is_shut_down
}

/// Whether a plain write may be sent. (A notice that is too old is not posted again: the client
/// sends nothing more.) One that is under way delays the next one.
fn may_write(plan: &Plan, state: &State) -> bool {
    let (sent, _) = state.other.sent;
    let is_free = state.other.written.iter().filter(|written| **written).count() == sent;
    let may = match state.other.notice {
        Notice::Posted(since) => state.now <= since + Plan::FRESH || plan.has(Breakage::NoticeNotRenewed),
        Notice::Posting(_) => plan.has(Breakage::NoticeUnacknowledged) || plan.has(Breakage::NoticeAfterWrite),
        Notice::Out => plan.has(Breakage::NoticeAfterWrite),
    };
    is_free && may
}

/// The server decides a transaction.
pub fn decide(plan: &Plan, state: &mut State) {
    server::decide(plan, state, plan.their_decisions[state.other.decided], false);
    state.other.decided += 1;
}

/// The decision is acknowledged.
pub fn know(state: &mut State) {
    state.server.before = None;
}

/// The notice is sent.
pub fn send_notice(state: &mut State) {
    state.other.notice = Notice::Posting(Message::Sent);
    state.other.since = state.now;
}

/// The server inserts the notice, and journals it.
pub fn insert_notice(state: &mut State) {
    state.other.notice = Notice::Posting(Message::Done);
    state.server.notice = true;
    state.server.journaled = state.server.values;
}

/// The notice is acknowledged.
pub fn answer_notice(plan: &Plan, state: &mut State) {
    let late = plan.has(Breakage::NoticeAgeFromAnswer);
    state.other.notice = Notice::Posted(if late { state.now } else { state.other.since });
}

/// The notice is removed.
pub fn remove_notice(state: &mut State) {
    state.server.notice = false;
}

/// A plain write is sent.
pub fn send_write(state: &mut State) {
    state.other.sent = (state.other.sent.0 + 1, state.now);
}

/// The server carries out a plain write.
pub fn write(plan: &Plan, state: &mut State, index: usize) {
    state.other.written[index] = true;
    server::write(state, plan.their_plain[index], VALUE + u8::from(index > 0));
}
