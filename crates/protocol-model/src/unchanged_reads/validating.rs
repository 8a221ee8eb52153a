//! Validation, by the rules R2 and R3 of decision 0068.
//!
//! Each round has a later look. What is taken for unchanged must be unchanged from the beginning of
//! the transaction to that look. The documents that are read again must be of one moment: their
//! stamps are the same in the look before the reads and in the later one, or there is only one of
//! them.

use super::{
    breakage::Breakage,
    catalog, look, own,
    plan::Plan,
    state::{Change, Look, Phase, State},
    steps::Action,
};

/// Adds the validation's next steps that are possible.
pub fn steps(state: &State, actions: &mut Vec<Action>) {
    match state.tx.phase {
        Phase::Asks => {
            let asked = (0..2).filter(|doc| state.tx.to_ask[*doc]);
            actions.extend(asked.map(Action::Ask));
        }
        Phase::Waits if state.client.looking.is_none() => actions.push(Action::LaterLook),
        _ => {}
    }
}

/// The first round begins. The look before the reads is the one that is remembered, with what
/// the own record has acknowledged since.
pub fn begin(plan: &Plan, state: &mut State) {
    state.tx.traceless = catalog::traceless(plan, state);
    let newest = state.client.look;
    let unchanged = [0, 1].map(|doc| newest.is_some_and(|newest| is_unchanged_until(plan, state, &newest, doc)));
    let before = newest.map(|newest| Look { own: acknowledged(plan, state, newest.own), ..newest });
    round(plan, state, before, unchanged.map(|unchanged| !unchanged));
}

/// A round begins: reads of the documents in `asks`, and a later look.
fn round(plan: &Plan, state: &mut State, before: Option<Look>, asks: [bool; 2]) {
    state.tx.rounds += 1;
    state.tx.before = before;
    (state.tx.asks, state.tx.to_ask) = (asks, asks);
    state.tx.phase = if asks == [false; 2] { Phase::Waits } else { Phase::Asks };
    if plan.together && state.client.looking.is_none() {
        later_look(plan, state);
    }
}

/// Returns true if the stamps of others, and the client's own memory, show that a document is
/// unchanged. They do not show this of documents that may change without a trace. (A document that
/// is read again in the first round is read again in all that follow.)
fn is_unchanged_until(plan: &Plan, state: &State, until: &Look, doc: usize) -> bool {
    let is_traceless = state.tx.traceless[doc] && !plan.has(Breakage::ExpiryIgnored);
    let may_have_changed = is_traceless || own::has_changed(plan, state, doc);
    state.tx.first.is_some_and(|first| is_same(plan, &first, until, doc)) && !may_have_changed
}

fn is_same(plan: &Plan, first: &Look, later: &Look, doc: usize) -> bool {
    let is_noticed = first.notices[doc] > 0 && !plan.has(Breakage::NoticeInLaterOnly) || later.notices[doc] > 0;
    !is_noticed
        && !has_ended(plan, first, later, doc)
        && (first.theirs[doc] == later.theirs[doc] || plan.has(Breakage::StampsIgnored))
}

/// Returns true if a notice is over since the first look that may have named the document: the
/// documents of a notice that is over are known only if the first look has found it while it went
/// on.
fn has_ended(plan: &Plan, first: &Look, later: &Look, doc: usize) -> bool {
    let ended = |doc: usize| later.over[doc].saturating_sub(first.over[doc]);
    let of_another = ended(1 - doc) > first.notices[1 - doc];
    (ended(doc) > 0 || of_another) && !plan.has(Breakage::EndIgnored)
}

/// The stamps of the own record, if all that is acknowledged is in it.
fn acknowledged(plan: &Plan, state: &State, remembered: [u8; 2]) -> [u8; 2] {
    let is_known = |change: &Change| matches!(change, Change::Known | Change::Over);
    let known = state.client.decisions.iter().zip(plan.decisions).filter(|(change, _)| is_known(change));
    let counts = known.fold([0; 2], |[x, y], (_, docs)| [x + u8::from(docs[0]), y + u8::from(docs[1])]);
    [remembered[0].max(counts[0]), remembered[1].max(counts[1])]
}

/// The server answers another read of a document.
pub fn ask(state: &mut State, doc: usize) {
    state.client.process = state.server.process;
    state.tx.to_ask[doc] = false;
    if state.tx.read[doc] != Some(state.server.values[doc]) {
        state.tx.phase = Phase::Failed;
    } else if state.tx.to_ask == [false; 2] {
        state.tx.phase = Phase::Waits;
    }
}

/// The later look is sent.
pub fn later_look(plan: &Plan, state: &mut State) {
    look::begin(state, true);
    if plan.has(Breakage::MemoryAtSending) {
        state.tx.unchanged = [0, 1].map(|doc| !own::has_changed(plan, state, doc));
    }
}

/// The later look is answered: the transaction is valid, or another round begins, in which all
/// documents that have changed are read again.
pub fn judge(plan: &Plan, state: &mut State, later: Look) {
    let is_unchanged = [0, 1].map(|doc| !state.tx.asks[doc] && is_unchanged(plan, state, &later, doc));
    let asks = state.tx.asks;
    let is_skipped = asks != [false; 2] && plan.has(Breakage::NotBesideAsked);
    let are_unchanged = (0..2).all(|doc| asks[doc] || is_unchanged[doc]) || is_skipped;
    if are_unchanged && is_of_one_moment(plan, state, &later) {
        state.tx.phase = Phase::Valid;
    } else if state.tx.rounds == Plan::ROUNDS {
        state.tx.phase = Phase::Failed;
    } else {
        round(plan, state, Some(later), is_unchanged.map(|unchanged| !unchanged));
    }
}

/// Returns true if a document that was taken for unchanged still is.
fn is_unchanged(plan: &Plan, state: &State, later: &Look, doc: usize) -> bool {
    let Some(first) = state.tx.first else { return false };
    let by_own =
        if plan.has(Breakage::MemoryAtSending) { state.tx.unchanged[doc] } else { !own::has_changed(plan, state, doc) };
    let is_connected = first.process == state.client.process || plan.has(Breakage::ConnectionsIgnored);
    let is_young = state.now - first.sent <= Plan::BETWEEN || plan.has(Breakage::AgeIgnored);
    by_own && is_connected && is_young && is_same(plan, &first, later, doc)
}

/// Returns true if the values that were read again are of one moment.
fn is_of_one_moment(plan: &Plan, state: &State, later: &Look) -> bool {
    let asked = (0..2).filter(|doc| state.tx.asks[*doc]);
    if asked.clone().next().is_none() {
        return true;
    }
    let Some(before) = state.tx.before else { return false };
    let stamps = |look: &Look, doc: usize| [look.own[doc], look.theirs[doc]];
    let disturbed = asked.clone().filter(|doc| stamps(&before, *doc) != stamps(later, *doc)).count();
    let may_be = asked.count() == 1 || plan.has(Breakage::OneOfSeveralDisturbed);
    before.process == state.client.process && (disturbed == 0 || disturbed == 1 && may_be)
}
