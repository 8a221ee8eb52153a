//! A participant: what one server does about its part of a transaction.
//!
//! 1. `Prepare`: take the locks (or wait for them), check the versions, log `Ready`, and vote yes once that is durable. If
//!    anything of that fails: drop the locks and vote no.
//! 2. The decision: commit logs `Outcome`, applies, drops the locks, and acknowledges once both the record is durable and
//!    the writes are applied; abort drops the locks.
//! 3. Nothing heard since the vote: `Inquire`, first of the coordinator, then of everybody.
//!
//! A crash before the record of step 1 is durable: nothing was promised, the coordinator will miss the vote. After it: the
//! locks are taken again and step 3 follows at once. A coordinator on the same server needs no durable `Ready`: its own
//! `Commit` comes after it in the same log.
//!
//! `Validate` is step 1 without log, for transactions that only read; nothing is remembered of it. A one-phase transaction
//! is step 1 with `OnePhase` in the place of `Ready`, and then applied.
//!
//! Messages may come late or twice: what became of a transaction is remembered until its coordinator's low-water mark
//! passes it; prepares up to that mark are ignored. An abort is remembered even if it comes before its prepare (the "faulty
//! re-lock" of section 3.3.2).
//!
//! Step 1 is in `prepare`, step 2 in `outcome`, step 3 in `doubt`.

mod doubt;
mod outcome;
mod prepare;
mod state;

use std::collections::{BTreeMap, BTreeSet};

use super::{
    id::{ServerId, TranxId},
    journal::Context,
    lock::{LockEvent, LockTable, Locks},
    message::{MAX_BATCH, Message, Outcome},
    transaction::Write,
};
use state::{Goal, Held, Inquiry, State};

/// The parts of transactions on one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Participant {
    locks: LockTable,
    tranxs: BTreeMap<TranxId, State>,
    low_water: BTreeMap<ServerId, u64>,
    /// Whose complete transactions are still in the table.
    reclaiming: BTreeSet<ServerId>,
    /// When to ask about which `Ready` transaction.
    inquiries: BTreeSet<(u64, TranxId)>,
    /// Within one event only.
    lock_events: Vec<LockEvent>,
    /// Within one event only.
    acknowledgements: BTreeMap<ServerId, Vec<TranxId>>,
    anomalies: u64,
}

impl Participant {
    /// How often something happened that must not, such as a decision for a transaction that was never voted for. It is
    /// ignored then.
    pub fn anomalies(&self) -> u64 {
        self.anomalies
    }

    /// The locks.
    pub fn locks(&self) -> &LockTable {
        &self.locks
    }

    /// How many transactions it has not voted for, or not been told the outcome of, or not applied.
    pub fn unfinished(&self) -> usize {
        let is_over = |state: &&State| matches!(state, State::Committed | State::Aborted { .. });
        self.tranxs.len() - self.tranxs.values().filter(is_over).count()
    }

    /// How many transactions it remembers.
    pub fn remembered(&self) -> usize {
        self.tranxs.len()
    }

    /// When something has to be done about time.
    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        let inquiry = self.inquiries.first().map(|(at_ms, _)| *at_ms);
        [inquiry, self.locks.next_deadline_ms()].into_iter().flatten().min()
    }

    pub(crate) fn low_water(&self, server: ServerId) -> u64 {
        self.low_water.get(&server).copied().unwrap_or(0)
    }

    /// Waits for locks and for decisions that have lasted too long.
    pub(crate) fn tick(&mut self, ctx: &mut Context<'_>) {
        self.locks.expire(ctx.now_ms, &mut self.lock_events);
        let due: Vec<_> = self.inquiries.iter().take_while(|(at_ms, _)| *at_ms <= ctx.now_ms).copied().collect();
        for inquiry in due {
            self.inquiries.remove(&inquiry);
            self.inquire(ctx, inquiry.1);
        }
        self.settle(ctx);
    }

    /// Locks of a transaction in doubt, from the log. Asks about it at once.
    pub(crate) fn restore(&mut self, tranx: TranxId, participants: Vec<ServerId>, locks: Locks, writes: Vec<Write>) {
        self.locks.restore(tranx, locks);
        let held = Held { goal: Goal::Prepare { participants }, writes };
        self.tranxs.insert(tranx, State::Ready { held, inquiry: Inquiry::default() });
        self.inquiries.insert((0, tranx));
    }

    /// What became of a transaction, from the log.
    pub(crate) fn restore_outcome(&mut self, tranx: TranxId, outcome: Outcome) {
        let state = match outcome {
            Outcome::Commit => State::Committed,
            Outcome::Abort => State::Aborted { is_final: true },
        };
        self.tranxs.insert(tranx, state);
    }

    /// A low-water mark, from the GC log, before anything else is restored.
    pub(crate) fn restore_low_water(&mut self, server: ServerId, number: u64) {
        self.low_water.insert(server, number);
    }

    /// At the end of each event: goes on with those whose locks were decided about, sends what was acknowledged, and
    /// forgets a little.
    fn settle(&mut self, ctx: &mut Context<'_>) {
        while !self.lock_events.is_empty() {
            let event = self.lock_events.remove(0);
            let (LockEvent::Granted(tranx) | LockEvent::Refused(tranx, _)) = event;
            let Some(State::Locking(work)) = self.tranxs.get(&tranx) else { continue };
            let work = work.clone();
            match event {
                LockEvent::Granted(_) => self.check(ctx, tranx, work),
                LockEvent::Refused(_, refusal) => self.refuse(ctx, tranx, &work.goal, refusal),
            }
        }
        for (server, tranxs) in std::mem::take(&mut self.acknowledgements) {
            for tranxs in tranxs.chunks(MAX_BATCH) {
                ctx.tell(server, Message::Acknowledge(tranxs.to_vec()));
            }
        }
        self.reclaim();
    }
}
