//! A statement that writes: one conditional update, and the steps after an update whose condition
//! does not hold.

use protocol::{
    LockState, TxStatus,
    lock::{admits_writer, keeps_read_lock},
};

use super::{
    breakage::Breakage,
    plan::{Op, Plan},
    state::{Flaw, State, Step, run_of, tx_id},
};

/// Locks and changes the document of the statement, or removes the locks of decided rivals and
/// tries again.
pub fn write(plan: &Plan, state: &mut State, t: usize) {
    let (Op::Write(doc) | Op::Remove(doc)) = plan.txs[t].ops[state.runs[t].op] else { return };
    state.runs[t].boot.get_or_insert(state.boot);
    let (me, stored) = (tx_id(t), &state.now.docs[doc]);
    let lost = state.runs[t].seen[doc].is_some() && !keeps_read_lock(&stored.lock, me);
    if lost && !plan.has(Breakage::LostReadLockPasses) {
        return state.roll_back(t);
    }
    if !stored.stored {
        state.runs[t].missed |= 1 << state.runs[t].op;
        return done(state, t);
    }
    let mut lock = stored.lock.clone();
    if plan.has(Breakage::ReadersIgnored) {
        lock.readers.clear();
    }
    if admits_writer(&lock, me) {
        return change(plan, state, t, doc);
    }
    let mut rivals = stored.lock.writer.into_iter().chain(stored.lock.readers.iter().copied());
    if rivals.any(|rival| rival != me && state.statuses[run_of(rival)] == TxStatus::Active) {
        return state.roll_back(t);
    }
    state.clear(doc, Some(me));
}

fn change(plan: &Plan, state: &mut State, t: usize, doc: usize) {
    let remove = matches!(plan.txs[t].ops[state.runs[t].op], Op::Remove(_));
    let (seen, stored) = (state.runs[t].seen[doc], &mut state.now.docs[doc]);
    if seen.is_some_and(|seen| seen != stored.safe) && stored.lock.writer.is_none() {
        state.runs[t].flaw.get_or_insert(Flaw::Outdated);
    }
    stored.pending = Some(seen.unwrap_or(stored.pending.unwrap_or(stored.safe)) | 1 << t);
    stored.lock = LockState { writer: Some(tx_id(t)), remove, ..LockState::default() };
    done(state, t);
}

fn done(state: &mut State, t: usize) {
    state.runs[t].tainted |= state.runs[t].robbed;
    state.runs[t].step = Step::Checking;
}
