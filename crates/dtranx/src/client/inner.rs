//! State that all clones of a client share: its links, its options, its cache.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};
use std::thread;
use std::time::{Duration, Instant};

use futures_channel::oneshot;

use super::cache::Cache;
use super::call::Call;
use super::socket::SocketLink;
use super::stores::Stores;
use super::{ClientOptions, Error, Generation, Link, Result};
use crate::cluster::Cluster;
use crate::core::map::{MAX_HINTS, MAX_PIECES};
use crate::core::{Map, Refusal, ServerId};
use crate::wire::Ask;

pub(super) struct Inner {
    pub(super) cluster: Cluster,
    pub(super) options: ClientOptions,
    pub(super) cache: Cache,
    links: BTreeMap<ServerId, Arc<dyn Link>>,
    snapshots: AtomicUsize,
    stores: Stores,
    known: RwLock<Known>,
}

/// Map of the keys, by what the stores of one generation have said to the client so far.
struct Known {
    generation: Generation,
    map: Arc<Map>,
}

impl Inner {
    pub(super) fn new(
        cluster: Cluster,
        links: BTreeMap<ServerId, Arc<dyn Link>>,
        options: ClientOptions,
        stores: Stores,
    ) -> Self {
        let cache = Cache::new(options.cache_items);
        let snapshots = AtomicUsize::new(rand::random_range(0..links.len().max(1)));
        let map = Arc::new(Map::from(&cluster.partition));
        let known = RwLock::new(Known { generation: stores.generation(), map });
        Self { cluster, options, cache, links, snapshots, stores, known }
    }

    /// The stores that the servers have now, as far as the client has noticed.
    pub(super) fn generation(&self) -> Generation {
        self.stores.generation()
    }

    /// Map of the keys, by what servers have said to the client so far.
    pub(super) fn map(&self) -> Arc<Map> {
        let generation = self.generation();
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if known.generation >= generation {
            return known.map.clone();
        }
        drop(known);
        self.known_in(generation).map.clone()
    }

    /// What is known of the stores of this generation, or a later one: nothing at first.
    fn known_in(&self, generation: Generation) -> RwLockWriteGuard<'_, Known> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.generation < generation {
            *known = Known { generation, map: Arc::new(Map::from(&self.cluster.partition)) };
        }
        known
    }

    /// Learns where keys are, from an answer to a request that was sent in this generation. Returns
    /// true if that is news, or if the answer is of stores that are gone.
    pub(super) fn learn(&self, generation: Generation, learn: impl FnOnce(&mut Map)) -> bool {
        let mut known = self.known_in(self.generation());
        if known.generation != generation {
            return true;
        }
        let mut learned = (*known.map).clone();
        learn(&mut learned);
        if learned.len() > MAX_PIECES {
            // What is forgotten can be heard again.
            learned = Map::from(&self.cluster.partition);
        }
        let is_news = learned != *known.map;
        if is_news {
            known.map = Arc::new(learned);
        }
        is_news
    }

    /// Learns from a refusal where keys are.
    pub(super) fn heard(&self, generation: Generation, refusal: &Refusal) {
        if let Refusal::NotHere { moved, .. } = refusal {
            self.learn(generation, |map| moved.iter().take(MAX_HINTS).for_each(|moved| map.learn(moved)));
        }
    }

    /// A link to each server; they connect by themselves.
    pub(super) fn of_cluster(cluster: Cluster, options: ClientOptions) -> Result<Self> {
        let mut links: BTreeMap<ServerId, Arc<dyn Link>> = BTreeMap::new();
        let stores = Stores::default();
        for server in &cluster.servers {
            let (secret, stores) = (options.secret.clone(), stores.clone());
            let link = SocketLink::new(&cluster, *server, secret, stores).map_err(unreachable)?;
            links.insert(server.id, Arc::new(link));
        }
        Ok(Self::new(cluster, links, options, stores))
    }

    pub(super) fn link(&self, server: ServerId) -> Result<&Arc<dyn Link>> {
        let missing = || Error::Unavailable { server, why: "it is not of this cluster".to_owned() };
        self.links.get(&server).ok_or_else(missing)
    }

    /// Server that makes the next snapshot; the servers take turns.
    pub(super) fn snapshot_maker(&self) -> ServerId {
        let turn = self.snapshots.fetch_add(1, Ordering::Relaxed) % self.links.len().max(1);
        self.links.keys().nth(turn).copied().unwrap_or(ServerId(0))
    }

    /// Deadline of a request that is sent now.
    pub(super) fn until(&self) -> Instant {
        Instant::now() + Duration::from_millis(self.options.request_ms)
    }

    /// Sends a request. It is under way from now on, whether it is waited for or not.
    pub(super) fn start(&self, server: ServerId, ask: Ask) -> Result<Call> {
        Ok(Call::start(&**self.link(server)?, server, ask, None, self.until()))
    }

    /// Sends a request to commit, which is refused if it would come to stores of a later generation
    /// than those that were read.
    pub(super) fn commit(&self, server: ServerId, ask: Ask, read_in: Option<Generation>) -> Result<Call> {
        Ok(Call::start(&**self.link(server)?, server, ask, read_in, self.until()))
    }
}

/// Fetches the description of the cluster from the first address that answers. Connecting blocks,
/// so it has a thread of its own.
pub(super) async fn discover(addresses: &[SocketAddr], options: &ClientOptions) -> Result<Cluster> {
    let (tell, discovered) = oneshot::channel();
    let (addresses, secret, limit_ms) = (addresses.to_vec(), options.secret.clone(), options.request_ms);
    let discovering = move || {
        let until = Instant::now() + Duration::from_millis(limit_ms);
        let mut answer = Err(unreachable("no address was given"));
        for (at, address) in addresses.iter().enumerate() {
            // Each address has its share of the time, so that a silent server leaves time for the
            // others.
            let now = Instant::now();
            let until = now + until.saturating_duration_since(now) / (addresses.len() - at) as u32;
            answer = SocketLink::discover(*address, secret.as_ref(), until)
                .map_err(|why| Error::Unreachable { why: format!("{address}: {why}") });
            // The future was dropped, or the cluster is known.
            if answer.is_ok() || tell.is_canceled() {
                break;
            }
        }
        drop(tell.send(answer));
    };
    thread::Builder::new().name("dtranx-discover".to_owned()).spawn(discovering).map_err(unreachable)?;
    discovered.await.map_err(unreachable)?
}

fn unreachable(why: impl std::fmt::Display) -> Error {
    Error::Unreachable { why: why.to_string() }
}
