//! Quiet: rivals that are not decided need not be waited for, if they have to be validated again.
//!
//! 1. Before it reads, or before it looks for the first time, a transaction at serializable sets
//!    quiet in each record, durably: the record's owner takes no decision where the transaction
//!    reads. A record that holds the quiet of another transaction is left as it is.
//! 2. Active rivals that it meets are noted. The second look must show that the records of all of
//!    them still hold this transaction's quiet; otherwise it waits or gives way as it does without
//!    quiet.
//! 3. The quiet ends at any time: the reader ends it, or its time is up and the owner of the record
//!    ends it. That it has been there stays in the record until another transaction sets its own.
//! 4. A transaction at serializable that has read what it does not hold is decided only if the
//!    quiet in the record is one that was over when its own validation began; or is elsewhere, and
//!    has taken the place of such a one, or of none. Otherwise it is validated again.
//!
//! So a rival that was met is decided only after a validation that began when the reader's was
//! over.

use super::{
    breakage::Breakage,
    plan::{Asks, Level, Plan},
    state::{Quiet, State},
    transaction::Step,
};

/// Returns true if this transaction must request quiet at this time.
pub fn is_wanted(plan: &Plan, state: &State, t: usize, now: Asks) -> bool {
    plan.txs[t].asks == now && !state.runs[t].has_asked && !plan.writers().is_empty()
}

/// Transaction `t` begins to ask the records of its rivals for quiet.
pub fn begin(state: &mut State, t: usize) {
    (state.runs[t].next, state.runs[t].step) = (0, Step::Asking);
}

/// Transaction `t` sets quiet in the next record, if no other quiet stands there. Returns true if
/// it was the last record and the transaction validates next.
#[must_use]
pub fn ask(plan: &Plan, state: &mut State, t: usize) -> bool {
    let record = plan.writers()[state.runs[t].next];
    let read = plan.txs[t].ops.iter().fold(0, |all, op| all | plan.stamps(plan.query(*op).bits));
    let tags = if plan.has(Breakage::QuietOfOneCollection) { 1 << read.trailing_zeros() } else { read };
    let quiet = &mut state.now.records[record].quiet;
    if quiet.is_none_or(|other| other.is_over) {
        let before = quiet.map(|other| other.by);
        *quiet = Some(Quiet { by: t, tags, is_over: false, before });
        if !plan.has(Breakage::QuietUnjournaled) {
            state.journal_end = None;
        }
    }
    state.runs[t].next += 1;
    if state.runs[t].next < plan.writers().len() {
        return false;
    }
    state.runs[t].has_asked = true;
    (state.runs[t].next, state.runs[t].step) = (0, Step::Begin);
    plan.txs[t].asks == Asks::Last
}

/// Returns true if quiet stands in the client's record.
pub fn stands(state: &State, client: usize) -> bool {
    state.now.records[client].quiet.is_some_and(|quiet| !quiet.is_over)
}

/// The quiet in this record ends.
pub fn end(state: &mut State, client: usize) {
    if let Some(quiet) = &mut state.now.records[client].quiet {
        quiet.is_over = true;
    }
}

/// Notes in the second look whether the quiet in a record is still this transaction's.
pub fn look(state: &mut State, t: usize, which: usize, record: usize) {
    let is_asked = state.now.records[record].quiet.is_some_and(|quiet| quiet.by == t && !quiet.is_over);
    if which == 1 && is_asked {
        state.runs[t].asked |= 1 << record;
    }
}

/// Returns true if all rivals that were met must be validated again before their decisions.
pub fn covers(plan: &Plan, state: &State, t: usize) -> bool {
    let run = &state.runs[t];
    let is_asked = |rival: usize| run.asked >> plan.txs[rival].client & 1 == 1;
    plan.has(Breakage::QuietNotLookedAt)
        || (0..state.runs.len()).all(|rival| run.met >> rival & 1 == 0 || is_asked(rival))
}

/// Effect of the quiet in its record on a transaction that is to be decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Free,
    /// The transaction has to wait until the quiet is over.
    Waits,
    /// The transaction has to be validated again, after the quiet of this transaction, which is
    /// over and began after its last validation.
    Deaf(usize),
}

fn verdict(plan: &Plan, state: &State, t: usize) -> Verdict {
    let Some(quiet) = state.now.records[plan.txs[t].client].quiet else { return Verdict::Free };
    let run = &state.runs[t];
    let disturbs = quiet.tags & plan.stamps(run.own.docs) != 0;
    let reads = run.entries.iter().any(|entry| entry.docs() & !run.own.docs != 0);
    if plan.txs[t].level == Level::Snapshot || !reads || plan.has(Breakage::NotValidatedAgain) {
        return if disturbs && !quiet.is_over { Verdict::Waits } else { Verdict::Free };
    }
    let knows = |by: usize| by == t || run.heard == Some(by);
    let unknown = quiet.before.filter(|by| !knows(*by) && !plan.has(Breakage::QuietForgotten));
    match unknown {
        _ if quiet.is_over && knows(quiet.by) => Verdict::Free,
        None if !disturbs => Verdict::Free,
        _ if quiet.is_over => Verdict::Deaf(quiet.by),
        Some(before) if !disturbs && !knows(quiet.by) => Verdict::Deaf(before),
        _ => Verdict::Waits,
    }
}

/// Returns true if quiet keeps the transaction from its decision.
pub fn holds_back(plan: &Plan, state: &State, t: usize) -> bool {
    verdict(plan, state, t) == Verdict::Waits
}

/// The quiet for which the transaction must be validated again before its decision, if any. Its
/// client then knows that this quiet is over.
pub fn refuses(plan: &Plan, state: &State, t: usize) -> Option<usize> {
    match verdict(plan, state, t) {
        Verdict::Deaf(heard) => Some(heard),
        _ => None,
    }
}

/// Notes at the beginning of a validation which quiet is known to be over.
pub fn hear(plan: &Plan, state: &mut State, t: usize) {
    let client = plan.txs[t].client;
    state.runs[t].heard = match state.now.records[client].quiet {
        Some(quiet) if plan.has(Breakage::HeardWhileItStands) => Some(quiet.by),
        _ => state.heard[client],
    };
    (state.runs[t].met, state.runs[t].asked) = (0, 0);
}

/// Broken on purpose: notes only at the end of a validation which quiet is over.
pub fn hear_late(plan: &Plan, state: &mut State, t: usize) {
    let over = state.now.records[plan.txs[t].client].quiet.filter(|quiet| quiet.is_over);
    if plan.has(Breakage::HeardAfterwards) && over.is_some() {
        state.runs[t].heard = over.map(|quiet| quiet.by);
    }
}

/// Returns true if a transaction of the plan requests quiet.
pub fn is_planned(plan: &Plan) -> bool {
    plan.txs.iter().any(|tx| tx.asks != Asks::Never)
}
