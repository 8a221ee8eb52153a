//! A reader at read committed: reads by id and queries, one after the other, and the transactions
//! that each must show.
//!
//! A read by id: 1. the document is fetched; 2. if it is locked, the holder's record is read; 3. if
//! the holder is finished or has no record, the document is fetched again, and a lock that is still
//! there is an orphan. A query: 1. the unsafe phase looks at pending documents; 2. their writers'
//! records are read; 3. the safe phase looks at the other documents; 4. a match that is locked is
//! judged like a read by id.
//!
//! A query in one command: 1. the unsafe phase, which leaves a mark for a pending document; 2. the
//! safe phase; 3. if there is a mark, the record of the writer is read, and unless the writer is
//! active, the query begins again with the phases above.
//!
//! A query is followed for one document, because at read committed its duty for each document does
//! not depend on the others. The queries are of documents that no transaction of the plan removes.
//! The reader leaves out reads inside a transaction (own writes, repeatable read) and serializable.

use protocol::{TxId, TxStatus};

use crate::{
    meeting::{ask, ask_durably},
    mutation::Mutation,
    plan::{Plan, Read},
    server::{Doc, Marks, times},
    state::{Flaw, ReadStep, Reported, State},
};

/// Returns true if the reader has a step to take.
pub fn has_step(plan: &Plan, state: &State) -> bool {
    state.reader.next < plan.reads.len()
}

/// The next step of the reader.
pub fn advance(plan: &Plan, state: &mut State) {
    if plan.has(Mutation::StatusBeforeDocument) && state.reader.stale.is_none() {
        state.reader.stale = Some(state.server.now.clone());
        return;
    }
    if state.reader.step == ReadStep::Start {
        state.reader.must = acknowledged(state) | state.reader.seen;
    }
    match plan.reads[state.reader.next] {
        Read::ById(doc) => by_id(plan, state, doc),
        Read::Together { doc, holds } if !state.reader.long_way => together(plan, state, doc, holds),
        Read::Query { doc, holds } | Read::Together { doc, holds } => query(plan, state, doc, holds),
    }
}

/// One bit for each transaction whose commit was acknowledged.
pub fn acknowledged(state: &State) -> u8 {
    let is_reported = |t: &usize| state.runs[*t].reported == Some(Reported::Committed);
    (0..state.runs.len()).filter(is_reported).fold(0, |bits, t| bits | 1 << t)
}

fn by_id(plan: &Plan, state: &mut State, doc: usize) {
    let now = state.server.now.docs[doc].clone();
    match std::mem::take(&mut state.reader.step) {
        ReadStep::Again(writer) if now.lock.writer == Some(writer) => finish(plan, state, doc, now.safe),
        ReadStep::Fetched(fetched) => match judge(plan, state, &fetched) {
            Ok((_, marks)) => finish(plan, state, doc, marks),
            Err(writer) => state.reader.step = ReadStep::Again(writer),
        },
        _ if now.lock.writer.is_none() => finish(plan, state, doc, now.safe),
        _ => state.reader.step = ReadStep::Fetched(now),
    }
}

/// The visible version of a fetched document, or the holder if the document must be fetched again.
fn judge(plan: &Plan, state: &mut State, doc: &Doc) -> Result<(bool, Marks), TxId> {
    let Some(writer) = doc.lock.writer else {
        return Ok((doc.stored, doc.safe));
    };
    let missing = state.server.now.record(writer.client).is_none();
    let status = match &state.reader.stale {
        Some(stale) => ask(plan, stale, writer),
        None if missing && plan.has(Mutation::ReaderTrustsMissingRecord) => TxStatus::RolledBack,
        None if ask(plan, &state.server.now, writer) == TxStatus::Finished => {
            ask_durably(plan, &mut state.server, writer)
        }
        None => ask(plan, &state.server.now, writer),
    };
    doc.seen(|_| status).ok_or(writer)
}

/// The end of a read by id, with the marks that it returns (those of what removed it, if it is
/// absent).
fn finish(plan: &Plan, state: &mut State, doc: usize, marks: Marks) {
    for t in writers_of(plan, state, doc) {
        let (has, must) = (times(marks, t) > 0, state.reader.must >> t & 1 == 1);
        if must && !has {
            state.reader.flaw = Some(Flaw::Stale);
        }
        note_seen(plan, state, t, has);
    }
    end(state);
}

fn end(state: &mut State) {
    state.reader.next += 1;
    state.reader.step = ReadStep::Start;
    state.reader.long_way = false;
    state.reader.must = 0;
}

fn note_seen(plan: &Plan, state: &mut State, t: usize, has: bool) {
    if has && !state.is_committed(plan, t) {
        state.reader.flaw = Some(Flaw::Dirty);
    }
    state.reader.seen |= u8::from(has) << t;
}

