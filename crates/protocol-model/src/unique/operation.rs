//! A statement: lock and copy, place the new value, then look for other documents that have it.
//!
//! 1. *Lock and copy*: the pending value is the safe one. An insert of a document that is not there
//!    places its value at once, with a slot of its own. A rival's lock: repaired when it is
//!    decided, else a conflict.
//! 2. *Change*: the new value becomes the pending one, or the document is marked as removed.
//! 3. *Check*: documents with the new value in a safe version are searched for. An insert counts
//!    them, document by document, in the command that places the value, and checks only if the
//!    count has found another document.
//!
//! A duplicate ends the transaction or only the statement. In the second case the document gets
//! back its state from before the statement.
//!
//! When the mirrored index refuses step 1 or 2, the holder of the value is searched for in a step
//! of its own.
//!
//! Statements that are sent together are in [`super::combined_writes`].

use protocol::{
    TxStatus,
    unique::{Claim, Holder, value_is_pending, value_is_safe},
};

use super::{
    breakage::Breakage,
    combined_writes,
    documents::{Pending, Refused, Stored},
    ending::{abort, end},
    plan::{Op, Plan, Value},
    repair,
    state::{Flaw, Mending, Part, Run, State, Step, Why, counts, op},
};

/// The next step of a statement.
pub fn advance(plan: &Plan, state: &mut State, t: usize) {
    match state.runs[t].step {
        Step::Doing(part) if state.runs[t].together > 0 => combined_writes::carry_out(plan, state, t, part),
        Step::GivingBack(first, at) => combined_writes::give_back(plan, state, t, first, at),
        Step::Doing(Part::Lock) => lock(plan, state, t),
        Step::Doing(Part::Change) => change(plan, state, t),
        Step::Doing(Part::Count(other)) => count(plan, state, t, other),
        Step::Doing(Part::Check(other)) => check(plan, state, t, other),
        Step::Doing(Part::TakeBack) => take_back(plan, state, t),
        Step::Asking(value, part) => ask(plan, state, t, value, part),
        Step::Mending(mending, part) => {
            state.runs[t].step = match repair::proceed(plan, state, mending) {
                Some(mending) => Step::Mending(mending, part),
                None => Step::Doing(part),
            };
        }
        _ => {}
    }
}

fn lock(plan: &Plan, state: &mut State, t: usize) {
    let op = op(plan, state, t);
    let stored = state.documents.docs[op.doc()];
    if let Some(rival) = stored.and_then(|stored| stored.holder()).filter(|holder| *holder != t) {
        return meet(state, t, op.doc(), rival, Part::Lock);
    }
    state.runs[t].before = stored;
    if plan.txs[t].outside && plan.has(Breakage::OutsideTrustsUserIndex) {
        return write_outside(plan, state, t, stored);
    }
    match (op, stored) {
        (Op::Insert(doc, value), None) => {
            let slot = (!plan.has(Breakage::NoSlotOnInserts)).then_some(doc);
            let waiting = Stored { slot, ..Stored::default() };
            place(plan, state, t, waiting.locked(t, Pending::Value(value)), Part::Lock);
        }
        (Op::Insert(_, value), Some(mine)) if mine.holder().is_some() && mine.pending().is_none() => {
            place(plan, state, t, mine.locked(t, Pending::Value(value)), Part::Lock);
        }
        (Op::Insert(..), Some(_)) => refuse(plan, state, t, Why::DuplicateId),
        (_, Some(mine)) if mine.pending().is_some() => state.runs[t].step = Step::Doing(Part::Change),
        (_, Some(Stored { safe: Some(safe), slot, lock: None })) => {
            let copied = Stored { safe: Some(safe), slot, lock: None }.locked(t, Pending::Value(safe));
            if put(plan, state, t, copied, Part::Lock) {
                state.runs[t].step = Step::Doing(Part::Change);
            }
        }
        _ => done(plan, state, t, None),
    }
}

fn change(plan: &Plan, state: &mut State, t: usize) {
    let op = op(plan, state, t);
    match state.documents.held(op.doc(), t) {
        Some(mine) => {
            let pending = op.value().map_or(Pending::Removed, Pending::Value);
            place(plan, state, t, mine.locked(t, pending), Part::Change);
        }
        // A rival has rolled the transaction back and undone its change.
        None => done(plan, state, t, None),
    }
}

