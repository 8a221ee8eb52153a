//! A log that is made anew, of a member that has got a leader's items: it begins behind entries
//! that it never had, because the items have what these say. It takes the place of an older log of
//! the same store.

use super::collector::Collector;
use super::entry::{Configured, Position, State};
use super::gc_log::{GcLog, Kept};
use super::medium::Medium;
use super::segment::SegmentNumber;
use super::tranx_log::LogOptions;
use super::{LogError, Result};

/// State of a log before its first entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Beginning {
    /// Place before the first entry: what is up to it is committed, and in the items.
    pub(crate) before: Position,
    /// The configuration of the group that was in force there, if it is one of the log.
    pub(crate) configured: Option<Configured>,
    /// Payload of the GC log.
    pub(crate) gc_payload: Vec<u8>,
}

impl Beginning {
    /// Makes the log on `medium`, which has none; durable when this returns. `state` is the
    /// member's own (G15); the numbers of segments go on behind those of the `old` log, so that no
    /// segment of the one can be taken for one of the other.
    ///
    /// # Errors
    /// The member knows more entries to be committed than the new log would leave out; the payload
    /// is too large; a medium refuses.
    pub(crate) fn make(&self, medium: &dyn Medium, old: &dyn Medium, options: &LogOptions, state: State) -> Result<()> {
        let Self { before, configured, gc_payload } = self;
        if state.committed > before.index {
            let what = format!("entries up to {} are committed, and it would begin behind {before}", state.committed);
            return Err(LogError::Unreadable { file: super::gc_log::NAME.to_owned(), what });
        }
        let numbers = old.list()?;
        let last = numbers.iter().filter_map(|name| SegmentNumber::from_file_name(name)).max();
        let oldest = last.map_or(SegmentNumber(1), SegmentNumber::next).next();
        let state = State { committed: before.index, ..state };
        let kept = Kept { oldest, before: *before, state, configured: configured.clone() };
        GcLog::create_with(medium, options.owner(), kept, gc_payload).map(drop)
    }
}

impl Collector {
    /// Beginning of a log that goes on from here on. It stays right until segments are removed.
    pub(crate) fn beginning(&self) -> Beginning {
        let Kept { before, configured, .. } = self.gc_log.kept().clone();
        Beginning { before, configured, gc_payload: self.gc_log.payload().to_vec() }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::log::{Memory, Opened, TranxLog, payload};

    fn options() -> LogOptions {
        LogOptions { is_member: true, ..LogOptions::new(1, 4096) }
    }

    fn open(medium: &Memory) -> Opened {
        TranxLog::open(Arc::new(medium.clone()), &LogOptions { must_exist: true, ..options() }, |_, _| Ok(())).unwrap()
    }

    fn at(term: u64, index: u64) -> Position {
        Position { term, index }
    }

    fn beginning() -> Beginning {
        let configured = Some(Configured { at: at(2, 40), bytes: b"members".to_vec() });
        Beginning { before: at(3, 60), configured, gc_payload: b"marks".to_vec() }
    }

    #[test]
    fn log_goes_on_behind_its_beginning_with_the_members_own_term_and_vote() {
        let (old, new) = (Memory::new(), Memory::new());
        let opened = TranxLog::open(Arc::new(old.clone()), &options(), |_, _| Ok(())).unwrap();
        let state = State { term: 7, vote: Some(2), committed: 5 };
        beginning().make(&new, &old, &options(), state).unwrap();
        let mut begun = open(&new);
        assert_eq!((begun.log.last(), &begun.gc_payload[..]), (at(3, 60), &b"marks"[..]));
        assert_eq!(begun.log.state(), State { committed: 60, ..state });
        assert!(begun.log.current() > opened.log.current(), "no segment has the number of an old one");
        assert!(begun.log.append_entry(at(7, 62), &payload([&b"gap"[..]])).is_err());
        begun.log.append_entry(at(7, 61), &payload([&b"next"[..]])).unwrap();
        begun.log.append_state(State { committed: 61, ..state }).unwrap();
        begun.log.persist().unwrap();
        drop(begun);
        assert_eq!(open(&new).log.outline().last, at(7, 61));
    }

    #[test]
    fn log_does_not_begin_before_what_the_member_knows_to_be_committed() {
        let state = State { term: 7, vote: None, committed: 61 };
        let new = Memory::new();
        assert!(beginning().make(&new, &Memory::new(), &options(), state).is_err());
        assert!(new.list().unwrap().is_empty());
    }

    #[test]
    fn collector_knows_where_a_log_would_have_to_begin() {
        let mut opened = TranxLog::open(Arc::new(Memory::new()), &options(), |_, _| Ok(())).unwrap();
        for index in 1..=3 {
            opened.log.append_entry(at(1, index), &payload([&[7; 2000][..]])).unwrap();
        }
        opened.log.append_state(State { term: 1, vote: None, committed: 3 }).unwrap();
        opened.log.persist().unwrap();
        assert_eq!(opened.collector.beginning(), Beginning { before: at(0, 0), configured: None, gc_payload: vec![] });
        opened.collector.write(b"marks").unwrap();
        opened.collector.remove_through(SegmentNumber(opened.log.current().0 - 1)).unwrap();
        let beginning = opened.collector.beginning();
        assert!(beginning.before.index > 0 && beginning.before.index < 3 && beginning.gc_payload == b"marks");
    }
}
