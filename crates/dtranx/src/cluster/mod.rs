//! The static description of a cluster: its servers, their addresses, and which of them holds a
//! key. Ports for its servers.

mod port;

use std::collections::BTreeSet;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;

pub use self::port::HeldPort;
use crate::core::{Key, Partition, ServerId};

/// The most servers in a cluster.
pub const MAX_SERVERS: usize = 256;

/// The longest name of a cluster, in bytes.
pub const MAX_NAME_BYTES: usize = 64;

/// A cluster. Every server and client has the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// Name of the cluster; servers and clients of different clusters refuse each other.
    pub name: String,
    /// Servers of the cluster, each with its id and its address.
    pub servers: Vec<Server>,
    /// Map that says which server holds a key.
    pub partition: Partition,
}

/// Digest of a cluster's servers and of its map of keys: the first half of the SHA-256 of both. It
/// stays when addresses change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapId(pub [u8; 16]);

/// A server of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Id of the server: unique in the cluster, and for ever that of the data in its folder.
    pub id: ServerId,
    /// Address on which the server listens.
    pub address: SocketAddr,
}

/// Error in the description of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// A field has a value that it cannot have.
    #[error("{field}: {what}")]
    Field {
        /// The field, as it is spelled in a file.
        field: String,
        /// Fault of the value, in words for people.
        what: String,
    },
}

impl Cluster {
    /// Checks that the description is usable. `allow_remote` permits addresses that are not of the
    /// loopback interface.
    ///
    /// # Errors
    /// The field that is wrong.
    pub fn validate(&self, allow_remote: bool) -> Result<(), ClusterError> {
        if self.name.is_empty() || self.name.len() > MAX_NAME_BYTES {
            return field("cluster", format!("a name has 1 to {MAX_NAME_BYTES} bytes, this one {}", self.name.len()));
        }
        if self.servers.is_empty() || self.servers.len() > MAX_SERVERS {
            return field(
                "servers",
                format!("a cluster has 1 to {MAX_SERVERS} servers, this one {}", self.servers.len()),
            );
        }
        let (mut ids, mut addresses) = (BTreeSet::new(), BTreeSet::new());
        for (at, server) in self.servers.iter().enumerate() {
            if !ids.insert(server.id) {
                return field(format!("servers[{at}].id"), format!("server {} is there twice", server.id));
            }
            if !addresses.insert(server.address) {
                return field(format!("servers[{at}].address"), format!("{} is there twice", server.address));
            }
            if !allow_remote && !server.address.ip().is_loopback() {
                let what = format!("{} is not of the loopback interface; allow_remote permits it", server.address);
                return field(format!("servers[{at}].address"), what);
            }
        }
        if !self.partition.is_complete() {
            let what = "the first ranges begins with the empty key, and each further one with a larger key";
            return field("partition", what);
        }
        match self.partition.servers().into_iter().find(|server| !ids.contains(server)) {
            Some(server) => field("partition", format!("server {server} is not among the servers")),
            None => Ok(()),
        }
    }

    /// Digest of the cluster's servers and of its map of keys.
    pub fn map_id(&self) -> MapId {
        let mut hasher = Sha256::new();
        let mut number = |number: u64| hasher.update(number.to_le_bytes());
        let mut ids: Vec<u16> = self.servers.iter().map(|server| server.id.0).collect();
        ids.sort_unstable();
        number(ids.len() as u64);
        ids.iter().for_each(|id| number(u64::from(*id)));
        match &self.partition {
            Partition::Hash(over) => {
                number(0);
                over.iter().for_each(|server| number(u64::from(server.0)));
            }
            Partition::Ranges(ranges) => {
                number(1);
                for (key, server) in ranges {
                    number(u64::from(server.0));
                    number(key.as_bytes().len() as u64);
                    key.as_bytes().iter().for_each(|byte| number(u64::from(*byte)));
                }
            }
        }
        let mut id = [0; 16];
        id.copy_from_slice(&hasher.finalize()[..16]);
        MapId(id)
    }

    /// Address of a server, if it is one of the cluster.
    pub fn address(&self, server: ServerId) -> Option<SocketAddr> {
        self.servers.iter().find(|candidate| candidate.id == server).map(|server| server.address)
    }

    /// A cluster whose keys are spread by hash over all of its servers.
    pub fn hashed(name: &str, servers: Vec<Server>) -> Self {
        let partition = Partition::Hash(servers.iter().map(|server| server.id).collect());
        Self { name: name.to_owned(), servers, partition }
    }

    /// The map of ranges from the first key of each.
    pub fn ranges(firsts: impl IntoIterator<Item = (Key, ServerId)>) -> Partition {
        Partition::Ranges(firsts.into_iter().collect())
    }
}

fn field<T>(field: impl Into<String>, what: impl Into<String>) -> Result<T, ClusterError> {
    Err(ClusterError::Field { field: field.into(), what: what.into() })
}
