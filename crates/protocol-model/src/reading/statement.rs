//! The steps of a transaction: a statement that reads (numbered as in the module's header), and the
//! commit.

use protocol::{
    TxStatus,
    lock::{UnlockedReason, admits_reader, why_unlocked},
};

use super::{
    breakage::Breakage,
    plan::{Op, Plan},
    state::{Flaw, Marks, State, Step, run_of, tx_id},
    writing::write,
};

/// The next step of transaction `t`.
pub fn advance(plan: &Plan, state: &mut State, t: usize) {
    let docs = match plan.txs[t].ops.get(state.runs[t].op) {
        Some(Op::Read(docs)) => &docs[..],
        _ => &[],
    };
    match state.runs[t].step {
        Step::Begin => begin(plan, state, t),
        Step::Selecting(i) => select(state, t, docs, i),
        Step::Locking(i) => lock(plan, state, t, docs, i),
        Step::Looking(i) => look(plan, state, t, docs, i),
        Step::Reading(i) => read(state, t, docs, i),
        Step::Writing => write(plan, state, t),
        Step::Checking => check(plan, state, t),
        Step::Committing => commit(state, t),
        Step::Over => {}
    }
}

fn begin(plan: &Plan, state: &mut State, t: usize) {
    if plan.has(Breakage::CheckedBeforeReading) && !is_alive(plan, state, t) {
        return state.roll_back(t);
    }
    state.runs[t].found.fill(None);
    (state.runs[t].tainted, state.runs[t].skipped) = (false, false);
    state.runs[t].step = match &plan.txs[t].ops[state.runs[t].op] {
        Op::Read(_) if plan.txs[t].repeatable => Step::Selecting(0),
        Op::Read(_) => Step::Reading(0),
        Op::Write(_) | Op::Remove(_) => Step::Writing,
    };
}

/// Step 1: selects a document.
fn select(state: &mut State, t: usize, docs: &[usize], i: usize) {
    state.runs[t].found[docs[i]] = state.now.docs[docs[i]].seen_by(Some(tx_id(t)), &state.statuses);
    state.runs[t].step = if i + 1 < docs.len() { Step::Selecting(i + 1) } else { Step::Locking(0) };
}

/// Step 2 for one document. The update of many documents is one command, but steps of other
/// processes may come between its documents.
fn lock(plan: &Plan, state: &mut State, t: usize, docs: &[usize], i: usize) {
    state.runs[t].boot.get_or_insert(state.boot);
    let me = tx_id(t);
    let doc = &mut state.now.docs[docs[i]];
    if doc.stored && admits_reader(&doc.lock, me) {
        if !doc.lock.readers.contains(&me) {
            doc.lock.readers.push(me);
            doc.lock.readers.sort_unstable();
        }
    } else {
        state.runs[t].skipped = true;
    }
    state.runs[t].step = match (i + 1 < docs.len(), state.runs[t].skipped) {
        (true, _) => Step::Locking(i + 1),
        (false, true) => Step::Looking(0),
        (false, false) => after_locks(plan),
    };
}

fn after_locks(plan: &Plan) -> Step {
    if plan.has(Breakage::SelectionAnswers) { Step::Checking } else { Step::Reading(0) }
}

/// Step 3: looks at a skipped document.
fn look(plan: &Plan, state: &mut State, t: usize, docs: &[usize], i: usize) {
    let me = tx_id(t);
    let doc = &state.now.docs[docs[i]];
    let mut why = why_unlocked(doc.stored.then_some(&doc.lock), me);
    if why == UnlockedReason::Free && plan.has(Breakage::TakenForRemoved) {
        why = UnlockedReason::Gone;
    }
    let again = match why {
        UnlockedReason::Kept | UnlockedReason::Gone => false,
        UnlockedReason::Free => true,
        UnlockedReason::Rival(rival) => match state.statuses[run_of(rival)] {
            TxStatus::Active => return state.roll_back(t),
            _ => {
                state.clear(docs[i], Some(me));
                true
            }
        },
    };
    state.runs[t].step = match again {
        true => {
            state.runs[t].skipped = false;
            Step::Locking(0)
        }
        false if i + 1 < docs.len() => Step::Looking(i + 1),
        false => after_locks(plan),
    };
}

/// Step 4: reads a document.
fn read(state: &mut State, t: usize, docs: &[usize], i: usize) {
    let found = state.now.docs[docs[i]].seen_by(Some(tx_id(t)), &state.statuses);
    let run = &mut state.runs[t];
    run.found[docs[i]] = found;
    run.tainted |= run.robbed;
    run.step = if i + 1 < docs.len() { Step::Reading(i + 1) } else { Step::Checking };
}

fn is_alive(plan: &Plan, state: &State, t: usize) -> bool {
    let same_process = state.runs[t].boot.is_none_or(|boot| boot == state.boot);
    let same_process = same_process || plan.has(Breakage::RestartUnnoticed);
    state.statuses[t] == TxStatus::Active && same_process
}

/// Steps 5 and 6: checks that the transaction lives, and answers.
fn check(plan: &Plan, state: &mut State, t: usize) {
    let unchecked = plan.has(Breakage::DoomedAnswers) || plan.has(Breakage::CheckedBeforeReading);
    if !unchecked && !is_alive(plan, state, t) {
        return state.roll_back(t);
    }
    let run = &mut state.runs[t];
    if run.tainted {
        run.flaw = Some(Flaw::Doomed);
    }
    if plan.txs[t].repeatable {
        let others = !(1 << t);
        for doc in 0..plan.docs {
            let found = run.found[doc].map(|marks| marks & others);
            if run.seen[doc].is_some() && found.is_some() && found != run.seen[doc] {
                run.flaw.get_or_insert(Flaw::Changed);
            }
            run.seen[doc] = run.seen[doc].or(found);
        }
    }
    run.op += 1;
    run.step = if run.op < plan.txs[t].ops.len() { Step::Begin } else { Step::Committing };
}

/// Decides the transaction. The decision demands that no rival has ended the transaction, and that
/// the server process is the one of its locks.
fn commit(state: &mut State, t: usize) {
    if state.statuses[t] != TxStatus::Active || state.runs[t].boot.is_some_and(|boot| boot != state.boot) {
        return state.roll_back(t);
    }
    state.decide(t, TxStatus::Committed);
    state.runs[t].step = Step::Over;
    let others = !(1 << t);
    let changed = |(doc, seen): (usize, &Option<Marks>)| {
        seen.is_some_and(|seen| state.now.docs[doc].committed(&state.statuses) & others != seen)
    };
    if state.runs[t].seen.iter().enumerate().any(changed) {
        state.runs[t].flaw.get_or_insert(Flaw::Unlocked);
    }
}
