//! Servers and clients: embedded, alone, and three together, in this process and over real sockets.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod alone;
mod asynchronous;
mod config;
mod embedded;
mod exactly_once;
mod log_space;
mod network;
mod together;

use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use dtranx::cluster::{Cluster, Server as Member};
use dtranx::core::ServerId;
use dtranx::server::ServerConfig;

/// A free port of the loopback interface.
pub(crate) fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A cluster of so many servers on free ports, its keys spread by hash.
pub(crate) fn cluster(servers: u16) -> Cluster {
    // All ports are held until all are known: none is given twice.
    let held: Vec<_> = (0..servers).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let address = |at: u16| held[at as usize].local_addr().unwrap();
    let members = (0..servers).map(|at| Member { id: ServerId(at + 1), address: address(at) }).collect();
    Cluster::hashed("test", members)
}

pub(crate) fn config(cluster: &Cluster, server: u16, folder: &Path) -> ServerConfig {
    let mut config = ServerConfig::new(cluster.clone(), ServerId(server), &folder.join(server.to_string()));
    config.segment_bytes = 16 << 20;
    config.gc_interval_ms = 50;
    config
}
