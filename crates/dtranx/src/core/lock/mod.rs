//! The lock service (section 3.2): the lock table, and the clock of those who wait in it. It knows transactions and
//! validations by name only; what became of them is for `participant` to know.
//!
//! | asked | answered |
//! | --- | --- |
//! | `Acquire` | `Granted` or `Refused`, once, at once or after the wait, unless a `Release` comes before that |
//! | `Probe` | `Granted` or `Refused`, at once: was none of these keys exclusively locked? |
//! | `Release` | nothing |
//!
//! Requests are handled in the order in which they were sent. So a `Release` that is sent because a transaction was aborted
//! finds what its `Acquire` has locked, even if the answer to that is still on its way; whoever has forgotten the
//! transaction ignores the answer.

mod table;
mod wanted;

#[cfg(test)]
mod tests;

use self::table::{Acquired, LockTable, WaitOver};
pub(crate) use self::wanted::{Locks, exclusive};
use super::{
    id::WorkId,
    item::Key,
    machine::{Event, Turn},
    refusal::Refusal,
    tranx_service::TranxEvent,
};

/// What the lock service is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LockEvent {
    /// All of these locks, at once or after a wait.
    Acquire { work: WorkId, locks: Locks },
    /// Is one of these keys exclusively locked? Nothing is locked by it.
    Probe { work: WorkId, keys: Vec<Key> },
    /// Drop whatever it holds or waits for.
    Release { work: WorkId },
}

/// The lock service of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct LockService {
    table: LockTable,
    /// Within one event only.
    over: Vec<WaitOver>,
}

impl LockService {
    pub(crate) fn on(&mut self, turn: &mut Turn<'_>, event: LockEvent) {
        match event {
            LockEvent::Acquire { work, locks } => self.acquire(turn, work, locks),
            LockEvent::Probe { work, keys } => {
                let locked = keys.into_iter().find(|key| self.table.is_exclusively_locked(key));
                answer(turn, work, locked.map(|key| Refusal::ReadLocked { key }));
            }
            LockEvent::Release { work } => self.table.release(work, &mut self.over),
        }
        self.tell_waiters(turn);
    }

    /// Refuses those who have waited too long.
    pub(crate) fn tick(&mut self, turn: &mut Turn<'_>) {
        self.table.expire(turn.now_ms, &mut self.over);
        self.tell_waiters(turn);
    }

    /// When somebody has waited too long.
    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        self.table.next_deadline_ms()
    }

    /// How many transactions hold or wait for locks.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Takes locks without asking: those that a restarted participant held before, ahead of everybody.
    pub(crate) fn restore(&mut self, work: WorkId, locks: Locks) {
        self.table.restore(work, locks);
    }

    fn acquire(&mut self, turn: &mut Turn<'_>, work: WorkId, locks: Locks) {
        // Half of the slots are for other servers only: whatever this one's clients ask, there is room for a vote.
        let is_ours = work.server() == turn.config.me;
        let most = if is_ours { turn.config.max_running } else { turn.config.max_running.saturating_mul(2) };
        if self.table.len() >= most {
            let limit = format!("{most} transactions under way");
            return answer(turn, work, Some(Refusal::Overloaded { limit }));
        }
        let deadline_ms = turn.now_ms.saturating_add(turn.config.lock_wait_ms);
        match self.table.acquire(work, locks, deadline_ms, &mut self.over) {
            Acquired::Granted => answer(turn, work, None),
            Acquired::Refused(refusal) => answer(turn, work, Some(refusal)),
            Acquired::Waits => {}
        }
    }

    fn tell_waiters(&mut self, turn: &mut Turn<'_>) {
        for over in self.over.drain(..) {
            match over {
                WaitOver::Granted(work) => answer(turn, work, None),
                WaitOver::Refused(work, refusal) => answer(turn, work, Some(refusal)),
            }
        }
    }
}

fn answer(turn: &mut Turn<'_>, work: WorkId, refusal: Option<Refusal>) {
    turn.tell(Event::Tranx(match refusal {
        None => TranxEvent::Granted { work },
        Some(refusal) => TranxEvent::Refused { work, refusal },
    }));
}
