//! A client's writes to its record: a write that `Recorder` composes is sent, answered, or examined
//! when the answer is lost.
//!
//! 1. A write is composed when a transaction waits for it (for a decision, or for a collection to
//!    be listed), or when it or the one after it brings anything new into the record.
//! 2. The server applies it, visible at once; a write that waits for the journal is answered when
//!    it is durable.
//! 3. Not applied, or the answer was lost: the record is read, durably, and the recorder decides
//!    how the owner goes on; or the owner gives up, which is a fault.
//! 4. A record of no more use is fenced before its outcomes are reported.
//! 5. When every transaction is over and every number below `low`, the record is retired by a
//!    journaled write that demands the last stamp: a server that has lost the evidence for finished
//!    documents has another one.
//!
//! Where decisions are bound to the connection (decision 0039), a new connection is opened by a
//! step of its own, which raises the connection's number, and answered by another step. It then
//! belongs to the server process that runs at that step. A write that is sent over a connection of
//! an ended process is lost.
//!
//! The module leaves out registration (records are there at the start), a new record after a lost
//! one, leases and heartbeats. A retired record is removed at once.

use protocol::{
    ClientRecord, Concern, Recorder,
    recorder::{RecordWrite, TransactionEnd, Verdict},
};

use crate::{
    course::answer,
    janitor,
    mutation::Mutation,
    plan::Plan,
    server::{Admission, Message},
    state::{Pump, Reported, State, Step},
};

/// Returns true if this client has a step to take for its record.
pub fn has_step(plan: &Plan, state: &State, client: usize) -> bool {
    let this = &state.clients[client];
    match &this.pump {
        Pump::Gone => false,
        Pump::Idle => this.alive && (wants_to_write(state, client) || may_retire(plan, state, client)),
        _ => this.alive,
    }
}

/// Returns true if the client holds decisions back and can try them again.
pub fn has_held(state: &State, client: usize) -> bool {
    let this = &state.clients[client];
    this.alive && this.pump != Pump::Gone && this.recorder.has_held()
}

fn wants_to_write(state: &State, client: usize) -> bool {
    let this = &state.clients[client];
    this.recorder.has_waiting() || this.recorder.has_unanswered() || this.enlisting != 0 || has_news(state, client)
}

/// Returns true if the next write, or the one after it, would bring news to the record.
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

/// Loses the connection together with the answer to the write under way, and opens the next one.
pub fn lose_connection(plan: &Plan, state: &mut State, client: usize) {
    if plan.bound {
        let this = &mut state.clients[client];
        (this.epoch, this.process) = (this.epoch + 1, None);
        this.recorder.connection_lost();
    }
}

/// Makes sure that the connection is answered and, as far as the client can know, alive. Returns
/// true if that took a step.
fn connects(plan: &Plan, state: &mut State, client: usize) -> bool {
    let (boot, this) = (state.server.boot, &mut state.clients[client]);
    match this.process {
        _ if !plan.bound => false,
        None => {
            this.process = Some(boot);
            true
        }
        Some(process) if process < boot => {
            (this.epoch, this.process) = (this.epoch + 1, None);
            true
        }
        Some(_) => false,
    }
}

/// Number of the connection, if writes can be bound to it.
fn connection(plan: &Plan, state: &State, client: usize) -> Option<u64> {
    let this = &state.clients[client];
    (plan.bound && this.process.is_some()).then_some(this.epoch)
}

