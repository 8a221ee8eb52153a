//! The client's knowledge of collections: whether an index removes their documents (E4 of decision
//! 0071).

use super::{
    breakage::Breakage,
    plan::{Docs, Plan},
    state::{Known, State},
    steps::Action,
};

/// Steps that are possible. What would change nothing is left out.
pub fn steps(plan: &Plan, state: &State, actions: &mut Vec<Action>) {
    if !plan.expires || !state.is_before_validation() {
        return;
    }
    if state.client.looking_up.is_some() {
        return actions.push(Action::Learn);
    }
    let is_new = |doc: &usize| state.client.catalog[*doc] != Some(asked_now(state, *doc));
    actions.extend((0..2).filter(is_new).map(Action::LookUp));
}

/// Returns what the client would learn of the document's collection by a look-up now.
fn asked_now(state: &State, doc: usize) -> Known {
    Known { expires: state.server.expires[doc], over: state.client.look.map_or([0; 2], |look| look.over) }
}

/// The client looks up the collection of a document, and the server answers.
pub fn look_up(state: &mut State, doc: usize) {
    state.client.process = state.server.process;
    state.client.looking_up = Some((doc, asked_now(state, doc)));
}

/// The answer of the look-up arrives.
pub fn learn(plan: &Plan, state: &mut State) {
    let Some((doc, known)) = state.client.looking_up.take() else { return };
    let from = if plan.has(Breakage::CatalogFromAnswer) { asked_now(state, doc).over } else { known.over };
    state.client.catalog[doc] = Some(Known { over: from, ..known });
}

/// The validation begins: it finds out which documents may change without a trace. What the client
/// knows already counts if it was looked up late enough; the rest is looked up. (No later step uses
/// what is looked up here, so it is not remembered.)
pub fn traceless(plan: &Plan, state: &mut State) -> Docs {
    if !plan.expires {
        return [false; 2];
    }
    [0, 1].map(|doc| {
        let known = state.client.catalog[doc].filter(|known| counts(plan, state, known)).unwrap_or_else(|| {
            state.client.process = state.server.process;
            asked_now(state, doc)
        });
        known.expires
    })
}

/// Returns true if the knowledge counts: each notice that is over in the transaction's first look
/// was known to be over when the look-up was sent.
fn counts(plan: &Plan, state: &State, known: &Known) -> bool {
    let shown = state.tx.first.map_or([0; 2], |first| first.over);
    (0..2).all(|doc| known.over[doc] >= shown[doc]) || plan.has(Breakage::CatalogFromBeforeEnd)
}
