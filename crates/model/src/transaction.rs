//! A transaction: lock writes, the request to commit, and finishing or undoing its documents.
//!
//! 1. The record lists the collection, and each document is locked, copied and changed by one lock
//!    write, several of which may be one command (`together`), or taken over from a committed
//!    transaction of the same client. A rival's lock is dealt with by `meeting`.
//! 2. A write that is refused after it has locked is taken back, and the transaction goes on.
//! 3. Where documents expire, those that it holds are taken out of the server's way (`expiry`).
//! 4. Commit is requested; `client` decides it.
//! 5. The user has the answer; each document is finished or undone, without waiting for the
//!    journal. That may be much later (decision 0038), and a finish whose answer is lost is sent
//!    again.
//! 6. The number is reported clean, when each finish was answered, with the connection epoch from
//!    before the first document was finished.
//!
//! Sending, executing and answering a lock write is one step here: nothing of the transaction
//! happens in between. A write whose answer is lost, early or late, is in `faults`. Left out: two
//! writes of one document, reads for update.

use protocol::{Concern, TxId, recorder::Since};

use crate::{
    expiry,
    meeting::{self, Next},
    mutation::Mutation,
    plan::Plan,
    server::{Doc, Message, Prepared, mark},
    state::{Meeting, State, Step, Told},
    together,
};

/// Does this transaction have a step of its own?
pub fn has_step(plan: &Plan, state: &State, t: usize) -> bool {
    match state.runs[t].step {
        Step::Waiting | Step::Over | Step::Dead => false,
        Step::Enlisting(i) => is_listed(plan, state, t, i) || state.clients[plan.txs[t].client].recorder.is_lost(),
        _ => true,
    }
}

/// Does the record list the collection of this write, as far as its owner knows?
fn is_listed(plan: &Plan, state: &State, t: usize, i: usize) -> bool {
    state.clients[plan.txs[t].client].listed >> plan.txs[t].writes[i].0 & 1 == 1
}

