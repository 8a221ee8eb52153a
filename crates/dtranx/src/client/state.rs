//! Reads and writes of a transaction, kept at the client until the commit (stage 1 of figure 3).
//! Nothing here waits or sends: the asynchronous transaction fetches what is missing and hands the
//! answers in.

use std::collections::BTreeMap;
use std::time::Instant;

use bytes::Bytes;

use super::cache::Cache;
use super::{Committed, Error, Generation, Result};
use crate::core::{
    Again, Current, Item, Key, LimitError, Map, Moving, Read, Refusal, ScanRead, ServerId, Transaction, TranxId, Value,
    Write,
};
use crate::wire::Ask;

/// Items that a refusal brought along, for the next attempt (section 4.1).
pub(super) type CurrentItems = BTreeMap<Key, Option<Item>>;

/// Facts about the attempts before this one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Earlier {
    /// Time at which the first attempt began.
    pub(super) since: Instant,
    /// Id of the last attempt, if its locks are kept for this one.
    pub(super) kept: Option<TranxId>,
}

/// Reads and writes of one transaction so far.
#[derive(Default)]
pub(super) struct TransactionState {
    reads: BTreeMap<Key, Option<Item>>,
    pub(super) scans: Vec<ScanRead>,
    /// Items that scans have found: their keys are covered by the scans.
    pub(super) scanned: BTreeMap<Key, Item>,
    pub(super) writes: BTreeMap<Key, Option<Value>>,
    current: CurrentItems,
    pub(super) earlier: Option<Earlier>,
    /// Range that the transaction moves.
    pub(super) moving: Option<Moving>,
    /// The stores that it began to read.
    pub(super) generation: Generation,
}

impl TransactionState {
    /// A transaction that reads the stores of this generation, of which the items are.
    pub(super) fn with(generation: Generation, current: CurrentItems, earlier: Option<Earlier>) -> Self {
        Self { generation, current, earlier, ..Self::default() }
    }

    /// The stores that its commit must come to, if it has read anything.
    pub(super) fn read_in(&self) -> Option<Generation> {
        (!self.has_read_nothing()).then_some(self.generation)
    }

    /// The request to commit the transaction. Its facts about earlier attempts are not part of the
    /// transaction.
    pub(super) fn ask(&self) -> Ask {
        let transaction = self.gathered();
        let Some(Earlier { since, kept }) = self.earlier else { return Ask::Commit(transaction) };
        let waited_ms = u32::try_from(since.elapsed().as_millis()).unwrap_or(u32::MAX);
        Ask::CommitAgain { transaction, again: Again { waited_ms, keeps: true, kept } }
    }

    /// The keys among these that must be fetched, by server, each once. Items that a refusal
    /// brought along, or that lie in the cache, count as read from now on.
    pub(super) fn missing(&mut self, keys: &[Key], cache: &Cache, map: &Map) -> Vec<(ServerId, Vec<Key>)> {
        let mut missing: Vec<(ServerId, &Key)> = Vec::with_capacity(keys.len());
        for key in keys {
            if self.knows(key) {
                continue;
            }
            match self.current.remove(key).or_else(|| cache.get(self.generation, key)) {
                Some(item) => drop(self.reads.insert(key.clone(), item)),
                None => missing.push((map.server_of(key), key)),
            }
        }
        missing.sort_unstable();
        missing.dedup();
        let of_one = |group: &[(ServerId, &Key)]| group.iter().map(|(_, key)| (*key).clone()).collect();
        missing.chunk_by(|(left, _), (right, _)| left == right).map(|group| (group[0].0, of_one(group))).collect()
    }

    /// Notes the items that a server has sent for these keys.
    pub(super) fn fetched(&mut self, keys: Vec<Key>, items: Vec<Option<Item>>) {
        self.reads.extend(keys.into_iter().zip(items));
    }

    fn knows(&self, key: &Key) -> bool {
        self.writes.contains_key(key) || self.reads.contains_key(key) || self.scanned.contains_key(key)
    }

    /// Value of a key as the transaction sees it: its own write, or what it has read.
    pub(super) fn seen(&self, key: &Key) -> Option<Bytes> {
        if let Some(value) = self.writes.get(key) {
            return value.clone().map(Bytes::from);
        }
        let item = self.reads.get(key).map_or_else(|| self.scanned.get(key), Option::as_ref);
        item.map(|item| item.value.clone().into())
    }

    pub(super) fn put(&mut self, key: Bytes, value: Bytes) -> Result<(), LimitError> {
        self.writes.insert(Key::new(key)?, Some(Value::new(value)?));
        Ok(())
    }

    pub(super) fn delete(&mut self, key: Bytes) -> Result<(), LimitError> {
        self.writes.insert(Key::new(key)?, None);
        Ok(())
    }

    /// Returns true if nothing was read that could have changed since.
    pub(super) fn has_read_nothing(&self) -> bool {
        self.reads.is_empty() && self.scans.is_empty()
    }

    /// Drops the writes, and keeps the reads for their validation.
    pub(super) fn discard_writes(&mut self) {
        self.writes.clear();
    }

    /// The transaction to be committed; the same one each time as long as nothing is read or
    /// written in between.
    pub(super) fn gathered(&self) -> Transaction {
        let read = |(key, item): (&Key, &Option<Item>)| Read {
            key: key.clone(),
            version: item.as_ref().map(|item| item.version),
        };
        let write = |(key, value): (&Key, &Option<Value>)| Write { key: key.clone(), value: value.clone() };
        Transaction {
            reads: self.reads.iter().map(read).collect(),
            scans: self.scans.clone(),
            writes: self.writes.iter().map(write).collect(),
            moving: self.moving.clone().map(Box::new),
        }
    }

    /// The server that holds most of what is written, then of what is read: one that holds
    /// everything needs one phase.
    pub(super) fn coordinator(&self, map: &Map) -> ServerId {
        if let Some(moving) = &self.moving {
            return moving.from;
        }
        let mut weights: BTreeMap<ServerId, (usize, usize)> = BTreeMap::new();
        for key in self.writes.keys() {
            weights.entry(map.server_of(key)).or_default().0 += 1;
        }
        for key in self.reads.keys() {
            weights.entry(map.server_of(key)).or_default().1 += 1;
        }
        for (_, server) in self.scans.iter().flat_map(|scan| map.pieces(&scan.range)) {
            weights.entry(server).or_default().1 += 1;
        }
        weights.into_iter().max_by_key(|(_, weight)| *weight).map_or(ServerId(0), |(server, _)| server)
    }

    /// Updates the cache with the outcome of the commit.
    pub(super) fn settled(&self, answer: Result<Option<TranxId>, Refusal>, cache: &Cache) -> Result<Committed> {
        match answer {
            Ok(tranx) => {
                cache.committed(self.generation, self.reads.iter(), self.writes.iter(), tranx);
                Ok(Committed { tranx })
            }
            Err(refusal) => {
                let current: &[Current] = if let Refusal::Stale { current, .. } = &refusal { current } else { &[] };
                cache.refused(self.generation, self.reads.keys().chain(self.writes.keys()), current);
                Err(Error::Refused(refusal))
            }
        }
    }
}
