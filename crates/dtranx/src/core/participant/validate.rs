//! Parts of transactions that only read: locked or looked at, checked, voted for, and forgotten.
//!
//! A yes names the epoch in which the part was found valid: whatever replaces what it saw comes in
//! that epoch or a later one. A server that was restarted is in the last epoch that its log has
//! reserved; so a yes waits until its epoch is durably reserved, which the first of a block of
//! epochs may not be. Otherwise a write of an earlier epoch could come after the restart, and a
//! snapshot would have that write and lack what the reader saw.
//!
//! A waiting yes holds no locks. It waits for the one record that is under way, whatever becomes of
//! its coordinator or client; a coordinator that no longer needs it ignores it. A crash loses it:
//! it was not sent, and the coordinator requests it again. There are `max_validating` of them at
//! the most; further ones are refused as overloaded.

use super::{Participant, prepare::misplaced};
use crate::core::{
    event::{CheckAnswer, Command},
    flaw::Flaw,
    id::{Epoch, ValidationId},
    journal::Context,
    machine::{Event, LockEvent},
    message::{Message, Vote},
    range::Ranges,
    refusal::Refusal,
    snapshot::{reserve, reserve_surely},
    transaction::Transaction,
    wanted::{Claim, Locks},
};

/// Progress of one part of a validation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Validating {
    /// Waits for the lock service; the epoch in which it began.
    Locking(Transaction, Epoch),
    /// The storage compares versions.
    Checking(Transaction, Epoch),
    /// It is valid; its epoch is not durably reserved.
    Reserving,
}

impl Participant {
    /// Begins a validation in the epoch that another participant was in, unless it has begun.
    pub(crate) fn validate(
        &mut self,
        ctx: &mut Context<'_>,
        validation: ValidationId,
        part: Transaction,
        epoch: Epoch,
    ) {
        reserve(ctx, epoch);
        ctx.epochs.enter(epoch);
        let epoch = ctx.epochs.now();
        if self.validations.contains_key(&validation) {
            return;
        }
        if let Some(refusal) = misplaced(ctx, &part) {
            return validated(ctx, validation, Vote::No(refusal), epoch);
        }
        let ignores_locks = !needs_locks(&part) && ctx.config.has(Flaw::ValidationIgnoresLocks);
        if ignores_locks || probes_late(ctx, &part) {
            self.compare(ctx, validation, part, epoch);
        } else {
            self.lock(ctx, validation, part, epoch);
        }
    }

    /// The lock service has granted the request.
    pub(crate) fn validation_granted(&mut self, ctx: &mut Context<'_>, validation: ValidationId) {
        let Some(Validating::Locking(part, arrived)) = self.validations.remove(&validation) else { return };
        // It may have waited for a transaction of a later epoch than that of its arrival.
        let epoch = if ctx.config.has(Flaw::ValidationEpochOfArrival) { arrived } else { ctx.epochs.now() };
        if epoch != arrived && !needs_locks(&part) && !ctx.config.has(Flaw::ValidationKeysInTwoEpochs) {
            // Its keys were seen free one after the other, the first of them perhaps in the epoch
            // before: what locked that one since may belong to the epoch before, too, and would
            // come after it.
            return self.lock(ctx, validation, part, epoch);
        }
        if probes_late(ctx, &part) {
            self.valid(ctx, validation, epoch);
        } else {
            self.compare(ctx, validation, part, epoch);
        }
    }

    /// The lock service has granted nothing.
    pub(crate) fn validation_refused(&mut self, ctx: &mut Context<'_>, validation: ValidationId, refusal: Refusal) {
        let is_asked = matches!(self.validations.get(&validation), Some(Validating::Locking(..)));
        if is_asked || ctx.config.has(Flaw::GoneLeaveOneByOne) && self.validations.contains_key(&validation) {
            self.validations.remove(&validation);
            validated(ctx, validation, Vote::No(refusal), Epoch(0));
        }
    }