/// The next step of transaction `t`.
pub fn advance(plan: &Plan, state: &mut State, t: usize) {
    match state.runs[t].step.clone() {
        Step::Writing(i) => write(plan, state, t, i),
        Step::Together(i, all) => together::send(plan, state, t, i, all),
        Step::Asking => together::ask(plan, state, t),
        Step::GivingBack(first, i) => together::give_back(plan, state, t, first, i),
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

/// Takes a number and reads the connection epoch before the first lock write. False when the record
/// is lost.
pub fn begin(plan: &Plan, state: &mut State, t: usize) -> bool {
    let (epoch, answered) = (epoch(plan, state, t), answered(plan, state, t));
    let client = &mut state.clients[plan.txs[t].client];
    let run = &mut state.runs[t];
    if run.seq.is_some() {
        return true;
    }
    if client.recorder.is_lost() {
        run.step = Step::Over;
        return false;
    }
    run.seq = Some(client.recorder.allocate());
    (run.epoch, run.answered) = (epoch, answered);
    true
}

/// The connection epoch as this transaction's client knows it.
fn epoch(plan: &Plan, state: &State, t: usize) -> u64 {
    let unchecked = plan.has(Mutation::NoEvidence) || plan.has(Mutation::EpochIgnored);
    if unchecked { 0 } else { state.clients[plan.txs[t].client].epoch }
}

/// Has it been answered, as far as its client knows?
fn answered(plan: &Plan, state: &State, t: usize) -> bool {
    let has_answer = state.clients[plan.txs[t].client].process.is_some();
    has_answer || plan.has(Mutation::OpenConnectionTaken)
}

/// The connection before the first lock write, or the first finish.
fn since(state: &State, t: usize) -> Since {
    Since { epoch: state.runs[t].epoch, answered: state.runs[t].answered }
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
        // A document that it holds already has its mark.
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

/// Transaction from which a lock write of `t` takes the document over: one of the same client whose
/// commit was reported to the client (decision 0012), and whose lock is on the document.
pub fn predecessor(plan: &Plan, state: &State, t: usize, doc: usize) -> Option<TxId> {
    let (me, writer) = (&plan.txs[t], state.server.now.docs[doc].lock.writer);
    let is_known = |other: usize| {
        let run = &state.runs[other];
        let undecided = plan.has(Mutation::TakenOverUndecided) && run.step == Step::Waiting;
        plan.txs[other].client == me.client && (run.told == Some(Told::Committed) || undecided)
    };
    let known = (0..plan.txs.len()).filter(|other| me.takes_over && *other != t && is_known(*other));
    known.filter_map(|other| state.tx_id(plan, other)).find(|other| writer == Some(*other))
}

/// Has a lock write that takes a document over been answered?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The answer has come.
    Came,
    /// The command was sent, with an unknown result.
    Lost,
}

/// Only with a mutation: the document that is about to be taken over from `over` is not finished
/// any more.
pub fn delist(plan: &Plan, state: &mut State, over: Option<TxId>, doc: usize, answer: Answer) {
    let early = plan.has(Mutation::DelistedEarly);
    let answered = plan.has(Mutation::DelistedAtTakeOver) && answer == Answer::Came;
    let left = (0..state.runs.len()).find(|t| over.is_some() && state.tx_id(plan, *t) == over);
    if let Some(left) = left.filter(|_| early || answered) {
        state.runs[left].delisted |= 1 << doc;
    }
}

/// Step 2: the refused write is taken back, and the user tries again.
fn take_back(plan: &Plan, state: &mut State, t: usize, i: usize) {
    if let Some(tx) = state.tx_id(plan, t) {
        state.server.now.docs[plan.txs[t].writes[i].0].take_back(tx);
    }
    state.runs[t].step = Step::Writing(i);
}

/// Notes that write `i` is done.
pub fn written(plan: &Plan, state: &mut State, t: usize, i: usize) {
    if plan.txs[t].by_key {
        state.runs[t].known |= 1 << i;
    }
    let last = i + 1 == plan.txs[t].writes.len();
    if last && plan.txs[t].refused && !state.runs[t].refused {
        state.runs[t].refused = true;
        state.runs[t].step = Step::TakingBack(i);
        return;
    }
    match expiry::is_due(plan, t, i + 1) {
        true => state.runs[t].step = Step::Outliving(0),
        false => go_on(plan, state, t, i + 1),
    }
}

/// After so many writes: the next one, or the request to commit.
pub fn go_on(plan: &Plan, state: &mut State, t: usize, done: usize) {
    if done < plan.txs[t].writes.len() {
        state.runs[t].step = Step::Writing(done);
        return;
    }
    let since = since(state, t);
    let run = &mut state.runs[t];
    let recorder = &mut state.clients[plan.txs[t].client].recorder;
    if run.seq.is_some_and(|seq| recorder.request_commit(seq, Concern::Journaled, since)) {
        run.step = Step::Waiting;
    } else {
        answer(state, t, Told::RolledBack);
    }
}

fn meet(plan: &Plan, state: &mut State, t: usize, i: usize, meeting: Meeting) {
    match meeting::proceed(plan, state, meeting) {
        Next::To(meeting) => state.runs[t].step = Step::Meeting(i, meeting),
        Next::Clear => state.runs[t].step = Step::Writing(i),
        Next::Conflict => abort(plan, state, t),
    }
}

/// The owner rolls back: a conflict, a duplicate, or a lock write whose fate is unknown.
pub fn abort(plan: &Plan, state: &mut State, t: usize) {
    if let Some(seq) = state.runs[t].seq {
        state.clients[plan.txs[t].client].recorder.note_rolled_back(seq);
    }
    answer(state, t, Told::RolledBack);
}

/// Tells the user and goes on to finish or to undo.
pub fn answer(state: &mut State, t: usize, told: Told) {
    let run = &mut state.runs[t];
    run.told = Some(told);
    run.step = match told {
        Told::Committed => Step::Finishing(0),
        Told::RolledBack => Step::Undoing(0),
        Told::Indeterminate => Step::Over,
    };
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

/// The finish of document `i` is given up by its sender: it is on its way, and will be sent again.
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

/// Undoes a document. Where the held documents are not known, they are searched for by the
/// transaction's number: here, among all documents that the write could have found.
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
