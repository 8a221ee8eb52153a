//! The owner: a transaction that changes two documents, and the writes to its record.
//!
//! 0. The record is inserted; that counts when the majority has it.
//! 1. Each document is locked and changed; that counts when the majority has it. Otherwise the
//!    transaction is in doubt.
//! 2. The recorder composes stamps and decisions. After a decision that was not acknowledged, the
//!    record is read.
//! 3. The outcome is reported; each document is finished or undone, again and again until the
//!    majority has it.
//! 4. When the record needs no more writes, it is retired by a write that demands the last stamp.

use protocol::{
    ClientRecord, Concern, TxId,
    lock::{repair_committed, repair_rolled_back},
    recorder::{RecordWrite, TransactionEnd, Verdict},
};

use super::{
    breakage::Breakage,
    members::Sent,
    plan::Plan,
    state::{DOCS, Owner, Pump, State, Step, Waiting, new_record},
};
use crate::{
    plan::Op,
    server::{Admission, Data, mark},
    state::Reported,
};

/// Returns true if a command of the transaction is about to be sent.
pub fn is_writing(state: &State) -> bool {
    state.owner.alive && matches!(state.owner.step, Step::Registering | Step::Writing(_) | Step::Cleaning(_))
}

/// Sends the transaction's command to primary `m`.
pub fn write(state: &mut State, m: usize) {
    let tx = state.tx();
    match state.owner.step.clone() {
        Step::Registering => {
            let ((), sent) = state.members.execute(m, |data| data.records[0] = Some(new_record()));
            state.owner.step = Step::Registered(Waiting { sent, answer: () });
        }
        Step::Writing(i) => {
            let (_, sent) = state.members.execute(m, |data| data.docs[i].prepare(tx, Op::Update, mark(0), None));
            state.owner.step = Step::Written(i, Waiting { sent, answer: () });
        }
        Step::Cleaning(i) => {
            let forward = state.owner.reported == Some(Reported::Committed);
            let clean = |data: &mut Data| {
                let lock = &data.docs[i].lock;
                let repair = if forward { repair_committed(lock) } else { repair_rolled_back(lock) };
                data.docs[i].repair(tx, repair);
            };
            let ((), sent) = state.members.execute(m, clean);
            state.owner.step = Step::Cleaned(i, Waiting { sent, answer: () });
        }
        _ => {}
    }
}

/// Command of the transaction that waits for its answer, and whether it counts as soon as one
/// primary has it.
pub fn written(plan: &Plan, state: &State) -> Option<(Sent, bool)> {
    match &state.owner.step {
        _ if !state.owner.alive => None,
        Step::Registered(waiting) => Some((waiting.sent, false)),
        Step::Written(_, waiting) => Some((waiting.sent, plan.has(Breakage::PreparedAtOne))),
        Step::Cleaned(_, waiting) => Some((waiting.sent, plan.has(Breakage::FinishAtOne))),
        _ => None,
    }
}

/// The answer to the document write has come.
pub fn write_acknowledged(state: &mut State) {
    let owner = &mut *state.owner;
    match &owner.step {
        Step::Registered(waiting) => {
            owner.known[0] = waiting.sent.term.max(owner.known[0]);
            owner.step = Step::Writing(0);
        }
        Step::Written(i, waiting) => {
            owner.known[0] = waiting.sent.term.max(owner.known[0]);
            if i + 1 < DOCS {
                owner.step = Step::Writing(i + 1);
            } else if owner.recorder.request_commit(owner.seq, Concern::Majority, 0) {
                owner.step = Step::Committing;
            } else {
                tell(owner, Reported::RolledBack);
            }
        }
        Step::Cleaned(i, waiting) => {
            owner.known[0] = waiting.sent.term.max(owner.known[0]);
            if i + 1 < DOCS {
                owner.step = Step::Cleaning(i + 1);
            } else {
                owner.step = Step::Over;
                owner.recorder.note_clean(owner.seq, 0);
            }
        }
        _ => {}
    }
}

/// The document write was answered by a `writeConcernError`, or not at all.
pub fn write_lost(state: &mut State) {
    let owner = &mut *state.owner;
    match owner.step {
        // No document is locked. A new attempt would belong to another client.
        Step::Registered(_) => {
            owner.reported = Some(Reported::RolledBack);
            owner.step = Step::Over;
            owner.pump = Pump::Gone;
        }
        Step::Written(..) => {
            owner.recorder.note_rolled_back(owner.seq);
            tell(owner, Reported::RolledBack);
        }
        Step::Cleaned(i, _) => owner.step = Step::Cleaning(i),
        _ => {}
    }
}

fn tell(owner: &mut Owner, reported: Reported) {
    owner.reported = Some(reported);
    owner.step = if reported == Reported::Indeterminate { Step::Over } else { Step::Cleaning(0) };
}

/// Returns true if a command for the record is about to be sent.
pub fn is_recording(state: &State) -> bool {
    let owner = &state.owner;
    owner.alive
        && match owner.pump {
            Pump::Idle => owner.recorder.has_waiting() || has_news(owner) || may_retire(owner),
            Pump::Examine(_) | Pump::Resend(_) => true,
            Pump::Applied(..) | Pump::Examined(..) | Pump::Gone => false,
        }
}

