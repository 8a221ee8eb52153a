//! [`Entry`]: the state of one key in the lock table.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::{id::WorkId, standing::Place};

/// The holders of one key, its queue, and the probes that wait for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    pub(super) exclusive: Option<WorkId>,
    pub(super) shared: BTreeSet<WorkId>,
    /// Queue of the key's waiters; the value is true if the waiter wants the key exclusively.
    pub(super) wanted: BTreeMap<Place, bool>,
    /// Waiters for ranges that watch this key because it blocks them.
    pub(super) watched: BTreeSet<Place>,
    /// Probes that wait for an instant at which the key is not exclusively locked.
    pub(super) probed: BTreeSet<WorkId>,
    /// Time at which a lock of the key was last granted or dropped, in milliseconds.
    pub(super) changed_ms: u64,
}

impl Entry {
    pub(super) fn is_unused(&self) -> bool {
        self.exclusive.is_none() && self.shared.is_empty() && !self.is_awaited() && self.probed.is_empty()
    }

    /// Returns true if a request waits for the key, or for a range that the key blocks.
    pub(super) fn is_awaited(&self) -> bool {
        !self.wanted.is_empty() || !self.watched.is_empty()
    }

    /// Returns true if a waiter before `place` wants the key.
    pub(super) fn is_wanted_before(&self, place: Place) -> bool {
        self.wanted.range(..place).next().is_some()
    }

    /// Returns true if a waiter before `place` wants the key exclusively.
    pub(super) fn is_wanted_exclusively_before(&self, place: Place) -> bool {
        self.wanted.range(..place).any(|(_, is_exclusive)| *is_exclusive)
    }

    /// Returns true if `work` holds the key: exclusively, or at least shared if `exclusively` is
    /// false.
    pub(super) fn is_held(&self, work: Option<WorkId>, exclusively: bool) -> bool {
        work.is_some_and(|work| self.exclusive == Some(work) || !exclusively && self.shared.contains(&work))
    }

    /// Waiters that may get the key next: the queue up to and including the first exclusive waiter,
    /// which blocks all behind it.
    pub(super) fn first_waiters(&self) -> impl Iterator<Item = Place> {
        let mut is_over = false;
        self.wanted.iter().map_while(move |(place, is_exclusive)| {
            let is_behind = is_over;
            is_over |= *is_exclusive;
            (!is_behind).then_some(*place)
        })
    }
}
