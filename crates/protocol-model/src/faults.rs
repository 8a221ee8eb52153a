//! Faults, each within its budget: the server restarts, a client dies, a message is late, a
//! document is deleted without regard to locks, a client looks for a status in the wrong tx
//! database, a write outside transactions stores reserved fields.
//!
//! Zombies need no fault of their own: a client may pause at any step, and `meeting::expire` may
//! find its lease expired. A dead client never takes another step.

use protocol::{LockState, TxStatus, status::status_where_kept};

use crate::{
    client, combined_writes, course, expiry, meeting,
    mutation::Mutation,
    plan::{Op, Plan},
    reader,
    server::{Message, mark},
    state::{Pump, State, Step},
    transaction,
};

/// Returns true if this transaction's next message may be late: a lock write, a take-back, a
/// removal of an expired safe version, or a finish.
pub fn may_be_late(plan: &Plan, state: &State, t: usize) -> bool {
    let may = state.faults.late_messages > 0 && !plan.has(Mutation::LockSentTwice);
    let step = &state.runs[t].step;
    match step {
        Step::Writing(_) | Step::Together(..) | Step::Changing(..) => may,
        Step::GivingBack(..) | Step::TakingBack(_) | Step::Outliving(_) => may,
        Step::Finishing(_) => state.faults.late_finishes > 0,
        _ => false,
    }
}

/// Gives a transaction's next message up. That ends the transaction unless the message is a finish,
/// but the message may still arrive.
pub fn write_late(plan: &Plan, state: &mut State, t: usize) {
    match state.runs[t].step {
        Step::Writing(write) => lock_late(plan, state, t, write),
        Step::Together(i, _) => lock_late(plan, state, t, plan.txs[t].carried_out_as(i)),
        Step::Changing(write, _) => change_late(plan, state, t, write),
        Step::GivingBack(_, write) | Step::TakingBack(write) => take_back_late(plan, state, t, write),
        Step::Outliving(write) => {
            state.faults.late_messages -= 1;
            expiry::outlive_late(plan, state, t, write);
        }
        Step::Finishing(write) => transaction::finish_late(plan, state, t, write),
        _ => {}
    }
}

fn take_back_late(plan: &Plan, state: &mut State, t: usize, write: usize) {
    state.faults.late_messages -= 1;
    if let Some(tx) = state.tx_id(plan, t) {
        state.server.late.push(Message::TakeBack { tx, doc: plan.txs[t].writes[write].0 });
    }
    match state.runs[t].step {
        _ if !plan.has(Mutation::TakeBackNotInDoubt) => course::abort(plan, state, t),
        Step::GivingBack(first, i) => combined_writes::give_back_after(plan, state, t, first, i),
        _ => state.runs[t].step = Step::Writing(write),
    }
}

fn change_late(plan: &Plan, state: &mut State, t: usize, write: usize) {
    state.faults.late_messages -= 1;
    if let Some(tx) = state.tx_id(plan, t) {
        state.server.late.push(Message::Change { tx, t, doc: plan.txs[t].writes[write].0 });
    }
    course::abort(plan, state, t);
}

fn lock_late(plan: &Plan, state: &mut State, t: usize, write: usize) {
    if !course::begin(plan, state, t) {
        return;
    }
    state.faults.late_messages -= 1;
    if let Some(tx) = state.tx_id(plan, t) {
        let doc = plan.txs[t].writes[write].0;
        let over = course::predecessor(plan, state, t, doc);
        course::delist(plan, state, over, doc, course::Answer::Lost);
        state.server.late.push(Message::Lock { tx, t, write, over });
    }
    course::abort(plan, state, t);
}

/// Returns true if the client is about to send a decision that the server may refuse.
pub fn may_be_refused(state: &State, client: usize) -> bool {
    let this = &state.clients[client];
    let decides = || this.recorder.clone().next_write(true).is_some_and(|write| !write.decides.is_empty());
    this.pump == Pump::Idle && client::is_sending(state, client) && decides()
}

/// The server refuses the decision, and the first of its transactions is held back. A decision that
/// may still arrive is not held back, because an owner that gives up would report it as rolled
/// back.
pub fn quiet(plan: &Plan, state: &mut State, client: usize) {
    state.faults.quiets -= 1;
    let Some(write) = client::compose(plan, state, client) else { return };
    if plan.has(Mutation::HeldUnanswered) {
        state.server.late.push(Message::Record(client, write.clone(), state.clients[client].sent));
    }
    state.clients[client].recorder.hold(write.decides.first().copied());
}

/// Gives a record write up, which may still arrive.
pub fn record_late(plan: &Plan, state: &mut State, client: usize) {
    state.faults.late_messages -= 1;
    client::send_late(plan, state, client);
}

