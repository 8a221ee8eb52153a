//! Reads of keys whose range may have moved: a server that does not hold them says where they are,
//! as far as it knows.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::AsyncClient;
use super::pause::pause;
use crate::backoff::Backoff;
use crate::client::reply::unexpected;
use crate::client::{Error, Generation, Result};
use crate::core::{Epoch, Key, KeyRange, Map, ServerId};
use crate::wire::{Ask, Reply};

/// Pauses while a range is moving.
const PAUSES: Backoff = Backoff::new(Duration::from_micros(500), Duration::from_millis(50));

/// The search for the holder of some keys: round after round of the same requests, each by what the
/// last one has shown.
pub(super) struct Search<'a> {
    client: &'a AsyncClient,
    /// The stores that the round asks.
    generation: Generation,
    until: Instant,
    backoff: Backoff,
    round: Round,
    has_asked_all: bool,
}

/// Findings of one round.
#[derive(Default)]
struct Round {
    /// A server that does not hold what was asked for.
    elsewhere: Option<ServerId>,
    has_learned: bool,
    /// Error of a server that does not answer.
    silence: Option<Error>,
}

impl<'a> Search<'a> {
    pub(super) fn new(client: &'a AsyncClient) -> Self {
        let (generation, until) = (client.inner.generation(), client.inner.until());
        Self { client, generation, until, backoff: PAUSES, round: Round::default(), has_asked_all: false }
    }

    /// Takes an answer that brings no items.
    ///
    /// # Errors
    /// The answer says nothing of where the keys are.
    pub(super) fn elsewhere(&mut self, server: ServerId, answer: Result<Reply>) -> Result<()> {
        match answer {
            Ok(Reply::NotHere(moved)) => {
                self.round.has_learned |= self.client.inner.learn(self.generation, |map| map.learn(&moved));
                self.round.elsewhere = Some(server);
            }
            Ok(other) => return Err(unexpected(server, &other)),
            Err(error) => self.round.silence = Some(error),
        }
        Ok(())
    }

    /// Ends a round. Returns true if it has found everything; otherwise there is another one, after
    /// a pause if nothing was learned.
    ///
    /// # Errors
    /// A server does not answer, and no other one has what was asked for; or the range moves for
    /// longer than a request may take.
    pub(super) async fn is_over(&mut self) -> Result<bool> {
        let Round { elsewhere, has_learned, silence } = std::mem::take(&mut self.round);
        self.generation = self.client.inner.generation();
        if let Some(error) = silence {
            if self.has_asked_all {
                return Err(error);
            }
            self.has_asked_all = true;
            let (found, _) = self.client.maps(None).await;
            let is_news = self.client.inner.learn(self.generation, |map| map.learn_all(&found));
            return if is_news { Ok(false) } else { Err(error) };
        }
        let Some(server) = elsewhere else { return Ok(true) };
        if Instant::now() >= self.until {
            let why = "it does not hold the keys, and no server says that it does".to_owned();
            return Err(Error::Unavailable { server, why });
        }
        if !has_learned {
            pause(self.backoff.next_by_chance()).await;
        }
        Ok(false)
    }
}

impl AsyncClient {
    /// The maps of all servers that answer, as one; of now, or as of a snapshot. The error is of
    /// the last server that did not say its map.
    pub(super) async fn maps(&self, epoch: Option<Epoch>) -> (Map, Option<Error>) {
        let (inner, cluster) = (&self.inner, self.inner.cluster());
        let partition = &cluster.partition;
        let mut maps = Map::from(partition);
        let mut failed = None;
        let keys = || vec![Key::of_map()];
        let ask = || epoch.map_or_else(|| Ask::Get(keys()), |epoch| Ask::GetAt { epoch, keys: keys() });
        let all = || cluster.servers.iter().map(|server| server.id).collect();
        let mut asked = BTreeSet::new();
        let mut servers: BTreeSet<ServerId> = if epoch.is_some() { inner.holders() } else { all() };
        while !servers.is_empty() {
            let calls: Vec<_> = servers.iter().map(|server| (*server, inner.start(*server, ask()))).collect();
            for (server, call) in calls {
                let reply = match call {
                    Ok(call) => call.reply().await,
                    Err(error) => Err(error),
                };
                match reply.and_then(|reply| map_in(server, reply, partition)) {
                    Ok(map) => maps.learn_all(&map),
                    Err(error) => failed = Some(error),
                }
            }
            asked.append(&mut servers);
            // One that was left out may hold what the others say that it does, or have given it on.
            let named = maps.pieces(&KeyRange::all()).into_iter().map(|(_, holder)| holder);
            servers = named.filter(|holder| !asked.contains(holder)).collect();
        }
        (maps, failed)
    }

    /// Map of all keys: the ranges in order, each with the server that holds it.
    ///
    /// # Errors
    /// A server does not answer.
    pub async fn map(&self) -> Result<Map> {
        let generation = self.inner.generation();
        let (map, failed) = self.maps(None).await;
        self.inner.learn(generation, |known| known.learn_all(&map));
        failed.map_or(Ok(map), Err)
    }
}

fn map_in(server: ServerId, reply: Reply, partition: &crate::core::Partition) -> Result<Map> {
    use crate::core::SnapshotAnswer;
    match reply {
        Reply::Values(items) if items.len() == 1 => {
            Map::stored(items[0].as_ref(), partition).map_err(|why| Error::Unavailable { server, why })
        }
        Reply::Snapshot(SnapshotAnswer::Refused(refusal)) => Err(Error::Refused(refusal)),
        other => Err(unexpected(server, &other)),
    }
}
