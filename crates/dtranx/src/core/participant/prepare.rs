//! The first phase: locks, versions, the record, the vote.

use super::{
    Participant, release,
    state::{Goal, Held, InquiryPlan, State, Work, take_if},
};
use crate::core::{
    event::{CheckAnswer, Command},
    flaw::Flaw,
    id::{Epoch, RequestId, ServerId, TranxId},
    item::{Key, LimitError},
    journal::{Context, Wait},
    machine::{Event, LockEvent},
    message::{Message, Vote},
    range::{KeyRange, Ranges},
    record::Record,
    refusal::Refusal,
    standing::Standing,
    transaction::{Moving, Transaction, Write},
    wanted::{Claim, Locks},
};

impl Participant {
    pub(crate) fn prepare(
        &mut self,
        ctx: &mut Context<'_>,
        tranx: TranxId,
        participants: Vec<ServerId>,
        part: Transaction,
        standing: Standing,
    ) {
        if self.is_complete(tranx) && !ctx.config.has(Flaw::LatePrepareAccepted) {
            return;
        }
        match self.tranxs.get(&tranx) {
            None if self.is_full(ctx) => {
                let limit = format!("{} transactions remembered", ctx.config.max_remembered);
                refuse(ctx, tranx, Refusal::Overloaded { limit });
            }
            None => {
                let keeps = standing.keeps;
                self.begin(ctx, tranx, Work { goal: Goal::Prepare { participants }, part, keeps }, standing);
            }
            Some(State::Ready { held, .. }) => vote(ctx, tranx, Vote::Yes, held.accepted),
            Some(State::Promising(_) | State::Aborted { .. }) => {
                let refusal = Refusal::NoVote { server: ctx.config.me };
                refuse(ctx, tranx, refusal);
            }
            Some(_) => {}
        }
    }

    pub(crate) fn one_phase(
        &mut self,
        ctx: &mut Context<'_>,
        tranx: TranxId,
        request: RequestId,
        part: Transaction,
        standing: Standing,
    ) {
        self.begin(ctx, tranx, Work { goal: Goal::OnePhase { request }, part, keeps: standing.keeps }, standing);
    }

    /// The lock service has granted the request.
    pub(crate) fn granted(&mut self, ctx: &mut Context<'_>, tranx: TranxId) {
        let locking = take_if(&mut self.tranxs, tranx, |state| matches!(state, State::Locking(_)));
        if let Some(State::Locking(work)) = locking {
            self.check(ctx, tranx, work);
        }
    }

    /// The lock service has granted nothing.
    pub(crate) fn locks_refused(&mut self, ctx: &mut Context<'_>, tranx: TranxId, refusal: Refusal) {
        if let Some(State::Locking(work)) = take_if(&mut self.tranxs, tranx, |state| matches!(state, State::Locking(_)))
        {
            self.refuse(ctx, tranx, &work.goal, refusal);
        }
    }

    /// The storage has compared the versions.
    pub(crate) fn checked(&mut self, ctx: &mut Context<'_>, tranx: TranxId, answer: CheckAnswer) {
        let checking = take_if(&mut self.tranxs, tranx, |state| matches!(state, State::Checking(_)));
        let Some(State::Checking(work)) = checking else { return };
        let is_valid = answer.stale.is_empty() && !answer.stale_scans || ctx.config.has(Flaw::VersionsNotChecked);
        if is_valid {
            self.accept(ctx, tranx, work);
        } else {
            let event = if work.keeps {
                LockEvent::Keep { work: tranx.into() }
            } else {
                LockEvent::Release { work: tranx.into() }
            };
            ctx.event(Event::Lock(event));
            let kept = work.keeps.then_some(tranx);
            self.refuse(ctx, tranx, &work.goal, Refusal::Stale { current: answer.stale, kept });
        }
    }

    /// `Ready` is durable.
    pub(crate) fn ready_logged(&mut self, ctx: &mut Context<'_>, tranx: TranxId) {
        if let Some(State::Logging(held)) = take_if(&mut self.tranxs, tranx, |state| matches!(state, State::Logging(_)))
        {
            self.become_ready(ctx, tranx, held);
        }
    }

