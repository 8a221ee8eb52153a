//! The log of a simulated member: blocks in segments, of which a crash leaves any beginning that
//! has all that was synced. Entries are here by their places only.

use std::collections::VecDeque;

use rand::{RngExt, rngs::StdRng};

use crate::core::{
    SegmentId,
    group::{Entries, Found, Index, Position, State, WriteId},
};

/// Number of blocks after which a segment is closed.
const SEGMENT_BLOCKS: usize = 8;

/// The log of one member.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    blocks: VecDeque<Block>,
    /// Number of blocks that are synced.
    durable: usize,
    /// The segment in use, and the number of blocks in it.
    current: SegmentId,
    in_current: usize,
    /// The last entry that was removed.
    before: Position,
    /// Term, vote and committed index of the blocks that were removed.
    kept: State,
}

#[derive(Clone, Debug)]
struct Block {
    segment: SegmentId,
    write: WriteId,
    content: Content,
}

#[derive(Clone, Copy, Debug)]
enum Content {
    State(State),
    Entry(Position),
}

impl Log {
    pub(crate) fn new() -> Self {
        Self {
            blocks: VecDeque::new(),
            durable: 0,
            current: SegmentId(1),
            in_current: 0,
            before: Position::ZERO,
            kept: State::default(),
        }
    }

    /// Place before the first entry that is left.
    pub(crate) fn before(&self) -> Position {
        self.before
    }

    pub(crate) fn write(&mut self, write: WriteId, state: Option<State>, entries: Option<&Entries>) {
        let entries = entries.into_iter().flat_map(Entries::iter_with_positions).map(|(at, _)| Content::Entry(at));
        let contents: Vec<Content> = state.map(Content::State).into_iter().chain(entries).collect();
        for content in contents {
            if self.in_current >= SEGMENT_BLOCKS {
                self.roll();
            }
            self.in_current += 1;
            self.blocks.push_back(Block { segment: self.current, write, content });
        }
    }

    /// Begins a new segment: what is appended from now on goes into it.
    pub(crate) fn roll(&mut self) {
        self.current = SegmentId(self.current.0 + 1);
        self.in_current = 0;
    }

    /// Makes all durable up to this write.
    pub(crate) fn sync(&mut self, through: WriteId) {
        let synced = self.blocks.iter().take_while(|block| block.write <= through).count();
        self.durable = self.durable.max(synced);
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.durable == self.blocks.len()
    }

    /// Takes what a crash takes. What is left counts as written before all that will be.
    pub(crate) fn crash(&mut self, rng: &mut StdRng) {
        self.blocks.truncate(rng.random_range(self.durable..=self.blocks.len()));
        self.blocks.iter_mut().for_each(|block| block.write = WriteId(0));
        self.durable = self.blocks.len();
        self.roll();
    }

    /// Content of the log for a machine that starts.
    pub(crate) fn found(&self) -> Found {
        let states = self.blocks.iter().filter_map(|block| match block.content {
            Content::State(state) => Some(state),
            Content::Entry(_) => None,
        });
        Found { state: states.fold(self.kept, newer), entries: self.entries(self.blocks.len()) }
    }

    /// Places of the entries that are not void, each with its segment.
    pub(crate) fn places(&self) -> Vec<(Position, SegmentId)> {
        let mut places: Vec<(Position, SegmentId)> = Vec::new();
        for block in &self.blocks {
            let Content::Entry(at) = block.content else { continue };
            while places.last().is_some_and(|(last, _)| last.index >= at.index) {
                places.pop();
            }
            let last = places.last().map_or(self.before, |(last, _)| *last);
            // An entry that follows none is void: what made it so comes behind.
            if at.index.get() == last.index.get() + 1 {
                places.push((at, block.segment));
            }
        }
        places
    }

    /// Returns true if an entry is durable here, or was removed.
    pub(crate) fn has(&self, at: Position) -> bool {
        at.index <= self.before.index || self.entries(self.durable).contains(at)
    }

    /// Segments behind `sealed` that get no more blocks, are synced, and of whose entries all up to
    /// this index are committed and the others are void.
    pub(crate) fn complete(&self, sealed: SegmentId, acted: Index) -> Vec<SegmentId> {
        let places = self.places();
        let unsynced = self.blocks.get(self.durable).map(|block| block.segment);
        let has_open = |segment: SegmentId| places.iter().any(|(at, of)| *of == segment && at.index > acted);
        let is_open = |segment: SegmentId| unsynced.is_some_and(|first| first <= segment) || has_open(segment);
        let mut segments: Vec<SegmentId> = self.blocks.iter().map(|block| block.segment).collect();
        segments.dedup();
        let closed = segments.into_iter().filter(|segment| *segment < self.current && *segment > sealed);
        closed.take_while(|segment| !is_open(*segment)).collect()
    }

    /// The last segment that gets no more blocks.
    pub(crate) fn closed(&self) -> SegmentId {
        SegmentId(self.current.0 - 1)
    }

    /// Number of segments that have blocks.
    pub(crate) fn segments(&self) -> usize {
        let mut segments: Vec<SegmentId> = self.blocks.iter().map(|block| block.segment).collect();
        segments.dedup();
        segments.len()
    }

    /// Removes all segments up to this one, and keeps the state that was in them.
    pub(crate) fn remove_through(&mut self, through: SegmentId) {
        let going = self.places().into_iter().rev().find(|(_, segment)| *segment <= through);
        while self.blocks.front().is_some_and(|block| block.segment <= through) {
            if let Some(Block { content: Content::State(state), .. }) = self.blocks.pop_front() {
                self.kept = newer(self.kept, state);
            }
            self.durable -= 1;
        }
        self.before = going.map_or(self.before, |(last, _)| last);
    }

    /// The entries among the first blocks that are not void.
    fn entries(&self, blocks: usize) -> Entries {
        let mut entries = Entries::new(self.before);
        for block in self.blocks.iter().take(blocks) {
            let Content::Entry(at) = block.content else { continue };
            let offset = (at.index.get() - 1).checked_sub(self.before.index.get());
            let Some(offset) = offset.filter(|offset| *offset <= entries.len() as u64) else { continue };
            entries.truncate(offset as usize);
            let begins = entries.last_position().term != at.term;
            entries.push(if begins { noraft::LogEntry::Term(at.term) } else { noraft::LogEntry::Command });
        }
        entries
    }
}

/// The state that counts after an earlier and a later one: the later term, of one term the one with
/// a vote, and the larger committed index (G15).
fn newer(state: State, later: State) -> State {
    let rank = |state: State| (state.term, state.vote.is_some());
    let newest = if rank(later) >= rank(state) { later } else { state };
    State { committed: state.committed.max(later.committed), ..newest }
}
