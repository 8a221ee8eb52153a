//! State that all clones of a client share: its links, its options, its cache.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};
use std::thread;
use std::time::{Duration, Instant};

use futures_channel::oneshot;

use super::cache::Cache;
use super::call::Call;
use super::roster::Roster;
use super::socket::SocketLink;
use super::stores::Stores;
use super::{ClientOptions, Error, Generation, Link, Result};
use crate::cluster::Cluster;
use crate::core::map::{MAX_HINTS, MAX_PIECES};
use crate::core::{Map, Refusal, ServerId};
use crate::wire::Ask;

pub(super) struct Inner {
    pub(super) options: ClientOptions,
    pub(super) cache: Cache,
    roster: Roster,
    links: RwLock<Arc<Links>>,
    snapshots: AtomicUsize,
    stores: Stores,
    known: RwLock<Known>,
}

/// Links to the servers that are known.
type Links = BTreeMap<ServerId, Arc<dyn Link>>;

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
        Self::with(Roster::new(cluster), links, options, stores)
    }

    fn with(roster: Roster, links: Links, options: ClientOptions, stores: Stores) -> Self {
        let cache = Cache::new(options.cache_items);
        let snapshots = AtomicUsize::new(rand::random_range(0..links.len().max(1)));
        let map = Arc::new(Map::from(&roster.cluster().partition));
        let known = RwLock::new(Known { generation: stores.generation(), map });
        let links = RwLock::new(Arc::new(links));
        Self { options, cache, roster, links, snapshots, stores, known }
    }

    /// The cluster, with the servers that the client has heard of.
    pub(super) fn cluster(&self) -> Arc<Cluster> {
        self.roster.cluster()
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
            *known = Known { generation, map: Arc::new(Map::from(&self.cluster().partition)) };
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
            learned = Map::from(&self.cluster().partition);
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
        let mut links = Links::new();
        let (roster, stores) = (Roster::new(cluster), Stores::default());
        for server in &roster.cluster().servers {
            let (secret, stores) = (options.secret.clone(), stores.clone());
            let link = SocketLink::new(&roster, server.id, secret, stores).map_err(unreachable)?;
            links.insert(server.id, Arc::new(link));
        }
        Ok(Self::with(roster, links, options, stores))
    }

    /// The links to all servers that are known. Those to servers that have joined are made when
    /// they are first wanted; one for which the system has no thread is made with a later request.
    fn links(&self) -> Arc<Links> {
        let links = self.links.read().unwrap_or_else(PoisonError::into_inner).clone();
        if links.len() >= self.roster.len() {
            return links;
        }
        let mut links = self.links.write().unwrap_or_else(PoisonError::into_inner);
        let mut all = Links::clone(&links);
        for server in &self.roster.cluster().servers {
            let (secret, stores) = (self.options.secret.clone(), self.stores.clone());
            if !all.contains_key(&server.id)
                && let Ok(link) = SocketLink::new(&self.roster, server.id, secret, stores)
            {
                all.insert(server.id, Arc::new(link));
            }
        }
        *links = Arc::new(all);
        links.clone()
    }

    pub(super) fn link(&self, server: ServerId) -> Result<Arc<dyn Link>> {
        let missing = || Error::Unavailable { server, why: "it is not of this cluster".to_owned() };
        self.links().get(&server).cloned().ok_or_else(missing)
    }

    /// Server that makes the next snapshot: those that have welcomed the client take turns. One
    /// that joins the cluster does not do so before it takes part.
    pub(super) fn snapshot_maker(&self) -> ServerId {
        let links = self.links();
        let met: Vec<ServerId> = links.iter().filter(|(_, link)| link.has_met()).map(|(server, _)| *server).collect();
        let makers = if met.is_empty() { links.keys().copied().collect() } else { met };
        let turn = self.snapshots.fetch_add(1, Ordering::Relaxed) % makers.len().max(1);
        makers.get(turn).copied().unwrap_or(ServerId(0))
    }

    /// Servers that may hold a range, or may have held one: all but those that have none by the
    /// configuration and have not welcomed the client. What such a one holds by now was given to it
    /// by another one, whose map says so.
    pub(super) fn holders(&self) -> BTreeSet<ServerId> {
        let (links, configured) = (self.links(), self.cluster().partition.servers());
        let may_hold = |(server, link): &(&ServerId, &Arc<dyn Link>)| link.has_met() || configured.contains(server);
        links.iter().filter(may_hold).map(|(server, _)| *server).collect()
    }

    /// Deadline of a request that is sent now.
    pub(super) fn until(&self) -> Instant {
        Instant::now() + Duration::from_millis(self.options.request_ms)
    }

    /// Sends a request. It is under way from now on, whether it is waited for or not.
    pub(super) fn start(&self, server: ServerId, ask: Ask) -> Result<Call> {
        Ok(Call::start(&*self.link(server)?, server, ask, None, self.until()))
    }

    /// Sends a request to commit, which is refused if it would come to stores of a later generation
    /// than those that were read.
    pub(super) fn commit(&self, server: ServerId, ask: Ask, read_in: Option<Generation>) -> Result<Call> {
        Ok(Call::start(&*self.link(server)?, server, ask, read_in, self.until()))
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