    /// The storage has compared the versions.
    pub(crate) fn validation_checked(&mut self, ctx: &mut Context<'_>, validation: ValidationId, answer: CheckAnswer) {
        let Some(Validating::Checking(part, epoch)) = self.validations.remove(&validation) else { return };
        let is_valid = answer.stale.is_empty() && !answer.stale_scans || ctx.config.has(Flaw::VersionsNotChecked);
        if is_valid && probes_late(ctx, &part) {
            return self.lock(ctx, validation, part, epoch);
        }
        if needs_locks(&part) {
            ctx.event(Event::Lock(LockEvent::Release { work: validation.into() }));
        }
        if is_valid {
            self.valid(ctx, validation, epoch);
        } else {
            let refusal = Refusal::Stale { current: answer.stale, kept: None };
            validated(ctx, validation, Vote::No(refusal), epoch);
        }
    }

    /// Says yes, once the epoch is durably reserved.
    fn valid(&mut self, ctx: &mut Context<'_>, validation: ValidationId, epoch: Epoch) {
        if ctx.epochs.is_reserved(epoch) || ctx.config.has(Flaw::ValidationBeforeReserved) {
            return validated(ctx, validation, Vote::Yes, epoch);
        }
        if self.reserving.len() >= ctx.config.max_validating {
            let limit = format!("{} reads that wait for the log", ctx.config.max_validating);
            return validated(ctx, validation, Vote::No(Refusal::Overloaded { limit }), epoch);
        }
        reserve_surely(ctx, epoch);
        self.validations.insert(validation, Validating::Reserving);
        self.reserving.insert((epoch, validation));
    }

    /// More epochs are durably reserved: says yes to what waited for them.
    pub(crate) fn epochs_reserved(&mut self, ctx: &mut Context<'_>) {
        while let Some((epoch, validation)) = self.reserving.first().copied() {
            if !ctx.epochs.is_reserved(epoch) {
                return;
            }
            self.reserving.pop_first();
            self.validations.remove(&validation);
            validated(ctx, validation, Vote::Yes, epoch);
        }
    }

    /// Requests the locks, or has the lock service check that no other transaction holds one.
    fn lock(&mut self, ctx: &mut Context<'_>, validation: ValidationId, part: Transaction, epoch: Epoch) {
        let work = validation.into();
        if needs_locks(&part) {
            let mut locks = Locks::of(&part);
            if ctx.config.has(Flaw::ReadsNotLocked) {
                locks.shared.clear();
            }
            if ctx.config.has(Flaw::RangesNotLocked) {
                locks.ranges = Ranges::default();
            }
            let claim = Claim { since_ms: ctx.time_ms(), is_alone: true, waits_to_read: true, ..Claim::default() };
            ctx.event(Event::Lock(LockEvent::Acquire { work, locks, claim }));
        } else {
            let keys = part.reads.iter().map(|read| read.key.clone()).collect();
            ctx.event(Event::Lock(LockEvent::Probe { work, keys }));
        }
        self.validations.insert(validation, Validating::Locking(part, epoch));
    }

    fn compare(&mut self, ctx: &mut Context<'_>, validation: ValidationId, part: Transaction, epoch: Epoch) {
        let (reads, scans) = (part.reads.clone(), part.scans.clone());
        ctx.out.commands.push(Command::Check { work: validation.into(), reads, scans });
        self.validations.insert(validation, Validating::Checking(part, epoch));
    }
}

/// Returns true if a part must be locked. A part that is validated by version alone need not: a
/// version that is still there after the key was seen without an exclusive lock was there all the
/// time since it was read.
fn needs_locks(part: &Transaction) -> bool {
    part.reads_absence()
}

fn probes_late(ctx: &Context<'_>, part: &Transaction) -> bool {
    ctx.config.has(Flaw::ProbeAfterCheck) && !needs_locks(part)
}

fn validated(ctx: &mut Context<'_>, validation: ValidationId, vote: Vote, epoch: Epoch) {
    ctx.tell(validation.server, Message::Validated { validation, vote, epoch });
}
