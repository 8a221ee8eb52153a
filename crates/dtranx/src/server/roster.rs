//! [`Roster`]: the members of a group as the stage `group` knows them, for the network.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::cluster::Places;
use crate::log::Position;
use crate::wire::Told;

/// The members of a group, by the configurations that a member knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Roster {
    /// The last configuration that is known to be committed, and its place in the log.
    pub(super) settled: (Position, Places),
    /// The configuration in force, as it is told to others.
    pub(super) told: Told,
    /// Addresses of the other members whose questions are heard, by their numbers (0088, C6).
    pub(super) heard: BTreeMap<u8, SocketAddr>,
}