    /// Step 1: requests the locks of a part.
    pub(super) fn begin(&mut self, ctx: &mut Context<'_>, tranx: TranxId, work: Work, standing: Standing) {
        if let Some(refusal) = misplaced(ctx, &work.part) {
            return self.refuse(ctx, tranx, &work.goal, refusal);
        }
        let mut locks = Locks::of(&work.part);
        if let Some(moving) = &work.part.moving {
            if !ctx.config.has(Flaw::MapNotLocked) {
                locks.exclusive.push(Key::of_map());
            }
            let is_fenced = !ctx.config.has(Flaw::FenceNotLocked);
            locks.fence = is_fenced.then(|| moving.range.clone());
        }
        if ctx.config.has(Flaw::ReadsNotLocked) {
            locks.shared.clear();
        }
        if ctx.config.has(Flaw::RangesNotLocked) {
            locks.ranges = Ranges::default();
        }
        let Standing { since_ms, is_alone, keeps, kept } = standing;
        let kept = kept.map(Into::into);
        let waits_to_read = is_alone || keeps;
        let claim = Claim { since_ms, is_alone, waits_to_read, keeps, kept, ..Claim::default() };
        ctx.event(Event::Lock(LockEvent::Acquire { work: tranx.into(), locks, claim }));
        self.tranxs.insert(tranx, State::Locking(work));
    }

    /// Returns true if it remembers as many transactions as it may.
    pub(super) fn is_full(&self, ctx: &Context<'_>) -> bool {
        self.tranxs.len() >= ctx.config.max_remembered
    }

    pub(super) fn check(&mut self, ctx: &mut Context<'_>, tranx: TranxId, work: Work) {
        if work.part.reads.is_empty() && work.part.scans.is_empty() {
            return self.accept(ctx, tranx, work);
        }
        let (reads, scans) = (work.part.reads.clone(), work.part.scans.clone());
        ctx.out.commands.push(Command::Check { work: tranx.into(), reads, scans });
        self.tranxs.insert(tranx, State::Checking(work));
    }

