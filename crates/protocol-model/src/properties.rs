//! Properties that must hold, named as in section 2 of the protocol's description.
//!
//! Most properties are invariants of single states. The effective version of a document is the one
//! that a reader would find that began now; a transaction's outcome is its status in its record
//! now. In every state, a committed transaction's mark must be in the effective version of every
//! document that it wrote; therefore no later read can miss it, and no update is lost.

use crate::{
    plan::Op,
    reader::writers_of,
    server::{Marks, times},
    state::{Flaw, Reported, State, Step},
    steps::ProtocolModel,
};

/// P1, P3: a committed write is in the effective version of its document.
pub fn committed_is_visible(model: &ProtocolModel, state: &State) -> bool {
    every_write(model, state, |committed, times| !committed || times > 0)
}

/// P1, P2: an uncommitted write is in no effective version.
pub fn uncommitted_is_invisible(model: &ProtocolModel, state: &State) -> bool {
    every_write(model, state, |committed, times| committed || times == 0)
}

/// No write takes effect twice.
pub fn applied_once(model: &ProtocolModel, state: &State) -> bool {
    every_write(model, state, |_, times| times <= 1)
}

fn every_write(model: &ProtocolModel, state: &State, holds: impl Fn(bool, u16) -> bool) -> bool {
    (0..state.server.now.docs.len()).all(|doc| {
        let (_, marks) = effective(model, state, doc);
        let writers = writers_of(&model.plan, state, doc);
        let is_left_out = |t: usize| {
            let place = model.plan.txs[t].writes.iter().position(|(written, _)| *written == doc);
            place.is_some_and(|place| state.runs[t].left_out >> place & 1 == 1)
        };
        let is_committed = |t: usize| state.is_committed(&model.plan, t) && !is_left_out(t);
        writers.into_iter().all(|t| holds(is_committed(t), times(marks, t)))
    })
}

fn effective(model: &ProtocolModel, state: &State, doc: usize) -> (bool, Marks) {
    let doc = &state.server.now.docs[doc];
    let orphan = (doc.stored, doc.safe);
    doc.seen(|tx| crate::meeting::ask(&model.plan, &state.server.now, tx)).unwrap_or(orphan)
}

/// P1: a document is there if the last committed write left it there; without one it may have
/// expired.
pub fn presence_agrees(model: &ProtocolModel, state: &State) -> bool {
    (0..state.server.now.docs.len()).all(|doc| {
        let (there, marks) = effective(model, state, doc);
        let done = |op| {
            let mut writes =
                model.plan.txs.iter().enumerate().flat_map(|(t, tx)| tx.writes.iter().map(move |w| (t, w)));
            writes.any(|(t, write)| *write == (doc, op) && times(marks, t) > 0)
        };
        let stored = &state.server.now.docs[doc];
        let was_there = model.plan.docs[doc] && !stored.deleted && (!stored.expired || done(Op::Update));
        there == ((was_there || done(Op::Insert)) && !done(Op::Remove))
    })
}

/// P3: no read missed a write that was acknowledged, or seen by an earlier read, before it began.
pub fn reads_are_latest(_: &ProtocolModel, state: &State) -> bool {
    state.reader.flaw != Some(Flaw::Stale)
}

/// P2: no read returned an uncommitted write.
pub fn reads_are_clean(_: &ProtocolModel, state: &State) -> bool {
    state.reader.flaw != Some(Flaw::Dirty)
}

/// P9: an outcome that was reported to the user is and stays the one that every client finds.
pub fn answers_are_true(model: &ProtocolModel, state: &State) -> bool {
    (0..state.runs.len()).all(|t| match state.runs[t].reported {
        Some(Reported::Committed) => state.is_committed(&model.plan, t),
        Some(Reported::RolledBack) => !state.is_committed(&model.plan, t),
        Some(Reported::Indeterminate) | None => true,
    })
}

/// P7, P10: when no process has a step left, even if messages may still arrive, every document is
/// clean, live records list no transaction, other records are gone, and every user has an answer.
pub fn quiescent_is_clean(model: &ProtocolModel, state: &State) -> bool {
    model.has_progress(state) || (documents_are_clean(state) && records_are_empty(state) && all_are_over(state))
}

/// P7: a living owner that has undone a transaction has left none of the locks that it could have
/// found. Until a restart, only locks that arrived later are there.
pub fn undone_is_free(model: &ProtocolModel, state: &State) -> bool {
    (0..state.runs.len()).all(|t| {
        let run = &state.runs[t];
        let undone = run.step == Step::Over && run.reported == Some(Reported::RolledBack) && state.server.boot == 0;
        let writes = model.plan.txs[t].writes.iter().enumerate().filter(|(i, _)| run.orphaned >> i & 1 == 0);
        let holds =
            |doc: usize| run.seq.is_some() && state.server.now.docs[doc].lock.writer == state.tx_id(&model.plan, t);
        !undone || !model.plan.txs[t].by_key || writes.map(|(_, (doc, _))| *doc).all(|doc| !holds(doc))
    })
}

fn documents_are_clean(state: &State) -> bool {
    state.server.now.docs.iter().all(|doc| doc.lock == Default::default() && doc.pending.is_none())
}

fn records_are_empty(state: &State) -> bool {
    let empty = |record: &protocol::ClientRecord| {
        record.committed.is_empty() && record.rolled_back.is_empty() && record.killed.is_empty() && !record.fenced
    };
    let records = state.server.now.records.iter().zip(&state.clients);
    let mut stored = records.filter_map(|(stored, client)| stored.as_ref().map(|stored| (stored, client)));
    stored.all(|(stored, client)| client.alive && empty(&stored.record))
}

fn all_are_over(state: &State) -> bool {
    state
        .runs
        .iter()
        .all(|run| run.step == Step::Dead || (run.step == Step::Over && (run.reported.is_some() || run.seq.is_none())))
}

/// Not vacuous: every transaction can commit.
pub fn all_commit(model: &ProtocolModel, state: &State) -> bool {
    (0..state.runs.len()).all(|t| state.is_committed(&model.plan, t))
}

/// Not vacuous: a rival repairs something.
pub fn a_document_is_repaired(_: &ProtocolModel, state: &State) -> bool {
    state.repaired
}

/// Not vacuous: a transaction commits a write to an expired document.
pub fn an_expired_document_is_written(model: &ProtocolModel, state: &State) -> bool {
    (0..state.server.now.docs.len()).any(|doc| state.server.now.docs[doc].expired && effective(model, state, doc).0)
}
