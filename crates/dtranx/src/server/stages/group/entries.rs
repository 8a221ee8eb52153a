//! Records that the node appends, gathered into entries: what comes while two writes are under way
//! makes up the next entry.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::core::LogTicket;
use crate::log;
use crate::server::event::Append;

/// Bytes of records from which on an entry is full.
const ENTRY_BYTES: usize = 1 << 20;
/// Bytes and number of entries that are not committed, from which on nothing more is taken.
const OPEN_BYTES: usize = 64 << 20;
const OPEN_ENTRIES: usize = 1 << 14;
/// Writes that may be under way before the next entry: one is synced while the other waits.
const WRITES_UNDER_WAY: usize = 2;
/// Time that a record nothing waits for may wait for an urgent one, in milliseconds.
const LAZY_MS: u64 = 5;

/// The entry that is being gathered, and those that are not committed.
#[derive(Default)]
pub(super) struct Entries {
    /// Records that are not in an entry yet.
    waiting: VecDeque<Append>,
    /// Time by which they are.
    due_ms: Option<u64>,
    open: VecDeque<Open>,
    open_bytes: usize,
    /// Number of these, from the first on, that are synced in the own log.
    synced: usize,
    buffer: Vec<u8>,
}

/// An entry that is written and not committed.
struct Open {
    index: u64,
    /// Ticket of its last record.
    ticket: LogTicket,
    bytes: usize,
}

/// Records that make up an entry.
pub(super) struct Gathered {
    pub(super) payload: Bytes,
    ticket: LogTicket,
}

impl Entries {
    /// Returns true if more records are taken.
    pub(super) fn admits(&self) -> bool {
        self.waiting.is_empty() && self.open_bytes < OPEN_BYTES && self.open.len() < OPEN_ENTRIES
    }

    /// Takes records of the node.
    pub(super) fn take(&mut self, records: impl Iterator<Item = Append>, now_ms: u64) {
        for append in records {
            let due_ms = if append.durable { now_ms } else { now_ms + LAZY_MS };
            self.due_ms = Some(self.due_ms.map_or(due_ms, |at_ms| at_ms.min(due_ms)));
            self.waiting.push_back(append);
        }
    }

    /// The next entry, if it is time for one.
    pub(super) fn gather(&mut self, now_ms: u64) -> Result<Option<Gathered>, String> {
        let under_way = self.open.len() - self.synced;
        if under_way >= WRITES_UNDER_WAY || self.due_ms.is_none_or(|at_ms| at_ms > now_ms) {
            return Ok(None);
        }
        let (mut payload, mut ticket) = (Vec::new(), LogTicket(0));
        while let Some(append) = self.waiting.front() {
            let buffer = std::mem::take(&mut self.buffer);
            self.buffer = postcard::to_extend(&append.record, buffer).map_err(|error| error.to_string())?;
            if !payload.is_empty() && payload.len() + self.buffer.len() > ENTRY_BYTES {
                self.buffer.clear();
                break;
            }
            payload.extend_from_slice(&log::payload([&self.buffer[..]]));
            self.buffer.clear();
            ticket = append.ticket;
            self.waiting.pop_front();
        }
        if self.waiting.is_empty() {
            self.due_ms = None;
        }
        Ok((!payload.is_empty()).then_some(Gathered { payload: payload.into(), ticket }))
    }

    /// Notes the index that the machine has given to an entry.
    pub(super) fn written(&mut self, index: u64, gathered: &Gathered) {
        let bytes = gathered.payload.len();
        self.open.push_back(Open { index, ticket: gathered.ticket, bytes });
        self.open_bytes += bytes;
    }

    /// Notes that the own log is synced up to this entry.
    pub(super) fn synced(&mut self, through: u64) {
        self.synced = self.open.iter().take_while(|open| open.index <= through).count();
    }

    /// Notes that entries up to this one are committed, and synced here. Returns the last record
    /// that is durable by it, if there is a further one.
    pub(super) fn committed(&mut self, through: u64) -> Option<LogTicket> {
        let mut last = None;
        while self.open.front().is_some_and(|open| open.index <= through) {
            let Some(open) = self.open.pop_front() else { break };
            self.open_bytes -= open.bytes;
            self.synced = self.synced.saturating_sub(1);
            last = Some(open.ticket);
        }
        last
    }

