//! The steps of a transaction's statements: reads that leave entries, and writes that lock and
//! change one document after the other.

use protocol::TxStatus;

use super::{
    breakage::Breakage,
    command::Command,
    deciding,
    plan::{Asks, Op, Plan},
    query::{ABSENT, ANY, Fold, Query, Values, value, with},
    quiet,
    scan::{ScanResult, is_own_view},
    state::State,
    transaction::{Entry, Step},
    validating,
};

/// The next step of transaction `t`.
pub fn advance(plan: &Plan, state: &mut State, t: usize) {
    match state.runs[t].step {
        Step::Begin => begin(plan, state, t),
        Step::Reading => read(plan, state, t),
        Step::Locking => lock(plan, state, t),
        Step::Asking => {
            if quiet::ask(plan, state, t) {
                validating::begin(plan, state, t);
            }
        }
        Step::Bracket(goal) => validating::advance(plan, state, t, goal),
        Step::Waiting(_) => validating::begin(plan, state, t),
        Step::Proving => deciding::prove(state, t),
        Step::Deciding => deciding::decide(plan, state, t),
        Step::Decided => deciding::acknowledge(plan, state, t),
        Step::Stamping => deciding::stamp(plan, state, t),
        Step::Over => {}
    }
}

/// Returns true if the transaction may take its next step.
pub fn is_enabled(plan: &Plan, state: &State, t: usize) -> bool {
    let is_active = |rival| state.status(plan, rival) == TxStatus::Active;
    match state.runs[t].step {
        Step::Over => false,
        Step::Begin => plan.txs[t].after.is_none_or(|before| state.runs[before].step == Step::Over),
        Step::Waiting(rivals) => (0..state.runs.len()).all(|rival| rivals >> rival & 1 == 0 || !is_active(rival)),
        Step::Locking if waits_for_locks(plan, state, t) => {
            let holder = state.now.docs[first(state.runs[t].to_lock)].pending;
            holder.is_none_or(|(rival, _)| rival == t || !is_active(rival))
        }
        Step::Deciding => !quiet::holds_back(plan, state, t),
        _ => true,
    }
}

/// The first of these documents.
fn first(docs: u8) -> usize {
    docs.trailing_zeros() as usize
}

/// Returns true if the transaction waits for the holder of its next document: older ones wait,
/// younger ones give way.
fn waits_for_locks(plan: &Plan, state: &State, t: usize) -> bool {
    let holder = state.now.docs[first(state.runs[t].to_lock)].pending;
    let is_younger = holder.is_some_and(|(rival, _)| rival > t);
    plan.lock_waits && (is_younger || plan.has(Breakage::LockWaitsWithoutAges))
}

/// Begins the statement, and takes its first step.
fn begin(plan: &Plan, state: &mut State, t: usize) {
    if state.runs[t].op == 0 && !state.runs[t].early {
        (state.runs[t].before, state.runs[t].locked_at) = (state.committed, state.latest());
        state.runs[t].boot = state.boot;
        if quiet::is_wanted(plan, state, t, Asks::First) {
            return quiet::begin(state, t);
        }
    }
    if std::mem::take(&mut state.runs[t].asks_ahead) {
        return validating::ahead(plan, state, t);
    }
    let Some(op) = plan.txs[t].ops.get(state.runs[t].op).copied() else {
        return validating::begin(plan, state, t);
    };
    let is_last = state.runs[t].op + 1 == plan.txs[t].ops.len();
    if plan.has(Breakage::ValidatedBeforeLastLock) && is_last && op.writes() && !state.runs[t].early {
        state.runs[t].early = true;
        return validating::begin(plan, state, t);
    }
    if op.writes()
        && let Some(entry) = to_convert(plan, state, t, op)
    {
        return validating::convert(plan, state, t, entry);
    }
    match op {
        Op::Point(doc) if state.runs[t].own.has(doc) => see_own(state, t, doc),
        Op::Write(doc, _) | Op::WriteIf(doc, ..) | Op::Insert(doc, _) | Op::Remove(doc) => {
            validating::before_write(plan, state, t);
            (state.runs[t].to_lock, state.runs[t].step) = (1 << doc, Step::Locking);
            lock(plan, state, t);
        }
        _ => select(plan, state, t, plan.query(op)),
    }
}

