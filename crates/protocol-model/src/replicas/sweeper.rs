//! A rival: it sweeps up after an owner whose lease has ended, or meets one locked document.
//!
//! 1. Fence the record. Only the next step shows that it is fenced for good.
//! 2. Barrier: read the record durably; it must be fenced.
//! 3. Look at each document, as the majority has it and not before the barrier (`readConcern:
//!    majority`, `afterClusterTime`).
//! 4. If the document is locked, read the record durably, and repair the document.
//! 5. Barrier again.
//! 6. Retire the record.
//!
//! A command that the majority does not acknowledge ends the task, which is begun again later. A
//! rival that meets one locked document takes step 4 alone.
//!
//! Step 3 reads the newest data of the majority. Older data that contain the barrier would do as
//! well: a document that they show as locked is repaired again, and no committed transaction can
//! lock a document after the fence.

use protocol::{
    TxStatus,
    lock::{Encounter, meet_writer, repair_rolled_back},
    status::status_of,
};

use super::{
    breakage::Breakage,
    members::Sent,
    owner::remove_record,
    plan::Plan,
    state::{DOCS, Pump, State, Task, Waiting},
};
use crate::server::Data;

fn is_leaseless(state: &State) -> bool {
    !state.owner.alive || state.owner.pump == Pump::Gone
}

/// Returns `Some` if a rival may begin a sweep by the data of primary `m`. `Some(true)`: only
/// because a living owner's lease may be found expired.
pub fn may_begin(state: &State, m: usize) -> Option<bool> {
    let stored = state.members.data(m).records[0].as_ref()?;
    match stored.record.fenced || is_leaseless(state) {
        true => Some(false),
        false => (state.faults.expiries > 0).then_some(true),
    }
}

/// Begins a sweep of the record.
pub fn begin(state: &mut State, m: usize) {
    let fenced = state.members.data(m).records[0].as_ref().is_some_and(|stored| stored.record.fenced);
    heard(state, m);
    state.sweeper.alone = false;
    state.sweeper.task = Some(if fenced { Task::Barrier(false) } else { Task::Fence });
}

/// Returns `Some` if this document is locked on primary `m`. `Some(true)`: its holder's record is
/// gone, so no sweep will repair it.
pub fn is_locked(state: &State, m: usize, doc: usize) -> Option<bool> {
    let data = state.members.data(m);
    data.docs[doc].lock.writer.map(|_| data.records[0].is_none())
}

/// Begins to repair a locked document.
pub fn meet(state: &mut State, m: usize, doc: usize) {
    if is_locked(state, m, doc) == Some(false) {
        state.faults.meetings -= 1;
    }
    heard(state, m);
    state.sweeper.alone = true;
    state.sweeper.task = Some(Task::Ask(doc));
}

fn heard(state: &mut State, m: usize) {
    state.sweeper.known = state.members.all[m].term.max(state.sweeper.known);
}

/// Returns true if the sweeper is about to send a command.
pub fn is_sending(state: &State) -> bool {
    let task = state.sweeper.task.as_ref();
    task.is_some() && waiting(task).is_none()
}

fn waiting(task: Option<&Task>) -> Option<Sent> {
    match task? {
        Task::Fenced(waiting) | Task::Repaired(_, waiting) | Task::Retired(waiting) => Some(waiting.sent),
        Task::AtBarrier(_, waiting) => Some(waiting.sent),
        Task::Asked(_, waiting) => Some(waiting.sent),
        _ => None,
    }
}

/// Command that waits for its answer, and whether it counts as soon as one primary has it.
pub fn sent(plan: &Plan, state: &State) -> Option<(Sent, bool)> {
    let task = state.sweeper.task.as_ref();
    let breakage = match task? {
        Task::Repaired(..) => Breakage::RepairAtOne,
        _ => Breakage::RecordReadAtOne,
    };
    waiting(task).map(|sent| (sent, plan.has(breakage) || matches!(task, Some(Task::Fenced(_)))))
}

