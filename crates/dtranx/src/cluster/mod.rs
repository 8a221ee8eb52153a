//! The description of a cluster: its servers, their addresses, and which of them holds a key. It is
//! the same as long as the cluster runs, but for servers that join behind the others (decision
//! 0087). Ports for its servers.

mod map_id;
mod peer;
mod places;
mod port;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use self::map_id::MapId;
pub(crate) use self::peer::PeerId;
pub use self::places::{MAX_LEARNERS, MAX_VOTERS, Place, Places, Role};
pub use self::port::HeldPort;
use crate::core::{Key, Partition, ServerId};

/// The most servers in a cluster.
pub const MAX_SERVERS: usize = 256;

/// The longest name of a cluster, in bytes.
pub const MAX_NAME_BYTES: usize = 64;

/// Numbers of members that a group may have when it is new.
pub const GROUP_SIZES: [usize; 3] = [3, 5, 7];

/// A cluster. Every server and client has the same; those that have not heard of servers that have
/// joined lack these, at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// Name of the cluster; servers and clients of different clusters refuse each other.
    pub name: String,
    /// Servers of the cluster, each with its id and its address.
    pub servers: Vec<Server>,
    /// Map that says which server holds a key.
    pub partition: Partition,
    /// Addresses of the members of each server that is a group, in the order of the members'
    /// numbers, which begin with 1. `servers` has the address of the first member.
    pub groups: BTreeMap<ServerId, Vec<SocketAddr>>,
}

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
            for (address, name) in self.addresses(server.id).into_iter().zip(names(at, self.is_group(server.id))) {
                if !addresses.insert(address) {
                    return field(name, format!("{address} is there twice"));
                }
                if !allow_remote && !address.ip().is_loopback() {
                    let what = format!("{address} is not of the loopback interface; allow_remote permits it");
                    return field(name, what);
                }
            }
        }
        self.validate_groups()?;
        if !self.partition.is_complete() {
            let what = "the first range begins with the empty key, and each further one with a larger key";
            return field("partition", what);
        }
        match self.partition.servers().into_iter().find(|server| !ids.contains(server)) {
            Some(server) => field("partition", format!("server {server} is not among the servers")),
            None => Ok(()),
        }
    }

    fn validate_groups(&self) -> Result<(), ClusterError> {
        for (server, members) in &self.groups {
            let Some(at) = self.servers.iter().position(|candidate| candidate.id == *server) else {
                return field("servers", format!("server {server} has members, and is not among the servers"));
            };
            if !GROUP_SIZES.contains(&members.len()) {
                let what = format!("a group has 3, 5 or 7 members, this one {}", members.len());
                return field(format!("servers[{at}].members"), what);
            }
            if self.servers[at].address != members[0] {
                let what = format!("the address of a group is that of its first member, {}", members[0]);
                return field(format!("servers[{at}].address"), what);
            }
        }
        Ok(())
    }

    /// The cluster's servers, in the order of the configuration, and a digest of its map of keys.
    pub fn map_id(&self) -> MapId {
        let members = |server| self.groups.get(&server).map_or(0, |members| members.len() as u8);
        let servers = self.servers.iter().map(|server| (server.id, members(server.id))).collect();
        MapId { servers, keys: map_id::digest(&self.partition) }
    }

    /// Takes over the servers that another description of this cluster has and this one lacks: they
    /// have joined. Returns whether there are any.
    pub(crate) fn extend(&mut self, described: &Self) -> bool {
        if (&self.name, &self.partition) != (&described.name, &described.partition) {
            return false;
        }
        let is_known = |server: &&Server| self.address(server.id).is_some();
        let joined: Vec<Server> = described.servers.iter().filter(|server| !is_known(server)).copied().collect();
        self.servers.extend(&joined);
        !joined.is_empty()
    }

    /// Takes over the addresses of a group's members from another description.
    pub(crate) fn move_members(&mut self, group: ServerId, described: &Self) {
        let Some(members) = described.groups.get(&group).filter(|_| self.is_group(group)) else { return };
        if let (Some(server), Some(first)) =
            (self.servers.iter_mut().find(|server| server.id == group), members.first())
        {
            server.address = *first;
        }
        self.groups.insert(group, members.clone());
    }

    /// Returns true if the server is a group.
    pub fn is_group(&self, server: ServerId) -> bool {
        self.groups.contains_key(&server)
    }

    /// Addresses on which a server can be reached: one, or those of a group's members, in their
    /// order.
    pub fn addresses(&self, server: ServerId) -> Vec<SocketAddr> {
        match self.groups.get(&server) {
            Some(members) => members.clone(),
            None => self.address(server).into_iter().collect(),
        }
    }

    /// All servers and members of groups, each with its address.
    pub(crate) fn peers(&self) -> Vec<(PeerId, SocketAddr)> {
        let of = |server: &Server| {
            let is_group = self.is_group(server.id);
            let (id, addresses) = (server.id, self.addresses(server.id));
            let numbered = (1..=u8::MAX).zip(addresses);
            numbered.map(move |(at, address)| (PeerId { server: id, member: is_group.then_some(at) }, address))
        };
        self.servers.iter().flat_map(of).collect()
    }

    /// Address of a server, if it is one of the cluster; of a group, that of its first member.
    pub fn address(&self, server: ServerId) -> Option<SocketAddr> {
        self.servers.iter().find(|candidate| candidate.id == server).map(|server| server.address)
    }

    /// A cluster whose keys are spread by hash over all of its servers.
    pub fn hashed(name: &str, servers: Vec<Server>) -> Self {
        let partition = Partition::Hash(servers.iter().map(|server| server.id).collect());
        Self { name: name.to_owned(), servers, partition, groups: BTreeMap::new() }
    }

    /// A cluster of one server, which is a group with members on these addresses.
    pub fn of_group(name: &str, server: ServerId, members: Vec<SocketAddr>) -> Self {
        let servers = members.first().map(|address| Server { id: server, address: *address });
        let groups = BTreeMap::from([(server, members)]);
        Self { groups, ..Self::hashed(name, servers.into_iter().collect()) }
    }

    /// The map of ranges from the first key of each.
    pub fn ranges(firsts: impl IntoIterator<Item = (Key, ServerId)>) -> Partition {
        Partition::Ranges(firsts.into_iter().collect())
    }
}

/// Names of the fields that hold the addresses of a server.
fn names(server: usize, is_group: bool) -> impl Iterator<Item = String> {
    (0_usize..).map(move |at| {
        if is_group { format!("servers[{server}].members[{at}]") } else { format!("servers[{server}].address") }
    })
}

fn field<T>(field: impl Into<String>, what: impl Into<String>) -> Result<T, ClusterError> {
    Err(ClusterError::Field { field: field.into(), what: what.into() })
}