/// Delivers a late message to the server.
pub fn deliver(plan: &Plan, state: &mut State, index: usize) {
    match state.server.late.remove(index) {
        Message::Lock { tx, t, write, over } => {
            let (doc, op) = plan.txs[t].writes[write];
            state.server.now.docs[doc].take_over(over, tx, op, mark(t));
            note_orphan(plan, state, t, write);
        }
        Message::Change { tx, t, doc } => {
            state.server.now.docs[doc].change(tx, mark(t));
        }
        Message::Finish { tx, doc } => state.server.now.docs[doc].finish(tx),
        Message::TakeBack { tx, doc } => state.server.now.docs[doc].take_back(tx),
        Message::Outlive { tx, doc } => state.server.outlive(tx, doc),
        Message::Record(client, write, names) => {
            client::execute(plan, state, client, &write, names);
        }
    }
}

/// Notes a lock write that has arrived too late for its owner to undo it.
fn note_orphan(plan: &Plan, state: &mut State, t: usize, write: usize) {
    let is_undone = match state.runs[t].step {
        Step::Undoing(next) => next > write,
        Step::Over => true,
        _ => false,
    };
    if is_undone && plan.txs[t].by_key {
        state.runs[t].orphaned |= 1 << write;
    }
}

/// Deletes a document without regard to locks.
pub fn delete(state: &mut State, doc: usize) {
    state.faults.deletions -= 1;
    state.server.now.docs[doc].delete_from_outside();
}

/// A client of another tx database meets a lock and finds no record of the holder. Its two fetches
/// of the document, with the read of the record in between, are one step: without the mutation it
/// would not go on to the second fetch.
pub fn stranger(plan: &Plan, state: &mut State, doc: usize) {
    state.faults.strangers -= 1;
    let kept_here = plan.has(Mutation::ForeignMeansDead);
    let Some(holder) = state.server.now.docs[doc].lock.writer else { return };
    if let Ok(TxStatus::Finished) = status_where_kept(None, holder.seq, kept_here) {
        state.server.now.docs[doc].take_back(holder);
    }
}

/// Returns true if a write outside transactions may give this document a forged lock of transaction
/// `t`. Such a write demands a clean document, and the transaction must not be active.
pub fn may_forge(plan: &Plan, state: &State, doc: usize, t: usize) -> bool {
    let stored = &state.server.now.docs[doc];
    let is_clean = stored.stored && stored.lock == LockState::default();
    let is_over = |tx| meeting::ask(plan, &state.server.now, tx) != TxStatus::Active;
    state.faults.forgeries > 0 && is_clean && state.tx_id(plan, t).is_some_and(is_over)
}

/// A write outside transactions by an update pipeline whose result has reserved fields, which only
/// the server knows while it writes. The guard is part of the statement (decision 0018), which
/// fails and stores nothing. Incomplete metadata, which writers take for damage, is left out.
pub fn forge(plan: &Plan, state: &mut State, doc: usize, t: usize) {
    state.faults.forgeries -= 1;
    if plan.has(Mutation::ReservedStored) {
        let (insert, remove) = (plan.forged == Some(Op::Insert), plan.forged == Some(Op::Remove));
        let writer = state.tx_id(plan, t);
        state.server.now.docs[doc].lock = LockState { writer, insert, remove, ..LockState::default() };
    }
}

/// Restarts the server. Answers that were to wait for the journal are lost; answers that were sent
/// at once may still be received. A reader need not see the effects of a lost decision again.
pub fn restart(plan: &Plan, state: &mut State) {
    state.faults.server_crashes -= 1;
    state.server.restart();
    state.reader.seen = 0;
    state.reader.must &= reader::acknowledged(state);
    for client in 0..state.clients.len() {
        if matches!(&state.clients[client].pump, Pump::Answered(write, _) if write.concern != protocol::Concern::Acknowledged)
        {
            lose_answer(plan, state, client);
        }
    }
}

/// Returns true if the client's answer can be lost, because it was sent before a restart.
pub fn may_lose_answer(state: &State, client: usize) -> bool {
    matches!(state.clients[client].pump, Pump::Answered(_, boot) if boot < state.server.boot)
}

/// Loses the answer to the record write under way.
pub fn lose_answer(plan: &Plan, state: &mut State, client: usize) {
    if let Pump::Answered(write, _) = state.clients[client].pump.clone() {
        state.clients[client].pump = Pump::Examine(write);
        client::lose_connection(plan, state, client);
    }
}

/// A client dies and loses all its memory.
pub fn die(plan: &Plan, state: &mut State, client: usize) {
    state.faults.client_deaths -= 1;
    state.clients[client].alive = false;
    state.clients[client].pump = Pump::Gone;
    for (t, run) in state.runs.iter_mut().enumerate() {
        if plan.txs[t].client == client && run.step != Step::Over {
            run.step = Step::Dead;
        }
    }
}
