//! History of a run: attempts and answers of clients, and the order in which each key was written.

use std::collections::BTreeMap;

use crate::core::{Epoch, Key, Moving, ServerId, Transaction, TranxId, Value, WorkId, Write};

/// One try of a client to commit a transaction.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    /// Time at which its first read was sent, in microseconds.
    pub(crate) begun_us: u64,
    /// Time at which its answer came.
    pub(crate) ended_us: u64,
    pub(crate) transaction: Transaction,
    pub(crate) outcome: AttemptResult,
}

/// Item of a key as it was read, and the number of writes that it had seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) version: Option<TranxId>,
    pub(crate) writes: usize,
}

/// A snapshot, and all keys of it.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) begun_us: u64,
    pub(crate) ended_us: u64,
    pub(crate) epoch: Epoch,
    pub(crate) seen: BTreeMap<Key, Seen>,
}

/// A part was found to be valid.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    pub(crate) at_us: u64,
    seen: BTreeMap<Key, usize>,
}

/// A range that a transaction moves to another server.
#[derive(Clone, Debug)]
struct Move {
    to: ServerId,
    /// The keys of the range, also those that are absent.
    keys: Vec<Key>,
    /// Number of writes of each key when the other server had the range; `None` before.
    taken: Option<BTreeMap<Key, usize>>,
}

/// Result of an attempt as its client knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptResult {
    /// Not answered, or answered with `Indeterminate`.
    Unknown,
    Committed(WorkId),
    Refused,
}

/// History of a run. Every transaction that writes puts a value that names its attempt.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) attempts: Vec<Attempt>,
    /// Writes of each key in the order in which they were first applied: the writer, and whether
    /// the key held something afterwards.
    pub(crate) writes: BTreeMap<Key, Vec<(TranxId, bool)>>,
    /// Checks by which each part of a transaction was found to be valid, with the number of writes
    /// that each of its keys had seen then.
    pub(crate) checked: BTreeMap<(WorkId, ServerId), Vec<Checked>>,
    /// The snapshots that were read to their end.
    pub(crate) snapshots: Vec<Snapshot>,
    /// Moves of ranges, by their transactions.
    moves: BTreeMap<TranxId, Move>,
    /// Attempt of each transaction.
    pub(crate) attempt_of: BTreeMap<TranxId, usize>,
    /// Contradictions that showed while it ran.
    pub(crate) complaints: Vec<String>,
}

/// The value that identifies the attempt.
pub(crate) fn value_of(attempt: usize) -> Option<Value> {
    Value::new((attempt as u64).to_be_bytes().to_vec()).ok()
}

/// The attempt that a value identifies.
pub(crate) fn attempt_of(value: &Value) -> Option<usize> {
    Some(u64::from_be_bytes(value.as_bytes().try_into().ok()?) as usize)
}

impl History {
    /// Notes that a transaction is to move a range with these keys.
    pub(crate) fn moves(&mut self, tranx: TranxId, moving: &Moving, keys: impl Iterator<Item = Key>) {
        let new = || Move { to: moving.to, keys: keys.collect(), taken: None };
        self.moves.entry(tranx).or_insert_with(new);
    }

    /// Keys that the writes of a transaction concern: of a move, all of its range.
    pub(crate) fn concerned(&self, tranx: TranxId, writes: &[Write]) -> Vec<Key> {
        let written = || writes.iter().map(|write| write.key.clone()).collect();
        self.moves.get(&tranx).map_or_else(written, |moved| moved.keys.clone())
    }

    /// Number of writes of a key up to the one by this transaction, which may have moved the key's
    /// range while the key was absent.
    pub(crate) fn writes_through(&self, key: &Key, writer: TranxId) -> usize {
        let order = self.writes.get(key).map_or(&[][..], Vec::as_slice);
        let written = order.iter().position(|(written, _)| *written == writer).map(|at| at + 1);
        let moved =
            || self.moves.get(&writer).map(|moved| moved.taken.as_ref().map_or(order.len(), |taken| taken[key]));
        written.or_else(moved).unwrap_or(0)
    }

    /// Notes that a server has applied its part of a transaction, for the first time or again after
    /// a crash. A move writes its keys where the range goes to: the value is the same, and the
    /// version another one.
    pub(crate) fn applied(&mut self, server: ServerId, tranx: TranxId, writes: &[Write]) {
        if let Some(moved) = self.moves.get_mut(&tranx) {
            if moved.to == server && moved.taken.is_none() {
                for write in writes.iter().filter(|write| write.key != Key::of_map()) {
                    self.writes.entry(write.key.clone()).or_default().push((tranx, write.value.is_some()));
                }
                let count = |key: &Key| (key.clone(), self.writes.get(key).map_or(0, Vec::len));
                moved.taken = Some(moved.keys.iter().map(count).collect());
            }
            return;
        }
        for write in writes {
            let order = self.writes.entry(write.key.clone()).or_default();
            if !order.iter().any(|(version, _)| *version == tranx) {
                order.push((tranx, write.value.is_some()));
            }
            if let Some(attempt) = write.value.as_ref().and_then(attempt_of)
                && *self.attempt_of.entry(tranx).or_insert(attempt) != attempt
            {
                self.complaints.push(format!("{tranx} names two transactions"));
            }
        }
    }

    /// Notes that a part is found to be valid, and the writes that its keys have seen so far.
    pub(crate) fn checked(&mut self, work: WorkId, server: ServerId, at_us: u64, seen: BTreeMap<Key, usize>) {
        self.checked.entry((work, server)).or_default().push(Checked { at_us, seen });
    }

    /// Number of writes that a key had seen when the transaction was found to be valid, by the
    /// server that held the key, for the last time before it ended. (It may be validated again
    /// after that, by a message that is late.)
    pub(crate) fn seen(&self, work: WorkId, ended_us: u64, key: &Key) -> Option<usize> {
        let all = self.checked.range((work, ServerId(0))..=(work, ServerId(u16::MAX)));
        let last =
            |checks: &Vec<Checked>| checks.iter().rev().find(|check| check.at_us <= ended_us)?.seen.get(key).copied();
        all.filter_map(|(_, checks)| last(checks)).next()
    }
}
