//! Rules for another attempt of a refused transaction, as in section 3.2: whether, how and when.
//!
//! - Read lock refused, or what was read is stale: begun again at once, with what the refusal
//!   brought along (section 4.1).
//! - Write lock refused, or the server is at a limit: the same transaction is committed again,
//!   after a wait that doubles.

use std::time::{Duration, Instant};

use super::state::{CurrentItems, Earlier};
use super::{ClientOptions, Error};
use crate::backoff::Backoff;
use crate::core::{Advice, Refusal, TranxId};

/// Pauses before another attempt (the retry rules of section 3.2).
const PAUSES: Backoff = Backoff::new(Duration::from_micros(500), Duration::from_millis(200));
/// Immediate restarts before restarts wait too: the holder of the lock is slow.
const IMMEDIATE_RESTARTS: u32 = 3;

/// The attempts at one transaction.
pub(super) struct Retry {
    attempts: u32,
    since: Instant,
    limit: u32,
    until: Instant,
    backoff: Backoff,
}

/// Step after a refusal: another attempt, or the end.
pub(super) enum Next {
    /// Wait, then commit the same again.
    CommitAgain(Duration, Earlier),
    /// Wait, then begin anew with what the refusal brought along.
    BeginAgain(Duration, CurrentItems, Earlier),
    GiveUp(Error),
}

impl Retry {
    pub(super) fn new(options: &ClientOptions) -> Self {
        Self {
            attempts: 0,
            since: Instant::now(),
            limit: options.attempts.max(1),
            until: Instant::now() + Duration::from_millis(options.transact_ms),
            backoff: PAUSES,
        }
    }

    fn earlier(&self, kept: Option<TranxId>) -> Earlier {
        Earlier { since: self.since, kept }
    }

    /// Notes that one more attempt was refused, and decides what follows.
    pub(super) fn refused(&mut self, refusal: Refusal) -> Next {
        self.attempts += 1;
        let advice = refusal.advice();
        if advice == Advice::GiveUp {
            return Next::GiveUp(Error::Refused(refusal));
        }
        // Locks are kept for this transaction: others wait for them.
        let is_kept = kept(&refusal).is_some();
        let waits = advice == Advice::RetryLater || self.attempts > IMMEDIATE_RESTARTS && !is_kept;
        let wait = if waits { self.backoff.next_by_chance() } else { Duration::ZERO };
        if self.attempts >= self.limit || Instant::now() + wait >= self.until {
            return Next::GiveUp(Error::GivenUp { attempts: self.attempts, last: refusal });
        }
        match refusal {
            _ if advice == Advice::RetryLater => Next::CommitAgain(wait, self.earlier(None)),
            refusal => {
                let earlier = self.earlier(kept(&refusal));
                Next::BeginAgain(wait, current_items(refusal), earlier)
            }
        }
    }
}

/// The attempt whose locks are kept for the next one.
pub(super) fn kept(refusal: &Refusal) -> Option<TranxId> {
    if let Refusal::Stale { kept, .. } = refusal { *kept } else { None }
}

/// Current items of the stale keys, as a refusal brings them along.
pub(super) fn current_items(refusal: Refusal) -> CurrentItems {
    match refusal {
        Refusal::Stale { current, .. } => current.into_iter().map(|now| (now.key, now.item)).collect(),
        _ => CurrentItems::new(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::core::{Current, Key};

    fn locked() -> Refusal {
        Refusal::WriteLocked { key: Key::smallest() }
    }

    fn stale() -> Refusal {
        Refusal::Stale { current: vec![Current { key: Key::new("a").unwrap(), item: None }], kept: None }
    }

    #[test]
    fn refused_write_lock_commits_the_same_again_after_waits_that_grow() {
        let mut retry = Retry::new(&ClientOptions::default());
        let waits: Vec<Duration> = (0..8)
            .map(|_| match retry.refused(locked()) {
                Next::CommitAgain(wait, _) => wait,
                _ => panic!("something else"),
            })
            .collect();
        // Each lies in the upper half of twice what the one before could be.
        assert!(waits.windows(2).all(|two| two[0] <= two[1]), "{waits:?}");
    }

    #[test]
    fn stale_read_begins_again_at_once_with_what_was_brought() {
        let mut retry = Retry::new(&ClientOptions::default());
        for attempt in 0..=IMMEDIATE_RESTARTS {
            let Next::BeginAgain(wait, current, _) = retry.refused(stale()) else { panic!("something else") };
            assert_eq!(wait.is_zero(), attempt < IMMEDIATE_RESTARTS, "attempt {attempt}");
            assert_eq!(current.len(), 1);
        }
    }

    #[test]
    fn attempts_and_time_are_limited_and_hopeless_ones_end_at_once() {
        let mut retry = Retry::new(&ClientOptions { attempts: 2, ..ClientOptions::default() });
        assert!(matches!(retry.refused(stale()), Next::BeginAgain(..)));
        assert!(matches!(retry.refused(stale()), Next::GiveUp(Error::GivenUp { attempts: 2, .. })));
        let mut retry = Retry::new(&ClientOptions { transact_ms: 0, ..ClientOptions::default() });
        assert!(matches!(retry.refused(locked()), Next::GiveUp(Error::GivenUp { attempts: 1, .. })));
        let hopeless = Refusal::Invalid(crate::core::LimitError::KeyTooLong { bytes: 5000 });
        let mut retry = Retry::new(&ClientOptions::default());
        assert!(matches!(retry.refused(hopeless), Next::GiveUp(Error::Refused(_))));
    }
}