    pub(super) fn next_ms(&self) -> Option<u64> {
        let under_way = self.open.len() - self.synced;
        self.due_ms.filter(|_| under_way < WRITES_UNDER_WAY)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::core::{ClientId, Incarnation, Key, MessageId, Record, RequestId, ServerId, TranxId, Value, Write};

    fn append(ticket: u64, bytes: usize, durable: bool) -> Append {
        let value = Some(Value::new(vec![7; bytes]).unwrap());
        let writes = vec![Write { key: Key::smallest(), value }];
        let tranx = TranxId { server: ServerId(1), number: ticket };
        let client = ClientId { incarnation: Incarnation(1), number: 1 };
        let request = RequestId { client, message: MessageId(ticket) };
        Append { ticket: LogTicket(ticket), record: Record::OnePhase { tranx, writes, request }, durable }
    }

    /// Entries that were taken, with the next one written at this index.
    fn write(entries: &mut Entries, index: u64, now_ms: u64) -> Option<usize> {
        let gathered = entries.gather(now_ms).unwrap()?;
        entries.written(index, &gathered);
        Some(gathered.payload.len())
    }

    #[test]
    fn record_nothing_waits_for_waits_for_an_urgent_one_and_not_for_long() {
        let mut entries = Entries::default();
        entries.take([append(1, 10, false)].into_iter(), 100);
        assert_eq!((write(&mut entries, 1, 100), entries.next_ms()), (None, Some(100 + LAZY_MS)));
        entries.take([append(2, 10, true)].into_iter(), 101);
        assert!(write(&mut entries, 1, 101).is_some());
        assert_eq!(entries.committed(1), Some(LogTicket(2)), "both are in one entry");
    }

    #[test]
    fn two_writes_are_under_way_and_the_rest_is_gathered() {
        let mut entries = Entries::default();
        for ticket in 1..=4 {
            entries.take([append(ticket, 10, true)].into_iter(), 0);
            assert_eq!(write(&mut entries, ticket, 0).is_some(), ticket <= 2, "record {ticket}");
        }
        assert_eq!(entries.next_ms(), None, "it waits for a sync, not for the clock");
        entries.synced(1);
        assert!(write(&mut entries, 3, 0).is_some());
        assert_eq!(entries.committed(1), Some(LogTicket(1)));
        assert_eq!((entries.committed(1), entries.committed(3)), (None, Some(LogTicket(4))));
    }

    #[test]
    fn entry_ends_at_its_size_and_one_record_may_be_larger() {
        let mut entries = Entries::default();
        let sizes = [ENTRY_BYTES / 2, ENTRY_BYTES / 2, 1 << 20, 5];
        entries.take(sizes.iter().zip(1..).map(|(bytes, ticket)| append(ticket, *bytes, true)), 0);
        let written: Vec<_> = (1..=2).map(|index| write(&mut entries, index, 0).unwrap()).collect();
        assert!(written.iter().all(|bytes| *bytes < ENTRY_BYTES), "{written:?}");
        assert!(!entries.admits(), "records wait for their entry");
        entries.synced(2);
        assert!(write(&mut entries, 3, 0).unwrap() > ENTRY_BYTES);
        assert!(write(&mut entries, 4, 0).unwrap() < 100 && entries.admits());
    }

    #[test]
    fn no_record_is_taken_while_too_much_is_not_committed() {
        let mut entries = Entries::default();
        let many = OPEN_BYTES as u64 / (1 << 20);
        for index in 1..=many {
            assert!(entries.admits());
            entries.take([append(index, 1 << 20, true)].into_iter(), 0);
            assert!(write(&mut entries, index, 0).is_some());
            entries.synced(index);
        }
        assert!(!entries.admits());
        assert_eq!(entries.committed(1), Some(LogTicket(1)));
        assert!(entries.admits());
    }
}
