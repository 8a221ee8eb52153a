//! Validation: the entries of a transaction are run again between two looks.
//!
//! 1. First look: the stamps of one record after the other.
//! 2. Every entry is run again, one after the other.
//! 3. Second look. If it differs in a collection that was read, the validation begins again at step
//!    2 with this look as its first one. One document that was read by its `_id` may be disturbed,
//!    because all other answers were the same when it was read again. (At serializable it may only
//!    if nothing else was read, because rivals of other documents were looked for earlier.)
//!    Documents that the transaction holds cannot be disturbed. A document that was found by a key
//!    of a unique index counts like one by its `_id`, because no other document has the key while
//!    it stays as it is. A key without a document counts as a scan.
//! 4. Evidence, and the decision: see `deciding`.
//!
//! Where a plan says so, the first look is one that the client remembers, of whatever age, with the
//! decisions of its own record that were acknowledged before the entries are run again.
//!
//! Where a plan says so, entries are run again behind each write, in the same bracket, ahead of the
//! commit. The commit rests on that if nothing was read or written since. Its first look is a
//! remembered one, with what the client's own record has acknowledged before the write.
//!
//! The same bracket (1 to 3) converts an entry of the own view before the transaction writes to its
//! collection again: the documents of others are read, and then the own view again.

use super::{
    breakage::Breakage,
    command::Command,
    ending, judge,
    plan::{Asks, Level, Plan},
    query::{Docs, Query},
    quiet,
    scan::ScanResult,
    state::State,
    transaction::{Entry, Goal, Step},
};

/// The next step in a bracket of two looks.
enum Stage {
    Look(usize),
    Run,
    Over,
}

/// Begins the end of a transaction: its validation, unless there is nothing to validate.
pub fn begin(plan: &Plan, state: &mut State, t: usize) {
    if std::mem::take(&mut state.runs[t].is_valid_ahead) {
        state.runs[t].rests_on_ahead = true;
        return valid(plan, state, t);
    }
    let run = &state.runs[t];
    let is_done = run.early && run.op == plan.txs[t].ops.len();
    if is_done || is_exempt(plan, state, t) {
        return valid(plan, state, t);
    }
    if quiet::is_wanted(plan, state, t, Asks::Last) {
        return quiet::begin(state, t);
    }
    quiet::hear(plan, state, t);
    let run = &state.runs[t];
    let points = run.entries.iter().all(Entry::is_of_one);
    let free = run.entries.iter().filter(|entry| entry.docs() & run.own.docs == 0).count();
    let once = points && !run.has_asked && (free <= 1 || plan.has(Breakage::SeveralReadAgainOnce));
    let goal = if once { Goal::Once } else { Goal::Validate };
    bracket(state, t, goal);
    if goal == Goal::Validate {
        remember(plan, state, t);
    }
    advance(plan, state, t, goal);
}

fn is_exempt(plan: &Plan, state: &State, t: usize) -> bool {
    let run = &state.runs[t];
    let read_only = run.own.docs == 0 && !run.early;
    let snapshot = plan.txs[t].level == Level::Snapshot;
    let may_have_met = snapshot || plan.has(Breakage::LockedExempt);
    let is_light = |entry: &Entry| entry.is_of_one() && (may_have_met || !entry.met);
    run.entries.is_empty()
        || read_only && run.entries.len() == 1 && is_light(&run.entries[0])
        || read_only && plan.has(Breakage::SeveralExempt) && run.entries.iter().all(|entry| entry.query.point)
        || read_only && plan.has(Breakage::ScanExempt) && run.entries.len() == 1
        || read_only && plan.has(Breakage::ReadOnlyExempt)
}

/// Takes the first look for the reads behind a write that is about to be sent.
pub fn before_write(plan: &Plan, state: &mut State, t: usize) {
    if plan.txs[t].ahead && !state.runs[t].entries.is_empty() {
        remember(plan, state, t);
    }
}

/// A write is carried out, behind which all reads are sent again.
pub fn behind_write(plan: &Plan, state: &mut State, t: usize) {
    let run = &mut state.runs[t];
    run.is_valid_ahead &= plan.has(Breakage::AheadOfAWrite);
    run.asks_ahead = plan.txs[t].ahead && !run.looks[0].is_empty() && !run.is_valid_ahead;
}