fn place(plan: &Plan, state: &mut State, t: usize, stored: Stored, part: Part) {
    let unchecked = plan.has(Breakage::NoCheck) || plan.has(Breakage::CheckBeforePlacing);
    if put(plan, state, t, stored, part) {
        match stored.pending() {
            Some(_) if !unchecked => {
                let is_inserted = part == Part::Lock && state.runs[t].before.is_none();
                state.runs[t].step = Step::Doing(if is_inserted { Part::Count(0) } else { Part::Check(0) });
            }
            value => done(plan, state, t, Some(value)),
        }
    }
}

/// Counts whether document `other` has the value, as part of the command of an insert. The server
/// reports only the count.
fn count(plan: &Plan, state: &mut State, t: usize, other: usize) {
    let op = op(plan, state, t);
    let Some(stored) = state.documents.docs.get(other) else { return done(plan, state, t, Some(op.value())) };
    match other != op.doc() && stored.is_some_and(|stored| counts(plan, t, op, &stored)) {
        true if plan.has(Breakage::CountedIsDuplicate) => refuse(plan, state, t, Why::Duplicate),
        true => state.runs[t].step = Step::Doing(Part::Check(0)),
        false => state.runs[t].step = Step::Doing(Part::Count(other + 1)),
    }
}

/// Writes the document. Returns false if an index refused the write; the step that deals with the
/// refusal is next then.
fn put(plan: &Plan, state: &mut State, t: usize, stored: Stored, part: Part) -> bool {
    let doc = op(plan, state, t).doc();
    match (state.documents.put(doc, Some(stored)), stored.pending()) {
        (Ok(()), _) => return true,
        (Err(Refused::ByMirror), Some(value)) if !plan.has(Breakage::RefusedIsDuplicate) => {
            state.runs[t].step = Step::Asking(value, part);
        }
        (Err(_), _) => refuse(plan, state, t, Why::Duplicate),
    }
    false
}

fn ask(plan: &Plan, state: &mut State, t: usize, value: Value, part: Part) {
    let mut docs = state.documents.docs.iter().enumerate();
    let found = docs.find_map(|(doc, stored)| stored.filter(|it| it.pending() == Some(value)).map(|it| (doc, it)));
    let Some((doc, stored)) = found else {
        state.runs[t].step = Step::Doing(part);
        return;
    };
    claim(plan, state, t, doc, value_is_pending(holder(state, t, stored)), stored, part);
}

fn check(plan: &Plan, state: &mut State, t: usize, other: usize) {
    let (op, run) = (op(plan, state, t), &state.runs[t]);
    let value = if run.back { run.before.and_then(|stored| stored.pending()) } else { op.value() };
    if other == state.documents.docs.len() || value.is_none() {
        return checked(plan, state, t, op);
    }
    let next = Step::Doing(Part::Check(other + 1));
    let found = state.documents.docs[other].filter(|stored| stored.safe == value);
    let Some(stored) = found.filter(|_| other != op.doc()) else {
        state.runs[t].step = next;
        return;
    };
    let holder = holder(state, t, stored);
    let answer = match holder {
        Holder::Mine if plan.has(Breakage::OwnSafeIsTaken) => Claim::Duplicate,
        Holder::Rival(TxStatus::Active) if plan.has(Breakage::ActiveRivalIsFree) => Claim::Free,
        Holder::Rival(status) if status != TxStatus::Active && plan.has(Breakage::DecidedRivalIsFree) => Claim::Free,
        _ => value_is_safe(holder),
    };
    match answer {
        Claim::Free => state.runs[t].step = next,
        answer => claim(plan, state, t, other, answer, stored, Part::Check(0)),
    }
}

fn checked(plan: &Plan, state: &mut State, t: usize, op: Op) {
    if state.runs[t].back {
        done(plan, state, t, None);
    } else if plan.has(Breakage::CheckBeforePlacing) {
        state.runs[t].step = Step::Doing(Part::Lock);
    } else {
        done(plan, state, t, Some(op.value()));
    }
}

