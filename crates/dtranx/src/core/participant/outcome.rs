//! The second phase: the outcome of a part, which comes from the coordinator, from a peer, or from
//! the low-water mark.

use super::{
    Participant,
    prepare::vote,
    release,
    state::{Goal, Held, State, take_if},
};
use crate::core::{
    complete::Complete,
    event::Command,
    flaw::Flaw,
    id::{Epoch, ServerId, TranxId},
    journal::{Context, Wait},
    machine::{AckEvent, Event, LockEvent},
    map::Map,
    message::{Outcome, Vote},
    record::Record,
    snapshot::reserve,
    transaction::Write,
};

/// Number of complete transactions that are forgotten with one event.
const RECLAIM_AT_ONCE: usize = 64;

impl Participant {
    /// Handles the decision, from the coordinator or from a peer that knows it.
    pub(crate) fn decide(&mut self, ctx: &mut Context<'_>, tranx: TranxId, outcome: Outcome, is_inquiry_answer: bool) {
        let is_complete = self.is_complete(tranx);
        let state = if is_complete { None } else { self.tranxs.get(&tranx) };
        match (outcome, state) {
            (Outcome::Commit(_), None) if is_complete => acknowledge(ctx, tranx),
            (Outcome::Commit(epoch), Some(State::Ready { .. })) => self.commit(ctx, tranx, epoch),
            (Outcome::Commit(_), Some(State::Committed(_))) => acknowledge(ctx, tranx),
            (Outcome::Commit(_), Some(State::Committing { .. })) => {}
            (Outcome::Commit(_), _) => self.anomalies += 1,
            (Outcome::Abort, None) if is_inquiry_answer || is_complete => {}
            // Answers to old inquiries: a coordinator that has forgotten a complete transaction
            // presumes an abort.
            (Outcome::Abort, Some(State::Committed(_) | State::Committing { .. })) if is_inquiry_answer => {}
            (Outcome::Abort, Some(State::Committed(_) | State::Committing { .. })) => self.anomalies += 1,
            (Outcome::Abort, Some(State::Promising(_))) => {}
            // A prepare that comes after this locks in vain, until an inquiry ends it.
            (Outcome::Abort, None) if self.is_full(ctx) => {}
            (Outcome::Abort, _) => {
                self.abort(ctx, tranx);
                self.tranxs.insert(tranx, State::Aborted { is_final: true });
            }
        }
    }

    /// `OnePhase` is durable: the transaction is committed.
    pub(crate) fn one_phase_logged(&mut self, ctx: &mut Context<'_>, tranx: TranxId) {
        if let Some(State::Logging(held)) = take_if(&mut self.tranxs, tranx, |state| matches!(state, State::Logging(_)))
        {
            let epoch = held.accepted;
            self.apply(ctx, tranx, held, epoch, true);
        }
    }

    /// Goes on when the record of an outcome is durable.
    pub(crate) fn outcome_logged(&mut self, ctx: &mut Context<'_>, tranx: TranxId) {
        if let Some(State::Committing { is_logged, epoch, later, .. }) = self.tranxs.get_mut(&tranx) {
            *is_logged = true;
            let writes = std::mem::take(later);
            if !writes.is_empty() {
                command_apply(ctx, tranx, *epoch, writes);
            }
        }
        self.finish(ctx, tranx);
    }

    /// Goes on when the writes of a transaction are applied.
    pub(crate) fn applied(&mut self, ctx: &mut Context<'_>, tranx: TranxId) {
        if let Some(State::Committing { is_applied, epoch, .. }) = self.tranxs.get_mut(&tranx) {
            *is_applied = true;
            ctx.epochs.done(tranx, *epoch);
            release(ctx, tranx);
        }
        self.finish(ctx, tranx);
    }