/// Begins to ask everything again behind a write.
pub fn ahead(plan: &Plan, state: &mut State, t: usize) {
    state.runs[t].step = Step::Bracket(Goal::Ahead);
    if state.runs[t].entries.is_empty() {
        return leave_ahead(state, t, false);
    }
    advance(plan, state, t, Goal::Ahead);
}

/// The transaction goes on with its next statement.
fn leave_ahead(state: &mut State, t: usize, is_valid: bool) {
    let run = &mut state.runs[t];
    run.looks = [Vec::new(), Vec::new()];
    (run.next, run.look_boot, run.is_valid_ahead, run.step) = (0, 0, is_valid, Step::Begin);
}

/// Begins to convert an entry of the own view.
pub fn convert(plan: &Plan, state: &mut State, t: usize, entry: usize) {
    bracket(state, t, Goal::Convert(entry));
    advance(plan, state, t, Goal::Convert(entry));
}

/// Takes the look that the client remembers as the first one.
fn remember(plan: &Plan, state: &mut State, t: usize) {
    let client = plan.txs[t].client;
    let Some(memory) = state.memories.get(client) else { return };
    let mut look = memory.look.clone();
    let place = plan.writers().iter().position(|writer| *writer == client);
    if let Some(own) = place.and_then(|place| look.get_mut(place)) {
        own.iter_mut().zip(memory.own).for_each(|(own, known)| *own = known.max(*own));
    }
    (state.runs[t].look_boot, state.runs[t].looks[0]) = (memory.boot, look);
}

/// Broken on purpose: adds what the client's own record has acknowledged by now to the first look.
fn remember_own(plan: &Plan, state: &mut State, t: usize) {
    let client = plan.txs[t].client;
    let place = plan.writers().iter().position(|writer| *writer == client);
    let (memory, run) = (&state.memories[client], &mut state.runs[t]);
    if let Some(own) = place.and_then(|place| run.looks[0].get_mut(place)) {
        own.iter_mut().zip(memory.own).for_each(|(own, known)| *own = known.max(*own));
    }
}

/// Notes the second look in the client's memory.
fn remember_second(plan: &Plan, state: &mut State, t: usize) {
    let (boot, is_of_now) = (state.boot, state.runs[t].look_boot == state.boot);
    let Some(memory) = state.memories.get_mut(plan.txs[t].client) else { return };
    (memory.look, memory.boot) = (if is_of_now { state.runs[t].looks[1].clone() } else { Vec::new() }, boot);
}

fn bracket(state: &mut State, t: usize, goal: Goal) {
    let run = &mut state.runs[t];
    run.looks = [Vec::new(), Vec::new()];
    (run.next, run.step) = (0, Step::Bracket(goal));
}

/// Number of reads that are run again, and of those between the looks.
fn runs(plan: &Plan, state: &State, t: usize, goal: Goal) -> (usize, usize) {
    let all = match goal {
        Goal::Convert(_) => 2,
        _ => state.runs[t].entries.len() - usize::from(plan.has(Breakage::LastAnswerIgnored)),
    };
    (all, if plan.has(Breakage::SecondLookEarly) { all - 1 } else { all })
}

fn stage(plan: &Plan, state: &State, t: usize, goal: Goal) -> Stage {
    let (run, (all, between)) = (&state.runs[t], runs(plan, state, t, goal));
    let unlooked = match goal {
        Goal::Once => [false, false],
        Goal::Convert(_) if plan.has(Breakage::ConvertedWithoutLooks) => [false, false],
        _ => [0, 1].map(|at| run.looks[at].len() < plan.writers().len()),
    };
    let first = unlooked[0] && !plan.has(Breakage::NoLooks);
    let is_left_out = plan.has(Breakage::OneLook) || goal == Goal::Ahead && plan.has(Breakage::AheadWithOneLook);
    let second = unlooked[1] && !plan.has(Breakage::NoLooks) && !is_left_out;
    match () {
        () if first && !(run.next == 0 && plan.has(Breakage::FirstLookLate)) => Stage::Look(0),
        () if run.next < between => Stage::Run,
        () if second => Stage::Look(1),
        () if run.next < all => Stage::Run,
        () => Stage::Over,
    }
}

