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

use std::collections::{BTreeMap, BTreeSet};

use super::{
    config::MAX_INQUIRY_FACTOR,
    event::{CheckAnswer, Command},
    flaw::Flaw,
    id::{ServerId, TranxId},
    journal::{Context, Wait},
    lock::{Acquired, LockEvent, LockTable, Locks},
    message::{Message, Outcome, Vote},
    record::Record,
    refusal::Refusal,
    transaction::{Transaction, Write},
};

/// The parts of transactions on one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Participant {
    locks: LockTable,
    tranxs: BTreeMap<TranxId, State>,
    low_water: BTreeMap<ServerId, u64>,
    /// When to ask about which `Ready` transaction.
    inquiries: BTreeSet<(u64, TranxId)>,
    /// Within one event only.
    lock_events: Vec<LockEvent>,
    /// Within one event only.
    acknowledgements: BTreeMap<ServerId, Vec<TranxId>>,
    anomalies: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    /// Waits for locks.
    Locking(Work),
    /// The storage compares versions; the locks are held.
    Checking(Work),
    /// The record is not durable; the locks are held.
    Logging(Held),
    /// Voted yes; the locks are held.
    Ready { held: Held, inquiry: Inquiry },
    /// Committed; the locks are held until it is applied.
    Committing { goal: Goal, is_logged: bool, is_applied: bool },
    /// Committed and acknowledged.
    Committed,
    /// `Outcome` is not durable; these peers want to know.
    Promising(BTreeSet<ServerId>),
    /// Will not be voted for. If final, not even after a crash.
    Aborted { is_final: bool },
}

/// When to ask what became of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Inquiry {
    at_ms: u64,
    /// How long after that to ask again.
    wait_ms: u64,
    /// Has the coordinator been asked?
    is_repeated: bool,
}

/// What the part is prepared for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Goal {
    Validate,
    OnePhase,
    Prepare { participants: Vec<ServerId> },
}

/// A part that is not checked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Work {
    goal: Goal,
    part: Transaction,
}

