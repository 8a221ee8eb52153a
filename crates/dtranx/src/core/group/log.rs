//! A member's own log: what is written, and how much of it is synced.

use std::collections::VecDeque;

use super::{
    event::Damage,
    id::{Entries, Index, Position, WriteId},
};

/// The entries that are written and not void, and the writes that are not synced.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct OwnLog {
    entries: Entries,
    /// Last entry of what the disk has for certain.
    durable: Index,
    /// Writes with entries that are not synced, with the first and the last of these.
    pending: VecDeque<(WriteId, Index, Index)>,
    last_write: WriteId,
    synced: WriteId,
}

impl OwnLog {
    /// The log of a member that starts: what it has found is synced.
    pub(super) fn new(entries: Entries) -> Self {
        let durable = entries.last_position().index;
        Self { entries, durable, pending: VecDeque::new(), last_write: WriteId(0), synced: WriteId(0) }
    }

    pub(super) fn entries(&self) -> &Entries {
        &self.entries
    }

    /// Place before the first entry that is left.
    pub(super) fn beginning(&self) -> Index {
        self.entries.prev_position().index
    }

    pub(super) fn last(&self) -> Index {
        self.entries.last_position().index
    }

    pub(super) fn last_write(&self) -> WriteId {
        self.last_write
    }

    /// The last write that is synced, with all before it.
    pub(super) fn synced_write(&self) -> WriteId {
        self.synced
    }

    /// Entries up to this one are on the disk as they are written: a write that is not synced and
    /// begins at or below an index may replace it.
    pub(super) fn synced(&self) -> Index {
        let replaced = self.pending.iter().map(|(_, first, _)| Index::new(first.get().saturating_sub(1)));
        replaced.fold(self.durable, Index::min)
    }

    /// The position of this index, or of the last entry if that is before it.
    pub(super) fn position(&self, index: Index) -> Position {
        let index = index.min(self.last());
        self.entries.get_term(index).map_or(self.entries.prev_position(), |term| Position { term, index })
    }

    /// The part of these entries that the log does not have: from the first on that has another
    /// term here, or is not here (G8).
    pub(super) fn missing(&self, entries: &Entries) -> Option<Entries> {
        let (previous, last) = (entries.prev_position().index.get(), entries.last_position().index.get());
        let differs = |index: &u64| self.entries.get_term(Index::new(*index)) != entries.get_term(Index::new(*index));
        let first = (previous + 1..=last).find(differs)?;
        let anchor = Index::new(first - 1);
        entries.since(Position { term: entries.get_term(anchor)?, index: anchor })
    }

    /// The first entry up to `committed` that these entries, or the place before them, contradict.
    pub(super) fn contradicted(&self, entries: &Entries, committed: Index) -> Option<Damage> {
        let from = entries.prev_position().index.max(self.beginning());
        let through = entries.last_position().index.min(committed).min(self.last());
        let pair = |index: Index| Some((self.entries.get_term(index)?, entries.get_term(index)?));
        let cut = |index: u64| {
            let (ours, theirs) = pair(Index::new(index))?;
            (ours != theirs).then_some(Damage::Cut { index: Index::new(index), ours, theirs })
        };
        (from.get()..=through.get()).find_map(cut)
    }

    /// Counts a write, and takes its entries into the log. Returns its number.
    pub(super) fn write(&mut self, entries: Option<&Entries>) -> WriteId {
        self.last_write = self.last_write.next();
        if let Some(entries) = entries.filter(|entries| self.entries.append_suffix(entries)) {
            let first = Index::new(entries.prev_position().index.get() + 1);
            self.pending.push_back((self.last_write, first, entries.last_position().index));
        }
        self.last_write
    }

    /// Writes up to this one are synced.
    pub(super) fn sync(&mut self, through: WriteId) {
        self.synced = self.synced.max(through.min(self.last_write));
        while let Some((_, _, last)) = self.pending.front().copied().filter(|(write, ..)| *write <= self.synced) {
            self.durable = last;
            self.pending.pop_front();
        }
    }

    /// Counts writes from 1 again, as after a start: all are synced.
    #[cfg(test)]
    pub(super) fn number_anew(&mut self) {
        (self.last_write, self.synced) = (WriteId(0), WriteId(0));
    }
}
