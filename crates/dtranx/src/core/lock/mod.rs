//! The lock service (section 3.2 of the paper): the lock table and the time limits of its waiters.
//! The service knows transactions and validations only by their ids; their outcomes are kept in
//! `participant`.
//!
//! | event | answers |
//! | --- | --- |
//! | `Acquire` | one `Granted` or `Refused`, at once or after the wait; none if a `Release` comes first |
//! | `Probe` | `Granted` once each of these keys was not exclusively locked at some instant, or `Refused` after the wait |
//! | `Release`, `Keep` | none |
//! | `Gone` | `Refused` to every waiting request of that server's transactions |
//!
//! Events are handled in the order in which they were sent. A `Release` that follows an abort
//! therefore finds the locks of its transaction's `Acquire`, even while the answer to that
//! `Acquire` is still on its way; a participant that has forgotten the transaction ignores the
//! answer.

mod entry;
mod table;

#[cfg(test)]
mod tests;

use self::table::{Acquired, LockTable, Times, WaitOver};
use super::{
    flaw::Flaw,
    id::WorkId,
    machine::{Event, LockEvent, TranxEvent, Turn},
    refusal::Refusal,
    wanted::{Claim, Locks},
};

/// The lock service of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct LockService {
    table: LockTable,
    /// Waits that ended in the current event; empty between events.
    over: Vec<WaitOver>,
}

impl LockService {
    pub(crate) fn on(&mut self, turn: &mut Turn<'_>, event: LockEvent) {
        match event {
            LockEvent::Acquire { work, locks, claim } => self.acquire(turn, work, locks, claim),
            LockEvent::Probe { work, keys } => {
                let is_of_peer = work.server() != turn.config.me;
                let asked = self.table.probe(work, keys, is_of_peer, times(turn));
                answer_asked(turn, work, asked);
            }
            LockEvent::Release { work } => self.release(turn, work),
            LockEvent::Keep { work } => {
                let until_ms = turn.now_ms.saturating_add(turn.config.lock_keep_ms);
                self.table.keep(work, if turn.config.has(Flaw::KeptForEver) { u64::MAX } else { until_ms });
            }
            LockEvent::Gone { server } => {
                if turn.config.has(Flaw::GoneDropsLocks) {
                    let held: Vec<WorkId> = self.table.held.keys().copied().collect();
                    held.into_iter().filter(|work| work.server() == server).for_each(|work| self.release(turn, work));
                }
                let refusal = Refusal::NoVote { server };
                let is_gone = |work: WorkId| work.server() == server;
                if turn.config.has(Flaw::GoneLeaveOneByOne) {
                    for work in self.table.asking(is_gone) {
                        self.over.push(WaitOver::Refused(work, refusal.clone()));
                        self.table.forget_probe(work);
                        self.table.leave(work, turn.now_ms, &mut self.over);
                    }
                }
                self.table.refuse_all(is_gone, &refusal, turn.now_ms, &mut self.over);
            }
        }
        self.table.settle_fences(turn.now_ms, &mut self.over);
        self.tell_waiters(turn);
    }

    /// Refuses requests whose wait is over and drops kept locks whose time is over.
    pub(crate) fn tick(&mut self, turn: &mut Turn<'_>) {
        self.table.expire(times(turn), &mut self.over);
        self.table.settle_fences(turn.now_ms, &mut self.over);
        self.tell_waiters(turn);
    }

    /// Time of the lock table's next timer, in milliseconds of the node's clock.
    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        self.table.next_deadline_ms()
    }

    /// Number of transactions that hold or wait for locks, and of waiting probes.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Number of requests and probes that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.table.waiting()
    }

    /// Locks what a restarted participant held before its restart. There is no check for conflicts:
    /// restored locks come before any request.
    pub(crate) fn restore(&mut self, work: WorkId, locks: Locks) {
        self.table.restore(work, locks);
    }

    fn acquire(&mut self, turn: &mut Turn<'_>, work: WorkId, locks: Locks, claim: Claim) {
        // Half of the table's places are reserved for other servers' transactions, so that the load
        // of this server's own clients leaves room for votes.
        let is_ours = work.server() == turn.config.me;
        let most = if is_ours { turn.config.max_running } else { turn.config.max_running.saturating_mul(2) };
        if self.table.len() >= most {
            let limit = format!("{most} transactions under way");
            return answer(turn, work, Some(Refusal::Overloaded { limit }));
        }
        let claim = Claim { is_of_peer: !is_ours, takes_any: turn.config.has(Flaw::UnkeptLocksTaken), ..claim };
        let asked = self.table.acquire(work, locks, claim, times(turn), &mut self.over);
        answer_asked(turn, work, asked);
    }

    fn release(&mut self, turn: &Turn<'_>, work: WorkId) {
        self.table.release(work, turn.now_ms, &mut self.over);
        if !turn.config.has(Flaw::WaiterLeftAtAbort) {
            self.table.forget_probe(work);
            self.table.leave(work, turn.now_ms, &mut self.over);
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

fn times(turn: &Turn<'_>) -> Times {
    let is_patient = turn.config.has(Flaw::YoungerNeverGivesWay);
    Times {
        now_ms: turn.now_ms,
        wait_ms: turn.config.lock_wait_ms,
        patience_ms: if is_patient { u64::MAX } else { turn.config.lock_patience_ms },
    }
}

fn answer_asked(turn: &mut Turn<'_>, work: WorkId, asked: Acquired) {
    match asked {
        Acquired::Granted => answer(turn, work, None),
        Acquired::Refused(refusal) => answer(turn, work, Some(refusal)),
        Acquired::Waits => {}
    }
}

fn answer(turn: &mut Turn<'_>, work: WorkId, refusal: Option<Refusal>) {
    turn.tell(Event::Tranx(match refusal {
        None => TranxEvent::Granted { work },
        Some(refusal) => TranxEvent::Refused { work, refusal },
    }));
}
