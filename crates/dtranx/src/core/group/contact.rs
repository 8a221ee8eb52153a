//! What a leader needs to go on leading: a majority that it hears of (CheckQuorum), and a log that
//! syncs (G21). Either is looked at twice in the time that it may take, so a leader steps down
//! after one to two periods of its timer.

use std::collections::BTreeSet;

use super::id::{MemberId, WriteId};

/// The members that were heard of since the timers went off last, and the last write before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Contact {
    heard: BTreeSet<MemberId>,
    /// The last write at that time.
    written: WriteId,
}

impl Contact {
    /// A leader begins with all that it has written before.
    pub(super) fn new(written: WriteId) -> Self {
        Self { heard: BTreeSet::new(), written }
    }

    pub(super) fn hear(&mut self, from: MemberId) {
        self.heard.insert(from);
    }

    /// Begins another period. Returns true if a majority was heard of in the last one.
    pub(super) fn has_majority(&mut self, majority: usize) -> bool {
        std::mem::take(&mut self.heard).len() + 1 >= majority
    }

    /// Begins another period. Returns true if all that was written before the last one is synced.
    pub(super) fn is_synced(&mut self, synced: WriteId, last: WriteId) -> bool {
        std::mem::replace(&mut self.written, last) <= synced
    }
}
