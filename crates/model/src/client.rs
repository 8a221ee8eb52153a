//! A client's writes to its record: what `Recorder` composes is sent, answered, or examined when the answer is lost.
//!
//! 1. A write is composed when somebody waits for it (for a decision, or for a collection to be listed), or when it or
//!    the one after it tells the record anything new.
//! 2. The server applies it, visible at once; a write that waits for the journal is answered when it is durable.
//! 3. Not applied, or the answer was lost: the record is read, durably, and the recorder says how to go on; or the owner
//!    gives up, which is a fault.
//! 4. A record of no more use is fenced before anybody is told.
//! 5. When every transaction is over and every number below `low`, the record is retired by a journaled write that
//!    demands the last stamp: a server that has lost the evidence for finished documents has another one.
//!
//! Left out: registration (records are there at the start), a new record after a lost one, leases and heartbeats.
//! A retired record is gone at once.

use protocol::{
    ClientRecord, Concern, Recorder,
    recorder::{Outcome, RecordWrite, Verdict},
};

use crate::{
    janitor,
    mutation::Mutation,
    plan::Plan,
    server::{Admission, Message},
    state::{Pump, State, Step, Told},
    transaction::answer,
};

/// Does this client have something to do about its record?
pub fn has_step(plan: &Plan, state: &State, client: usize) -> bool {
    let this = &state.clients[client];
    match &this.pump {
        Pump::Gone => false,
        Pump::Idle => this.alive && (wants_to_write(state, client) || may_retire(plan, state, client)),
        _ => this.alive,
    }
}

/// Does it hold decisions back?
pub fn has_held(state: &State, client: usize) -> bool {
    let this = &state.clients[client];
    this.alive && this.pump != Pump::Gone && this.recorder.has_held()
}

fn wants_to_write(state: &State, client: usize) -> bool {
    let this = &state.clients[client];
    this.recorder.has_waiting() || this.enlisting != 0 || has_news(state, client)
}

/// Would a write, or the one after it, tell the record anything new?
fn has_news(state: &State, client: usize) -> bool {
    let this = &state.clients[client];
    let mut recorder = this.recorder.clone();
    match state.server.now.records[client].as_ref().map(|stored| &stored.record) {
        Some(record) if !record.fenced => {
            let news = recorder.next_write(true).is_some_and(|write| is_new(record, &write));
            news || match recorder.acknowledged(this.epoch) {
                Verdict::Lost(_) => true,
                _ => recorder.next_write(true).is_some_and(|write| is_new(record, &write)),
            }
        }
        _ => false,
    }
}

fn is_new(record: &ClientRecord, write: &RecordWrite) -> bool {
    write.low != record.low
        || !write.committed.iter().eq(&record.committed)
        || !write.rolled_back.iter().eq(&record.rolled_back)
}

/// The next step of this client about its record.
pub fn advance(plan: &Plan, state: &mut State, client: usize) {
    match state.clients[client].pump.clone() {
        Pump::Idle if may_retire(plan, state, client) => retire(plan, state, client),
        Pump::Idle => {
            if let Some(write) = compose(plan, state, client) {
                send(plan, state, client, write);
            }
        }
        Pump::Resend(write) => send(plan, state, client, write),
        Pump::Answered(write, boot) => acknowledge(plan, state, client, &write, boot),
        Pump::Examine(write) => examine(plan, state, client, write),
        Pump::FenceOwn(outcomes) => {
            state.server.now.fence(client);
            lose(plan, state, client, outcomes);
        }
        Pump::Gone => {}
    }
}

/// Is a write about to be sent?
pub fn is_sending(state: &State, client: usize) -> bool {
    let this = &state.clients[client];
    match this.pump {
        Pump::Idle => this.alive && wants_to_write(state, client),
        Pump::Resend(_) => this.alive,
        _ => false,
    }
}

/// Step 1, or the copy to be sent again.
pub fn compose(plan: &Plan, state: &mut State, client: usize) -> Option<RecordWrite> {
    if let Pump::Resend(write) = &state.clients[client].pump {
        return Some(write.clone());
    }
    let this = &mut state.clients[client];
    this.sent = this.enlisting;
    let epoch = this.epoch;
    let mut write = next(plan, &mut this.recorder, epoch)?;
    if plan.has(Mutation::NumbersLeaveAboveLow) {
        let finished = |seq| state.run_of(plan, client, seq).is_some_and(|t| state.runs[t].step == Step::Over);
        write.committed.retain(|seq| !finished(*seq));
    }
    Some(write)
}

