//! A transaction: lock writes, the request to commit, and finishing or undoing its documents.
//!
//! 1. The record lists the collection, and each document is locked, copied and changed by one lock
//!    write, several of which may be one command (`combined_writes`), or taken over from a
//!    committed transaction of the same client. A rival's lock is dealt with by `meeting`.
//! 2. A write that is refused after it has locked is taken back, and the transaction goes on.
//! 3. Where documents expire, the TTL monitor is kept from those that the transaction holds
//!    (`expiry`).
//! 4. Commit is requested; `client` decides it.
//! 5. The user has the answer; each document is finished or undone, without waiting for the
//!    journal. That may be much later (decision 0038), and a finish whose answer is lost is sent
//!    again.
//! 6. The number is reported clean, when each finish was answered, with the connection epoch from
//!    before the first document was finished.
//!
//! Sending, executing and answering a lock write is one step, because the transaction takes no
//! other step in between. Writes whose answers are lost are in `faults`. The module leaves out two
//! writes of one document and reads for update.

use protocol::recorder::Since;

use crate::{
    combined_writes,
    course::{Answer, abort, answered, begin, delist, epoch, predecessor, since, written},
    expiry,
    meeting::{self, Next},
    mutation::Mutation,
    plan::Plan,
    server::{Doc, Message, Prepared, mark},
    state::{Meeting, State, Step},
};

/// Returns true if this transaction has a step to take.
pub fn has_step(plan: &Plan, state: &State, t: usize) -> bool {
    match state.runs[t].step {
        Step::Waiting | Step::Over | Step::Dead => false,
        Step::Enlisting(i) => is_listed(plan, state, t, i) || state.clients[plan.txs[t].client].recorder.is_lost(),
        _ => true,
    }
}

/// Returns true if the record lists the collection of this write, as far as its owner knows.
fn is_listed(plan: &Plan, state: &State, t: usize, i: usize) -> bool {
    state.clients[plan.txs[t].client].listed >> plan.txs[t].writes[i].0 & 1 == 1
}

/// The next step of transaction `t`.
pub fn advance(plan: &Plan, state: &mut State, t: usize) {
    match state.runs[t].step.clone() {
        Step::Writing(i) => write(plan, state, t, i),
        Step::Together(i, all) => combined_writes::send(plan, state, t, i, all),
        Step::Changing(i, all) => combined_writes::change(plan, state, t, i, all),
        Step::Asking => combined_writes::ask(plan, state, t),
        Step::GivingBack(first, i) => combined_writes::give_back(plan, state, t, first, i),
        Step::Enlisting(i) => state.runs[t].step = Step::Writing(i),
        Step::TakingBack(i) => take_back(plan, state, t, i),
        Step::Outliving(i) => expiry::outlive(plan, state, t, i),
        Step::Counting(i) => expiry::count(plan, state, t, i),
        Step::Copying(i, copied) => lock(plan, state, t, i, Some(copied)),
        Step::Meeting(i, meeting) => meet(plan, state, t, i, meeting),
        Step::Finishing(i) => finish(plan, state, t, i),
        Step::Undoing(i) => undo(plan, state, t, i),
        Step::Waiting | Step::Over | Step::Dead => {}
    }
}

fn write(plan: &Plan, state: &mut State, t: usize, i: usize) {
    if !is_listed(plan, state, t, i) && !state.clients[plan.txs[t].client].recorder.is_lost() {
        state.clients[plan.txs[t].client].enlisting |= 1 << plan.txs[t].writes[i].0;
        state.runs[t].step = Step::Enlisting(i);
        return;
    }
    if !begin(plan, state, t) {
        return;
    }
    let doc = &state.server.now.docs[plan.txs[t].writes[i].0];
    if plan.has(Mutation::LockTrustsEarlierRead) && doc.lock.writer.is_none() {
        state.runs[t].step = Step::Copying(i, doc.safe);
        return;
    }
    lock(plan, state, t, i, None);
}