/// An entry of the own view that the next write would change.
fn to_convert(plan: &Plan, state: &State, t: usize, op: Op) -> Option<usize> {
    let target = plan.collections(plan.query(op).bits);
    let is_met = |entry: &Entry| entry.own && plan.collections(entry.query.bits) & target != 0;
    let kept = plan.has(Breakage::OwnViewAgain);
    state.runs[t].entries.iter().position(|entry| !kept && is_met(entry))
}

/// Answers a read of a document that the transaction has written with the written value. Such a
/// read leaves no entry.
fn see_own(state: &mut State, t: usize, doc: usize) {
    let query = Query::by_id(doc, ANY, Fold::Documents);
    let run = &mut state.runs[t];
    run.note_answer(query, query.answer(run.own.values));
    done(state, t);
}

fn select(plan: &Plan, state: &mut State, t: usize, query: Query) {
    let own = is_own_view(plan, state, t, query);
    state.runs[t].command = Some(Command::new(plan, query, own));
    state.runs[t].step = Step::Reading;
    read(plan, state, t);
}

fn read(plan: &Plan, state: &mut State, t: usize) {
    let Some(command) = state.runs[t].command.take() else { return };
    match command.step(plan, state, t) {
        Err(going_on) => state.runs[t].command = Some(going_on),
        Ok(outcome) => answered(plan, state, t, outcome),
    }
}

/// Goes on with the answer to the read of a statement.
fn answered(plan: &Plan, state: &mut State, t: usize, outcome: ScanResult) {
    let op = plan.txs[t].ops[state.runs[t].op];
    match op {
        Op::WriteMany(..) => {
            if !plan.has(Breakage::PredicateWriteWithoutEntry) && !remember(plan, state, t, plan.query(op), outcome) {
                return state.roll_back(t);
            }
            let docs = 0..plan.docs.len();
            state.runs[t].note_answer(plan.query(op), outcome.result);
            state.runs[t].to_lock = docs.map(|doc| (value(outcome.result, doc) & 1) << doc).sum();
            if state.runs[t].to_lock == 0 {
                return done(state, t);
            }
            state.runs[t].step = Step::Locking;
            lock(plan, state, t);
        }
        Op::Insert(doc, _) => met_duplicate(plan, state, t, doc, outcome),
        _ => {
            state.runs[t].note_answer(plan.query(op), outcome.result);
            match remember(plan, state, t, plan.query(op), outcome) {
                true => done(state, t),
                false => state.roll_back(t),
            }
        }
    }
}

/// Leaves an entry. Returns false if the same read had another answer before.
fn remember(plan: &Plan, state: &mut State, t: usize, query: Query, outcome: ScanResult) -> bool {
    let viewed = is_own_view(plan, state, t, query);
    let own = viewed && (matches!(query.fold, Fold::Count | Fold::First) || plan.has(Breakage::OwnViewAgain));
    let mut entry = Entry { query, own, result: outcome.result, met: outcome.met };
    if viewed && !own {
        entry.query = query.without(state.runs[t].own.docs);
        entry.result &= !state.runs[t].own.docs;
    }
    let entries = &mut state.runs[t].entries;
    let same = entries.iter().find(|before| (before.query, before.own) == (entry.query, own));
    let agrees = same.is_none_or(|before| before.result == entry.result);
    if same.is_none() {
        entries.push(entry);
        state.runs[t].is_valid_ahead &= plan.has(Breakage::AheadOfARead);
    }
    agrees
}

/// Begins to read the document that an insert has met as a duplicate, after the error.
fn look_at_duplicate(plan: &Plan, state: &mut State, t: usize, doc: usize) {
    state.runs[t].command = Some(Command::new(plan, Query::by_id(doc, ANY, Fold::Documents), false));
    (state.runs[t].to_lock, state.runs[t].step) = (0, Step::Reading);
}

/// Leaves the entry of a duplicate. The error states that the document is there, and the entry,
/// which is read later, must agree.
fn met_duplicate(plan: &Plan, state: &mut State, t: usize, doc: usize, outcome: ScanResult) {
    let query = Query::by_id(doc, ANY, Fold::Documents);
    if outcome.result == 0 && !plan.has(Breakage::DuplicateUnconfirmed) {
        state.runs[t].step = Step::Begin;
        return;
    }
    state.runs[t].note_answer(Query::by_id(doc, ANY, Fold::Ids), with(doc, 1));
    if !plan.has(Breakage::DuplicateWithoutEntry) && !remember(plan, state, t, query, outcome) {
        return state.roll_back(t);
    }
    done(state, t);
}

