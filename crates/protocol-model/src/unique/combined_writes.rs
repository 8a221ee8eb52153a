//! Statements of different documents that are sent together in one command, each with its question
//! behind it (decision 0074).
//!
//! 1. The server carries the statements out in their order; any step of others may happen between
//!    two of them, between the lock and the change of an update, and between a statement and its
//!    question.
//! 2. A statement whose document a rival holds, or that finds none, has no effect, and the command
//!    goes on. An index that refuses a value, an `_id` that is taken, and a question that finds
//!    another document with the value in a safe version, end the command there.
//! 3. The statements before the first one that had no effect, or that ended the command, are done.
//!    All documents from there on are given back, one at a time: they are as they were before the
//!    transaction.
//! 4. The transaction goes on from there with one statement at a time, as if it had sent no more.

use super::{
    breakage::Breakage,
    documents::{Pending, Stored},
    plan::{Op, Plan, Sent},
    state::{Flaw, Part, Run, State, Step, counts, op},
};

/// Carries out a part of the present statement of the command.
pub fn carry_out(plan: &Plan, state: &mut State, t: usize, part: Part) {
    match part {
        Part::Change => change(plan, state, t),
        Part::Count(other) => count(plan, state, t, other),
        Part::Lock | Part::Check(_) | Part::TakeBack => lock(plan, state, t),
    }
}

fn lock(plan: &Plan, state: &mut State, t: usize) {
    let op = op(plan, state, t);
    let is_one = plan.txs[t].sent == Sent::Fused;
    let (locked, part) = match (op, state.documents.docs[op.doc()]) {
        (Op::Insert(doc, value), None) => {
            let slot = (!plan.has(Breakage::NoSlotOnInserts)).then_some(doc);
            (Stored { slot, ..Stored::default() }.locked(t, Pending::Value(value)), Part::Count(0))
        }
        (Op::Insert(..), Some(_)) => return ended(plan, state, t),
        (Op::Update(_, value), Some(free @ Stored { safe: Some(_), lock: None, .. })) if is_one => {
            (free.locked(t, Pending::Value(value)), Part::Count(0))
        }
        (Op::Update(..), Some(free @ Stored { safe: Some(safe), lock: None, .. })) => {
            (free.locked(t, Pending::Value(safe)), Part::Change)
        }
        (Op::Remove(_), Some(free @ Stored { lock: None, .. })) => {
            return match state.documents.put(op.doc(), Some(free.locked(t, Pending::Removed))) {
                Ok(()) => next(plan, state, t),
                Err(_) => ended(plan, state, t),
            };
        }
        _ => return missed(plan, state, t),
    };
    place(plan, state, t, locked, part);
}

/// The change is made to the copy, if the transaction still holds it.
fn change(plan: &Plan, state: &mut State, t: usize) {
    let op = op(plan, state, t);
    match (state.documents.held(op.doc(), t), op.value()) {
        (Some(mine), Some(value)) => place(plan, state, t, mine.locked(t, Pending::Value(value)), Part::Count(0)),
        _ => missed(plan, state, t),
    }
}

fn place(plan: &Plan, state: &mut State, t: usize, stored: Stored, part: Part) {
    let doc = op(plan, state, t).doc();
    match state.documents.put(doc, Some(stored)) {
        Ok(()) if matches!(part, Part::Count(_)) && plan.has(Breakage::AskedAtTheEnd) => next(plan, state, t),
        Ok(()) => state.runs[t].step = Step::Doing(part),
        Err(_) => ended(plan, state, t),
    }
}

/// The question looks at document `other`, and at those behind it.
fn count(plan: &Plan, state: &mut State, t: usize, other: usize) {
    let op = op(plan, state, t);
    let Some(stored) = state.documents.docs.get(other) else {
        return match plan.has(Breakage::AskedAtTheEnd) {
            true => next_question(plan, state, t),
            false => next(plan, state, t),
        };
    };
    let is_found = other != op.doc() && stored.is_some_and(|stored| counts(plan, t, op, &stored));
    match is_found && !plan.has(Breakage::AskedIsDone) {
        true => ended(plan, state, t),
        false => state.runs[t].step = Step::Doing(Part::Count(other + 1)),
    }
}

/// The statement had no effect: the command goes on.
fn missed(plan: &Plan, state: &mut State, t: usize) {
    let run = &mut state.runs[t];
    run.missed = run.missed.or(Some(run.op));
    next(plan, state, t);
}

/// The next statement of the command.
fn next(plan: &Plan, state: &mut State, t: usize) {
    let run = &mut state.runs[t];
    run.witness = false;
    if run.op + 1 < run.together {
        run.op += 1;
        run.step = Step::Doing(Part::Lock);
    } else if plan.has(Breakage::AskedAtTheEnd) {
        run.op = 0;
        run.step = Step::Doing(Part::Count(0));
    } else {
        answered(plan, state, t, None);
    }
}

/// If broken on purpose: the next question, when all statements have been carried out.
fn next_question(plan: &Plan, state: &mut State, t: usize) {
    let run = &mut state.runs[t];
    if run.op + 1 < run.together {
        run.op += 1;
        run.step = Step::Doing(Part::Count(0));
    } else {
        answered(plan, state, t, None);
    }
}

/// The present statement, or its question, has ended the command.
fn ended(plan: &Plan, state: &mut State, t: usize) {
    answered(plan, state, t, Some(state.runs[t].op));
}

/// The command is answered: the statements that are done, and those that are given back.
fn answered(plan: &Plan, state: &mut State, t: usize, refused: Option<usize>) {
    let run = &mut state.runs[t];
    let (all, missed) = (run.together, run.missed);
    let first = missed.into_iter().chain(refused).min();
    let is_done = |place: &usize| match first {
        Some(_) if plan.has(Breakage::GivenBackIsDone) => missed != Some(*place),
        first => *place < first.unwrap_or(all),
    };
    let effect = |place: usize| (plan.txs[t].ops[place].doc(), plan.txs[t].ops[place].value());
    run.effects = (0..all).filter(is_done).map(effect).collect();
    match first {
        None => go_on(plan, state, t, all),
        Some(first) => state.runs[t].step = Step::GivingBack(first, first),
    }
}

/// Gives back the document of statement `at`, if the transaction holds it: it had not touched it
/// before.
pub fn give_back(plan: &Plan, state: &mut State, t: usize, first: usize, at: usize) {
    let all = state.runs[t].together;
    if at == all {
        return go_on(plan, state, t, if plan.has(Breakage::GivenBackIsDone) { all } else { first });
    }
    let doc = plan.txs[t].ops[at].doc();
    if let Some(mine) = state.documents.held(doc, t) {
        let before = mine.safe.map(|_| Stored { lock: None, ..mine });
        // Its safe version was in the index all the while.
        if state.documents.put(doc, before).is_err() {
            state.flaw = Some(Flaw::RepairRefused);
        }
    }
    state.runs[t].step = Step::GivingBack(first, at + 1);
}

/// The transaction goes on with this statement, by itself.
fn go_on(plan: &Plan, state: &mut State, t: usize, op: usize) {
    let run = &mut state.runs[t];
    (run.op, run.together, run.missed, run.witness) = (op, 0, None, false);
    run.step = if op < plan.txs[t].ops.len() { Run::first_step(plan) } else { Step::Ending };
}
