//! Meeting a lock of another transaction: the client reads the holder's status and then reports a
//! conflict, repairs the document, or fetches it again.
//!
//! 1. The document was fetched, with a lock.
//! 2. The holder's record is read. Unless the status is "active", or there is no record, the status
//!    is made durable before the client acts on it: a repair may reach a server that was restarted
//!    after the answer and has lost the status. "Active" means a conflict, unless the holder's
//!    lease is found expired and its record is fenced (`expire`, which in the model needs no
//!    meeting), or its number is aborted; then the status is read again.
//! 3. "Committed" or "rolled back" means a repair. It is conditional on the holder, and on whether
//!    the document waits to be inserted or removed, because its safe version may have been removed
//!    since (`expiry`) or may be back after a restart. "Finished" or no record means another fetch;
//!    a lock that is still there is an orphan and is undone.

use protocol::{
    LockState, Repair, TxId, TxStatus,
    lock::{Encounter, meet_writer, repair_committed, repair_rolled_back},
    status::{may_abort, status_of},
};

use crate::{
    mutation::Mutation,
    plan::Plan,
    server::{Data, Server, client_index},
    state::{Meeting, State},
};

/// Result of a step of a meeting.
pub enum Next {
    /// Go on with this step.
    To(Meeting),
    /// A conflict: the holder is active.
    Conflict,
    /// The lock is gone: go on.
    Clear,
}

/// Begins a meeting if the document is locked.
pub fn fetch(data: &Data, doc: usize) -> Option<Meeting> {
    let lock = &data.docs[doc].lock;
    lock.writer.map(|_| Meeting::Found { doc, lock: lock.clone() })
}

/// The status of a transaction in its client's record now.
pub fn ask(plan: &Plan, data: &Data, tx: TxId) -> TxStatus {
    let record = data.record(tx.client);
    match record {
        None if plan.has(Mutation::MissingRecordMeansCommitted) => TxStatus::Committed,
        record => status_of(record, tx.seq),
    }
}

/// The status as by [`ask`], made durable unless it is active. A missing record needs no
/// durability.
pub fn ask_durably(plan: &Plan, server: &mut Server, tx: TxId) -> TxStatus {
    let status = ask(plan, &server.now, tx);
    let volatile = plan.has(Mutation::RepairTrustsVolatileStatus);
    if status != TxStatus::Active && server.now.record(tx.client).is_some() && !volatile {
        server.flush();
    }
    status
}

/// The next step of a meeting.
pub fn proceed(plan: &Plan, state: &mut State, meeting: Meeting) -> Next {
    match meeting {
        Meeting::Found { doc, lock } => match lock.writer {
            Some(writer) => meet(plan, state, Meeting::Found { doc, lock: lock.clone() }, writer),
            None => Next::Clear,
        },
        Meeting::Again { doc, writer, .. } => fetch_again(plan, &state.server.now, doc, writer),
        Meeting::Repairing { doc, writer, repair } => {
            let stored = &mut state.server.now.docs[doc];
            if fits(repair, &stored.lock) || plan.has(Mutation::RepairTrustsEarlierLook) {
                stored.repair(writer, repair);
                state.repaired = true;
            }
            Next::Clear
        }
    }
}

/// Returns true if the document fits the repair apart from its holder: a repair demands that the
/// document waits, or does not wait, to be inserted or removed.
fn fits(repair: Repair, lock: &LockState) -> bool {
    match repair {
        Repair::ReplaceWithUnsafe => !lock.remove,
        Repair::Delete => lock.insert || lock.remove,
        Repair::DropUnsafe => !lock.insert,
    }
}

fn meet(plan: &Plan, state: &mut State, found: Meeting, writer: TxId) -> Next {
    let Meeting::Found { doc, lock } = found else {
        return Next::Clear;
    };
    let status = ask_durably(plan, &mut state.server, writer);
    match meet_writer(&lock, status) {
        Encounter::Active => Next::Conflict,
        Encounter::FetchAgain => Next::To(Meeting::Again { doc, writer, lock }),
        Encounter::Repair(repair) if plan.has(Mutation::RepairSwapped) => {
            let swapped =
                if repair == repair_committed(&lock) { repair_rolled_back(&lock) } else { repair_committed(&lock) };
            Next::To(Meeting::Repairing { doc, writer, repair: swapped })
        }
        Encounter::Repair(repair) => Next::To(Meeting::Repairing { doc, writer, repair }),
    }
}

fn fetch_again(plan: &Plan, data: &Data, doc: usize, writer: TxId) -> Next {
    let lock = &data.docs[doc].lock;
    match lock.writer {
        None => Next::Clear,
        Some(other) if other != writer => Next::To(Meeting::Found { doc, lock: lock.clone() }),
        Some(_) => {
            let forward = plan.has(Mutation::OrphanRolledForward);
            let repair: Repair = if forward { repair_committed(lock) } else { repair_rolled_back(lock) };
            Next::To(Meeting::Repairing { doc, writer, repair })
        }
    }
}

/// The active transaction that a meeting has found, if any.
pub fn active_holder(plan: &Plan, state: &State, meeting: &Meeting) -> Option<TxId> {
    let Meeting::Found { lock, .. } = meeting else {
        return None;
    };
    lock.writer.filter(|writer| ask(plan, &state.server.now, *writer) == TxStatus::Active)
}

/// Fences the record of a client whose lease is found expired.
pub fn expire(state: &mut State, client: usize) {
    if !state.is_leaseless(client) {
        state.faults.expiries -= 1;
    }
    state.server.now.fence(client);
}

/// Rolls back one number of an active holder.
pub fn abort(state: &mut State, holder: TxId) {
    if let Some(stored) = &mut state.server.now.records[client_index(holder.client)]
        && may_abort(&stored.record, holder.seq)
    {
        stored.record.killed.insert(holder.seq);
        state.faults.aborts -= 1;
    }
}