/// Transactions whose write of this document took effect and was not deleted with the document from
/// outside.
pub fn writers_of(plan: &Plan, state: &State, doc: usize) -> Vec<usize> {
    let lost = state.server.now.docs[doc].lost;
    let took_place = |t: usize, i: usize| state.runs[t].missed >> i & 1 == 0 && lost >> t & 1 == 0;
    let wrote = |t: usize, (i, write): (usize, &(usize, _))| write.0 == doc && took_place(t, i);
    (0..plan.txs.len()).filter(|t| plan.txs[*t].writes.iter().enumerate().any(|write| wrote(*t, write))).collect()
}

fn query(plan: &Plan, state: &mut State, doc: usize, holds: usize) {
    let safe_first = plan.has(Mutation::QuerySafeFirst);
    let now = state.server.now.docs[doc].clone();
    match std::mem::take(&mut state.reader.step) {
        ReadStep::Start if !safe_first => unsafe_phase(plan, state, doc, now, holds, false),
        ReadStep::Start => safe_phase(plan, state, doc, now, holds, false),
        ReadStep::Second(hit) if safe_first => unsafe_phase(plan, state, doc, now, holds, hit),
        ReadStep::Second(hit) => safe_phase(plan, state, doc, now, holds, hit),
        ReadStep::Pending(pending, hit) => {
            let found = judge(plan, state, &pending).is_ok_and(|(is_stored, marks)| matches(is_stored, marks, holds));
            after_unsafe(plan, state, doc, holds, hit || found);
        }
        ReadStep::Fetched(fetched) => match judge(plan, state, &fetched) {
            Ok((is_stored, marks)) => after_safe(plan, state, doc, holds, matches(is_stored, marks, holds)),
            Err(writer) => state.reader.step = ReadStep::Again(writer),
        },
        ReadStep::Again(writer) if now.lock.writer.is_none_or(|other| other == writer) => {
            after_safe(plan, state, doc, holds, matches(now.stored, now.safe, holds));
        }
        // These steps belong to a query in one command.
        ReadStep::Probed(_) | ReadStep::Answered(..) => state.reader.step = ReadStep::Start,
        ReadStep::Again(_) => state.reader.step = ReadStep::Fetched(now),
    }
}

/// The next step of a query in one command, whose safe phase reads safe versions whether they are
/// locked or not.
fn together(plan: &Plan, state: &mut State, doc: usize, holds: usize) {
    let now = state.server.now.docs[doc].clone();
    match std::mem::take(&mut state.reader.step) {
        ReadStep::Probed(mark) => {
            let hit = matches(now.stored, now.safe, holds);
            match mark.filter(|_| !plan.has(Mutation::MarkIgnored)) {
                Some(writer) => state.reader.step = ReadStep::Answered(writer, hit),
                None => finish_query(plan, state, doc, holds, hit),
            }
        }
        ReadStep::Answered(writer, hit) => match ask(plan, &state.server.now, writer) {
            TxStatus::Active => finish_query(plan, state, doc, holds, hit),
            _ => state.reader.long_way = true,
        },
        _ => {
            let changed = now.pending.is_some_and(|marks| times(marks, holds) > 0);
            let concerned = changed || matches(now.stored, now.safe, holds);
            state.reader.step = ReadStep::Probed(now.lock.writer.filter(|_| concerned));
        }
    }
}

fn matches(is_stored: bool, marks: Marks, holds: usize) -> bool {
    is_stored && times(marks, holds) > 0
}

fn unsafe_phase(plan: &Plan, state: &mut State, doc: usize, now: Doc, holds: usize, hit: bool) {
    if !now.lock.remove && now.pending.is_some_and(|marks| times(marks, holds) > 0) {
        state.reader.step = ReadStep::Pending(now, hit);
    } else {
        after_unsafe(plan, state, doc, holds, hit);
    }
}

fn after_unsafe(plan: &Plan, state: &mut State, doc: usize, holds: usize, hit: bool) {
    if plan.has(Mutation::QuerySafeFirst) || hit {
        finish_query(plan, state, doc, holds, hit);
    } else {
        state.reader.step = ReadStep::Second(hit);
    }
}

fn safe_phase(plan: &Plan, state: &mut State, doc: usize, now: Doc, holds: usize, hit: bool) {
    if !matches(now.stored, now.safe, holds) {
        after_safe(plan, state, doc, holds, hit);
    } else if now.lock.writer.is_none() {
        after_safe(plan, state, doc, holds, true);
    } else {
        state.reader.step = ReadStep::Fetched(now);
    }
}

fn after_safe(plan: &Plan, state: &mut State, doc: usize, holds: usize, hit: bool) {
    if plan.has(Mutation::QuerySafeFirst) && !hit {
        state.reader.step = ReadStep::Second(hit);
    } else {
        finish_query(plan, state, doc, holds, hit);
    }
}

fn finish_query(plan: &Plan, state: &mut State, doc: usize, holds: usize, hit: bool) {
    let must = state.reader.must >> holds & 1 == 1 && writers_of(plan, state, doc).contains(&holds);
    if must && !hit {
        state.reader.flaw = Some(Flaw::Stale);
    }
    note_seen(plan, state, holds, hit);
    end(state);
}
