//! Lock writes that are sent in one command, and their outcome when not all find their document
//! free (decisions 0010, 0060 and 0079).
//!
//! 1. Each lock write is carried out by itself; any step may happen between two of them, and, if an
//!    update is two statements, between its lock and its change. If one statement names all
//!    documents, the server takes them in an order of its own.
//! 2. An insert that finds a document, and a change that the server refuses, end the command there.
//! 3. If all have locked and changed, commit is requested. Otherwise the transaction reads which
//!    documents it holds.
//! 4. The documents that it holds after the first one that it does not hold, or whose change was
//!    refused, are given back, one at a time, the latter included.
//! 5. If one statement has named all documents and has failed, all that it has locked is given
//!    back.
//! 6. The transaction goes on from there with one lock write per command.

use crate::{
    course::{Answer, begin, delist, predecessor, written},
    mutation::Mutation,
    plan::{Op, Plan},
    server::{Prepared, mark},
    state::{State, Step},
};

/// Carries out what the server takes as number `i` of the command, or its first statement.
pub fn send(plan: &Plan, state: &mut State, t: usize, i: usize, all: bool) {
    if !begin(plan, state, t) {
        return;
    }
    let Some(tx) = state.tx_id(plan, t) else { return };
    let write = plan.txs[t].carried_out_as(i);
    if plan.txs[t].ends_at == Some(write) && !state.runs[t].refused {
        return end_at(plan, state, t, write);
    }
    let (doc, op) = plan.txs[t].writes[write];
    let over = predecessor(plan, state, t, doc);
    delist(plan, state, over, doc, Answer::Came);
    let in_two = plan.txs[t].in_two && op == Op::Update;
    let change = if in_two { 0 } else { mark(t) };
    match state.server.now.docs[doc].take_over(over, tx, op, change) {
        Prepared::Done if in_two => state.runs[t].step = Step::Changing(i, all),
        Prepared::Duplicate => state.runs[t].step = Step::Asking,
        prepared => carried_out(plan, state, t, i, all && prepared == Prepared::Done),
    }
}

/// The server refuses a write of a statement that names several documents: its answer does not say
/// which others it has changed. All of them are given back, and the writes before the refused one
/// are made one by one.
fn end_at(plan: &Plan, state: &mut State, t: usize, write: usize) {
    let run = &mut state.runs[t];
    run.refused = true;
    run.left_out = (write..plan.txs[t].writes.len()).fold(0, |left, i| left | 1 << i);
    run.step = match plan.has(Mutation::FailedStatementHoldsNothing) {
        true => Step::Writing(0),
        false => Step::GivingBack(0, 0),
    };
}

/// Carries out the second statement of write `i`.
pub fn change(plan: &Plan, state: &mut State, t: usize, i: usize, all: bool) {
    if plan.txs[t].change_refused == Some(i) && !state.runs[t].refused {
        state.runs[t].refused = true;
        state.runs[t].step = Step::Asking;
        return;
    }
    let Some(tx) = state.tx_id(plan, t) else { return };
    let changed = state.server.now.docs[plan.txs[t].writes[i].0].change(tx, mark(t));
    carried_out(plan, state, t, i, all && changed);
}

/// The step after write `i`.
fn carried_out(plan: &Plan, state: &mut State, t: usize, i: usize, all: bool) {
    match (i + 1 == plan.txs[t].writes.len(), all) {
        (true, true) => written(plan, state, t, i),
        (true, false) => state.runs[t].step = Step::Asking,
        (false, _) => state.runs[t].step = Step::Together(i + 1, all),
    }
}

/// Finds out which documents are held.
pub fn ask(plan: &Plan, state: &mut State, t: usize) {
    let writes = &plan.txs[t].writes;
    let (me, docs) = (state.tx_id(plan, t), &state.server.now.docs);
    let is_held = |(doc, _): &(usize, Op)| docs[*doc].lock.writer == me;
    let not_held = match plan.has(Mutation::FirstOfHeldByNumber) {
        false => writes.iter().position(|write| !is_held(write)),
        true => Some(writes.iter().filter(|write| is_held(write)).count()).filter(|held| *held < writes.len()),
    };
    let refused = plan.txs[t].change_refused.filter(|_| !plan.has(Mutation::LockedTakenForChanged));
    match not_held.into_iter().chain(refused.filter(|_| state.runs[t].refused)).min() {
        None => written(plan, state, t, writes.len() - 1),
        Some(first) if not_held != Some(first) => state.runs[t].step = Step::GivingBack(first, first),
        Some(first) => give_back_after(plan, state, t, first, first),
    }
}

/// Gives back the document of write `i`, and goes on to the next one.
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