/// Locks and changes the next document, or cleans the leftover of a decided rival and tries again.
fn lock(plan: &Plan, state: &mut State, t: usize) {
    let doc = first(state.runs[t].to_lock);
    if let Some((rival, _)) = state.now.docs[doc].pending.filter(|(writer, _)| *writer != t) {
        return match state.status(plan, rival) {
            TxStatus::Active if waits_for_locks(plan, state, t) => {}
            TxStatus::Active => state.roll_back(t),
            _ => state.clean(plan, doc),
        };
    }
    let op = plan.txs[t].ops[state.runs[t].op];
    let (matches, new) = effect(op, state.value_for(t, doc));
    if matches {
        return if keeps_entry(plan, state, t, doc) { change(plan, state, t, doc, new) } else { state.roll_back(t) };
    }
    match op {
        Op::Insert(..) if !state.runs[t].own.has(doc) => look_at_duplicate(plan, state, t, doc),
        Op::WriteMany(..) if !plan.has(Breakage::UnmatchedPassedOver) => state.roll_back(t),
        Op::WriteMany(..) => pass_over(state, t, doc),
        _ => matched_nothing(plan, state, t, plan.query(op)),
    }
}

/// Returns true if the statement matches a document with this value, and the document's value after
/// it.
fn effect(op: Op, now: Values) -> (bool, Values) {
    match op {
        Op::Write(_, new) => (now != ABSENT, new),
        Op::WriteIf(_, values, new) | Op::WriteMany(_, values, new) => (now & values != 0, new),
        Op::Insert(_, new) => (now == ABSENT, new),
        Op::Remove(_) => (now != ABSENT, ABSENT),
        Op::Point(_) | Op::Scan(..) | Op::Key(_) | Op::Count(..) | Op::First(..) => (false, now),
    }
}

fn matched_nothing(plan: &Plan, state: &mut State, t: usize, query: Query) {
    let outcome = ScanResult { result: 0, active: 0, changing: 0, met: false };
    let (own, unnoted) = (state.runs[t].own.docs & query.bits != 0, plan.has(Breakage::NoMatchWithoutEntry));
    let now = with(first(state.runs[t].to_lock), state.value_for(t, first(state.runs[t].to_lock)));
    state.runs[t].note_answer(query, query.answer(now));
    state.runs[t].to_lock = 0;
    match own || unnoted || remember(plan, state, t, query, outcome) {
        true => done(state, t),
        false => state.roll_back(t),
    }
}

/// Compares a document that was read by its `_id` and is written by its `_id`. Under the lock it
/// must have the value that was read; its entry is dropped then.
fn keeps_entry(plan: &Plan, state: &mut State, t: usize, doc: usize) -> bool {
    if matches!(plan.txs[t].ops[state.runs[t].op], Op::WriteMany(..)) {
        return true;
    }
    let safe = with(doc, state.now.docs[doc].safe);
    let of_it = |entry: &Entry| entry.query.point && entry.query.bits & with(doc, ANY) != 0;
    let entries = &mut state.runs[t].entries;
    let agree = entries.iter().filter(|entry| of_it(entry)).all(|entry| entry.query.answer(safe) == entry.result);
    entries.retain(|entry| !of_it(entry));
    agree || plan.has(Breakage::NoComparisonUnderLock)
}

fn change(plan: &Plan, state: &mut State, t: usize, doc: usize, new: Values) {
    if !matches!(plan.txs[t].ops[state.runs[t].op], Op::WriteMany(..)) {
        let (query, now) = (plan.query(plan.txs[t].ops[state.runs[t].op]), with(doc, state.value_for(t, doc)));
        state.runs[t].note_answer(query, query.answer(now));
    }
    validating::behind_write(plan, state, t);
    state.now.docs[doc].pending = Some((t, new));
    state.runs[t].locked_at = state.latest();
    state.runs[t].own.add(doc, new);
    locked(state, t, doc);
}

/// Broken on purpose: the update changes one document less than its selection has found.
fn pass_over(state: &mut State, t: usize, doc: usize) {
    if let Some(answer) = state.runs[t].answers.last_mut() {
        answer.result &= !with(doc, ANY);
    }
    locked(state, t, doc);
}

fn locked(state: &mut State, t: usize, doc: usize) {
    state.runs[t].to_lock &= !(1 << doc);
    if state.runs[t].to_lock == 0 { done(state, t) } else { state.runs[t].step = Step::Locking }
}

fn done(state: &mut State, t: usize) {
    state.runs[t].op += 1;
    state.runs[t].step = Step::Begin;
}