fn next(plan: &Plan, recorder: &mut Recorder, epoch: u64) -> Option<RecordWrite> {
    let write = recorder.next_write(true)?;
    if plan.has(Mutation::NoEvidence) && write.decides.is_empty() && recorder.has_waiting() {
        recorder.acknowledged(0);
        return recorder.next_write(true);
    }
    let alone = write.decides.is_empty() && write.aborted.is_empty() && !recorder.has_waiting();
    if plan.has(Mutation::LowWithoutEvidence) && alone {
        let mut ahead = recorder.clone();
        ahead.acknowledged(epoch);
        if let Some(raise) = ahead.next_write(true) {
            *recorder = ahead;
            return Some(RecordWrite { demands: write.demands, ..raise });
        }
    }
    Some(write)
}

/// Step 2 in the server; true if the write was applied. `names` are the collections that it lists besides.
pub fn execute(plan: &Plan, state: &mut State, client: usize, write: &RecordWrite, names: u8) -> bool {
    let how = Admission {
        any_stamp: plan.has(Mutation::NoEvidence),
        ignore_fence: plan.has(Mutation::FenceIgnored),
        prune_trace: plan.prune_trace,
    };
    state.server.now.records[client].as_mut().is_some_and(|stored| stored.write(write, names, how))
}

fn send(plan: &Plan, state: &mut State, client: usize, write: RecordWrite) {
    let applied = execute(plan, state, client, &write, state.clients[client].sent);
    let boot = state.server.boot;
    state.clients[client].epoch = boot;
    state.clients[client].pump = if applied { Pump::Answered(write, boot) } else { Pump::Examine(write) };
}

/// The write is given up by its sender and arrives late, or never.
pub fn send_late(plan: &Plan, state: &mut State, client: usize) {
    if let Some(write) = compose(plan, state, client) {
        state.server.late.push(Message::Record(client, write.clone(), state.clients[client].sent));
        state.clients[client].pump = Pump::Examine(write);
    }
}

fn acknowledge(plan: &Plan, state: &mut State, client: usize, write: &RecordWrite, boot: u64) {
    if write.concern != Concern::Acknowledged {
        state.server.flush();
    }
    let unchecked = plan.has(Mutation::NoEvidence) || plan.has(Mutation::EpochIgnored);
    let epoch = if unchecked { 0 } else { boot };
    let this = &mut state.clients[client];
    this.pump = Pump::Idle;
    this.listed |= this.sent;
    this.enlisting &= !this.listed;
    match state.clients[client].recorder.acknowledged(epoch) {
        Verdict::Lost(outcomes) => lose(plan, state, client, outcomes),
        Verdict::GoOn(outcomes) => settle(plan, state, client, &outcomes),
        Verdict::SendAgain => {}
    }
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
        Verdict::Lost(outcomes) => lose(plan, state, client, outcomes),
    }
}

/// Step 3, when the owner has waited long enough.
pub fn give_up(plan: &Plan, state: &mut State, client: usize) {
    state.faults.give_ups -= 1;
    let outcomes = state.clients[client].recorder.abandon(None);
    state.clients[client].pump = Pump::Gone;
    settle(plan, state, client, &outcomes);
}

/// Step 4.
fn lose(plan: &Plan, state: &mut State, client: usize, outcomes: Vec<Outcome>) {
    if janitor::is_unfenced(state, client) {
        state.clients[client].pump = Pump::FenceOwn(outcomes);
    } else {
        state.clients[client].pump = Pump::Gone;
        settle(plan, state, client, &outcomes);
    }
}

fn settle(plan: &Plan, state: &mut State, client: usize, outcomes: &[Outcome]) {
    for outcome in outcomes {
        match outcome {
            Outcome::Committed(seq) => tell(plan, state, client, *seq, Told::Committed),
            Outcome::RolledBack(seq) => tell(plan, state, client, *seq, Told::RolledBack),
            Outcome::Indeterminate(seq) if plan.has(Mutation::OwnerTrustsMissingRecord) => {
                tell(plan, state, client, *seq, Told::RolledBack);
            }
            Outcome::Indeterminate(seq) => tell(plan, state, client, *seq, Told::Indeterminate),
        }
    }
}

fn tell(plan: &Plan, state: &mut State, client: usize, seq: u64, told: Told) {
    if let Some(t) = state.run_of(plan, client, seq) {
        answer(state, t, told);
    }
}

fn may_retire(plan: &Plan, state: &State, client: usize) -> bool {
    let this = &state.clients[client];
    let mut mine = (0..state.runs.len()).filter(|t| plan.txs[*t].client == client);
    let record = state.server.now.records[client].is_some();
    record && this.recorder.is_settled() && !this.recorder.is_lost() && mine.all(|t| state.runs[t].step == Step::Over)
}

/// Step 5.
fn retire(plan: &Plan, state: &mut State, client: usize) {
    let next = state.clients[client].recorder.clone().next_write(true);
    let record = state.server.now.records[client].as_ref().map(|stored| stored.record.stamp);
    let same = next.is_some_and(|next| Some(next.demands) == record);
    if same || plan.has(Mutation::OwnerRetiresAnyRecord) {
        state.server.flush();
        state.remove_record(plan, client);
    }
    state.clients[client].pump = Pump::Gone;
}
