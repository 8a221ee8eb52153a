//! The servers of a client's cluster: those of its description, and those that have joined since,
//! as servers say when they welcome it (decision 0087).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::cluster::Cluster;

/// Description of the cluster. Clones are the same one.
#[derive(Clone)]
pub(super) struct Roster(Arc<Shared>);

struct Shared {
    servers: AtomicUsize,
    cluster: RwLock<Arc<Cluster>>,
}

impl Roster {
    pub(super) fn new(cluster: Cluster) -> Self {
        let servers = AtomicUsize::new(cluster.servers.len());
        Self(Arc::new(Shared { servers, cluster: RwLock::new(Arc::new(cluster)) }))
    }

    /// Number of servers that are known.
    pub(super) fn len(&self) -> usize {
        self.0.servers.load(Ordering::Acquire)
    }

    pub(super) fn cluster(&self) -> Arc<Cluster> {
        self.0.cluster.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes over servers that have joined, from a description by a server. Addresses that are
    /// known stay.
    pub(super) fn heard(&self, described: &Cluster) {
        let is_known = |cluster: &Cluster| described.servers.iter().all(|server| cluster.address(server.id).is_some());
        if is_known(&self.cluster()) {
            return;
        }
        let mut known = self.0.cluster.write().unwrap_or_else(PoisonError::into_inner);
        let mut longer = Cluster::clone(&known);
        if longer.extend(described) {
            self.0.servers.store(longer.servers.len(), Ordering::Release);
            *known = Arc::new(longer);
        }
    }
}