/// The next step of a bracket.
pub fn advance(plan: &Plan, state: &mut State, t: usize, goal: Goal) {
    if state.runs[t].command.is_some() {
        run_again(plan, state, t, goal);
    } else {
        match stage(plan, state, t, goal) {
            Stage::Look(which) => look(plan, state, t, which),
            Stage::Run => {
                let command = command(plan, state, t, goal);
                state.runs[t].command = Some(command);
                run_again(plan, state, t, goal);
            }
            Stage::Over => {}
        }
    }
    let idle = state.runs[t].step == Step::Bracket(goal) && state.runs[t].command.is_none();
    if idle && matches!(stage(plan, state, t, goal), Stage::Over) {
        conclude(plan, state, t, goal);
    }
}

fn look(plan: &Plan, state: &mut State, t: usize, which: usize) {
    if which == 0 && state.runs[t].looks[0].is_empty() {
        state.runs[t].look_boot = state.boot;
    }
    let record = plan.writers()[state.runs[t].looks[which].len()];
    let stamps = state.now.records[record].changes;
    state.runs[t].looks[which].push(stamps);
    quiet::look(state, t, which, record);
}

/// The entry that is run again next.
fn place(plan: &Plan, state: &State, t: usize) -> usize {
    let run = &state.runs[t];
    if plan.backwards { run.entries.len() - 1 - run.next } else { run.next }
}

fn command(plan: &Plan, state: &State, t: usize, goal: Goal) -> Command {
    let run = &state.runs[t];
    match goal {
        Goal::Convert(entry) if is_of_others(plan, run.next) => {
            Command::new(plan, run.entries[entry].query.without(run.own.docs), false)
        }
        Goal::Convert(entry) => Command::new(plan, run.entries[entry].query, true),
        _ => {
            let entry = &run.entries[place(plan, state, t)];
            Command::new(plan, entry.query, entry.own || plan.has(Breakage::OwnViewAgain) && !entry.query.point)
        }
    }
}

/// Returns true if this read of a conversion is that of the documents of others. It is the first
/// one: a single write behind it, which sets no stamp, differs from it when the transaction ends.
fn is_of_others(plan: &Plan, read: usize) -> bool {
    (read == 0) != plan.has(Breakage::OwnViewFirst)
}

fn run_again(plan: &Plan, state: &mut State, t: usize, goal: Goal) {
    let Some(command) = state.runs[t].command.take() else { return };
    match command.step(plan, state, t) {
        Err(going_on) => state.runs[t].command = Some(going_on),
        Ok(outcome) => compare(plan, state, t, goal, outcome),
    }
}

fn compare(plan: &Plan, state: &mut State, t: usize, goal: Goal, outcome: ScanResult) {
    let place = place(plan, state, t);
    let run = &mut state.runs[t];
    let expected = match goal {
        Goal::Convert(_) if is_of_others(plan, run.next) => {
            run.part = outcome.result;
            outcome.result
        }
        Goal::Convert(entry) => run.entries[entry].result,
        _ => run.entries[place].result,
    };
    run.next += 1;
    if outcome.result != expected && goal == Goal::Ahead {
        if !plan.has(Breakage::AheadUncompared) {
            leave_ahead(state, t, false);
        }
        return;
    }
    if outcome.result != expected {
        return state.roll_back(t);
    }
    let strict = plan.txs[t].level == Level::Serializable && !plan.has(Breakage::RivalsIgnored);
    let rivals = if plan.refined { outcome.changing } else { outcome.active };
    if strict && rivals != 0 && !matches!(goal, Goal::Convert(_)) {
        match goal == Goal::Validate && state.runs[t].has_asked {
            true => state.runs[t].met |= rivals,
            false => meet_rivals(plan, state, t, rivals),
        }
    }
}

/// The older waits for active rivals, the younger gives way.
fn meet_rivals(plan: &Plan, state: &mut State, t: usize, rivals: u8) {
    let is_oldest = rivals.trailing_zeros() as usize > t;
    if is_oldest || plan.has(Breakage::NoOrderOfAges) {
        state.runs[t].step = Step::Waiting(rivals);
    } else {
        state.roll_back(t);
    }
}

/// The documents whose stamps are compared.
fn docs_of(plan: &Plan, entry: &Entry) -> Docs {
    let as_if_by_keys = Query { key: true, ..entry.query };
    if plan.has(Breakage::ScanComparedAsKeys) { as_if_by_keys.depends_on(entry.result) } else { entry.docs() }
}

