//! The janitor: repairs what dead clients, fenced clients and late messages left, and removes fenced records.
//!
//! It stands for whoever does this work (any writer, a periodic sweep). It looks at a document only when there is
//! something to do, so that a state in which nobody has a step is one in which everything is done.

use protocol::{TxId, TxStatus};

use crate::{
    meeting::{self, Next, ask},
    mutation::Mutation,
    plan::Plan,
    server::client_index,
    state::{State, Step, Task},
};

/// Is there a lock on this document that its owner will not remove?
pub fn may_look(plan: &Plan, state: &State, doc: usize) -> bool {
    let writer = state.server.now.docs[doc].lock.writer;
    state.janitor.is_none() && writer.is_some_and(|tx| is_left(plan, state, tx))
}

fn is_left(plan: &Plan, state: &State, tx: TxId) -> bool {
    let client = client_index(tx.client);
    let over = state.run_of(plan, client, tx.seq).is_some_and(|t| state.runs[t].step == Step::Over);
    let record = state.server.now.record(tx.client);
    state.is_leaseless(client)
        || record.is_none_or(|record| record.fenced)
        || (over && ask(plan, &state.server.now, tx) != TxStatus::Active)
}

/// Fetches a document.
pub fn look(state: &mut State, doc: usize) {
    state.janitor = meeting::fetch(&state.server.now, doc).map(Task::Meeting);
}

/// Is this a client whose record has to be fenced because nobody renews its lease?
pub fn may_fence(state: &State, client: usize) -> bool {
    state.is_leaseless(client) && is_unfenced(state, client)
}

/// Is there a record, and not fenced?
pub fn is_unfenced(state: &State, client: usize) -> bool {
    state.server.now.records[client].as_ref().is_some_and(|stored| !stored.record.fenced)
}

/// Is there a fenced record that no document refers to?
pub fn may_scan(plan: &Plan, state: &State, client: usize) -> bool {
    let clean = !state.server.now.carries(client) || plan.has(Mutation::RecordRemovedEarly);
    let record = state.server.now.records[client].as_ref();
    state.janitor.is_none() && clean && record.is_some_and(|stored| stored.record.fenced)
}

/// Finds that no document refers to a fenced record: durably so, or a restart could bring a lock back after the
/// record is gone.
pub fn scan(plan: &Plan, state: &mut State, client: usize) {
    if !plan.has(Mutation::SweepTrustsVolatileRepairs) {
        state.server.flush();
    }
    state.janitor = Some(Task::Sweep(client));
}

/// The next step of what it is at. A holder that is active and may not be fenced is left alone.
pub fn advance(plan: &Plan, state: &mut State) {
    match state.janitor.take() {
        Some(Task::Meeting(meeting)) => {
            state.janitor = match meeting::proceed(plan, state, meeting) {
                Next::To(meeting) => Some(Task::Meeting(meeting)),
                Next::Clear | Next::Conflict => None,
            };
        }
        Some(Task::Sweep(client)) => remove(plan, state, client),
        None => {}
    }
}

/// Removes a record if it is still fenced: a restart may have undone the fence.
fn remove(plan: &Plan, state: &mut State, client: usize) {
    if is_unfenced(state, client) {
        return;
    }
    let mine = (0..state.runs.len()).filter(|t| plan.txs[*t].client == client);
    let committed: Vec<TxId> =
        mine.filter(|t| state.is_committed(plan, *t)).filter_map(|t| state.tx_id(plan, t)).collect();
    state.server.now.archive.extend(committed);
    state.server.now.records[client] = None;
}
