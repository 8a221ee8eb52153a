//! What followers acknowledge: a leader counts it as far as its own log has it, synced (G1, G17).

use std::collections::BTreeMap;

use super::{
    id::{Entries, Index, MemberId, Position},
    log::OwnLog,
};

/// The last entry that each follower has said to have synced, in the term of the leader that this
/// member is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Acknowledgements {
    said: BTreeMap<MemberId, Position>,
}

impl Acknowledgements {
    /// Takes an acknowledgement, and returns the part that may be counted now; `None` if that is
    /// nothing new. The crate itself counts a position only if the leader's log has it, and sends
    /// what a follower lacks if not.
    pub(super) fn take(&mut self, from: MemberId, last: Position, own: &OwnLog, counted: Index) -> Option<Position> {
        if !own.entries().contains(last) || last.index <= own.synced() {
            return Some(last);
        }
        let said = self.said.entry(from).or_insert(last);
        *said = (*said).max(last);
        Self::countable(*said, own, counted)
    }

    /// The position that may be counted for this follower now that more of the own log is synced;
    /// `None` if that is nothing new.
    pub(super) fn synced(&self, from: MemberId, own: &OwnLog, counted: Index) -> Option<Position> {
        Self::countable(*self.said.get(&from)?, own, counted)
    }

    fn countable(said: Position, own: &OwnLog, counted: Index) -> Option<Position> {
        let through = own.position(said.index.min(own.synced()));
        (through.index > counted).then_some(through)
    }

    /// The part of a batch that a follower has not acknowledged yet; `None` if that is nothing.
    pub(super) fn unsaid(&self, to: MemberId, entries: Entries) -> Option<Entries> {
        match self.said.get(&to).and_then(|said| entries.since(*said)) {
            Some(rest) if !entries.is_empty() => (!rest.is_empty()).then_some(rest),
            _ => Some(entries),
        }
    }

    pub(super) fn clear(&mut self) {
        self.said.clear();
    }
}
