//! The servers of a client's cluster: those of its description, and those that have joined since,
//! as servers say when they welcome it (decision 0087). The members of a group say which addresses
//! they have now (decision 0088).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::cluster::Cluster;
use crate::core::ServerId;

/// Description of the cluster. Clones are the same one.
#[derive(Clone)]
pub(super) struct Roster(Arc<Shared>);

struct Shared {
    servers: AtomicUsize,
    known: RwLock<Known>,
}

struct Known {
    cluster: Arc<Cluster>,
    /// For each group, the index of the configuration from which the addresses of its members are.
    addresses_of: BTreeMap<ServerId, u64>,
}

impl Roster {
    pub(super) fn new(cluster: Cluster) -> Self {
        let servers = AtomicUsize::new(cluster.servers.len());
        let known = Known { cluster: Arc::new(cluster), addresses_of: BTreeMap::new() };
        Self(Arc::new(Shared { servers, known: RwLock::new(known) }))
    }

    /// Number of servers that are known.
    pub(super) fn len(&self) -> usize {
        self.0.servers.load(Ordering::Acquire)
    }

    pub(super) fn cluster(&self) -> Arc<Cluster> {
        self.0.known.read().unwrap_or_else(PoisonError::into_inner).cluster.clone()
    }

    /// Takes over servers that have joined, from a description by this server; and the addresses of
    /// its members, if they are of a later configuration than those that are known. Other addresses
    /// that are known stay.
    pub(super) fn heard(&self, described: &Cluster, by: ServerId, addresses_of: u64) {
        let is_older = |known: &Known| {
            let are_known = described.servers.iter().all(|server| known.cluster.address(server.id).is_some());
            are_known && addresses_of <= known.addresses_of.get(&by).copied().unwrap_or(0)
        };
        if is_older(&self.0.known.read().unwrap_or_else(PoisonError::into_inner)) {
            return;
        }
        let mut known = self.0.known.write().unwrap_or_else(PoisonError::into_inner);
        let mut cluster = Cluster::clone(&known.cluster);
        if cluster.extend(described) {
            self.0.servers.store(cluster.servers.len(), Ordering::Release);
        }
        if addresses_of > known.addresses_of.get(&by).copied().unwrap_or(0) {
            known.addresses_of.insert(by, addresses_of);
            cluster.move_members(by, described);
        }
        known.cluster = Arc::new(cluster);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: ServerId = ServerId(1);

    fn cluster(ports: &[u16]) -> Cluster {
        Cluster::of_group("test", GROUP, ports.iter().map(|port| ([127, 0, 0, 1], *port).into()).collect())
    }

    #[test]
    fn addresses_of_members_are_those_of_the_latest_configuration() {
        let roster = Roster::new(cluster(&[1, 2, 3]));
        for (ports, addresses_of, expected) in [
            (&[7, 8][..], 0, &[1, 2, 3][..]),
            (&[2, 3, 4], 9, &[2, 3, 4]),
            (&[1, 2, 3], 8, &[2, 3, 4]),
            (&[5], 10, &[5]),
        ] {
            roster.heard(&cluster(ports), GROUP, addresses_of);
            let known = roster.cluster();
            let known: Vec<u16> = known.addresses(GROUP).iter().map(std::net::SocketAddr::port).collect();
            assert_eq!(known, expected, "{addresses_of}");
        }
        assert_eq!(roster.cluster().address(GROUP), Some(([127, 0, 0, 1], 5).into()));
    }
}
