//! A server on the network.

use std::net::SocketAddr;
use std::time::Duration;

use super::engine::{self, Engine};
use super::member::Member;
use super::metrics::Metrics;
use super::network::NetworkStage;
use super::stats::CurrentStats;
use super::waiting;
use super::{ServerConfig, ServerError};

/// A running server, or a member of one that is a group. Dropping it ends it, as abruptly as a
/// crash does for its peers.
pub struct Server {
    running: Running,
    member: Option<u8>,
    address: SocketAddr,
    medium: String,
    _metrics: Option<Metrics>,
}

enum Running {
    Alone(Engine),
    Member(Member),
}

impl Server {
    /// Recovers a server from its folder and starts it: when this returns, it listens. A new store
    /// that is to join a group waits here until it is added.
    ///
    /// # Errors
    /// The configuration is wrong; log or storage cannot be opened; the address is taken.
    pub fn start(config: &ServerConfig) -> Result<Self, ServerError> {
        config.validate()?;
        let config = &waiting::placed(config)?;
        let (running, address, stats) = if config.member.is_some() {
            let member = Member::start(config)?;
            let (address, stats) = (member.address, member.stats.clone());
            (Running::Member(member), Some(address), stats)
        } else {
            let mut address = None;
            let engine = engine::start(config, |port| {
                let stage = NetworkStage::new(config, port)?;
                address = Some(stage.address());
                Ok(Box::new(stage))
            })?;
            let stats = CurrentStats::new(engine.stats.clone());
            (Running::Alone(engine), address, stats)
        };
        let medium = stats.get().medium.clone();
        let metrics = config.metrics.map(|at| Metrics::serve(at, stats)).transpose()?;
        let address = address.or_else(|| config.address());
        let address = address.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)));
        Ok(Self { running, member: config.member, address, medium, _metrics: metrics })
    }

    /// Number of the member, if the server is a group: the configuration's own, or the one that the
    /// group has given to a store which has joined.
    pub fn member(&self) -> Option<u8> {
        self.member
    }

    /// Address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Number of records of the log that were replayed when it started.
    pub fn recovered_records(&self) -> u64 {
        match &self.running {
            Running::Alone(engine) => engine.recovered_records,
            Running::Member(member) => member.recovered_records,
        }
    }

    /// Medium of the log, in words.
    pub fn medium(&self) -> &str {
        &self.medium
    }

    /// Waits until the server fails, or so long.
    ///
    /// # Errors
    /// Reason why the server has ended.
    pub fn wait(&self, longest: Duration) -> Result<(), ServerError> {
        match &self.running {
            Running::Alone(engine) => Ok(engine.crew.wait(longest)?),
            Running::Member(member) => member.wait(longest),
        }
    }
}
