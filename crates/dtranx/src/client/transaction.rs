//! One transaction: what it has read and will write, kept at the client until the commit (stage 1 of figure 3).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use super::database::unexpected;
use super::link::Call;
use super::{Answer, Client, Error, Result, Unknown};
use crate::core::{
    CommitAnswer, Current, Item, Key, KeyRange, Read, Refusal, ScanRead, ServerId, Transaction as CoreTransaction,
    TranxId, Value, Write,
};
use crate::wire::{Ask, Reply};

/// What a committed transaction is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Its id, and the version of everything that it wrote. `None` if it neither read nor wrote.
    pub tranx: Option<TranxId>,
}

/// What a scan found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// Keys and values, in the order of the keys.
    pub items: Vec<(Bytes, Bytes)>,
    /// Was the whole range looked at? If not, the limit was reached.
    pub complete: bool,
}

/// A transaction. Dropping it is the same as [`Transaction::abort`]: nobody knows of it before the commit.
pub struct Transaction {
    pub(super) client: Client,
    pub(super) reads: BTreeMap<Key, Option<Item>>,
    pub(super) scans: Vec<ScanRead>,
    /// What scans found: keys in here are covered by the scan.
    pub(super) scanned: BTreeMap<Key, Item>,
    pub(super) writes: BTreeMap<Key, Option<Value>>,
    /// What a refusal brought along for this attempt.
    pub(super) brought: BTreeMap<Key, Option<Item>>,
}

