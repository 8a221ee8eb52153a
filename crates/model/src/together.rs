//! Lock writes that are sent in one command, and their fate when not all find their document free
//! (decision 0010).
//!
//! 1. Each lock write is carried out by itself; any step may happen between two of them.
//! 2. If all have locked, commit is requested. Otherwise the transaction asks which documents it
//!    holds.
//! 3. The documents that it holds after the first one that it does not hold are given back, one at
//!    a time.
//! 4. The transaction goes on from there with one lock write per command.

use crate::{
    course::{Answer, begin, delist, predecessor, written},
    mutation::Mutation,
    plan::Plan,
    server::{Prepared, mark},
    state::{State, Step},
};

/// Carries out write `i` of the command.
pub fn send(plan: &Plan, state: &mut State, t: usize, i: usize, all: bool) {
    if !begin(plan, state, t) {
        return;
    }
    let Some(tx) = state.tx_id(plan, t) else { return };
    let (doc, op) = plan.txs[t].writes[i];
    let over = predecessor(plan, state, t, doc);
    delist(plan, state, over, doc, Answer::Came);
    let locked = matches!(state.server.now.docs[doc].take_over(over, tx, op, mark(t)), Prepared::Done);
    let (all, last) = (all && locked, i + 1 == plan.txs[t].writes.len());
    match (last, all) {
        (true, true) => written(plan, state, t, i),
        (true, false) => state.runs[t].step = Step::Asking,
        (false, _) => state.runs[t].step = Step::Together(i + 1, all),
    }
}

/// Finds out which documents are held.
pub fn ask(plan: &Plan, state: &mut State, t: usize) {
    let writes = &plan.txs[t].writes;
    let (me, docs) = (state.tx_id(plan, t), &state.server.now.docs);
    let first = writes.iter().position(|(doc, _)| docs[*doc].lock.writer != me);
    match first {
        None => written(plan, state, t, writes.len() - 1),
        Some(first) => give_back_after(plan, state, t, first, first),
    }
}

/// Gives one document back.
pub fn give_back(plan: &Plan, state: &mut State, t: usize, first: usize, i: usize) {
    let doc = plan.txs[t].writes[i].0;
    if let Some(tx) = state.tx_id(plan, t) {
        state.server.now.docs[doc].take_back(tx);
    }
    give_back_after(plan, state, t, first, i);
}

/// The step after document `i` is given back, or counts as given back.
pub fn give_back_after(plan: &Plan, state: &mut State, t: usize, first: usize, i: usize) {
    let more = i + 1 < plan.txs[t].writes.len();
    state.runs[t].step = match more {
        true => Step::GivingBack(first, i + 1),
        false if plan.has(Mutation::GivenBackTakenForDone) => {
            return written(plan, state, t, plan.txs[t].writes.len() - 1);
        }
        false => Step::Writing(first),
    };
}
