//! Memory of a session of how its last transactions have ended: whether the next one needs quiet,
//! and for how long.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{
    quiet::{Length, Quiet},
    tag::Tags,
};

/// Validations that a session loses one after the other before its next transaction requests quiet.
const LOSSES_BEFORE_QUIET: u32 = 2;

/// Record of how the last transactions of a session have ended: a session that has lost its
/// validation several times in a row is given quiet. A program that makes a new session for each
/// attempt hands this on, with [`crate::Session::with_retry_history`].
#[derive(Clone, Debug, Default)]
pub struct RetryHistory(Arc<Mutex<LostValidations>>);

/// The validations that a session has lost one after the other.
#[derive(Debug, Default)]
struct LostValidations {
    in_a_row: u32,
    /// Number of them whose quiet had run out before they had been validated.
    in_vain: u32,
    /// The change stamps of what was read by the last one.
    stamps: Tags,
}

impl RetryHistory {
    fn state(&self) -> MutexGuard<'_, LostValidations> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A transaction that has read what has these stamps has lost its validation, with this quiet.
    pub(crate) fn lost(&self, stamps: Tags, quiet: Option<&Quiet>) {
        let mut lost = self.state();
        lost.in_a_row += 1;
        lost.in_vain += u32::from(quiet.is_some_and(Quiet::has_run_out));
        lost.stamps = stamps;
    }

    /// A transaction of the session has been validated, or had nothing to be validated.
    pub(crate) fn won(&self) {
        *self.state() = LostValidations::default();
    }

    /// Returns true if the last transaction of the session has lost its validation.
    pub(crate) fn has_lost(&self) -> bool {
        self.state().in_a_row > 0
    }

    /// Length of the next quiet.
    pub(in crate::coordinator) fn length(&self) -> Length {
        Length::of(self.state().in_vain)
    }

    /// The collections in which the next transaction needs quiet. It is given once, and again only
    /// after another loss.
    pub(in crate::coordinator) fn take_wanted(&self) -> Option<Tags> {
        let mut lost = self.state();
        if lost.in_a_row < LOSSES_BEFORE_QUIET || lost.stamps.is_empty() {
            return None;
        }
        lost.in_a_row = LOSSES_BEFORE_QUIET - 1;
        Some(std::mem::take(&mut lost.stamps))
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Weak, time::Duration};

    use bson::oid::ObjectId;

    use super::*;
    use crate::{coordinator::stamps::tag::Tag, options::Namespace};

    fn stamps() -> Tags {
        Tags::from([Tag::of(&Namespace::new("d", "x"))])
    }

    #[test]
    fn quiet_is_wanted_after_two_losses_in_a_row_and_given_once_for_each_further_one() {
        let attempts = RetryHistory::default();
        attempts.lost(stamps(), None);
        assert_eq!(attempts.take_wanted(), None);
        attempts.lost(stamps(), None);
        assert_eq!(attempts.take_wanted(), Some(stamps()));
        assert_eq!(attempts.take_wanted(), None, "it was given");
        attempts.lost(stamps(), None);
        assert_eq!(attempts.take_wanted(), Some(stamps()));
        attempts.lost(stamps(), None);
        attempts.won();
        attempts.lost(stamps(), None);
        assert_eq!(attempts.take_wanted(), None, "not in a row");
    }

    #[test]
    fn quiet_that_has_run_out_is_longer_the_next_time() {
        let (attempts, lease) = (RetryHistory::default(), Duration::from_secs(10));
        let of = |longest| {
            let mut quiet = Quiet::new(ObjectId::from_bytes([1; 12]), stamps(), Weak::new(), longest);
            quiet.note_asked();
            quiet
        };
        let longest = || attempts.length().longest(lease);
        let half_a_second = Duration::from_millis(500);
        attempts.lost(stamps(), Some(&of(longest())));
        assert_eq!(longest(), half_a_second, "it was not too short");
        for doubled in [2, 4, 4] {
            attempts.lost(stamps(), Some(&of(Duration::ZERO)));
            assert_eq!(longest(), half_a_second * doubled);
        }
        assert_eq!(attempts.length().longest(Duration::from_millis(80)), Duration::from_millis(40));
        attempts.won();
        assert_eq!(attempts.length(), Length::default());
    }
}
