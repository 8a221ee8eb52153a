//! Timers of a member: their durations, and the chance in them, are not the machine's.

use std::collections::BTreeMap;

use crate::core::group::Timer;

/// Silence before an election, in milliseconds: by chance between these, so that two members seldom
/// stand at the same time.
const ELECTION_MS: (u64, u64) = (500, 1_000);
/// Time between the heartbeats of a leader, in milliseconds.
const HEARTBEAT_MS: u64 = 100;
/// Half of the time that a leader goes on without contact to a majority, in milliseconds.
const CONTACT_MS: u64 = 500;
/// Half of the time that a leader goes on with an entry that its own log does not sync, in
/// milliseconds (G21).
const DISK_MS: u64 = 1_000;

/// Times at which timers go off.
#[derive(Debug, Default)]
pub(super) struct Timers {
    at_ms: BTreeMap<Timer, u64>,
}

impl Timers {
    /// Lets a timer go off after its duration, and not before. Heartbeats are not put off by what a
    /// leader sends meanwhile: they begin rounds, and show what was lost.
    pub(super) fn set(&mut self, timer: Timer, now_ms: u64) {
        let duration_ms = match timer {
            Timer::Election => rand::random_range(ELECTION_MS.0..=ELECTION_MS.1),
            Timer::Silence => ELECTION_MS.0,
            Timer::Heartbeat => HEARTBEAT_MS,
            Timer::Contact => CONTACT_MS,
            Timer::Disk => DISK_MS,
        };
        let at_ms = self.at_ms.entry(timer).or_insert(now_ms + duration_ms);
        if timer != Timer::Heartbeat {
            *at_ms = now_ms + duration_ms;
        }
    }

    /// A timer that goes off now; it is no longer set.
    pub(super) fn take_due(&mut self, now_ms: u64) -> Option<Timer> {
        let timer = self.at_ms.iter().find(|(_, at_ms)| **at_ms <= now_ms).map(|(timer, _)| *timer)?;
        self.at_ms.remove(&timer);
        Some(timer)
    }

    pub(super) fn next_ms(&self) -> Option<u64> {
        self.at_ms.values().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timer_goes_off_once_and_after_its_last_setting() {
        let mut timers = Timers::default();
        timers.set(Timer::Contact, 0);
        timers.set(Timer::Disk, 0);
        timers.set(Timer::Contact, 50);
        assert_eq!(timers.take_due(CONTACT_MS), None, "it was set anew");
        assert_eq!(timers.next_ms(), Some(50 + CONTACT_MS));
        assert_eq!(timers.take_due(50 + CONTACT_MS), Some(Timer::Contact));
        assert_eq!(timers.take_due(DISK_MS), Some(Timer::Disk));
        assert_eq!((timers.take_due(u64::MAX), timers.next_ms()), (None, None));
    }

    #[test]
    fn heartbeat_is_not_put_off() {
        let mut timers = Timers::default();
        timers.set(Timer::Heartbeat, 0);
        timers.set(Timer::Heartbeat, HEARTBEAT_MS - 1);
        assert_eq!(timers.take_due(HEARTBEAT_MS), Some(Timer::Heartbeat));
        timers.set(Timer::Heartbeat, HEARTBEAT_MS);
        assert_eq!(timers.next_ms(), Some(2 * HEARTBEAT_MS));
    }

    #[test]
    fn members_do_not_stand_at_the_same_time_and_not_while_others_hear_of_a_leader() {
        let next = |timer| {
            let mut timers = Timers::default();
            timers.set(timer, 0);
            timers.next_ms()
        };
        let elections: Vec<_> = (0..100).map(|_| next(Timer::Election)).collect();
        assert!(elections.iter().any(|election| *election != elections[0]));
        assert!(elections.iter().all(|election| *election >= next(Timer::Silence)));
    }
}
