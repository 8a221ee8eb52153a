//! The first phase: locks, versions, the record, the vote.

use super::{
    Participant,
    state::{Goal, Held, Inquiry, State, Work, take_if},
};
use crate::core::{
    event::{CheckAnswer, Command},
    flaw::Flaw,
    id::{ServerId, TranxId},
    item::Key,
    journal::{Context, Wait},
    lock::{Acquired, Locks},
    message::{Message, Vote},
    record::Record,
    refusal::Refusal,
    transaction::Transaction,
};

impl Participant {
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

    /// The storage has compared the versions.
    pub(crate) fn checked(&mut self, ctx: &mut Context<'_>, tranx: TranxId, answer: CheckAnswer) {
        if let Some(State::Checking(work)) =
            take_if(&mut self.tranxs, tranx, |state| matches!(state, State::Checking(_)))
        {
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
        if let Some(State::Logging(held)) = take_if(&mut self.tranxs, tranx, |state| matches!(state, State::Logging(_)))
        {
            self.become_ready(ctx, tranx, held);
        }
        self.settle(ctx);
    }

    /// Step 1: asks for the locks. What is validated by version alone needs none: a version that is still there after
    /// the key was seen not to be exclusively locked was there all the time since it was read.
    pub(super) fn begin(&mut self, ctx: &mut Context<'_>, tranx: TranxId, work: Work) {
        if let Some(key) = misplaced(ctx, &work.part) {
            return vote(ctx, tranx, Vote::No(Refusal::NotHere { server: ctx.config.me, key }));
        }
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

    pub(super) fn check(&mut self, ctx: &mut Context<'_>, tranx: TranxId, work: Work) {
        if work.part.reads.is_empty() && work.part.scans.is_empty() {
            return self.accept(ctx, tranx, work);
        }
        let (reads, scans) = (work.part.reads.clone(), work.part.scans.clone());
        ctx.commands.push(Command::Check { tranx, reads, scans });
        self.tranxs.insert(tranx, State::Checking(work));
    }

    /// The part is locked and valid.
    pub(super) fn accept(&mut self, ctx: &mut Context<'_>, tranx: TranxId, work: Work) {
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

    pub(super) fn log_ready(
        &mut self,
        ctx: &mut Context<'_>,
        tranx: TranxId,
        participants: Vec<ServerId>,
        part: Transaction,
    ) {
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

    pub(super) fn become_ready(&mut self, ctx: &mut Context<'_>, tranx: TranxId, held: Held) {
        vote(ctx, tranx, Vote::Yes);
        let wait_ms = ctx.config.inquiry_ms;
        let inquiry = Inquiry { at_ms: ctx.now_ms.saturating_add(wait_ms), wait_ms, is_repeated: false };
        if tranx.server != ctx.config.me {
            self.inquiries.insert((inquiry.at_ms, tranx));
        }
        self.tranxs.insert(tranx, State::Ready { held, inquiry });
    }

    /// The part cannot be committed: drops it and votes no. A crash may make it forget that.
    pub(super) fn refuse(&mut self, ctx: &mut Context<'_>, tranx: TranxId, goal: &Goal, refusal: Refusal) {
        self.locks.release(tranx, &mut self.lock_events);
        match goal {
            Goal::Prepare { .. } => self.tranxs.insert(tranx, State::Aborted { is_final: false }),
            Goal::Validate | Goal::OnePhase => self.tranxs.remove(&tranx),
        };
        vote(ctx, tranx, Vote::No(refusal));
    }
}

/// A key that this server does not hold: the coordinator has another description of the cluster.
fn misplaced(ctx: &Context<'_>, part: &Transaction) -> Option<Key> {
    let mut keys = part.reads.iter().map(|read| &read.key).chain(part.writes.iter().map(|write| &write.key));
    keys.find(|key| ctx.config.partition.server_of(key) != ctx.config.me).cloned()
}

pub(super) fn vote(ctx: &mut Context<'_>, tranx: TranxId, vote: Vote) {
    ctx.tell(tranx.server, Message::Vote { tranx, vote });
}
