//! Batches of a leader to its followers: which entries go along, and which are under way. What the
//! machine wants sent again while it is under way is sent once; what seems lost is sent again.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use crate::core::group::{self, Index, MemberId};
use crate::log::Position;
use crate::server::member_event::Fetch;
use crate::wire::{BATCH_LIMIT_BYTES, BatchEntry, MAX_BATCH_ENTRIES, MemberMessage};

/// Bytes of entries that a leader keeps in memory for its followers. Others are read from the log.
const KEPT_BYTES: usize = 32 << 20;
/// Batches, and bytes in them, that are under way to one follower.
const UNDER_WAY: usize = 16;
const UNDER_WAY_BYTES: usize = 16 << 20;
/// Time without an acknowledgement after which what is under way counts as lost, in milliseconds.
const LOST_MS: u64 = 500;

/// A batch that the machine wants sent.
pub(super) struct Call {
    pub(super) term: u64,
    pub(super) committed: u64,
    pub(super) entries: group::Entries,
}

/// Consequence of a batch that the machine wants sent.
#[derive(Debug)]
pub(super) enum Next {
    Send(MemberMessage),
    /// The entries have to be read from the log first.
    Fetch(Vec<Position>),
    /// All of it is under way, or has to wait.
    Nothing,
}

/// Entries in memory, and what is under way to each follower.
#[derive(Default)]
pub(super) struct Batches {
    kept: BTreeMap<u64, BatchEntry>,
    kept_bytes: usize,
    flows: BTreeMap<MemberId, Flow>,
}

/// Batches under way to one follower.
#[derive(Default)]
struct Flow {
    /// Last entry that was sent.
    sent: u64,
    under_way: VecDeque<UnderWay>,
    bytes: usize,
    /// The last entry that the follower has said to have; `None`: it has said nothing yet.
    has: Option<u64>,
    /// Time of the last progress.
    moved_ms: u64,
    /// True while entries are read from the log.
    is_fetching: bool,
}

/// A batch that is not acknowledged.
struct UnderWay {
    /// Entry before its first one.
    before: u64,
    last: u64,
    bytes: usize,
}

impl Flow {
    fn push(&mut self, before: u64, last: u64, bytes: usize, now_ms: u64) {
        if self.under_way.is_empty() {
            self.moved_ms = now_ms;
        }
        self.sent = last;
        self.under_way.push_back(UnderWay { before, last, bytes });
        self.bytes += bytes;
    }

    fn acknowledged(&mut self, through: u64, now_ms: u64) {
        self.has = Some(through);
        while self.under_way.front().is_some_and(|batch| batch.last <= through) {
            self.bytes -= self.under_way.pop_front().map_or(0, |batch| batch.bytes);
            self.moved_ms = now_ms;
        }
        // It lacks entries before these, and cannot take them.
        if self.under_way.front().is_some_and(|batch| batch.before > through) {
            self.clear();
        }
    }

    /// Gives up what is under way without an acknowledgement for long.
    fn give_up(&mut self, now_ms: u64) {
        if !self.under_way.is_empty() && now_ms.saturating_sub(self.moved_ms) >= LOST_MS {
            self.clear();
        }
    }

    fn clear(&mut self) {
        self.under_way.clear();
        (self.bytes, self.sent) = (0, 0);
    }

    /// Returns true if the follower lacks entries before those behind `from`. New entries are not
    /// for it then: they would take the place of what it lacks.
    fn lacks(&self, from: u64) -> bool {
        self.has.is_some_and(|has| from > has.max(self.sent))
    }
}

impl Batches {
    /// Forgets everything: who leads has changed.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Keeps an entry of this leader.
    pub(super) fn keep(&mut self, index: u64, term: u64, payload: Bytes) {
        self.kept_bytes += payload.len();
        self.kept.insert(index, BatchEntry { term, payload });
        while self.kept_bytes > KEPT_BYTES || self.kept.len() > MAX_BATCH_ENTRIES * UNDER_WAY {
            let Some((_, entry)) = self.kept.pop_first() else { return };
            self.kept_bytes -= entry.payload.len();
        }
    }

    /// Notes that a follower has acknowledged entries.
    pub(super) fn acknowledged(&mut self, by: MemberId, through: u64, now_ms: u64) {
        self.flows.entry(by).or_default().acknowledged(through, now_ms);
    }

