//! Snapshots: reads of any size as of one moment, for clients that only read.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::AsyncClient;
use super::pause::pause;
use crate::client::call::Call;
use crate::client::reply::{SILENT, unexpected};
use crate::client::retry::{Next, Retry};
use crate::client::scan::{PARTS_AT_ONCE, Round, Scan};
use crate::client::{Error, Generation, Result, Scanned};
use crate::core::transaction::MAX_TRANSACTION_ITEMS;
use crate::core::{Epoch, Key, KeyRange, Map, Refusal, ServerId, SnapshotAnswer};
use crate::wire::{Ask, Reply};

/// The whole cluster as it was at one moment between the call of [`AsyncClient::snapshot`] and its
/// return: it has everything that was committed before the call, and each other transaction as a
/// whole or not at all. Reading it takes no locks, is refused by no writer, and costs no commit. It
/// is kept for a while: [`Refusal::SnapshotTooOld`]. Dropping it does nothing.
#[derive(Clone)]
pub struct AsyncSnapshot {
    client: AsyncClient,
    epoch: Epoch,
    /// The stores that it is of.
    generation: Generation,
    /// Map of the keys at the snapshot's moment; empty until a server that did not hold a key was
    /// asked for it.
    map: Arc<OnceLock<Arc<Map>>>,
}

impl AsyncClient {
    /// Makes a snapshot of the whole cluster. All servers take part, so all have to answer; the
    /// answers to commits of a few milliseconds are delayed for it.
    ///
    /// # Errors
    /// [`Error::GivenUp`]: a server did not answer the others in time, or was in doubt for too long
    /// about a transaction; and as for [`AsyncClient::transact`].
    pub async fn snapshot(&self) -> Result<AsyncSnapshot> {
        let mut retry = Retry::new(&self.inner.options);
        loop {
            let (server, generation) = (self.inner.snapshot_maker(), self.inner.generation());
            let refusal = match made(self.inner.start(server, Ask::Snapshot)?.reply().await)? {
                Reply::Snapshot(SnapshotAnswer::Made(epoch)) => {
                    return Ok(AsyncSnapshot { client: self.clone(), epoch, generation, map: Arc::default() });
                }
                Reply::Snapshot(SnapshotAnswer::Refused(refusal)) => refusal,
                other => return Err(unexpected(server, &other)),
            };
            wait_for_next(&mut retry, refusal).await?;
        }
    }

    /// Reads a snapshot. If a server no longer keeps it, which happens when it is restarted, `body`
    /// is called again with another one, as often as the options allow.
    ///
    /// # Errors
    /// What `body` returns, and as for [`AsyncClient::snapshot`].
    pub async fn read<T>(&self, mut body: impl AsyncFnMut(&AsyncSnapshot) -> Result<T>) -> Result<T> {
        let mut retry = Retry::new(&self.inner.options);
        loop {
            let snapshot = self.snapshot().await?;
            match body(&snapshot).await {
                Err(Error::Refused(refusal @ Refusal::SnapshotTooOld { .. })) => {
                    wait_for_next(&mut retry, refusal).await?;
                }
                other => return other,
            }
        }
    }
}

/// The answer of the server that was asked to make a snapshot. If there is none, it may have waited
/// for another server, whose name it has not said yet.
fn made(answer: Result<Reply>) -> Result<Reply> {
    match answer {
        Err(Error::Unavailable { server, why }) if why == SILENT => {
            let why = format!("{why}; it makes a snapshot with all servers, and one of these may be silent");
            Err(Error::Unavailable { server, why })
        }
        answer => answer,
    }
}

async fn wait_for_next(retry: &mut Retry, refusal: Refusal) -> Result<()> {
    match retry.refused(refusal) {
        Next::CommitAgain(wait, _) | Next::BeginAgain(wait, _, _) => {
            pause(wait).await;
            Ok(())
        }
        Next::GiveUp(error) => Err(error),
    }
}

impl AsyncSnapshot {
    /// Number of the snapshot: a later one has the same or a larger number.
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Reads the value that a key held at the snapshot's moment.
    ///
    /// # Errors
    /// The key is too long; its server does not answer, or keeps this snapshot no longer.
    pub async fn get(&self, key: impl Into<Bytes>) -> Result<Option<Bytes>> {
        Ok(self.multi_get([key]).await?.pop().flatten())
    }