/// Returns true if the looks are equal for all documents that were read, except for one that may be
/// disturbed.
fn is_undisturbed(plan: &Plan, state: &State, t: usize, goal: Goal) -> bool {
    let run = &state.runs[t];
    if let Goal::Convert(entry) = goal {
        return are_equal(plan, state, t, run.entries[entry].docs());
    }
    let disturbed: Vec<&Entry> =
        run.entries.iter().filter(|entry| !are_equal(plan, state, t, docs_of(plan, entry) & !run.own.docs)).collect();
    let one_document = |entry: &Entry| entry.is_of_one() || plan.has(Breakage::ScanDisturbed);
    let free = run.entries.iter().filter(|entry| entry.docs() & !run.own.docs != 0).count();
    // At serializable, rivals of the other documents were looked for before the disturbed document
    // was read again.
    let strict = plan.txs[t].level == Level::Serializable && !plan.has(Breakage::DisturbedAfterRivals);
    let few = match () {
        () if plan.has(Breakage::SeveralDisturbed) => disturbed.len() <= 2,
        () if strict => disturbed.is_empty() || free == 1,
        () => disturbed.len() <= 1,
    };
    let same_process = run.look_boot == state.boot || plan.has(Breakage::EpochIgnored);
    same_process && few && disturbed.into_iter().all(one_document)
}

/// Returns true if the looks are equal for these documents.
fn are_equal(plan: &Plan, state: &State, t: usize, read: Docs) -> bool {
    let (run, read) = (&state.runs[t], plan.stamps(read));
    let same_process = run.look_boot == state.boot || plan.has(Breakage::EpochIgnored);
    let compared = |record: &usize| !(plan.has(Breakage::OwnRecordIgnored) && *record == plan.txs[t].client);
    let pairs = run.looks[0].iter().zip(&run.looks[1]).zip(plan.writers());
    let pairs = pairs.filter(|(_, record)| compared(record)).map(|(pair, _)| pair);
    same_process
        && pairs.into_iter().all(|(one, two)| (0..one.len()).all(|at| read >> at & 1 == 0 || one[at] == two[at]))
}

fn conclude(plan: &Plan, state: &mut State, t: usize, goal: Goal) {
    let looked = !state.runs[t].looks[1].is_empty();
    if looked {
        remember_second(plan, state, t);
    }
    if goal == Goal::Ahead {
        if plan.has(Breakage::AheadKnownLate) {
            remember_own(plan, state, t);
        }
        let is_valid = is_undisturbed(plan, state, t, goal);
        return leave_ahead(state, t, is_valid);
    }
    if looked && !is_undisturbed(plan, state, t, goal) {
        return again(state, t);
    }
    if !quiet::covers(plan, state, t) {
        return meet_rivals(plan, state, t, state.runs[t].met);
    }
    state.runs[t].has_passed_by |= state.runs[t].met != 0;
    state.runs[t].looks = [Vec::new(), Vec::new()];
    (state.runs[t].next, state.runs[t].look_boot) = (0, 0);
    let Goal::Convert(entry) = goal else { return valid(plan, state, t) };
    let (own, part) = (state.runs[t].own.docs, std::mem::take(&mut state.runs[t].part));
    let converted = &mut state.runs[t].entries[entry];
    converted.query = converted.query.without(own);
    converted.own = false;
    converted.result = part;
    state.runs[t].step = Step::Begin;
}

/// Begins the bracket again. The second look becomes the first one, unless it is of another server
/// process.
fn again(state: &mut State, t: usize) {
    let run = &mut state.runs[t];
    let second = std::mem::take(&mut run.looks[1]);
    run.looks[0] = if run.look_boot == state.boot { second } else { Vec::new() };
    (run.next, run.disturbed) = (0, true);
    (run.met, run.asked) = (0, 0);
}

/// Goes on after a successful validation: all answers are true at one moment.
fn valid(plan: &Plan, state: &mut State, t: usize) {
    let run = &mut state.runs[t];
    if run.early && run.op < plan.txs[t].ops.len() {
        run.step = Step::Begin;
    } else if run.own.docs == 0 {
        judge::committed(plan, state, t);
        ending::end(plan, state, t);
    } else {
        quiet::hear_late(plan, state, t);
        ending::ready(plan, state, t);
    }
}