/// The next step of this client about its record.
pub fn advance(plan: &Plan, state: &mut State, client: usize) {
    match state.clients[client].pump.clone() {
        Pump::Idle if state.clients[client].process.is_none() => drop(connects(plan, state, client)),
        Pump::Examine(_) | Pump::Resend(_) | Pump::FenceOwn(_) if connects(plan, state, client) => {}
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

/// Returns true if a record write is composed and not yet sent.
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
    let connection = connection(plan, state, client);
    let this = &mut state.clients[client];
    this.sent = this.enlisting;
    let epoch = this.epoch;
    let mut write = next(plan, &mut this.recorder, epoch, connection)?;
    if plan.has(Mutation::NumbersLeaveAboveLow) {
        let finished = |seq| state.run_of(plan, client, seq).is_some_and(|t| state.runs[t].step == Step::Over);
        write.committed.retain(|seq| !finished(*seq));
    }
    Some(write)
}

fn next(plan: &Plan, recorder: &mut Recorder, epoch: u64, connection: Option<u64>) -> Option<RecordWrite> {
    let write = recorder.next_write_over(true, connection)?;
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

/// Step 2 in the server; true if the write was applied. `names` are the collections that the write
/// adds to the record's list.
pub fn execute(plan: &Plan, state: &mut State, client: usize, write: &RecordWrite, names: u8) -> bool {
    let how = Admission {
        any_stamp: plan.has(Mutation::NoEvidence),
        ignore_fence: plan.has(Mutation::FenceIgnored),
        prune_trace: plan.prune_trace,
    };
    state.server.now.records[client].as_mut().is_some_and(|stored| stored.write(write, names, how))
}

fn send(plan: &Plan, state: &mut State, client: usize, write: RecordWrite) {
    let boot = state.server.boot;
    if plan.bound && state.clients[client].process != Some(boot) {
        // The client notices only now that the server process has ended.
        lose_connection(plan, state, client);
        if write.over.is_none() || !plan.has(Mutation::DialsBelow) {
            state.clients[client].pump = if write.over.is_some() { Pump::Examine(write) } else { Pump::Resend(write) };
            return;
        }
        state.clients[client].process = Some(boot);
    }
    let applied = execute(plan, state, client, &write, state.clients[client].sent);
    if !plan.bound {
        state.clients[client].epoch = boot;
    }
    state.clients[client].pump = if applied { Pump::Answered(write, boot) } else { Pump::Examine(write) };
}

/// Gives a write up, which then arrives late or never.
pub fn send_late(plan: &Plan, state: &mut State, client: usize) {
    if let Some(write) = compose(plan, state, client) {
        // No write arrives over the connection of a process that has ended.
        if !plan.bound || state.clients[client].process == Some(state.server.boot) {
            state.server.late.push(Message::Record(client, write.clone(), state.clients[client].sent));
        }
        state.clients[client].pump = Pump::Examine(write);
        lose_connection(plan, state, client);
    }
}

fn acknowledge(plan: &Plan, state: &mut State, client: usize, write: &RecordWrite, boot: u64) {
    if write.concern != Concern::Acknowledged {
        state.server.flush();
    }
    let unchecked = plan.has(Mutation::NoEvidence) || plan.has(Mutation::EpochIgnored);
    let this = &mut state.clients[client];
    let epoch = match unchecked {
        true => 0,
        false if plan.bound => this.epoch,
        false => boot,
    };
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
    let not_there =
        write.over.is_some() && record.as_ref().is_some_and(|record| record.stamp == write.demands && !record.fenced);
    if not_there && plan.has(Mutation::BoundSentAgain) {
        state.clients[client].pump = Pump::Resend(write);
        return;
    }
    if not_there && plan.has(Mutation::NoBarrier) {
        for seq in &write.decides {
            state.clients[client].recorder.note_rolled_back(*seq);
            tell(plan, state, client, *seq, Reported::RolledBack);
        }
    }
    let this = &mut state.clients[client];
    if !plan.bound {
        this.epoch = boot;
    }
    match this.recorder.examined(record.as_ref()) {
        Verdict::GoOn(outcomes) => {
            this.pump = Pump::Idle;
            settle(plan, state, client, &outcomes);
        }
        Verdict::SendAgain => this.pump = Pump::Resend(write),
        Verdict::Lost(outcomes) => lose(plan, state, client, outcomes),
    }
}

/// Step 3, when the owner stops waiting.
pub fn give_up(plan: &Plan, state: &mut State, client: usize) {
    state.faults.give_ups -= 1;
    let outcomes = state.clients[client].recorder.abandon(None);
    state.clients[client].pump = Pump::Gone;
    settle(plan, state, client, &outcomes);
}

/// Step 4: gives the record up.
fn lose(plan: &Plan, state: &mut State, client: usize, outcomes: Vec<TransactionEnd>) {
    if janitor::is_unfenced(state, client) {
        state.clients[client].pump = Pump::FenceOwn(outcomes);
    } else {
        state.clients[client].pump = Pump::Gone;
        settle(plan, state, client, &outcomes);
    }
}

fn settle(plan: &Plan, state: &mut State, client: usize, outcomes: &[TransactionEnd]) {
    for outcome in outcomes {
        match outcome {
            TransactionEnd::Committed(seq) => tell(plan, state, client, *seq, Reported::Committed),
            TransactionEnd::RolledBack(seq) => tell(plan, state, client, *seq, Reported::RolledBack),
            TransactionEnd::Indeterminate(seq) if plan.has(Mutation::OwnerTrustsMissingRecord) => {
                tell(plan, state, client, *seq, Reported::RolledBack);
            }
            TransactionEnd::Indeterminate(seq) => tell(plan, state, client, *seq, Reported::Indeterminate),
        }
    }
}

fn tell(plan: &Plan, state: &mut State, client: usize, seq: u64, reported: Reported) {
    if let Some(t) = state.run_of(plan, client, seq) {
        answer(state, t, reported);
    }
}

fn may_retire(plan: &Plan, state: &State, client: usize) -> bool {
    let this = &state.clients[client];
    let mut mine = (0..state.runs.len()).filter(|t| plan.txs[*t].client == client);
    let record = state.server.now.records[client].is_some();
    record && this.recorder.is_settled() && !this.recorder.is_lost() && mine.all(|t| state.runs[t].step == Step::Over)
}

/// Step 5: retires the record.
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
