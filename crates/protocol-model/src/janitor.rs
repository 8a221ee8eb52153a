//! The janitor: repairs the leftovers of dead clients, fenced clients and late messages, and
//! removes fenced records.
//!
//! A sweep of a fenced record takes four steps:
//!
//! 1. A barrier, whose connection epoch is noted. It reads the record with its list of collections,
//!    which cannot grow any more.
//! 2. A pass over the documents in these collections, one after the other.
//! 3. A second barrier.
//! 4. If both epochs are equal, the record is removed; otherwise the sweep begins again.
//!
//! The janitor stands for any client that does this work (a writer, a periodic sweep). It looks at
//! a document only when there is work to do, so that all work is done in a state without possible
//! steps. A closed record is removed at once; the 30 minutes for which it is kept are left out.

use protocol::{TxId, TxStatus};

use crate::{
    meeting::{self, Next, ask},
    mutation::Mutation,
    plan::Plan,
    server::client_index,
    state::{Meeting, State, Step, Sweep, Task},
};

/// Returns true if the document has a lock that neither its owner nor a sweep will remove.
pub fn may_look(plan: &Plan, state: &State, doc: usize) -> bool {
    let writer = state.server.now.docs[doc].lock.writer;
    state.janitor.is_none() && writer.is_some_and(|tx| is_left(plan, state, tx))
}

fn is_left(plan: &Plan, state: &State, tx: TxId) -> bool {
    let client = client_index(tx.client);
    let over = state.run_of(plan, client, tx.seq).is_some_and(|t| state.runs[t].step == Step::Over);
    let record = state.server.now.record(tx.client);
    record.is_none_or(|record| !record.fenced && over && ask(plan, &state.server.now, tx) != TxStatus::Active)
}

/// Fetches a document, and begins to repair it if it is locked.
pub fn look(state: &mut State, doc: usize) {
    state.janitor = meeting::fetch(&state.server.now, doc).map(Task::Meeting);
}

/// Returns true if the client's record has to be fenced because its lease is not renewed any more.
pub fn may_fence(state: &State, client: usize) -> bool {
    state.is_leaseless(client) && is_unfenced(state, client)
}

/// Returns true if the client has a record that is not fenced.
pub fn is_unfenced(state: &State, client: usize) -> bool {
    state.server.now.records[client].as_ref().is_some_and(|stored| !stored.record.fenced)
}

/// Returns true if the client has a fenced record that can be swept.
pub fn may_scan(plan: &Plan, state: &State, client: usize) -> bool {
    let record = state.server.now.records[client].as_ref();
    let expired = plan.has(Mutation::SweepListBeforeFence) && may_expire(state, client);
    state.janitor.is_none() && record.is_some_and(|stored| stored.record.fenced || expired)
}

fn may_expire(state: &State, client: usize) -> bool {
    state.is_leaseless(client) || state.faults.expiries > 0
}

/// Begins a sweep of a fenced record. The first barrier checks that the record is fenced durably.
pub fn scan(plan: &Plan, state: &mut State, client: usize) {
    let mut sweep = Sweep { client, epoch: None, names: names(state, client), doc: 0, meeting: None };
    if plan.has(Mutation::RecordRemovedEarly) {
        sweep.doc = state.server.now.docs.len();
    }
    if !plan.has(Mutation::SweepTrustsEarlierFence) && !plan.has(Mutation::SweepListBeforeFence) {
        sweep.epoch = Some(barrier(plan, state));
    }
    state.janitor = Some(Task::Sweep(sweep));
}

/// The collections that the record lists.
fn names(state: &State, client: usize) -> u8 {
    state.server.now.records[client].as_ref().map_or(0, |stored| stored.names)
}

/// Carries out a journaled write, after which all earlier writes are durable. Returns the
/// connection epoch.
fn barrier(plan: &Plan, state: &mut State) -> u64 {
    if !plan.has(Mutation::SweepTrustsVolatileRepairs) {
        state.server.flush();
    }
    state.server.boot
}

/// The next step of the janitor's task. A holder that is active and may not be fenced is left
/// alone.
pub fn advance(plan: &Plan, state: &mut State) {
    state.janitor = match state.janitor.take() {
        Some(Task::Meeting(meeting)) => proceed(plan, state, meeting).map(Task::Meeting),
        Some(Task::Sweep(sweep)) => go_on(plan, state, sweep).map(Task::Sweep),
        None => None,
    };
}

fn proceed(plan: &Plan, state: &mut State, meeting: Meeting) -> Option<Meeting> {
    match meeting::proceed(plan, state, meeting) {
        Next::To(meeting) => Some(meeting),
        Next::Clear | Next::Conflict => None,
    }
}

fn go_on(plan: &Plan, state: &mut State, mut sweep: Sweep) -> Option<Sweep> {
    let Some(epoch) = sweep.epoch else {
        if plan.has(Mutation::SweepListBeforeFence) && is_unfenced(state, sweep.client) {
            if !may_expire(state, sweep.client) {
                return None;
            }
            meeting::expire(state, sweep.client);
        }
        return Some(Sweep { epoch: Some(barrier(plan, state)), ..sweep });
    };
    if sweep.doc == state.server.now.docs.len() {
        end(plan, state, sweep.client, epoch);
        return None;
    }
    sweep.meeting = match sweep.meeting.take() {
        Some(meeting) => proceed(plan, state, meeting),
        None => {
            let lock = &state.server.now.docs[sweep.doc].lock;
            let left = lock.writer.is_some_and(|tx| client_index(tx.client) == sweep.client);
            let listed = sweep.names >> sweep.doc & 1 == 1;
            (left && listed).then(|| meeting::fetch(&state.server.now, sweep.doc)).flatten()
        }
    };
    sweep.doc += usize::from(sweep.meeting.is_none());
    Some(sweep)
}

/// The second barrier. If its epoch equals the first one's, no write was lost in between, and
/// documents that the pass found clean stay clean.
fn end(plan: &Plan, state: &mut State, client: usize, epoch: u64) {
    let unchecked = plan.has(Mutation::SweepIgnoresEpoch) || plan.has(Mutation::SweepTrustsVolatileRepairs);
    if barrier(plan, state) == epoch || unchecked {
        state.remove_record(plan, client);
    }
}
