//! Documents that expire (decision 0018): the server's TTL monitor, and what a transaction does
//! about it before it is decided.
//!
//! The monitor: 1. it finds a document whose date is over, by an index that holds unlocked ones
//! only; 2. it looks at the document again, at the date of its safe version alone, and removes it,
//! locked or not.
//!
//! A transaction outlives it, when the last of its locks is acknowledged: 1. the safe version of
//! each document that it holds, and has not removed, is taken away if its date is over; 2. each is
//! looked at: what is not held any more has been removed, and the transaction is rolled back; 3. it
//! requests its commit.
//!
//! Every document that is there at the start has a date, which may be over from any moment on by
//! the server's clock. What a transaction writes has none: it prolongs for ever. Left out: a date
//! that cannot be taken away because it is part of the shard key, and documents that are only
//! read-locked, which may go.

use crate::{
    action::Action,
    course,
    mutation::Mutation,
    plan::{Op, Plan},
    server::{Message, Server},
    state::{State, Step},
};

/// Step 1, about the document of write `i`.
pub fn outlive(plan: &Plan, state: &mut State, t: usize, i: usize) {
    if let Some(tx) = state.tx_id(plan, t)
        && !plan.has(Mutation::ExpiredLeftInPlace)
    {
        state.server.outlive(tx, plan.txs[t].writes[i].0);
    }
    state.runs[t].step =
        if i + 1 < course::writes_before(plan, t) { Step::Outliving(i + 1) } else { Step::Counting(0) };
}

/// Step 1 is given up by its sender, which ends the transaction; it is on its way all the same.
pub fn outlive_late(plan: &Plan, state: &mut State, t: usize, i: usize) {
    if let Some(tx) = state.tx_id(plan, t) {
        state.server.late.push(Message::Outlive { tx, doc: plan.txs[t].writes[i].0 });
    }
    course::abort(plan, state, t);
}

/// Step 2, about the document of write `i`, and step 3.
pub fn count(plan: &Plan, state: &mut State, t: usize, i: usize) {
    let (doc, op) = plan.txs[t].writes[i];
    let missed = state.runs[t].missed >> i & 1 == 1;
    let held = state.server.now.docs[doc].lock.writer == state.tx_id(plan, t);
    if !held && !missed && op != Op::Remove && !plan.has(Mutation::GoneUncounted) {
        return course::abort(plan, state, t);
    }
    match i + 1 < course::writes_before(plan, t) {
        true => state.runs[t].step = Step::Counting(i + 1),
        false => course::go_on(plan, state, t, i + 1),
    }
}

/// The possible steps of the clock and of the TTL monitor.
pub fn possible(plan: &Plan, server: &Server, actions: &mut Vec<Action>) {
    let docs = (0..server.now.docs.len()).filter(|_| plan.expires);
    for doc in docs {
        let (over, found) = (server.over >> doc & 1 == 1, server.found >> doc & 1 == 1);
        let listed = server.now.docs[doc].lock.writer.is_none() || plan.has(Mutation::ExpiryFindsLocked);
        actions.extend((!over).then_some(Action::DateOver(doc)));
        actions.extend((!found && listed && server.is_expired(doc)).then_some(Action::MonitorFinds(doc)));
        actions.extend(found.then_some(Action::MonitorRemoves(doc)));
    }
}

/// Step 2 of the TTL monitor: it removes a document that has still expired.
pub fn remove(server: &mut Server, doc: usize) {
    server.found &= !(1 << doc);
    if server.is_expired(doc) {
        server.now.docs[doc].expire();
    }
}
