//! State that all clones of a client share: its links, its options, its cache.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use futures_channel::oneshot;

use super::cache::Cache;
use super::call::Call;
use super::socket::SocketLink;
use super::{ClientOptions, Error, Link, Result};
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
    /// Map of the keys, by what servers have said to the client so far.
    map: RwLock<Arc<Map>>,
}

impl Inner {
    pub(super) fn new(cluster: Cluster, links: BTreeMap<ServerId, Arc<dyn Link>>, options: ClientOptions) -> Self {
        let cache = Cache::new(options.cache_items);
        let snapshots = AtomicUsize::new(rand::random_range(0..links.len().max(1)));
        let map = RwLock::new(Arc::new(Map::from(&cluster.partition)));
        Self { cluster, options, cache, links, snapshots, map }
    }

    /// Map of the keys, by what servers have said to the client so far.
    pub(super) fn map(&self) -> Arc<Map> {
        self.map.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Learns where keys are. Returns true if that is news.
    pub(super) fn learn(&self, learn: impl FnOnce(&mut Map)) -> bool {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        let mut learned = (**map).clone();
        learn(&mut learned);
        if learned.len() > MAX_PIECES {
            // What is forgotten can be heard again.
            learned = Map::from(&self.cluster.partition);
        }
        let is_news = learned != **map;
        if is_news {
            *map = Arc::new(learned);
        }
        is_news
    }

    /// Learns from a refusal where keys are.
    pub(super) fn heard(&self, refusal: &Refusal) {
        if let Refusal::NotHere { moved, .. } = refusal {
            self.learn(|map| moved.iter().take(MAX_HINTS).for_each(|moved| map.learn(moved)));
        }
    }

    /// A link to each server; they connect by themselves.
    pub(super) fn of_cluster(cluster: Cluster, options: ClientOptions) -> Result<Self> {
        let mut links: BTreeMap<ServerId, Arc<dyn Link>> = BTreeMap::new();
        for server in &cluster.servers {
            let link = SocketLink::new(&cluster, *server, options.secret.clone()).map_err(unreachable)?;
            links.insert(server.id, Arc::new(link));
        }
        Ok(Self::new(cluster, links, options))
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
        Ok(Call::start(&**self.link(server)?, server, ask, self.until()))
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
