//! Ordered scans over all servers of a range: the items of all are merged, and the transaction's
//! own writes are laid over them. Pure, as [`TransactionState`] is.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::state::TransactionState;
use super::{Error, Result, Scanned};
use crate::core::{Item, Key, KeyRange, LimitError, ScanRead, transaction::MAX_TRANSACTION_ITEMS};

/// A scan under way: round after round, a request for the rest goes to all servers, until there is
/// enough or no more.
pub(super) struct Scan {
    range: KeyRange,
    limit: usize,
    rest: KeyRange,
    found: BTreeMap<Key, Item>,
    /// The last key up to which all servers were looked at; `None`: the whole range.
    through: Option<Key>,
}

/// Parts of a range that one round asks for, where ranges have moved.
pub(super) const PARTS_AT_ONCE: usize = 16;

/// Items that the servers have sent, up to the key to which all of them were read in one round.
#[derive(Default)]
pub(super) struct Round {
    items: BTreeMap<Key, Item>,
    through: Option<Key>,
    /// Key before which the range ends of which servers were asked; `None`: the whole rest.
    until: Option<Key>,
}

impl Scan {
    /// A scan in a transaction, of `limit` items at most.
    ///
    /// # Errors
    /// `limit` is 0 or beyond what a transaction may hold.
    pub(super) fn new(range: KeyRange, limit: usize) -> Result<Self> {
        if limit == 0 || limit >= MAX_TRANSACTION_ITEMS {
            return Err(Error::Limit(LimitError::TooManyItems { items: limit }));
        }
        Ok(Self { rest: range.clone(), range, limit, found: BTreeMap::new(), through: None })
    }

    /// A scan of any length, which no transaction has to hold.
    ///
    /// # Errors
    /// `limit` is 0.
    pub(super) fn of_snapshot(range: KeyRange, limit: usize) -> Result<Self> {
        if limit == 0 {
            return Err(Error::Limit(LimitError::TooManyItems { items: limit }));
        }
        Ok(Self { rest: range.clone(), range, limit, found: BTreeMap::new(), through: None })
    }

    /// Result of the scan, once it is over.
    pub(super) fn finish(self) -> Scanned {
        let items = self.found.into_iter().map(|(key, item)| (Bytes::from(key), item.value.into()));
        Scanned { items: items.collect(), complete: self.through.is_none() }
    }

    /// Request of the next round: the range, and the number of items.
    pub(super) fn next(&self) -> (&KeyRange, usize) {
        (&self.rest, self.limit - self.found.len())
    }

    /// Takes in a round. Returns whether it was the last one.
    pub(super) fn heard(&mut self, round: Round) -> bool {
        let until = round.until.clone();
        let (items, through) = round.cut(self.limit - self.found.len());
        self.found.extend(items);
        self.through = through;
        if let Some(until) = until.filter(|_| self.through.is_none()) {
            if self.found.len() >= self.limit {
                self.through = self.found.keys().next_back().cloned();
                return true;
            }
            self.rest.start = until;
            return false;
        }
        let Some(through) = &self.through else { return true };
        if self.found.len() >= self.limit {
            return true;
        }
        match through.successor() {
            Some(start) => {
                self.rest.start = start;
                false
            }
            None => {
                self.through = None;
                true
            }
        }
    }
}

impl Round {
    /// A round that asks for the range before this key, or for the whole rest.
    pub(super) fn up_to(until: Option<Key>) -> Self {
        Self { until, ..Self::default() }
    }

    /// Takes in the items of one server, in order, and whether they are all.
    pub(super) fn add(&mut self, items: Vec<(Key, Item)>, complete: bool) {
        let last = items.last().map(|(key, _)| key.clone()).filter(|_| !complete);
        self.add_through(items, last);
    }

    /// Takes in the items of one server, in order, and the last key that it looked at, if there is
    /// more.
    pub(super) fn add_through(&mut self, items: Vec<(Key, Item)>, last: Option<Key>) {
        self.through = [self.through.take(), last].into_iter().flatten().min();
        self.items.extend(items);
    }

    /// Items up to the key to which all servers were read, at most `limit`.
    fn cut(mut self, limit: usize) -> (BTreeMap<Key, Item>, Option<Key>) {
        if let Some(through) = &self.through {
            self.items.retain(|key, _| key <= through);
        }
        // Several servers may have found more than was wanted.
        if self.items.len() > limit {
            self.through = self.items.keys().nth(limit.saturating_sub(1)).cloned();
            self.items = self.items.into_iter().take(limit).collect();
        }
        (self.items, self.through)
    }
}

impl TransactionState {
    /// Takes in a scan that is over: what the transaction sees in its range.
    pub(super) fn finish_scan(&mut self, scan: Scan) -> Scanned {
        let Scan { range, limit, found, through, .. } = scan;
        let covered = match &through {
            Some(last) => KeyRange::through(range.start, last.clone()),
            None => range,
        };
        let items = self.overlaid(&covered, &found);
        let versions = found.iter().map(|(key, item)| (key.clone(), item.version)).collect();
        self.scans.push(ScanRead { range: covered, found: versions });
        self.scanned.extend(found);
        let complete = through.is_none() && items.len() <= limit;
        Scanned { items: items.into_iter().take(limit).collect(), complete }
    }

    fn overlaid(&self, covered: &KeyRange, found: &BTreeMap<Key, Item>) -> Vec<(Bytes, Bytes)> {
        let mut seen: BTreeMap<&Key, Bytes> =
            found.iter().map(|(key, item)| (key, item.value.clone().into())).collect();
        for (key, value) in self.writes.iter().filter(|(key, _)| covered.contains(key)) {
            match value {
                Some(value) => seen.insert(key, value.clone().into()),
                None => seen.remove(key),
            };
        }
        seen.into_iter().map(|(key, value)| (Bytes::from(key.clone()), value)).collect()
    }
}