fn lock(plan: &Plan, state: &mut State, t: usize, i: usize, copied: Option<u16>) {
    let Some(tx) = state.tx_id(plan, t) else {
        return;
    };
    let (doc, op) = plan.txs[t].writes[i];
    let over = predecessor(plan, state, t, doc);
    delist(plan, state, over, doc, Answer::Came);
    let locked = match copied {
        // A document that the transaction holds already has its mark.
        None if state.server.now.docs[doc].lock.writer == Some(tx) => Prepared::Done,
        Some(_) => state.server.now.docs[doc].prepare(tx, op, mark(t), copied),
        None => state.server.now.docs[doc].take_over(over, tx, op, mark(t)),
    };
    match locked {
        Prepared::Done => {
            if plan.has(Mutation::LockSentTwice) && state.faults.late_messages > 0 {
                state.faults.late_messages -= 1;
                state.server.late.push(Message::Lock { tx, t, write: i, over });
            }
            written(plan, state, t, i);
        }
        Prepared::NotThere => {
            state.runs[t].missed |= 1 << i;
            written(plan, state, t, i);
        }
        Prepared::Locked => {
            if let Some(meeting) = meeting::fetch(&state.server.now, doc) {
                state.runs[t].step = Step::Meeting(i, meeting);
            }
        }
        Prepared::Duplicate => abort(plan, state, t),
    }
}

/// Step 2: takes the refused write back, after which the user tries again.
fn take_back(plan: &Plan, state: &mut State, t: usize, i: usize) {
    if let Some(tx) = state.tx_id(plan, t) {
        state.server.now.docs[plan.txs[t].writes[i].0].take_back(tx);
    }
    state.runs[t].step = Step::Writing(i);
}

fn meet(plan: &Plan, state: &mut State, t: usize, i: usize, meeting: Meeting) {
    match meeting::proceed(plan, state, meeting) {
        Next::To(meeting) => state.runs[t].step = Step::Meeting(i, meeting),
        Next::Clear => state.runs[t].step = Step::Writing(i),
        Next::Conflict => abort(plan, state, t),
    }
}

fn finish(plan: &Plan, state: &mut State, t: usize, i: usize) {
    if i == 0 {
        begin_to_finish(plan, state, t);
    }
    let doc = plan.txs[t].writes[i].0;
    let is_listed = state.runs[t].delisted >> doc & 1 == 0;
    if let Some(tx) = state.tx_id(plan, t).filter(|_| is_listed) {
        let doc = &mut state.server.now.docs[doc];
        if plan.has(Mutation::FinishFromMemory) && doc.lock.writer != Some(tx) {
            *doc = Doc { stored: true, safe: mark(t), ..Doc::default() };
        }
        doc.finish(tx);
    }
    cleaned(plan, state, t, Step::Finishing(i + 1), i + 1);
}

fn begin_to_finish(plan: &Plan, state: &mut State, t: usize) {
    (state.runs[t].epoch, state.runs[t].answered) = (epoch(plan, state, t), answered(plan, state, t));
}

/// Gives up the finish of document `i`, which may still arrive and will be sent again.
pub fn finish_late(plan: &Plan, state: &mut State, t: usize, i: usize) {
    state.faults.late_finishes -= 1;
    if let Some(tx) = state.tx_id(plan, t) {
        state.server.late.push(Message::Finish { tx, doc: plan.txs[t].writes[i].0 });
    }
    if plan.has(Mutation::DelistedUnanswered) {
        if i == 0 {
            begin_to_finish(plan, state, t);
        }
        cleaned(plan, state, t, Step::Finishing(i + 1), i + 1);
    }
}

/// Undoes a document. Unknown documents are searched for by the transaction's number, in the model
/// among all documents that the write could have found.
fn undo(plan: &Plan, state: &mut State, t: usize, i: usize) {
    let doc = plan.txs[t].writes[i].0;
    let is_listed = !plan.txs[t].by_key || state.runs[t].known >> i & 1 == 1;
    if let Some(tx) = state.tx_id(plan, t).filter(|_| is_listed || !plan.has(Mutation::UndoneByList)) {
        state.server.now.docs[doc].take_back(tx);
    }
    cleaned(plan, state, t, Step::Undoing(i + 1), i + 1);
}

fn cleaned(plan: &Plan, state: &mut State, t: usize, next: Step, done: usize) {
    if done < plan.txs[t].writes.len() {
        state.runs[t].step = next;
        return;
    }
    state.runs[t].step = Step::Over;
    let late = plan.has(Mutation::CleanEpochReadLate);
    let since = if late { Since::from(state.server.boot) } else { since(state, t) };
    if let Some(seq) = state.runs[t].seq {
        state.clients[plan.txs[t].client].recorder.note_clean(seq, since);
    }
}