    /// Decides what goes to a follower now.
    pub(super) fn next(&mut self, to: MemberId, call: &Call, now_ms: u64) -> Next {
        let Call { term, committed, entries } = call;
        let (previous, last) = (entries.prev_position(), entries.last_position().index.get());
        if entries.is_empty() {
            let before = Position { term: previous.term.get(), index: previous.index.get() };
            return Next::Send(MemberMessage::Batch { term: *term, committed: *committed, before, entries: vec![] });
        }
        let flow = self.flows.entry(to).or_default();
        flow.give_up(now_ms);
        let from = previous.index.get().max(flow.sent);
        let has_room = flow.under_way.len() < UNDER_WAY && flow.bytes < UNDER_WAY_BYTES;
        let Some(before) =
            place(entries, from).filter(|_| from < last && has_room && !flow.is_fetching && !flow.lacks(from))
        else {
            return Next::Nothing;
        };
        let wanted = (from + 1..=last).take(MAX_BATCH_ENTRIES).filter_map(|index| place(entries, index));
        let (mut found, mut bytes) = (Vec::new(), 0);
        for entry in wanted.clone() {
            let Some(kept) = self.kept.get(&entry.index).filter(|kept| kept.term == entry.term) else { break };
            bytes += kept.payload.len();
            if bytes > BATCH_LIMIT_BYTES && !found.is_empty() {
                bytes -= kept.payload.len();
                break;
            }
            found.push(kept.clone());
        }
        if found.is_empty() {
            flow.is_fetching = true;
            return Next::Fetch(wanted.collect());
        }
        flow.push(from, from + found.len() as u64, bytes, now_ms);
        Next::Send(MemberMessage::Batch { term: *term, committed: *committed, before, entries: found })
    }

    /// Notes that the entries which a follower lacks cannot be read from the log: they are removed.
    pub(super) fn removed(&mut self, to: MemberId) {
        self.flows.remove(&to);
    }

    /// Makes a batch of entries that were read from the log.
    pub(super) fn fetched(&mut self, to: MemberId, fetch: Fetch, payloads: Vec<Bytes>, now_ms: u64) -> MemberMessage {
        let Fetch { term, committed, before, wanted, .. } = fetch;
        let flow = self.flows.entry(to).or_default();
        flow.is_fetching = false;
        let bytes = payloads.iter().map(Bytes::len).sum();
        flow.push(before.index, before.index + payloads.len() as u64, bytes, now_ms);
        let entries = wanted.iter().zip(payloads).map(|(entry, payload)| BatchEntry { term: entry.term, payload });
        MemberMessage::Batch { term, committed, before, entries: entries.collect() }
    }
}

