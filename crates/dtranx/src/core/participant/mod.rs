//! A participant: what one server does about its part of a transaction.
//!
//! 1. `Prepare`: request the locks from the lock service, check the versions, log `Ready`, and vote
//!    yes once that is durable. If anything of that fails: drop the locks and vote no.
//! 2. The decision: commit logs `Outcome`, applies, drops the locks, and has the acknowledgement
//!    service acknowledge it once both the record is durable and the writes are applied; abort
//!    drops the locks.
//! 3. No decision for too long since the vote: the recovery service inquires until the outcome is
//!    known.
//!
//! A crash before the record of step 1 is durable: nothing was promised, the coordinator will miss
//! the vote. After it: the locks are taken again and step 3 follows at once. A coordinator on the
//! same server needs no durable `Ready`: its own `Commit` comes after it in the same log.
//!
//! `Validate` is step 1 without log, for transactions that only read; nothing is remembered of it
//! (`validate`). Only the record of a new epoch is waited for. A one-phase transaction is step 1
//! with `OnePhase` in the place of `Ready`, and then applied.
//!
//! The lock service answers late: a transaction may be aborted, or complete, by then. Its state is
//! gone, so the answer is ignored, and `Release` has been sent behind `Acquire`.
//!
//! Messages may come late or twice: the outcome of a transaction is remembered until its
//! coordinator says that it is complete; prepares of what is complete are ignored. An abort is
//! remembered even if it comes before its prepare (the "faulty re-lock" of section 3.3.2).
//!
//! Step 1 is in `prepare`, step 2 in `outcome`, step 3 in `doubt`; `tally` counts.

mod doubt;
mod outcome;
mod prepare;
mod state;
mod tally;
mod validate;

use std::collections::{BTreeMap, BTreeSet};

use super::{
    complete::Complete,
    id::{Epoch, ServerId, TranxId, ValidationId},
    journal::Context,
    machine::{Event, LockEvent},
    message::Outcome,
    transaction::Write,
};
use state::{Goal, Held, InquiryPlan, State};
use validate::Validating;

/// The parts of transactions on one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Participant {
    tranxs: BTreeMap<TranxId, State>,
    /// Parts that only read, and are being locked or checked, or wait for their epoch.
    validations: BTreeMap<ValidationId, Validating>,
    /// Of these, the valid ones whose epoch is not durably reserved.
    reserving: BTreeSet<(Epoch, ValidationId)>,
    complete: BTreeMap<ServerId, Complete>,
    /// Coordinators whose complete transactions above a number are still in the table.
    reclaiming: BTreeMap<ServerId, u64>,
    /// Complete transactions that were exceptions before, and are still in the table.
    freed: BTreeSet<TranxId>,
    /// Times at which `Ready` transactions have been in doubt for too long.
    doubts: BTreeSet<(u64, TranxId)>,
    anomalies: u64,
}

impl Participant {
    /// Number of events that the protocol excludes, such as a decision for a transaction that was
    /// never voted for. Each is ignored.
    pub(crate) fn anomalies(&self) -> u64 {
        self.anomalies
    }

    /// Number of transactions that it remembers.
    pub(crate) fn remembered(&self) -> usize {
        self.tranxs.len()
    }

    /// Time at which the next doubt is due to be handed over.
    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        self.doubts.first().map(|(at_ms, _)| *at_ms)
    }

    /// The largest number such that all of the server's transactions up to it are complete.
    pub(crate) fn low_water(&self, server: ServerId) -> u64 {
        self.complete.get(&server).map_or(0, Complete::low_water)
    }

    /// What is complete of a server's transactions, as far as is known.
    pub(crate) fn complete(&self, server: ServerId) -> Option<&Complete> {
        self.complete.get(&server)
    }

    fn is_complete(&self, tranx: TranxId) -> bool {
        self.complete.get(&tranx.server).is_some_and(|complete| complete.contains(tranx.number))
    }

    /// Hands over the waits for decisions that have lasted too long.
    pub(crate) fn tick(&mut self, ctx: &mut Context<'_>) {
        let due: Vec<_> = self.doubts.iter().take_while(|(at_ms, _)| *at_ms <= ctx.now_ms).copied().collect();
        for doubt in due {
            self.doubts.remove(&doubt);
            self.hand_over(ctx, doubt.1);
        }
    }

    /// A transaction in doubt, from the log. The recovery service has it, too.
    pub(crate) fn restore(&mut self, tranx: TranxId, participants: Vec<ServerId>, writes: Vec<Write>) {
        let held = Held { goal: Goal::Prepare { participants }, accepted: Epoch(0), writes };
        self.tranxs.insert(tranx, State::Ready { held, doubt: InquiryPlan::HandedOver });
    }

    /// Takes the outcome of a transaction from the log.
    pub(crate) fn restore_outcome(&mut self, tranx: TranxId, outcome: Outcome) {
        let state = match outcome {
            Outcome::Commit(epoch) => State::Committed(epoch),
            Outcome::Abort => State::Aborted { is_final: true },
        };
        self.tranxs.insert(tranx, state);
    }

    /// A low-water mark, from the GC log, before anything else is restored.
    pub(crate) fn restore_complete(&mut self, server: ServerId, complete: Complete) {
        self.complete.insert(server, complete);
    }
}

/// Drops the locks and lock requests of the transaction.
fn release(ctx: &mut Context<'_>, tranx: TranxId) {
    ctx.event(Event::Lock(LockEvent::Release { work: tranx.into() }));
}
