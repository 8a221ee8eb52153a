//! A client's writes to its record: what `Recorder` composes is sent, answered, or examined when the answer is lost.
//!
//! 1. A write is composed when somebody waits for it, or when the record does not say the latest.
//! 2. The server applies it, visible at once; a write that waits for the journal is answered when it is durable.
//! 3. Not applied, or the answer was lost: the record is read, durably, and the recorder says how to go on.
//! 4. A record of no more use is fenced before anybody is told.
//!
//! Left out: registration (records are there at the start), a new record after a lost one, leases and heartbeats.

use protocol::{
    ClientRecord, Concern, Recorder,
    recorder::{Outcome, RecordWrite, Verdict},
};

use crate::{
    mutation::Mutation,
    plan::Plan,
    server::{Admission, Message},
    state::{Pump, State, Step, Told},
    transaction::answer,
};

/// Does this client have something to do about its record?
pub fn has_step(state: &State, client: usize) -> bool {
    let this = &state.clients[client];
    match &this.pump {
        Pump::Gone => false,
        Pump::Idle => this.alive && (this.recorder.has_waiting() || has_news(state, client)),
        _ => this.alive,
    }
}

/// Would a write tell the record anything new?
fn has_news(state: &State, client: usize) -> bool {
    let mut recorder = state.clients[client].recorder.clone();
    let record = state.server.now.records[client].as_ref().map(|stored| &stored.record);
    match (record, recorder.next_write(true)) {
        (Some(record), Some(write)) if !record.fenced => {
            write.low != record.low
                || !write.committed.iter().eq(&record.committed)
                || !write.rolled_back.iter().eq(&record.rolled_back)
        }
        _ => false,
    }
}

/// The next step of this client about its record.
pub fn advance(plan: &Plan, state: &mut State, client: usize) {
    match state.clients[client].pump.clone() {
        Pump::Idle => {
            if let Some(write) = compose(plan, state, client) {
                send(plan, state, client, write);
            }
        }
        Pump::Resend(write) => send(plan, state, client, write),
        Pump::Answered(write, boot) => acknowledge(plan, state, client, &write, boot),
        Pump::Examine(write) => examine(plan, state, client, write),
        Pump::FenceOwn(outcomes, write) => {
            state.server.now.fence(client);
            lose(plan, state, client, &outcomes, &write);
        }
        Pump::Gone => {}
    }
}

/// Is a write about to be sent?
pub fn is_sending(state: &State, client: usize) -> bool {
    matches!(state.clients[client].pump, Pump::Idle | Pump::Resend(_)) && has_step(state, client)
}

/// Step 1, or the copy to be sent again.
pub fn compose(plan: &Plan, state: &mut State, client: usize) -> Option<RecordWrite> {
    if let Pump::Resend(write) = &state.clients[client].pump {
        return Some(write.clone());
    }
    let mut write = next(plan, &mut state.clients[client].recorder)?;
    if plan.has(Mutation::NumbersLeaveAboveLow) {
        let finished = |seq| state.run_of(plan, client, seq).is_some_and(|t| state.runs[t].step == Step::Over);
        write.committed.retain(|seq| !finished(*seq));
    }
    Some(write)
}

fn next(plan: &Plan, recorder: &mut Recorder) -> Option<RecordWrite> {
    let write = recorder.next_write(true)?;
    if plan.has(Mutation::NoEvidence) && write.decides.is_empty() && recorder.has_waiting() {
        recorder.acknowledged(0);
        return recorder.next_write(true);
    }
    Some(write)
}

/// Step 2 in the server; true if the write was applied.
pub fn execute(plan: &Plan, state: &mut State, client: usize, write: &RecordWrite) -> bool {
    let how = Admission {
        any_stamp: plan.has(Mutation::NoEvidence),
        ignore_fence: plan.has(Mutation::FenceIgnored),
        prune_trace: plan.prune_trace,
    };
    state.server.now.records[client].as_mut().is_some_and(|stored| stored.write(write, how))
}

fn send(plan: &Plan, state: &mut State, client: usize, write: RecordWrite) {
    let applied = execute(plan, state, client, &write);
    let boot = state.server.boot;
    state.clients[client].epoch = boot;
    state.clients[client].pump = if applied { Pump::Answered(write, boot) } else { Pump::Examine(write) };
}

/// The write is given up by its sender and arrives late, or never.
pub fn send_late(plan: &Plan, state: &mut State, client: usize) {
    if let Some(write) = compose(plan, state, client) {
        state.server.late.push(Message::Record(client, write.clone()));
        state.clients[client].pump = Pump::Examine(write);
    }
}

fn acknowledge(plan: &Plan, state: &mut State, client: usize, write: &RecordWrite, boot: u64) {
    if write.concern != Concern::Acknowledged {
        state.server.flush();
    }
    let unchecked = plan.has(Mutation::NoEvidence) || plan.has(Mutation::EpochIgnored);
    let epoch = if unchecked { 0 } else { boot };
    state.clients[client].pump = Pump::Idle;
    let outcomes = state.clients[client].recorder.acknowledged(epoch);
    settle(plan, state, client, &outcomes);
}

fn examine(plan: &Plan, state: &mut State, client: usize, write: RecordWrite) {
    if !plan.has(Mutation::ExamineTrustsVolatileRecord) {
        state.server.flush();
    }
    let boot = state.server.boot;
    let record: Option<ClientRecord> = state.server.now.records[client].as_ref().map(|stored| stored.record.clone());
    let this = &mut state.clients[client];
    this.epoch = boot;
    match this.recorder.examined(record.as_ref()) {
        Verdict::GoOn(outcomes) => {
            this.pump = Pump::Idle;
            settle(plan, state, client, &outcomes);
        }
        Verdict::SendAgain => this.pump = Pump::Resend(write),
        Verdict::Lost(outcomes) if record.is_some_and(|record| !record.fenced) => {
            this.pump = Pump::FenceOwn(outcomes, write);
        }
        Verdict::Lost(outcomes) => lose(plan, state, client, &outcomes, &write),
    }
}

/// Step 4. When the record is gone, nobody can say whether a write without an answer decided anything.
fn lose(plan: &Plan, state: &mut State, client: usize, outcomes: &[Outcome], write: &RecordWrite) {
    let gone = state.server.now.records[client].is_none() && !plan.has(Mutation::OwnerTrustsMissingRecord);
    state.clients[client].pump = Pump::Gone;
    for outcome in outcomes {
        match outcome {
            Outcome::RolledBack(seq) if gone && write.decides.contains(seq) => {
                tell(plan, state, client, *seq, Told::Indeterminate);
            }
            known => settle(plan, state, client, &[*known]),
        }
    }
}

fn settle(plan: &Plan, state: &mut State, client: usize, outcomes: &[Outcome]) {
    for outcome in outcomes {
        match outcome {
            Outcome::Committed(seq) => tell(plan, state, client, *seq, Told::Committed),
            Outcome::RolledBack(seq) => tell(plan, state, client, *seq, Told::RolledBack),
        }
    }
}

fn tell(plan: &Plan, state: &mut State, client: usize, seq: u64, told: Told) {
    if let Some(t) = state.run_of(plan, client, seq) {
        answer(state, t, told);
    }
}