fn place(entries: &group::Entries, index: u64) -> Option<Position> {
    let term = entries.get_term(Index::new(index))?;
    Some(Position { term: term.get(), index })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::group::Term;

    const B: MemberId = MemberId(2);

    /// A batch of all entries of term 1 behind one.
    fn call(before: u64, last: u64) -> Call {
        let term = if before == 0 { 0 } else { 1 };
        let mut entries = group::Entries::new(group::Position { term: Term::new(term), index: Index::new(before) });
        for index in before + 1..=last {
            entries.push(if index == 1 { noraft::LogEntry::Term(Term::new(1)) } else { noraft::LogEntry::Command });
        }
        Call { term: 1, committed: 0, entries }
    }

    fn kept(entries: u64, bytes: usize) -> Batches {
        let mut batches = Batches::default();
        (1..=entries).for_each(|index| batches.keep(index, 1, Bytes::from(vec![7; bytes])));
        batches
    }

    /// First and last index of what is sent.
    fn sent(next: &Next) -> Option<(u64, u64)> {
        let Next::Send(MemberMessage::Batch { before, entries, .. }) = next else { return None };
        Some((before.index + 1, before.index + entries.len() as u64))
    }

    #[test]
    fn entries_under_way_are_not_sent_twice() {
        let mut batches = kept(5, 10);
        assert_eq!(sent(&batches.next(B, &call(0, 2), 0)), Some((1, 2)));
        assert_eq!(sent(&batches.next(B, &call(2, 3), 1)), Some((3, 3)));
        // What a follower lacks when it has acknowledged the first of them.
        batches.acknowledged(B, 1, 2);
        assert!(matches!(batches.next(B, &call(1, 3), 2), Next::Nothing));
        assert_eq!(sent(&batches.next(B, &call(1, 5), 2)), Some((4, 5)));
    }

    #[test]
    fn entries_without_an_acknowledgement_for_long_are_sent_again() {
        let mut batches = kept(5, 10);
        assert_eq!(sent(&batches.next(B, &call(0, 3), 0)), Some((1, 3)));
        batches.acknowledged(B, 1, 100);
        assert!(matches!(batches.next(B, &call(1, 3), LOST_MS - 1), Next::Nothing));
        assert_eq!(sent(&batches.next(B, &call(1, 3), LOST_MS)), Some((2, 3)));
    }

    #[test]
    fn new_entries_do_not_take_the_place_of_what_a_follower_lacks() {
        let mut batches = kept(9, 10);
        // Nothing is known of it yet.
        assert_eq!(sent(&batches.next(B, &call(6, 7), 0)), Some((7, 7)));
        batches.acknowledged(B, 2, 1);
        assert!(matches!(batches.next(B, &call(7, 8), 1), Next::Nothing));
        assert_eq!(sent(&batches.next(B, &call(2, 8), 1)), Some((3, 8)));
        assert_eq!(sent(&batches.next(B, &call(8, 9), 1)), Some((9, 9)), "they follow what is under way");
        // What was under way is lost: it begins where the follower is.
        assert!(matches!(batches.next(B, &call(8, 9), 1 + LOST_MS), Next::Nothing));
        assert_eq!(sent(&batches.next(B, &call(2, 9), 1 + LOST_MS)), Some((3, 9)));
    }

    #[test]
    fn batches_and_bytes_under_way_are_limited() {
        let mut batches = kept(100, 10);
        let sent_of = |batches: &mut Batches| {
            (1..=100).filter(|last| sent(&batches.next(B, &call(last - 1, *last), 0)).is_some()).count()
        };
        assert_eq!(sent_of(&mut batches), UNDER_WAY);
        let mut batches = kept(10, 3 << 20);
        assert_eq!(sent(&batches.next(B, &call(0, 10), 0)), Some((1, 1)), "one, because two are too large");
        assert_eq!((2..=10).filter(|_| sent(&batches.next(B, &call(1, 10), 0)).is_some()).count(), 5);
        batches.acknowledged(B, 2, 0);
        assert_eq!(sent(&batches.next(B, &call(2, 10), 0)), Some((7, 7)));
    }

    #[test]
    fn entries_that_are_not_in_memory_are_read_from_the_log_once() {
        let mut batches = Batches::default();
        batches.keep(5, 1, Bytes::from_static(b"new"));
        let next = batches.next(B, &call(0, 5), 0);
        let Next::Fetch(wanted) = next else { panic!("{next:?}") };
        assert_eq!(wanted.len(), 5);
        assert!(matches!(batches.next(B, &call(0, 5), 0), Next::Nothing), "it is being read");
        let fetch = Fetch { to: 2, term: 1, committed: 0, before: Position::default(), wanted };
        let message = batches.fetched(B, fetch, vec![Bytes::from_static(b"old"); 2], 0);
        assert_eq!(sent(&Next::Send(message)), Some((1, 2)));
        assert!(matches!(batches.next(B, &call(2, 5), 0), Next::Fetch(_)));
    }

    #[test]
    fn follower_that_lacks_removed_entries_gets_others_later() {
        let mut batches = Batches::default();
        assert!(matches!(batches.next(B, &call(0, 5), 0), Next::Fetch(_)));
        batches.removed(B);
        batches.keep(5, 1, Bytes::from_static(b"new"));
        // It has got the items meanwhile.
        assert_eq!(sent(&batches.next(B, &call(4, 5), 0)), Some((5, 5)));
    }

    #[test]
    fn heartbeat_goes_out_whatever_is_under_way() {
        let mut batches = kept(20, 10);
        for last in 1..=20 {
            batches.next(B, &call(last - 1, last), 0);
        }
        assert!(matches!(batches.next(B, &call(20, 20), 0), Next::Send(MemberMessage::Batch { .. })));
    }
}