/// A part that is checked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Held {
    goal: Goal,
    writes: Vec<Write>,
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

    pub(crate) fn prepare(
        &mut self,
        ctx: &mut Context<'_>,
        tranx: TranxId,
        participants: Vec<ServerId>,
        part: Transaction,
    ) {
        if tranx.number <= self.low_water(tranx.server) && !ctx.config.has(Flaw::LatePrepareAccepted) {
            return;
        }
        match self.tranxs.get(&tranx) {
            None => self.begin(ctx, tranx, Work { goal: Goal::Prepare { participants }, part }),
            Some(State::Ready { .. }) => vote(ctx, tranx, Vote::Yes),
            Some(State::Promising(_) | State::Aborted { .. }) => {
                let refusal = Refusal::NoVote { server: ctx.config.me };
                vote(ctx, tranx, Vote::No(refusal));
            }
            Some(_) => {}
        }
        self.settle(ctx);
    }

    pub(crate) fn validate(&mut self, ctx: &mut Context<'_>, tranx: TranxId, part: Transaction) {
        if !self.tranxs.contains_key(&tranx) && tranx.number > self.low_water(tranx.server) {
            self.begin(ctx, tranx, Work { goal: Goal::Validate, part });
        }
        self.settle(ctx);
    }

    pub(crate) fn one_phase(&mut self, ctx: &mut Context<'_>, tranx: TranxId, part: Transaction) {
        self.begin(ctx, tranx, Work { goal: Goal::OnePhase, part });
        self.settle(ctx);
    }

    /// The decision, from the coordinator or from a peer who knows it.
    pub(crate) fn decide(&mut self, ctx: &mut Context<'_>, tranx: TranxId, outcome: Outcome, is_told: bool) {
        let is_complete = tranx.number <= self.low_water(tranx.server);
        let state = if is_complete { None } else { self.tranxs.get(&tranx) };
        match (outcome, state) {
            (Outcome::Commit, None) if is_complete => self.acknowledge(tranx),
            (Outcome::Commit, Some(State::Ready { .. })) => self.commit(ctx, tranx),
            (Outcome::Commit, Some(State::Committed)) => self.acknowledge(tranx),
            (Outcome::Commit, Some(State::Committing { .. })) => {}
            (Outcome::Commit, _) => self.anomalies += 1,
            (Outcome::Abort, None) if is_told || is_complete => {}
            // Answers to old inquiries: a coordinator that has forgotten a complete transaction presumes an abort.
            (Outcome::Abort, Some(State::Committed | State::Committing { .. })) if is_told => {}
            (Outcome::Abort, Some(State::Committed | State::Committing { .. })) => self.anomalies += 1,
            (Outcome::Abort, Some(State::Promising(_))) => {}
            (Outcome::Abort, _) => {
                self.abort(ctx, tranx);
                self.tranxs.insert(tranx, State::Aborted { is_final: true });
            }
        }
        self.settle(ctx);
    }

    /// The storage has compared the versions.
    pub(crate) fn checked(&mut self, ctx: &mut Context<'_>, tranx: TranxId, answer: CheckAnswer) {
        if let Some(State::Checking(work)) = self.tranxs.get(&tranx) {
            let work = work.clone();
            let is_valid = answer.stale.is_empty() && !answer.stale_scans;
            if is_valid || ctx.config.has(Flaw::VersionsNotChecked) {
                self.accept(ctx, tranx, work);
            } else {
                self.refuse(ctx, tranx, &work.goal, Refusal::Stale { current: answer.stale });
            }
        }
        self.settle(ctx);
    }

    /// `Ready` is durable.
    pub(crate) fn ready_logged(&mut self, ctx: &mut Context<'_>, tranx: TranxId) {
        if let Some(State::Logging(held)) = self.tranxs.get(&tranx) {
            let held = held.clone();
            self.become_ready(ctx, tranx, held);
        }
        self.settle(ctx);
    }

    /// `OnePhase` is durable: the transaction is committed.
    pub(crate) fn one_phase_logged(&mut self, ctx: &mut Context<'_>, tranx: TranxId) {
        if let Some(State::Logging(held)) = self.tranxs.get(&tranx) {
            let held = held.clone();
            self.apply(ctx, tranx, held, true);
        }
        self.settle(ctx);
    }

    /// `Outcome` is durable.
    pub(crate) fn outcome_logged(&mut self, ctx: &mut Context<'_>, tranx: TranxId) {
        if let Some(State::Committing { is_logged, .. }) = self.tranxs.get_mut(&tranx) {
            *is_logged = true;
        }
        self.finish(ctx, tranx);
        self.settle(ctx);
    }

    /// `Outcome` is durable: the peers in doubt may rely on it.
    pub(crate) fn promise_logged(&mut self, ctx: &mut Context<'_>, tranx: TranxId) {
        if let Some(State::Promising(peers)) = self.tranxs.get(&tranx) {
            for peer in peers {
                told(ctx, *peer, tranx, Some(Outcome::Abort));
            }
            self.tranxs.insert(tranx, State::Aborted { is_final: true });
        }
    }

    /// The writes are applied.
    pub(crate) fn applied(&mut self, ctx: &mut Context<'_>, tranx: TranxId) {
        if let Some(State::Committing { is_applied, .. }) = self.tranxs.get_mut(&tranx) {
            *is_applied = true;
            self.locks.release(tranx, &mut self.lock_events);
        }
        self.finish(ctx, tranx);
        self.settle(ctx);
    }

    /// A peer asks about another coordinator's transaction. Whoever has not voted yes may promise never to, so that the
    /// peer need not wait for the coordinator; but a promise must outlive a crash.
    pub(crate) fn inquired(&mut self, ctx: &mut Context<'_>, peer: ServerId, tranx: TranxId) {
        let is_complete = tranx.number <= self.low_water(tranx.server);
        let outcome = match self.tranxs.get_mut(&tranx) {
            Some(State::Committed | State::Committing { .. }) => Some(Outcome::Commit),
            Some(State::Aborted { is_final: true }) => Some(Outcome::Abort),
            // Who is still in doubt has acknowledged nothing.
            None if is_complete => Some(Outcome::Abort),
            None | Some(State::Aborted { is_final: false }) if ctx.config.has(Flaw::PromiseNotLogged) => {
                self.tranxs.insert(tranx, State::Aborted { is_final: true });
                Some(Outcome::Abort)
            }
            None | Some(State::Aborted { is_final: false }) => {
                let record = Record::Outcome { tranx, outcome: Outcome::Abort };
                ctx.log(record, true, Some(Wait::Promise(tranx)));
                self.tranxs.insert(tranx, State::Promising(BTreeSet::from([peer])));
                return;
            }
            Some(State::Promising(peers)) => {
                peers.insert(peer);
                return;
            }
            Some(_) => None,
        };
        told(ctx, peer, tranx, outcome);
    }

    /// The coordinator's transactions up to `number` are complete: those that are still in doubt here were aborted, and
    /// nothing about any of them needs to be remembered.
    pub(crate) fn raise_low_water(&mut self, ctx: &mut Context<'_>, server: ServerId, number: u64) {
        if number <= self.low_water(server) {
            return;
        }
        self.low_water.insert(server, number);
        let complete = TranxId { server, number: 0 }..=TranxId { server, number };
        let complete: Vec<TranxId> = self.tranxs.range(complete).map(|(tranx, _)| *tranx).collect();
        for tranx in complete {
            match self.tranxs.get(&tranx) {
                Some(State::Committing { .. }) => self.anomalies += 1,
                Some(State::Promising(_)) => self.promise_logged(ctx, tranx),
                _ => self.abort(ctx, tranx),
            }
            self.tranxs.remove(&tranx);
        }
        self.settle(ctx);
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

    /// Step 1: asks for the locks. What is validated by version alone needs none: a version that is still there after
    /// the key was seen not to be exclusively locked was there all the time since it was read.
    fn begin(&mut self, ctx: &mut Context<'_>, tranx: TranxId, work: Work) {
        if work.goal == Goal::Validate && !work.part.reads_absence() {
            let locked = work.part.reads.iter().find(|read| self.locks.is_exclusively_locked(&read.key));
            match locked {
                Some(read) if !ctx.config.has(Flaw::ValidationIgnoresLocks) => {
                    vote(ctx, tranx, Vote::No(Refusal::ReadLocked { key: read.key.clone() }));
                }
                _ => self.check(ctx, tranx, work),
            }
            return;
        }
        if self.locks.len() >= ctx.config.max_running {
            let limit = format!("{} transactions under way", ctx.config.max_running);
            vote(ctx, tranx, Vote::No(Refusal::Overloaded { limit }));
            return;
        }
        let mut locks = Locks::of(&work.part);
        if ctx.config.has(Flaw::ReadsNotLocked) {
            locks.shared.clear();
        }
        if ctx.config.has(Flaw::RangesNotLocked) {
            locks.ranges.clear();
        }
        let deadline_ms = ctx.now_ms.saturating_add(ctx.config.lock_wait_ms);
        match self.locks.acquire(tranx, locks, deadline_ms, &mut self.lock_events) {
            Acquired::Granted => self.check(ctx, tranx, work),
            Acquired::Waits => {
                self.tranxs.insert(tranx, State::Locking(work));
            }
            Acquired::Refused(refusal) => self.refuse(ctx, tranx, &work.goal, refusal),
        }
    }

    fn check(&mut self, ctx: &mut Context<'_>, tranx: TranxId, work: Work) {
        if work.part.reads.is_empty() && work.part.scans.is_empty() {
            return self.accept(ctx, tranx, work);
        }
        let (reads, scans) = (work.part.reads.clone(), work.part.scans.clone());
        ctx.commands.push(Command::Check { tranx, reads, scans });
        self.tranxs.insert(tranx, State::Checking(work));
    }

    /// The part is locked and valid.
    fn accept(&mut self, ctx: &mut Context<'_>, tranx: TranxId, work: Work) {
        let Work { goal, part } = work;
        match goal {
            Goal::Validate => {
                self.tranxs.remove(&tranx);
                self.locks.release(tranx, &mut self.lock_events);
                vote(ctx, tranx, Vote::Yes);
            }
            Goal::OnePhase => {
                ctx.log(Record::OnePhase { tranx, writes: part.writes.clone() }, true, Some(Wait::OnePhase(tranx)));
                self.tranxs.insert(tranx, State::Logging(Held { goal, writes: part.writes }));
            }
            Goal::Prepare { participants } => self.log_ready(ctx, tranx, participants, part),
        }
    }

    fn log_ready(&mut self, ctx: &mut Context<'_>, tranx: TranxId, participants: Vec<ServerId>, part: Transaction) {
        let Locks { shared, ranges, .. } = Locks::of(&part);
        let writes = part.writes.clone();
        let record = Record::Ready { tranx, participants: participants.clone(), shared, ranges, writes };
        let is_remote = tranx.server != ctx.config.me;
        ctx.log(record, is_remote, is_remote.then_some(Wait::Ready(tranx)));
        let held = Held { goal: Goal::Prepare { participants }, writes: part.writes };
        if is_remote && !ctx.config.has(Flaw::VoteBeforeDurable) {
            self.tranxs.insert(tranx, State::Logging(held));
        } else {
            self.become_ready(ctx, tranx, held);
        }
    }

    fn become_ready(&mut self, ctx: &mut Context<'_>, tranx: TranxId, held: Held) {
        vote(ctx, tranx, Vote::Yes);
        let wait_ms = ctx.config.inquiry_ms;
        let inquiry = Inquiry { at_ms: ctx.now_ms.saturating_add(wait_ms), wait_ms, is_repeated: false };
        if tranx.server != ctx.config.me {
            self.inquiries.insert((inquiry.at_ms, tranx));
        }
        self.tranxs.insert(tranx, State::Ready { held, inquiry });
    }

    /// The part cannot be committed: drops it and votes no. A crash may make it forget that.
    fn refuse(&mut self, ctx: &mut Context<'_>, tranx: TranxId, goal: &Goal, refusal: Refusal) {
        self.locks.release(tranx, &mut self.lock_events);
        match goal {
            Goal::Prepare { .. } => self.tranxs.insert(tranx, State::Aborted { is_final: false }),
            Goal::Validate | Goal::OnePhase => self.tranxs.remove(&tranx),
        };
        vote(ctx, tranx, Vote::No(refusal));
    }

    /// Step 2, commit.
    fn commit(&mut self, ctx: &mut Context<'_>, tranx: TranxId) {
        let Some(State::Ready { held, inquiry }) = self.tranxs.remove(&tranx) else { return };
        self.inquiries.remove(&(inquiry.at_ms, tranx));
        let is_logged = tranx.server == ctx.config.me;
        if !is_logged {
            ctx.log(Record::Outcome { tranx, outcome: Outcome::Commit }, false, Some(Wait::Outcome(tranx)));
        }
        self.apply(ctx, tranx, held, is_logged || ctx.config.has(Flaw::AcknowledgeBeforeDurable));
    }

    fn apply(&mut self, ctx: &mut Context<'_>, tranx: TranxId, held: Held, is_logged: bool) {
        let is_applied = held.writes.is_empty();
        self.tranxs.insert(tranx, State::Committing { goal: held.goal, is_logged, is_applied });
        if !is_applied {
            ctx.commands.push(Command::Apply { tranx, writes: held.writes });
        }
        if is_applied || ctx.config.has(Flaw::UnlockBeforeApplied) {
            self.locks.release(tranx, &mut self.lock_events);
        }
        self.finish(ctx, tranx);
    }

    /// Once a commit is both logged and applied: tells the coordinator.
    fn finish(&mut self, ctx: &mut Context<'_>, tranx: TranxId) {
        let Some(State::Committing { goal, is_logged: true, is_applied: true }) = self.tranxs.get(&tranx) else {
            return;
        };
        if *goal == Goal::OnePhase {
            vote(ctx, tranx, Vote::Yes);
        } else {
            self.acknowledge(tranx);
        }
        if tranx.server == ctx.config.me {
            self.tranxs.remove(&tranx);
        } else {
            self.tranxs.insert(tranx, State::Committed);
        }
    }

    fn acknowledge(&mut self, tranx: TranxId) {
        self.acknowledgements.entry(tranx.server).or_default().push(tranx);
    }

    /// Step 2, abort: drops whatever is held. The record only spares a question after a restart.
    fn abort(&mut self, ctx: &mut Context<'_>, tranx: TranxId) {
        let Some(state) = self.tranxs.remove(&tranx) else { return };
        if let State::Ready { inquiry, .. } = &state {
            self.inquiries.remove(&(inquiry.at_ms, tranx));
        }
        if matches!(state, State::Ready { .. } | State::Logging(_)) && tranx.server != ctx.config.me {
            ctx.log(Record::Outcome { tranx, outcome: Outcome::Abort }, false, None);
        }
        self.locks.release(tranx, &mut self.lock_events);
    }

    /// Step 3.
    fn inquire(&mut self, ctx: &mut Context<'_>, tranx: TranxId) {
        let Some(State::Ready { held, inquiry }) = self.tranxs.get_mut(&tranx) else { return };
        ctx.tell(tranx.server, Message::Inquire { tranx });
        if let (Goal::Prepare { participants }, true) = (&held.goal, inquiry.is_repeated) {
            for peer in participants.iter().filter(|peer| **peer != ctx.config.me && **peer != tranx.server) {
                ctx.tell(*peer, Message::Inquire { tranx });
            }
        }
        let longest_ms = ctx.config.inquiry_ms.saturating_mul(MAX_INQUIRY_FACTOR);
        let wait_ms = inquiry.wait_ms.saturating_mul(2).clamp(ctx.config.inquiry_ms, longest_ms);
        *inquiry = Inquiry { at_ms: ctx.now_ms.saturating_add(wait_ms), wait_ms, is_repeated: true };
        self.inquiries.insert((inquiry.at_ms, tranx));
    }

    /// Goes on with those whose locks were decided about, and sends what was acknowledged.
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
            ctx.tell(server, Message::Acknowledge(tranxs));
        }
    }
}

fn vote(ctx: &mut Context<'_>, tranx: TranxId, vote: Vote) {
    ctx.tell(tranx.server, Message::Vote { tranx, vote });
}

fn told(ctx: &mut Context<'_>, peer: ServerId, tranx: TranxId, outcome: Option<Outcome>) {
    ctx.tell(peer, Message::Told { tranx, outcome });
}
