//! Documents that expire (decision 0018): the server's TTL monitor, and a transaction's measures
//! against it before it is decided.
//!
//! The monitor takes two steps: 1. it finds a document whose date is over in an index of unlocked
//! documents; 2. it checks the date of the document's safe version again and removes the document,
//! locked or not.
//!
//! After its last lock is acknowledged, a transaction outlives the monitor by three steps: 1. the
//! safe version of each document that it holds, and has not removed, is removed if its date is
//! over; 2. each document is checked, and the transaction is rolled back if it does not hold one
//! any more, because that one was removed; 3. it requests its commit.
//!
//! Every document that is there at the start has a date, which may be over from any moment on by
//! the server's clock. Documents that a transaction writes have no date, so they never expire. The
//! model leaves out a date that cannot be removed because it is part of the shard key, and
//! documents that are only read-locked, which may be removed.

use crate::{
    action::Action,
    course,
    mutation::Mutation,
    plan::{Op, Plan},
    server::{Message, Server},
    state::{State, Step},
};

/// Step 1 for the document of write `i`.
pub fn outlive(plan: &Plan, state: &mut State, t: usize, i: usize) {
    if let Some(tx) = state.tx_id(plan, t)
        && !plan.has(Mutation::ExpiredLeftInPlace)
    {
        state.server.outlive(tx, plan.txs[t].writes[i].0);
    }
    state.runs[t].step =
        if i + 1 < course::writes_before(plan, t) { Step::Outliving(i + 1) } else { Step::Counting(0) };
}

/// Step 1 as a message that its sender gives up. That ends the transaction, but the message may
/// still arrive.
pub fn outlive_late(plan: &Plan, state: &mut State, t: usize, i: usize) {
    if let Some(tx) = state.tx_id(plan, t) {
        state.server.late.push(Message::Outlive { tx, doc: plan.txs[t].writes[i].0 });
    }
    course::abort(plan, state, t);
}

/// Step 2 for the document of write `i`, and step 3.
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

/// Step 2 of the TTL monitor: removes a document that is still expired.
pub fn remove(server: &mut Server, doc: usize) {
    server.found &= !(1 << doc);
    if server.is_expired(doc) {
        server.now.docs[doc].expire();
    }
}
