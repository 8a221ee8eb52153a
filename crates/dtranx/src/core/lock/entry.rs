//! The holders of one key, its queue, and the probes that wait for it.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::{id::WorkId, standing::Place};

/// The holders of one key, its queue, and the probes that wait for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    pub(super) exclusive: Option<WorkId>,
    pub(super) shared: BTreeSet<WorkId>,
    /// The queue, and whether each wants it exclusively.
    pub(super) wanted: BTreeMap<Place, bool>,
    /// Waiters for ranges that have found it in their way.
    pub(super) watched: BTreeSet<Place>,
    /// Probes that wait for an instant at which it is not exclusively locked.
    pub(super) probed: BTreeSet<WorkId>,
    /// Time at which a lock of it was last granted or dropped.
    pub(super) changed_ms: u64,
}

impl Entry {
    pub(super) fn is_unused(&self) -> bool {
        self.exclusive.is_none() && self.shared.is_empty() && !self.is_awaited() && self.probed.is_empty()
    }

    /// Does anybody wait for it, or for a range in which it is in the way?
    pub(super) fn is_awaited(&self) -> bool {
        !self.wanted.is_empty() || !self.watched.is_empty()
    }

    /// Does an older one wait for it?
    pub(super) fn is_wanted_before(&self, place: Place) -> bool {
        self.wanted.range(..place).next().is_some()
    }

    /// Does an older one wait to have it exclusively?
    pub(super) fn is_wanted_exclusively_before(&self, place: Place) -> bool {
        self.wanted.range(..place).any(|(_, is_exclusive)| *is_exclusive)
    }

    /// Does `work` hold it, in this way or more?
    pub(super) fn is_held(&self, work: Option<WorkId>, exclusively: bool) -> bool {
        work.is_some_and(|work| self.exclusive == Some(work) || !exclusively && self.shared.contains(&work))
    }

    /// The waiters that may get it next: up to the first that wants it exclusively, which is in the
    /// way of all behind it.
    pub(super) fn first_waiters(&self) -> impl Iterator<Item = Place> {
        let mut is_over = false;
        self.wanted.iter().map_while(move |(place, is_exclusive)| {
            let is_behind = is_over;
            is_over |= *is_exclusive;
            (!is_behind).then_some(*place)
        })
    }
}
