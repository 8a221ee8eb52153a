//! One transaction of the asynchronous client: fetches what its state lacks, and commits it.

use std::time::Instant;

use bytes::Bytes;

use super::AsyncClient;
use super::search::Search;
use crate::client::link::Answer;
use crate::client::reply::unexpected;
use crate::client::scan::{PARTS_AT_ONCE, Round, Scan};
use crate::client::state::{Earlier, TransactionState};
use crate::client::unknown::Again;
use crate::client::{Committed, Error, Result, Scanned, Unknown};
use crate::core::{CommitAnswer, Key, KeyRange};
use crate::wire::{Ask, Reply};

/// A transaction. Dropping it is the same as [`AsyncTransaction::abort`]: no server knows of it
/// before the commit.
pub struct AsyncTransaction {
    pub(super) client: AsyncClient,
    pub(super) state: TransactionState,
}

impl AsyncTransaction {
    /// Reads the value of a key, as this transaction sees it.
    ///
    /// # Errors
    /// The key is too long, or its server does not answer.
    pub async fn get(&mut self, key: impl Into<Bytes>) -> Result<Option<Bytes>> {
        let key = Key::new(key)?;
        self.fetch(std::slice::from_ref(&key)).await?;
        Ok(self.state.seen(&key))
    }

    /// Reads the values of several keys, in the order of the keys, with one request to each server,
    /// all at the same time.
    ///
    /// # Errors
    /// As for [`AsyncTransaction::get`].
    pub async fn multi_get<K: Into<Bytes>>(&mut self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Bytes>>> {
        let keys: Vec<Key> = keys.into_iter().map(Key::new).collect::<Result<_, _>>()?;
        self.fetch(&keys).await?;
        Ok(keys.iter().map(|key| self.state.seen(key)).collect())
    }

    async fn fetch(&mut self, keys: &[Key]) -> Result<()> {
        let inner = &self.client.inner;
        let mut search = Search::new(&self.client);
        loop {
            let mut calls = Vec::new();
            for (server, keys) in self.state.missing(keys, &inner.cache, &inner.map()) {
                calls.push((server, inner.start(server, Ask::Get(keys.clone()))?, keys));
            }
            for (server, call, keys) in calls {
                match call.reply().await {
                    Ok(Reply::Values(items)) if items.len() == keys.len() => self.state.fetched(keys, items),
                    answer => search.elsewhere(server, answer)?,
                }
            }
            if search.is_over().await? {
                return Ok(());
            }
        }
    }

    /// Lets a key hold a value from the commit on.
    ///
    /// # Errors
    /// Key or value are too long.
    pub fn put(&mut self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Result<()> {
        Ok(self.state.put(key.into(), value.into())?)
    }

    /// Deletes a key at the commit, whether it is there or not.
    ///
    /// # Errors
    /// The key is too long.
    pub fn delete(&mut self, key: impl Into<Bytes>) -> Result<()> {
        Ok(self.state.delete(key.into())?)
    }

    /// The keys of a range, in order, at most `limit`, as this transaction sees them. The commit
    /// also checks that no key has come in between.
    ///
    /// # Errors
    /// `limit` is 0 or beyond what a transaction may hold, or a server does not answer.
    pub async fn scan(&mut self, range: KeyRange, limit: usize) -> Result<Scanned> {
        if range.is_empty() {
            return Scan::new(range, limit).map(|_| Scanned { items: Vec::new(), complete: true });
        }
        let mut scan = Scan::new(range, limit)?;
        while !scan.heard(self.look(&scan).await?) {}
        Ok(self.state.finish_scan(scan))
    }

    /// As [`AsyncTransaction::scan`], over the keys that begin with `prefix`.
    ///
    /// # Errors
    /// The prefix is too long, and as for [`AsyncTransaction::scan`].
    pub async fn scan_prefix(&mut self, prefix: impl Into<Bytes>, limit: usize) -> Result<Scanned> {
        self.scan(KeyRange::prefix(Key::new(prefix)?), limit).await
    }

    /// One round over all servers for the rest of a scan, at the same time.
    async fn look(&self, scan: &Scan) -> Result<Round> {
        let (range, items) = scan.next();
        let inner = &self.client.inner;
        let ask = |range| Ask::Scan { range, items: items as u32 };
        let start = |(range, server)| Ok((server, inner.start(server, ask(range))?));
        let mut search = Search::new(&self.client);
        loop {
            let (parts, until) = inner.map().first_pieces(range, PARTS_AT_ONCE);
            let calls: Vec<_> = parts.into_iter().map(start).collect::<Result<_>>()?;
            let mut round = Round::up_to(until);
            for (server, call) in calls {
                match call.reply().await {
                    Ok(Reply::Found { items, complete }) => round.add(items, complete),
                    answer => search.elsewhere(server, answer)?,
                }
            }
            if search.is_over().await? {
                return Ok(round);
            }
        }
    }

    /// Says when the first attempt at this work was begun, for programs that try again themselves:
    /// the one that has tried for longer is served earlier where several want the same keys.
    #[must_use]
    pub fn tried_since(mut self, first: Instant) -> Self {
        let kept = self.state.earlier.and_then(|earlier| earlier.kept);
        self.state.earlier = Some(Earlier { since: first, kept });
        self
    }

    /// Aborts the transaction: drops its reads and writes. Sends nothing.
    pub fn abort(self) {}

    /// Commits the transaction: at one instant, everything that it read still holds, and everything
    /// that it writes is there.
    ///
    /// If the future is dropped before it is polled, nothing happens. If it is dropped later, the
    /// commit goes on without it, once: whether it is committed is unknown to the program, as after
    /// [`Error::Unknown`], and only reading shows it.
    ///
    /// # Errors
    /// [`Error::Refused`]: the transaction is not committed. [`Error::Unknown`]: it may be. Others:
    /// it is not.
    pub async fn commit(mut self) -> Result<Committed> {
        self.try_commit().await
    }

    async fn try_commit(&mut self) -> Result<Committed> {
        let transaction = self.state.gathered();
        transaction.validate()?;
        if transaction.is_empty() {
            return Ok(Committed { tranx: None });
        }
        let ask = self.state.ask();
        let inner = &self.client.inner;
        let server = self.state.coordinator(&inner.map());
        let answer = inner.commit(server, ask.clone(), self.state.read_in())?.answer().await;
        let ticket = match answer {
            Some(Answer::Reply(Reply::Commit(CommitAnswer::Committed(tranx)))) => {
                return self.state.settled(Ok(Some(tranx)), &inner.cache);
            }
            Some(Answer::Reply(Reply::Commit(CommitAnswer::Validated(_)))) => {
                return self.state.settled(Ok(None), &inner.cache);
            }
            Some(Answer::Reply(Reply::Commit(CommitAnswer::Refused(refusal)))) => {
                inner.heard(self.state.generation, &refusal);
                return self.state.settled(Err(refusal), &inner.cache);
            }
            Some(Answer::Reply(Reply::Refused(why)) | Answer::NotCarriedOut(why)) => {
                return Err(Error::Unavailable { server, why });
            }
            Some(Answer::Reply(Reply::Commit(CommitAnswer::Indeterminate))) | None => None,
            Some(Answer::Reply(other)) => return Err(unexpected(server, &other)),
            Some(Answer::Silence(ticket)) => Some(ticket),
        };
        Err(Error::Unknown(Unknown::new(server, inner.link(server)?, ticket, ask)))
    }

    /// Commits. If there is no answer, sends the commit once more, and waits for as long as a
    /// request may take.
    pub(super) async fn commit_surely(&mut self) -> Result<Committed> {
        let unknown = match self.try_commit().await {
            Err(Error::Unknown(unknown)) => unknown,
            other => return other,
        };
        let inner = &self.client.inner;
        match unknown.again(inner.until()).await {
            Again::Answer(answer) => {
                answer.as_ref().err().into_iter().for_each(|refusal| inner.heard(self.state.generation, refusal));
                self.state.settled(answer, &inner.cache)
            }
            Again::Silence(unknown) => Err(Error::Unknown(unknown)),
        }
    }
}