    /// Handles a coordinator's message about its complete transactions: those that are still in
    /// doubt here were aborted, and nothing about any of them needs to be remembered. The table
    /// shrinks step by step.
    pub(crate) fn completed(&mut self, ctx: &Context<'_>, server: ServerId, announced: &Complete) {
        let without_exceptions = Complete::through(announced.last());
        let announced = if ctx.config.has(Flaw::ExceptionsIgnored) { &without_exceptions } else { announced };
        let known = self.complete.entry(server).or_default();
        let last = known.last();
        let freed = known.add(announced);
        if ctx.config.has(Flaw::CompletenessForgotten) {
            *known = announced.clone();
        }
        self.freed.extend(freed.into_iter().map(|number| TranxId { server, number }));
        if announced.last() > last {
            self.reclaiming.entry(server).or_insert(last);
        }
    }

    /// Forgets a few transactions that are complete, and aborts those that were in doubt: a little
    /// with each event, so that no event takes long (section 4.5: Delayed In-Memory Reclamation).
    pub(crate) fn reclaim(&mut self, ctx: &mut Context<'_>) {
        for _ in 0..RECLAIM_AT_ONCE {
            let Some(tranx) = self.freed.pop_first() else { break };
            self.forget(ctx, tranx);
        }
        let Some((server, above)) = self.reclaiming.pop_first() else { return };
        let last = self.complete.get(&server).map_or(0, Complete::last);
        let range = TranxId { server, number: above.saturating_add(1) }..=TranxId { server, number: last };
        let numbered: Vec<TranxId> = self.tranxs.range(range).take(RECLAIM_AT_ONCE).map(|(id, _)| *id).collect();
        for tranx in &numbered {
            if self.is_complete(*tranx) {
                self.forget(ctx, *tranx);
            }
        }
        let is_more = |tranx: &&TranxId| numbered.len() == RECLAIM_AT_ONCE && tranx.number < last;
        if let Some(tranx) = numbered.last().filter(is_more) {
            self.reclaiming.insert(server, tranx.number);
        }
    }

    /// Forgets a transaction that is complete.
    fn forget(&mut self, ctx: &mut Context<'_>, tranx: TranxId) {
        match self.tranxs.get(&tranx) {
            // This goes by itself, when the disk is done with it.
            None | Some(State::Promising(_)) => {}
            Some(State::Committed(_) | State::Aborted { .. }) => drop(self.tranxs.remove(&tranx)),
            // The transaction is complete although it is not acknowledged.
            Some(State::Committing { epoch, .. }) => {
                self.anomalies += 1;
                ctx.epochs.done(tranx, *epoch);
                self.tranxs.remove(&tranx);
            }
            Some(_) => self.abort(ctx, tranx),
        }
    }

    /// Step 2 where the transaction is committed: logs the outcome. The writes are applied at once,
    /// unless no durable record reserves their epoch: after a restart this server would be in an
    /// earlier one, and a snapshot at the end of that one would have them.
    pub(super) fn commit(&mut self, ctx: &mut Context<'_>, tranx: TranxId, epoch: Epoch) {
        let Some(State::Ready { held, doubt }) = self.tranxs.remove(&tranx) else { return };
        self.leave_doubt(ctx, tranx, doubt);
        reserve(ctx, epoch);
        let is_logged = tranx.server == ctx.config.me;
        if !is_logged {
            ctx.log(Record::Outcome { tranx, outcome: Outcome::Commit(epoch) }, false, Some(Wait::Outcome(tranx)));
        }
        self.apply(ctx, tranx, held, epoch, is_logged || ctx.config.has(Flaw::AcknowledgeBeforeDurable));
    }