/// Sends a command to primary `m`.
pub fn send(plan: &Plan, state: &mut State, m: usize) {
    let Some(task) = state.sweeper.task.clone() else { return };
    let next = match task {
        Task::Fence => fence(state, m),
        Task::Barrier(after) => {
            let fenced = |data: &mut Data| data.records[0].as_ref().is_some_and(|stored| stored.record.fenced);
            let (answer, sent) = state.members.execute(m, fenced);
            Some(Task::AtBarrier(after, Waiting { sent, answer }))
        }
        Task::Look(doc) => {
            heard(state, m);
            let data = match plan.has(Breakage::LookAtOne) {
                true => state.members.data(m),
                false => &state.members.durable.data,
            };
            let locked = data.docs[doc].lock.writer.is_some();
            if locked { Some(Task::Ask(doc)) } else { after(state, doc) }
        }
        Task::Ask(doc)
            if plan.has(Breakage::AbsentAtMajority) && state.members.majority_read(m).records[0].is_none() =>
        {
            heard(state, m);
            Some(Task::Repair(doc, TxStatus::Finished))
        }
        Task::Ask(doc) => {
            let tx = state.tx();
            let ask = |data: &mut Data| status_of(data.record(tx.client), tx.seq);
            let (answer, sent) = state.members.execute(m, ask);
            Some(Task::Asked(doc, Waiting { sent, answer }))
        }
        Task::Repair(doc, status) => {
            let sent = repair(state, m, doc, status);
            Some(Task::Repaired(doc, Waiting { sent, answer: () }))
        }
        Task::Retire => {
            let tx = state.tx();
            let retire = |data: &mut Data| {
                if data.records[0].as_ref().is_some_and(|stored| stored.record.fenced) {
                    remove_record(data, tx);
                }
            };
            let ((), sent) = state.members.execute(m, retire);
            Some(Task::Retired(Waiting { sent, answer: () }))
        }
        waiting => Some(waiting),
    };
    state.sweeper.task = next;
}

fn fence(state: &mut State, m: usize) -> Option<Task> {
    let leaseless = is_leaseless(state);
    let stored = state.members.data(m).records[0].as_ref();
    if stored.is_none_or(|stored| stored.record.fenced) || !(leaseless || state.faults.expiries > 0) {
        return None;
    }
    state.faults.expiries -= u8::from(!leaseless);
    let (_, sent) = state.members.execute(m, |data| data.fence(0));
    Some(Task::Fenced(Waiting { sent, answer: () }))
}

fn repair(state: &mut State, m: usize, doc: usize, status: TxStatus) -> Sent {
    let tx = state.tx();
    let mend = |data: &mut Data| {
        let repair = match meet_writer(&data.docs[doc].lock, status) {
            Encounter::Repair(repair) => repair,
            // The document is fetched again in this step; a lock that is still there is an orphan.
            Encounter::FetchAgain => repair_rolled_back(&data.docs[doc].lock),
            Encounter::Active => return,
        };
        data.docs[doc].repair(tx, repair);
    };
    state.members.execute(m, mend).1
}

fn after(state: &State, doc: usize) -> Option<Task> {
    match doc + 1 < DOCS {
        _ if state.sweeper.alone => None,
        true => Some(Task::Look(doc + 1)),
        false => Some(Task::Barrier(true)),
    }
}

/// The answer to the command has come.
pub fn acknowledged(state: &mut State) {
    let Some(task) = state.sweeper.task.take() else { return };
    let term = waiting(Some(&task)).map_or(0, |sent| sent.term);
    state.sweeper.known = term.max(state.sweeper.known);
    state.sweeper.task = match task {
        Task::Fenced(_) => Some(Task::Barrier(false)),
        Task::AtBarrier(_, waiting) if !waiting.answer => None,
        Task::AtBarrier(true, _) => Some(Task::Retire),
        Task::AtBarrier(false, _) => Some(Task::Look(0)),
        Task::Asked(_, waiting) if waiting.answer == TxStatus::Active => None,
        Task::Asked(doc, waiting) => Some(Task::Repair(doc, waiting.answer)),
        Task::Repaired(doc, _) => after(state, doc),
        _ => None,
    };
}

/// The command was answered by a `writeConcernError`, or not at all.
pub fn lost(state: &mut State) {
    state.sweeper.task = None;
}
