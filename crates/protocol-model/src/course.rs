//! Course of a transaction from its first lock write to the answer: its beginning, the transaction
//! from which it takes a document over, the step after a write, and the end.

use protocol::{Concern, TxId, recorder::Since};

use crate::{
    mutation::Mutation,
    plan::Plan,
    state::{Reported, State, Step},
};

/// Takes a number and reads the connection epoch before the first lock write. Returns false if the
/// record is lost.
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
pub fn epoch(plan: &Plan, state: &State, t: usize) -> u64 {
    let unchecked = plan.has(Mutation::NoEvidence) || plan.has(Mutation::EpochIgnored);
    if unchecked { 0 } else { state.clients[plan.txs[t].client].epoch }
}

/// Returns true if the connection has been answered, as far as the transaction's client knows.
pub fn answered(plan: &Plan, state: &State, t: usize) -> bool {
    let has_answer = state.clients[plan.txs[t].client].process.is_some();
    has_answer || plan.has(Mutation::OpenConnectionTaken)
}

/// The connection before the first lock write, or the first finish.
pub fn since(state: &State, t: usize) -> Since {
    Since { epoch: state.runs[t].epoch, answered: state.runs[t].answered }
}

/// Transaction from which a lock write of `t` takes the document over: one of the same client whose
/// commit was reported to the client (decision 0012), and whose lock is on the document.
pub fn predecessor(plan: &Plan, state: &State, t: usize, doc: usize) -> Option<TxId> {
    let (me, writer) = (&plan.txs[t], state.server.now.docs[doc].lock.writer);
    let is_known = |other: usize| {
        let run = &state.runs[other];
        let undecided = plan.has(Mutation::TakenOverUndecided) && run.step == Step::Waiting;
        plan.txs[other].client == me.client && (run.reported == Some(Reported::Committed) || undecided)
    };
    let known = (0..plan.txs.len()).filter(|other| me.takes_over && *other != t && is_known(*other));
    known.filter_map(|other| state.tx_id(plan, other)).find(|other| writer == Some(*other))
}

/// Outcome of the answer to a lock write that takes a document over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The answer has arrived, and its sender acts on it.
    Came,
    /// The command was sent, with an unknown result.
    Lost,
}

/// Only with a mutation: takes the document that `over` leaves off the list of documents to be
/// finished.
pub fn delist(plan: &Plan, state: &mut State, over: Option<TxId>, doc: usize, answer: Answer) {
    let early = plan.has(Mutation::DelistedEarly);
    let answered = plan.has(Mutation::DelistedAtTakeOver) && answer == Answer::Came;
    let left = (0..state.runs.len()).find(|t| over.is_some() && state.tx_id(plan, *t) == over);
    if let Some(left) = left.filter(|_| early || answered) {
        state.runs[left].delisted |= 1 << doc;
    }
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
    match is_due(plan, t, i + 1) {
        true => state.runs[t].step = Step::Outliving(0),
        false => go_on(plan, state, t, i + 1),
    }
}

/// Goes on after `done` writes: with the next write, or with the request to commit.
pub fn go_on(plan: &Plan, state: &mut State, t: usize, done: usize) {
    if done < plan.txs[t].writes.len() && state.runs[t].left_out >> done & 1 == 0 {
        state.runs[t].step = Step::Writing(done);
        return;
    }
    let since = since(state, t);
    let run = &mut state.runs[t];
    let recorder = &mut state.clients[plan.txs[t].client].recorder;
    if run.seq.is_some_and(|seq| recorder.request_commit(seq, Concern::Journaled, since)) {
        run.step = Step::Waiting;
    } else {
        answer(state, t, Reported::RolledBack);
    }
}

/// Returns true if the last look at documents that may expire comes after `done` writes.
fn is_due(plan: &Plan, t: usize, done: usize) -> bool {
    plan.expires && !plan.has(Mutation::NotOutlived) && done == writes_before(plan, t)
}

/// Number of writes before the last look.
pub fn writes_before(plan: &Plan, t: usize) -> usize {
    plan.txs[t].writes.len() - usize::from(plan.has(Mutation::OutlivedTooEarly))
}

/// The owner rolls back: a conflict, a duplicate, or a lock write whose outcome is unknown.
pub fn abort(plan: &Plan, state: &mut State, t: usize) {
    if let Some(seq) = state.runs[t].seq {
        state.clients[plan.txs[t].client].recorder.note_rolled_back(seq);
    }
    answer(state, t, Reported::RolledBack);
}

/// Reports the outcome to the user, and goes on to finish or undo the documents.
pub fn answer(state: &mut State, t: usize, reported: Reported) {
    let run = &mut state.runs[t];
    run.reported = Some(reported);
    run.step = match reported {
        Reported::Committed => Step::Finishing(0),
        Reported::RolledBack => Step::Undoing(0),
        Reported::Indeterminate => Step::Over,
    };
}