    /// Reads the values that several keys held, in the order of the keys, with one request to each
    /// server, all at the same time.
    ///
    /// # Errors
    /// As for [`AsyncSnapshot::get`].
    pub async fn multi_get<K: Into<Bytes>>(&self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Bytes>>> {
        let keys: Vec<Key> = keys.into_iter().map(Key::new).collect::<Result<_, _>>()?;
        match self.get_once(&keys).await? {
            Some(values) => Ok(values),
            None => {
                self.find_out().await?;
                self.get_once(&keys).await?.ok_or_else(|| self.nowhere())
            }
        }
    }

    /// One round of requests; `None` if a server did not hold what it was asked for.
    async fn get_once(&self, keys: &[Key]) -> Result<Option<Vec<Option<Bytes>>>> {
        let inner = &self.client.inner;
        let map = self.map();
        let mut by_server: Vec<(ServerId, usize)> =
            keys.iter().enumerate().map(|(at, key)| (map.server_of(key), at)).collect();
        by_server.sort_unstable();
        let mut calls = Vec::new();
        for group in by_server.chunk_by(|(left, _), (right, _)| left == right) {
            for part in group.chunks(MAX_TRANSACTION_ITEMS) {
                let (server, places) = (part[0].0, part.iter().map(|(_, at)| *at));
                let ask = Ask::GetAt { epoch: self.epoch, keys: places.clone().map(|at| keys[at].clone()).collect() };
                calls.push((server, inner.start(server, ask)?, places.collect::<Vec<usize>>()));
            }
        }
        let mut values = vec![None; keys.len()];
        for (server, call, places) in calls {
            match self.reply(call).await? {
                Reply::Values(items) if items.len() == places.len() => {
                    for (at, item) in places.into_iter().zip(items) {
                        values[at] = item.map(|item| item.value.into());
                    }
                }
                Reply::NotHere(_) => return Ok(None),
                other => return Err(refused(server, other)),
            }
        }
        Ok(Some(values))
    }

    /// A server's answer, unless it may be of another store than the snapshot: an epoch of that one
    /// may have the same number.
    async fn reply(&self, call: Call) -> Result<Reply> {
        let server = call.server;
        let reply = call.reply().await;
        if self.client.inner.generation() != self.generation {
            let why = "has another store since, or another server has".to_owned();
            return Err(Error::Refused(Refusal::SnapshotTooOld { server, why }));
        }
        reply
    }

    /// Map of the keys at the snapshot's moment, or the present one if that is not known.
    fn map(&self) -> Arc<Map> {
        self.map.get().map_or_else(|| self.client.inner.map(), Arc::clone)
    }

    /// Asks all servers what they held at the snapshot's moment.
    async fn find_out(&self) -> Result<()> {
        let (map, failed) = self.client.maps(Some(self.epoch)).await;
        failed.map_or(Ok(()), Err)?;
        // Another task that was first has found the same map.
        drop(self.map.set(Arc::new(map)));
        Ok(())
    }

    fn nowhere(&self) -> Error {
        let why = "no server says that it held the keys at the snapshot's moment".to_owned();
        Error::Unavailable { server: self.client.inner.cluster().servers[0].id, why }
    }

    /// The keys of a range, in order, at most `limit`: any number, as many as there is room for.
    ///
    /// # Errors
    /// `limit` is 0, or as for [`AsyncSnapshot::get`].
    pub async fn scan(&self, range: &KeyRange, limit: usize) -> Result<Scanned> {
        let mut scan = Scan::of_snapshot(range.clone(), limit)?;
        if range.is_empty() {
            return Ok(scan.finish());
        }
        loop {
            let round = match self.look(&scan).await? {
                Some(round) => round,
                None => {
                    self.find_out().await?;
                    self.look(&scan).await?.ok_or_else(|| self.nowhere())?
                }
            };
            if scan.heard(round) {
                return Ok(scan.finish());
            }
        }
    }

    /// One round over all servers for the rest of a scan, at the same time; `None` if a server did
    /// not hold what it was asked for.
    async fn look(&self, scan: &Scan) -> Result<Option<Round>> {
        let (range, items) = scan.next();
        let inner = &self.client.inner;
        let items = items.min(MAX_TRANSACTION_ITEMS) as u32;
        let start =
            |(range, server)| Ok((server, inner.start(server, Ask::ScanAt { epoch: self.epoch, range, items })?));
        let (parts, until) = self.map().first_pieces(range, PARTS_AT_ONCE);
        let calls: Vec<_> = parts.into_iter().map(start).collect::<Result<_>>()?;
        let mut round = Round::up_to(until);
        for (server, call) in calls {
            match self.reply(call).await? {
                Reply::FoundAt { items, through } => round.add_through(items, through),
                Reply::NotHere(_) => return Ok(None),
                other => return Err(refused(server, other)),
            }
        }
        Ok(Some(round))
    }
}

fn refused(server: ServerId, reply: Reply) -> Error {
    match reply {
        Reply::Snapshot(SnapshotAnswer::Refused(refusal)) => Error::Refused(refusal),
        other => unexpected(server, &other),
    }
}
