//! Tests of servers and clients: embedded engines, single servers and clusters of three, in this
//! process and over real sockets.
mod alone;
mod asynchronous;
mod budgets;
mod config;
mod embedded;
mod exactly_once;
mod group;
mod identity;
mod in_doubt;
mod log_space;
mod moves;
mod network;
mod queues;
mod resolve;
mod salvage;
mod secrets;
mod together;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Mutex;

use dtranx::cluster::{Cluster, HeldPort, Server as Member};
use dtranx::core::{ServerId, StoreId};
use dtranx::server::ServerConfig;

/// Address with a free port of the loopback interface, which is reserved until the tests end.
pub(crate) fn free_address() -> SocketAddr {
    static HELD: Mutex<Vec<HeldPort>> = Mutex::new(Vec::new());
    let port = HeldPort::pick().unwrap();
    let address = port.address();
    HELD.lock().unwrap().push(port);
    address
}

/// Makes a cluster of servers on free ports, with its keys spread by hash.
pub(crate) fn cluster(servers: u16) -> Cluster {
    let members = (0..servers).map(|at| Member { id: ServerId(at + 1), address: free_address() }).collect();
    Cluster::hashed("test", members)
}

/// Id of the store in a server's folder.
pub(crate) fn store(folder: &Path) -> StoreId {
    let text = std::fs::read_to_string(folder.join("identity.toml")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("store = ")).unwrap();
    StoreId::parse(line.trim_matches('"')).unwrap()
}

pub(crate) fn config(cluster: &Cluster, server: u16, folder: &Path) -> ServerConfig {
    let mut config = ServerConfig::new(cluster.clone(), ServerId(server), &folder.join(server.to_string()));
    config.segment_bytes = 16 << 20;
    config.gc_interval_ms = 50;
    config
}