/// Returns true if the next write, or the one after it, would bring news to the record.
fn has_news(owner: &Owner) -> bool {
    let mut recorder = owner.recorder.clone();
    let mut is_new = || {
        let Some(write) = recorder.next_write(true) else { return false };
        recorder.acknowledged(0);
        match &owner.last {
            None => write.low > 1 || !write.rolled_back.is_empty() || !write.committed.is_empty(),
            Some(last) => {
                (write.low, &write.committed, &write.rolled_back) != (last.low, &last.committed, &last.rolled_back)
            }
        }
    };
    is_new() || is_new()
}

fn may_retire(owner: &Owner) -> bool {
    owner.step == Step::Over && owner.recorder.is_settled() && !owner.recorder.is_lost()
}

/// Sends the command for the record to primary `m`.
pub fn record(state: &mut State, m: usize) {
    match state.owner.pump.clone() {
        Pump::Idle if may_retire(&state.owner) && !has_news(&state.owner) => retire(state, m),
        Pump::Idle => {
            if let Some(write) = state.owner.recorder.next_write(true) {
                send(state, m, write);
            }
        }
        Pump::Resend(write) => send(state, m, write),
        Pump::Examine(write) => {
            let (answer, sent) = state.members.execute(m, |data| record_of(data));
            state.owner.pump = Pump::Examined(write, Waiting { sent, answer });
        }
        Pump::Applied(..) | Pump::Examined(..) | Pump::Gone => {}
    }
}

fn record_of(data: &Data) -> Option<ClientRecord> {
    data.records[0].as_ref().map(|stored| stored.record.clone())
}

fn send(state: &mut State, m: usize, write: RecordWrite) {
    let apply =
        |data: &mut Data| data.records[0].as_mut().is_some_and(|stored| stored.write(&write, 0, Admission::default()));
    let (applied, sent) = state.members.execute(m, apply);
    if !applied {
        state.owner.pump = Pump::Examine(write);
        return;
    }
    let stamp = write.concern == Concern::Acknowledged;
    state.owner.pump = Pump::Applied(write, Waiting { sent, answer: () });
    if stamp {
        // A stamp counts without an acknowledgement, because the next write demands it.
        record_acknowledged(state);
    }
}

/// Step 4: retires the record. If that fails, a sweep retires it later.
fn retire(state: &mut State, m: usize) {
    let (stamp, tx) = (state.owner.recorder.stamp(), state.tx());
    state.members.execute(m, |data| {
        if record_of(data).is_some_and(|record| record.stamp == stamp) {
            remove_record(data, tx);
        }
    });
    state.owner.pump = Pump::Gone;
}

/// Removes the record, and keeps for the properties whether it had decided the transaction.
pub fn remove_record(data: &mut Data, tx: TxId) {
    if data.is_committed(tx) {
        data.archive.insert(tx);
    }
    data.records[0] = None;
}

/// Command for the record that waits for its answer, and whether it counts as soon as one primary
/// has it.
pub fn recorded(plan: &Plan, state: &State) -> Option<(Sent, bool)> {
    match &state.owner.pump {
        _ if !state.owner.alive => None,
        Pump::Applied(_, waiting) => Some((waiting.sent, plan.has(Breakage::DecisionAtOne))),
        Pump::Examined(_, waiting) => Some((waiting.sent, plan.has(Breakage::RecordReadAtOne))),
        _ => None,
    }
}

/// The answer to the record write has come.
pub fn record_acknowledged(state: &mut State) {
    let owner = &mut *state.owner;
    let (verdict, write) = match owner.pump.clone() {
        Pump::Applied(write, waiting) => {
            owner.known[1] = waiting.sent.term.max(owner.known[1]);
            owner.last = Some(write.clone());
            (owner.recorder.acknowledged(0), write)
        }
        Pump::Examined(write, waiting) => {
            owner.known[1] = waiting.sent.term.max(owner.known[1]);
            if waiting.answer.as_ref().is_some_and(|record| record.stamp == write.stamp) {
                owner.last = Some(write.clone());
            }
            (owner.recorder.examined(waiting.answer.as_ref()), write)
        }
        _ => return,
    };
    let (pump, outcomes) = match verdict {
        Verdict::GoOn(outcomes) => (Pump::Idle, outcomes),
        Verdict::SendAgain => (Pump::Resend(write), Vec::new()),
        Verdict::Lost(outcomes) => (Pump::Gone, outcomes),
    };
    owner.pump = pump;
    for outcome in outcomes {
        match outcome {
            TransactionEnd::Committed(_) => tell(owner, Reported::Committed),
            TransactionEnd::RolledBack(_) => tell(owner, Reported::RolledBack),
            TransactionEnd::Indeterminate(_) => tell(owner, Reported::Indeterminate),
        }
    }
}

/// The record write was answered by a `writeConcernError`, or not at all.
pub fn record_lost(state: &mut State) {
    let owner = &mut *state.owner;
    if let Pump::Applied(write, _) | Pump::Examined(write, _) = owner.pump.clone() {
        owner.pump = Pump::Examine(write);
    }
}
