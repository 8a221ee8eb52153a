//! What a leader needs to go on leading: a majority that it hears of (CheckQuorum), and a log that
//! syncs (G21). Either is looked at twice in the time that it may take, so a leader steps down
//! after one to two periods of its timer.

use std::collections::BTreeSet;

use super::{
    configuration::Configuration,
    id::{MemberId, WriteId},
};

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

    /// Begins another period. Returns true if a majority was heard of in the last one, with this
    /// member itself.
    pub(super) fn has_majority(&mut self, members: &Configuration, me: MemberId) -> bool {
        let heard = std::mem::take(&mut self.heard);
        members.is_majority(|member| member == me || heard.contains(&member))
    }

    /// Begins another period. Returns true if all that was written before the last one is synced.
    pub(super) fn is_synced(&mut self, synced: WriteId, last: WriteId) -> bool {
        std::mem::replace(&mut self.written, last) <= synced
    }
}