    /// The part is locked and valid.
    pub(super) fn accept(&mut self, ctx: &mut Context<'_>, tranx: TranxId, work: Work) {
        let Work { goal, mut part, .. } = work;
        if let Some(moving) = &part.moving {
            match moved_map(ctx, &part, moving) {
                // First: who reads beside it and finds a key gone finds the new map, too.
                Ok(write) => part.writes.insert(0, write),
                Err(refusal) => {
                    release(ctx, tranx);
                    return self.refuse(ctx, tranx, &goal, refusal);
                }
            }
        }
        match goal {
            Goal::OnePhase { request } => {
                let record = Record::OnePhase { tranx, writes: part.writes.clone(), request };
                ctx.log(record, true, Some(Wait::OnePhase(tranx)));
                let accepted = ctx.epochs.accept(tranx);
                self.tranxs.insert(tranx, State::Logging(Held { goal, accepted, writes: part.writes }));
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
        let record = Record::Ready { tranx, participants: participants.clone(), shared, ranges: ranges.into(), writes };
        let is_remote = tranx.server != ctx.config.me;
        ctx.log(record, is_remote, is_remote.then_some(Wait::Ready(tranx)));
        let accepted = ctx.epochs.accept(tranx);
        let held = Held { goal: Goal::Prepare { participants }, accepted, writes: part.writes };
        if is_remote && !ctx.config.has(Flaw::VoteBeforeDurable) {
            self.tranxs.insert(tranx, State::Logging(held));
        } else {
            self.become_ready(ctx, tranx, held);
        }
    }

    pub(super) fn become_ready(&mut self, ctx: &mut Context<'_>, tranx: TranxId, held: Held) {
        vote(ctx, tranx, Vote::Yes, held.accepted);
        let doubt = if tranx.server == ctx.config.me {
            InquiryPlan::Never
        } else {
            let from_ms = ctx.now_ms.saturating_add(ctx.config.inquiry_ms);
            self.doubts.insert((from_ms, tranx));
            InquiryPlan::From(from_ms)
        };
        self.tranxs.insert(tranx, State::Ready { held, doubt });
    }

    /// Votes no on a part whose state is out of the table and which holds nothing. A crash may make
    /// it forget that.
    pub(super) fn refuse(&mut self, ctx: &mut Context<'_>, tranx: TranxId, goal: &Goal, refusal: Refusal) {
        if matches!(goal, Goal::Prepare { .. }) {
            self.tranxs.insert(tranx, State::Aborted { is_final: false });
        }
        refuse(ctx, tranx, refusal);
    }
}

/// Reason why this server does not take a part: it does not hold all that the part is about, or,
/// of a range that it is to take, holds some.
pub(super) fn misplaced(ctx: &Context<'_>, part: &Transaction) -> Option<Refusal> {
    if ctx.config.has(Flaw::KeysElsewhereAccepted) {
        return None;
    }
    let me = ctx.config.me;
    if part.moving.as_ref().is_some_and(|moving| !is_move(me, part, moving)) {
        let why = "it is none of this server, or reads something else than its range".to_owned();
        return Some(Refusal::Invalid(LimitError::Move { why }));
    }
    if let Some(moving) = part.moving.as_ref().filter(|moving| moving.from != me) {
        let pieces = ctx.maps.held.pieces(&moving.range);
        let (mine, _) = pieces.into_iter().find(|(_, holder)| *holder == me)?;
        return Some(Refusal::Here { server: me, key: mine.start });
    }
    let held = &ctx.maps.held;
    let keys = part.reads.iter().map(|read| &read.key).chain(part.writes.iter().map(|write| &write.key));
    let keys: Vec<&Key> = keys.filter(|key| held.server_of(key) != me).collect();
    let scanned = part.scans.iter().filter(|scan| !held.holds(me, &scan.range));
    let pieces = scanned.flat_map(|scan| held.pieces(&scan.range)).filter(|(_, holder)| *holder != me);
    let ranges: Vec<KeyRange> = pieces.map(|(piece, _)| piece).collect();
    let key = keys.first().copied().or(ranges.first().map(|range| &range.start))?.clone();
    let moved = ctx.maps.hints(me, &keys, &ranges);
    Some(Refusal::NotHere { server: me, key, moved })
}

/// Returns true if a part is one of a move from this server or to it. Coordinators send no other.
fn is_move(me: ServerId, part: &Transaction, moving: &Moving) -> bool {
    let is_of_range = matches!(&part.scans[..], [scan] if scan.range == moving.range) && part.reads.is_empty();
    let is_within = part.writes.iter().all(|write| moving.range.contains(&write.key));
    let is_ours = moving.from != moving.to && (moving.from == me || moving.to == me);
    is_ours && is_of_range && is_within && !moving.range.is_empty()
}

/// The write of this server's map as it is after a move.
fn moved_map(ctx: &Context<'_>, part: &Transaction, moving: &Moving) -> Result<Write, Refusal> {
    // Another move may have come before it since it arrived. From now on it holds the map's lock.
    misplaced(ctx, part).map_or(Ok(()), Err)?;
    let moves = ctx.maps.held.moves_of(&moving.range);
    if moving.from == ctx.config.me && moves.checked_add(1) != Some(moving.moves) {
        let why = format!("the range has had {moves} moves, and {} are to be noted, not one more", moving.moves);
        return Err(Refusal::Invalid(LimitError::Move { why }));
    }
    ctx.maps.held.after(moving).map_err(Refusal::Invalid)
}

/// Sends a vote; a yes has the epoch in which the part was accepted.
pub(super) fn vote(ctx: &mut Context<'_>, tranx: TranxId, vote: Vote, epoch: Epoch) {
    ctx.tell(tranx.server, Message::Vote { tranx, vote, epoch });
}

fn refuse(ctx: &mut Context<'_>, tranx: TranxId, refusal: Refusal) {
    vote(ctx, tranx, Vote::No(refusal), Epoch(0));
}