impl Transaction {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            reads: BTreeMap::new(),
            scans: Vec::new(),
            scanned: BTreeMap::new(),
            writes: BTreeMap::new(),
            brought: BTreeMap::new(),
        }
    }

    /// What a key holds, as this transaction sees it.
    ///
    /// # Errors
    /// The key is too long, or its server does not answer.
    pub fn get(&mut self, key: impl Into<Bytes>) -> Result<Option<Bytes>> {
        Ok(self.multi_get([key.into()])?.pop().flatten())
    }

    /// What several keys hold, in their order. Each server is asked once.
    ///
    /// # Errors
    /// As for [`Transaction::get`].
    pub fn multi_get<K: Into<Bytes>>(&mut self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Bytes>>> {
        let keys: Vec<Key> = keys.into_iter().map(Key::new).collect::<Result<_, _>>()?;
        let mut missing: BTreeMap<ServerId, BTreeSet<Key>> = BTreeMap::new();
        for key in &keys {
            if self.seen(key).is_none() {
                match self.brought.remove(key).or_else(|| self.client.inner.cache.get(key)) {
                    Some(item) => drop(self.reads.insert(key.clone(), item)),
                    None => {
                        let server = self.client.inner.cluster.partition.server_of(key);
                        missing.entry(server).or_default().insert(key.clone());
                    }
                }
            }
        }
        self.fetch(missing)?;
        Ok(keys.iter().map(|key| self.seen(key).flatten()).collect())
    }

    /// Asks all servers at once.
    fn fetch(&mut self, missing: BTreeMap<ServerId, BTreeSet<Key>>) -> Result<()> {
        let mut calls = Vec::new();
        for (server, keys) in missing {
            let keys: Vec<Key> = keys.into_iter().collect();
            calls.push((self.client.start(server, Ask::Get(keys.clone()))?, keys));
        }
        for (call, keys) in calls {
            let server = call.0;
            match self.client.finish(call)? {
                Reply::Values(items) if items.len() == keys.len() => self.reads.extend(keys.into_iter().zip(items)),
                other => return Err(unexpected(server, &other)),
            }
        }
        Ok(())
    }

    /// What the transaction already knows of a key: its own write, or what it read.
    fn seen(&self, key: &Key) -> Option<Option<Bytes>> {
        if let Some(value) = self.writes.get(key) {
            return Some(value.clone().map(Bytes::from));
        }
        if let Some(item) = self.reads.get(key) {
            return Some(item.clone().map(|item| item.value.into()));
        }
        self.scanned.get(key).map(|item| Some(item.value.clone().into()))
    }

    /// Lets a key hold a value from the commit on.
    ///
    /// # Errors
    /// Key or value are too long.
    pub fn put(&mut self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Result<()> {
        self.writes.insert(Key::new(key)?, Some(Value::new(value)?));
        Ok(())
    }

    /// Deletes a key at the commit, whether it is there or not.
    ///
    /// # Errors
    /// The key is too long.
    pub fn delete(&mut self, key: impl Into<Bytes>) -> Result<()> {
        self.writes.insert(Key::new(key)?, None);
        Ok(())
    }

    /// The keys that begin with `prefix`, in order, at most `limit`. That nothing comes in between is part of what is checked.
    ///
    /// # Errors
    /// The prefix is too long, or a server does not answer.
    pub fn scan_prefix(&mut self, prefix: impl Into<Bytes>, limit: usize) -> Result<Scanned> {
        self.scan(KeyRange::prefix(Key::new(prefix)?), limit)
    }

    /// Gives it up. Nobody else notices.
    pub fn abort(self) {}

    /// Commits it: everything that it read is still so, and everything that it writes is there, at one instant.
    ///
    /// # Errors
    /// [`Error::Refused`]: it is not committed. [`Error::Unknown`]: it may be. Others: it is not.
    pub fn commit(mut self) -> Result<Committed> {
        self.try_commit()
    }

    pub(super) fn try_commit(&mut self) -> Result<Committed> {
        let transaction = self.gathered();
        transaction.validate()?;
        if transaction.is_empty() {
            return Ok(Committed { tranx: None });
        }
        let server = self.coordinator();
        let link = Arc::clone(self.client.link(server)?);
        let ask = Ask::Commit(transaction);
        let answer = Call::start(&*link, ask.clone(), self.client.until()).wait();
        let unknown = |ticket| Err(Error::Unknown(Unknown::new(server, link, ticket, ask)));
        match answer {
            Some(Answer::Reply(Reply::Commit(CommitAnswer::Committed(tranx)))) => self.answered(Ok(tranx)),
            Some(Answer::Reply(Reply::Commit(CommitAnswer::Refused(refusal)))) => self.answered(Err(refusal)),
            Some(Answer::Reply(Reply::Commit(CommitAnswer::Indeterminate))) | None => unknown(None),
            Some(Answer::Reply(Reply::Refused(why)) | Answer::NotCarriedOut(why)) => {
                Err(Error::Unavailable { server, why })
            }
            Some(Answer::Reply(other)) => Err(unexpected(server, &other)),
            Some(Answer::Silence(ticket)) => unknown(Some(ticket)),
        }
    }

    pub(super) fn answered(&mut self, answer: Result<TranxId, Refusal>) -> Result<Committed> {
        let cache = &self.client.inner.cache;
        match answer {
            Ok(tranx) => {
                cache.committed(self.reads.iter(), self.writes.iter(), tranx);
                Ok(Committed { tranx: Some(tranx) })
            }
            Err(refusal) => {
                let current: &[Current] = if let Refusal::Stale { current } = &refusal { current } else { &[] };
                cache.refused(self.reads.keys().chain(self.writes.keys()), current);
                Err(Error::Refused(refusal))
            }
        }
    }

    fn gathered(&self) -> CoreTransaction {
        let read = |(key, item): (&Key, &Option<Item>)| Read {
            key: key.clone(),
            version: item.as_ref().map(|item| item.version),
        };
        let write = |(key, value): (&Key, &Option<Value>)| Write { key: key.clone(), value: value.clone() };
        CoreTransaction {
            reads: self.reads.iter().map(read).collect(),
            scans: self.scans.clone(),
            writes: self.writes.iter().map(write).collect(),
        }
    }

    /// The server that holds most of what is written, then of what is read: one that holds everything needs one phase.
    fn coordinator(&self) -> ServerId {
        let partition = &self.client.inner.cluster.partition;
        let mut weights: BTreeMap<ServerId, (usize, usize)> = BTreeMap::new();
        for key in self.writes.keys() {
            weights.entry(partition.server_of(key)).or_default().0 += 1;
        }
        for key in self.reads.keys() {
            weights.entry(partition.server_of(key)).or_default().1 += 1;
        }
        for server in self.scans.iter().flat_map(|scan| partition.servers_of(&scan.range)) {
            weights.entry(server).or_default().1 += 1;
        }
        weights.into_iter().max_by_key(|(_, weight)| *weight).map_or(ServerId(0), |(server, _)| server)
    }
}
