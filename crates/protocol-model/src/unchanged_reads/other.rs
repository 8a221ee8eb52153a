//! The other client: its transactions, its notices, and its plain writes. Each notice names one
//! document, for each is in a collection of its own.

use super::{
    breakage::Breakage,
    plan::Plan,
    server,
    state::{Message, Notice, State},
    steps::Action,
};

/// Value of its first plain write.
const VALUE: u8 = 4;

/// Adds the other client's next steps that are possible.
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
    for doc in (0..2).filter(|doc| plan.their_plain.contains(doc)) {
        match state.other.notices[doc] {
            Notice::Out if is_due(plan, state, doc) => actions.push(Action::SendNotice(doc)),
            Notice::Posting(Message::Sent) => actions.push(Action::InsertNotice(doc)),
            Notice::Posting(Message::Done) => actions.push(Action::AnswerNotice(doc)),
            Notice::Out | Notice::Posted(_) => {}
        }
        if state.other.ended < plan.their_ends && may_end(plan, state, doc) {
            actions.push(Action::EndNotice(doc));
        }
        if state.other.ending[doc] {
            actions.push(Action::CarryOutEnd(doc));
        }
        if state.server.notices[doc] > 0 && may_go(plan, state, doc) {
            actions.push(Action::RemoveNotice(doc));
        }
    }
    let (sent, at) = state.other.sent;
    if sent < plan.their_plain.len() && may_write(plan, state) {
        actions.push(Action::TheyWrite);
    }
    let in_time = state.now <= at + Plan::LATE;
    let under_way = (0..sent).filter(|index| !state.other.written[*index] && in_time);
    actions.extend(under_way.map(Action::TheirWrite));
}

fn is_due(plan: &Plan, state: &State, doc: usize) -> bool {
    let is_written = |index: usize| plan.their_plain[index] == doc && state.other.written[index];
    !plan.has(Breakage::NoticeAfterWrite) || (0..plan.their_plain.len()).any(is_written)
}

/// Returns true if the client knows what has become of each of its plain writes.
fn is_known(state: &State) -> bool {
    state.other.written.iter().filter(|written| **written).count() == state.other.sent.0
}

/// Returns true if the client may say that a notice is over.
fn may_end(plan: &Plan, state: &State, doc: usize) -> bool {
    let is_posted = matches!(state.other.notices[doc], Notice::Posted(_));
    is_posted && !state.other.ending[doc] && (is_known(state) || plan.has(Breakage::EndedBeforeKnown))
}

/// Returns true if the notice may be removed.
fn may_go(plan: &Plan, state: &State, doc: usize) -> bool {
    let is_shut_down = (0..plan.their_plain.len()).all(|index| state.other.written[index]);
    state.now >= state.other.since[doc] + Plan::LIFE || plan.has(Breakage::NoticeRemovedAtShutdown) && is_shut_down
}

/// Returns true if a plain write may be sent. (A notice that is too old is not posted again: the
/// client sends nothing more.) One that is under way delays the next one.
fn may_write(plan: &Plan, state: &State) -> bool {
    let (sent, _) = state.other.sent;
    let may = |notice: &Notice| match *notice {
        Notice::Posted(since) => state.now <= since + Plan::FRESH || plan.has(Breakage::NoticeNotRenewed),
        Notice::Posting(_) => plan.has(Breakage::NoticeUnacknowledged) || plan.has(Breakage::NoticeAfterWrite),
        Notice::Out => plan.has(Breakage::NoticeAfterWrite),
    };
    let notices = &state.other.notices;
    is_known(state)
        && (may(&notices[plan.their_plain[sent]]) || plan.has(Breakage::NoticeOfAnother) && notices.iter().any(may))
}

/// The server decides a transaction.
pub fn decide(plan: &Plan, state: &mut State) {
    server::decide(plan, state, plan.their_decisions[state.other.decided], false);
    state.other.decided += 1;
}

/// The other client learns that its decision is acknowledged.
pub fn know(state: &mut State) {
    state.server.before = None;
}

/// The other client sends its notice.
pub fn send_notice(state: &mut State, doc: usize) {
    state.other.notices[doc] = Notice::Posting(Message::Sent);
    state.other.since[doc] = state.now;
}

/// The server inserts the notice, and journals it.
pub fn insert_notice(state: &mut State, doc: usize) {
    state.other.notices[doc] = Notice::Posting(Message::Done);
    state.server.notices[doc] += 1;
    state.server.journaled = state.server.values;
}

/// The server acknowledges the notice.
pub fn answer_notice(plan: &Plan, state: &mut State, doc: usize) {
    let late = plan.has(Breakage::NoticeAgeFromAnswer);
    state.other.notices[doc] = Notice::Posted(if late { state.now } else { state.other.since[doc] });
}

/// The client says that the notice is over. What it writes from here on needs another one.
pub fn end_notice(plan: &Plan, state: &mut State, doc: usize) {
    state.other.ended += 1;
    state.other.ending[doc] = true;
    if !plan.has(Breakage::EndForgotten) {
        state.other.notices[doc] = Notice::Out;
    }
}

/// The server stores that, if the notice is still there.
pub fn carry_out_end(state: &mut State, doc: usize) {
    state.other.ending[doc] = false;
    if state.server.notices[doc] > 0 {
        state.server.notices[doc] -= 1;
        state.server.over[doc] += 1;
    }
}

/// The other client's notice is removed.
pub fn remove_notice(state: &mut State, doc: usize) {
    state.server.notices[doc] -= 1;
}

/// A plain write is sent.
pub fn send_write(state: &mut State) {
    state.other.sent = (state.other.sent.0 + 1, state.now);
}

/// The server carries out a plain write.
pub fn write(plan: &Plan, state: &mut State, index: usize) {
    state.other.written[index] = true;
    let doc = plan.their_plain[index];
    if plan.expires {
        state.server.expires[doc] = true;
    } else {
        server::write(state, doc, VALUE + u8::from(index > 0));
    }
}