fn holder(state: &State, t: usize, stored: Stored) -> Holder {
    match stored.holder() {
        None => Holder::None,
        Some(holder) if holder == t => Holder::Mine,
        Some(holder) => Holder::Rival(state.statuses[holder]),
    }
}

fn claim(plan: &Plan, state: &mut State, t: usize, doc: usize, answer: Claim, stored: Stored, part: Part) {
    match (answer, stored.holder()) {
        (Claim::Duplicate, _) => refuse(plan, state, t, Why::Duplicate),
        (Claim::Conflict | Claim::Repair, Some(rival)) => meet(state, t, doc, rival, part),
        _ => state.runs[t].step = Step::Doing(part),
    }
}

/// Refuses the statement. Its placed value must not stay if the transaction goes on.
fn refuse(plan: &Plan, state: &mut State, t: usize, why: Why) {
    if state.runs[t].back {
        return abort(state, t, Why::Conflict);
    }
    if why == Why::Duplicate {
        state.refused = true;
        if !state.runs[t].witness {
            state.flaw = Some(Flaw::FalseDuplicate);
        }
    }
    if plan.txs[t].goes_on && !plan.has(Breakage::RefusedStays) {
        state.runs[t].back = true;
        state.runs[t].step = Step::Doing(Part::TakeBack);
    } else if plan.txs[t].goes_on {
        done(plan, state, t, None);
    } else {
        abort(state, t, why);
    }
}

/// Gives the document its state from before the statement. A value that the statement gave up is
/// placed again and therefore checked again, because a rival may have it by now.
fn take_back(plan: &Plan, state: &mut State, t: usize) {
    let (doc, before) = (op(plan, state, t).doc(), state.runs[t].before);
    if state.documents.held(doc, t).is_none() {
        return done(plan, state, t, None);
    }
    match (state.documents.put(doc, before), before.and_then(|stored| stored.pending())) {
        (Err(Refused::ByMirror), Some(value)) => state.runs[t].step = Step::Asking(value, Part::TakeBack),
        (Err(_), _) => state.flaw = Some(Flaw::RepairRefused),
        (Ok(()), Some(_)) if !plan.has(Breakage::TakenBackUnchecked) => {
            state.runs[t].step = Step::Doing(Part::Check(0));
        }
        (Ok(()), _) => done(plan, state, t, None),
    }
}

/// Deals with a rival that holds the document: the document is repaired if the rival is decided or
/// its client is found dead.
fn meet(state: &mut State, t: usize, doc: usize, rival: usize, part: Part) {
    if state.runs[rival].step == Step::Dead {
        state.roll_back(rival);
    }
    match state.statuses[rival] {
        TxStatus::Active => abort(state, t, Why::Conflict),
        _ => state.runs[t].step = Step::Mending(Mending { doc, holder: rival, slotting: false }, part),
    }
}

/// Ends the statement; `effect` is the new state of its document, if the statement has changed it.
fn done(plan: &Plan, state: &mut State, t: usize, effect: Option<Option<Value>>) {
    let doc = op(plan, state, t).doc();
    let run = &mut state.runs[t];
    run.effects.extend(effect.map(|value| (doc, value)));
    run.op += 1;
    run.before = None;
    run.back = false;
    run.witness = false;
    run.step = if run.op < plan.txs[t].ops.len() { Run::first_step(plan) } else { Step::Ending };
}

/// Only when broken on purpose: overwrites the document at once, as if there were no transactions.
fn write_outside(plan: &Plan, state: &mut State, t: usize, stored: Option<Stored>) {
    let op = op(plan, state, t);
    match (op, stored) {
        (Op::Insert(..), Some(_)) => return abort(state, t, Why::DuplicateId),
        (Op::Update(..) | Op::Remove(_), None) => return done(plan, state, t, None),
        _ => {}
    }
    if state.documents.put(op.doc(), op.value().map(Stored::clean)).is_err() {
        return abort(state, t, Why::Duplicate);
    }
    done(plan, state, t, Some(op.value()));
    end(plan, state, t);
}