    pub(super) fn apply(&mut self, ctx: &mut Context<'_>, tranx: TranxId, held: Held, epoch: Epoch, is_logged: bool) {
        let epoch = ctx.epochs.committed(ctx.config, tranx, held.accepted, epoch);
        let Held { goal, writes, .. } = held;
        let is_applied = writes.is_empty();
        let waits = !is_logged && !ctx.epochs.is_reserved(epoch);
        let (now, later) = if waits { (Vec::new(), writes) } else { (writes, Vec::new()) };
        self.tranxs.insert(tranx, State::Committing { goal, epoch, is_logged, is_applied, later });
        if is_applied {
            ctx.epochs.done(tranx, epoch);
        } else if !now.is_empty() {
            command_apply(ctx, tranx, epoch, now);
        }
        if is_applied || ctx.config.has(Flaw::UnlockBeforeApplied) {
            release(ctx, tranx);
        }
        self.finish(ctx, tranx);
    }

    /// Once a commit is both logged and applied: acknowledges it to the coordinator.
    pub(super) fn finish(&mut self, ctx: &mut Context<'_>, tranx: TranxId) {
        let Some(State::Committing { goal, epoch, is_logged: true, is_applied: true, .. }) = self.tranxs.get(&tranx)
        else {
            return;
        };
        let epoch = *epoch;
        if matches!(goal, Goal::OnePhase { .. }) {
            vote(ctx, tranx, Vote::Yes, epoch);
        } else {
            acknowledge(ctx, tranx);
        }
        if tranx.server == ctx.config.me {
            self.tranxs.remove(&tranx);
        } else {
            self.tranxs.insert(tranx, State::Committed(epoch));
        }
    }

    /// Aborts a transaction of which another attempt is expected, and keeps its locks for a while.
    pub(crate) fn keep(&mut self, ctx: &mut Context<'_>, tranx: TranxId) {
        if let Some(State::Ready { .. }) = self.tranxs.get(&tranx) {
            ctx.event(Event::Lock(LockEvent::Keep { work: tranx.into() }));
            self.end(ctx, tranx, true);
            self.tranxs.insert(tranx, State::Aborted { is_final: true });
        } else if !matches!(self.tranxs.get(&tranx), Some(State::Aborted { .. })) {
            self.decide(ctx, tranx, Outcome::Abort, false);
        }
    }

    /// Step 2, abort: drops whatever is held. The record only spares an inquiry after a restart.
    pub(super) fn abort(&mut self, ctx: &mut Context<'_>, tranx: TranxId) {
        self.end(ctx, tranx, false);
    }

    fn end(&mut self, ctx: &mut Context<'_>, tranx: TranxId, keeps: bool) {
        let Some(state) = self.tranxs.remove(&tranx) else { return };
        if let State::Ready { held, .. } | State::Logging(held) = &state {
            ctx.epochs.done(tranx, held.accepted);
        }
        if let State::Ready { doubt, .. } = state {
            self.leave_doubt(ctx, tranx, doubt);
        }
        if matches!(state, State::Ready { .. } | State::Logging(_)) && tranx.server != ctx.config.me {
            ctx.log(Record::Outcome { tranx, outcome: Outcome::Abort }, false, None);
        }
        let holds = match &state {
            _ if keeps => false,
            State::Locking(_) if ctx.config.has(Flaw::AbortReleasesOnlyGranted) => false,
            State::Locking(_) | State::Checking(_) | State::Logging(_) | State::Ready { .. } => true,
            // Its locks may be kept for another attempt.
            State::Aborted { is_final: false } => true,
            State::Committing { .. }
            | State::Committed(_)
            | State::Promising(_)
            | State::Aborted { is_final: true } => false,
        };
        if holds {
            release(ctx, tranx);
        }
    }
}

/// Has writes applied. What they say of the map counts from now on: the locks are still held.
fn command_apply(ctx: &mut Context<'_>, tranx: TranxId, epoch: Epoch, writes: Vec<Write>) {
    if let Some(map) = Map::written(&writes).filter(|_| !ctx.config.has(Flaw::MapNotChanged)) {
        ctx.maps.hold(map);
    }
    ctx.out.commands.push(Command::Apply { tranx, epoch, writes });
}

fn acknowledge(ctx: &mut Context<'_>, tranx: TranxId) {
    ctx.event(Event::Ack(AckEvent::Done { tranx }));
}
