//! A server on the network.

use std::net::SocketAddr;
use std::time::Duration;

use super::engine::{self, Engine};
use super::metrics::Metrics;
use super::network::NetworkStage;
use super::{ServerConfig, ServerError};

/// A running server. Dropping it ends it, as abruptly as a crash does for its peers.
pub struct Server {
    engine: Engine,
    address: SocketAddr,
    _metrics: Option<Metrics>,
}

impl Server {
    /// Recovers a server from its folder and starts it: when this returns, it listens.
    ///
    /// # Errors
    /// The configuration is wrong; log or storage cannot be opened; the address is taken.
    pub fn start(config: &ServerConfig) -> Result<Self, ServerError> {
        config.validate()?;
        let mut address = None;
        let engine = engine::start(config, |port| {
            let stage = NetworkStage::new(config, port)?;
            address = Some(stage.address());
            Ok(Box::new(stage))
        })?;
        let metrics = config.metrics.map(|at| Metrics::serve(at, engine.stats.clone())).transpose()?;
        let address = address.or_else(|| config.cluster.address(config.server));
        let address = address.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)));
        Ok(Self { engine, address, _metrics: metrics })
    }

    /// Address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Number of records of the log that were replayed when it started.
    pub fn recovered_records(&self) -> u64 {
        self.engine.recovered_records
    }

    /// Medium of the log, in words.
    pub fn medium(&self) -> &str {
        &self.engine.stats.medium
    }

    /// Waits until the server fails, or so long.
    ///
    /// # Errors
    /// Reason why the server has ended.
    pub fn wait(&self, longest: Duration) -> Result<(), ServerError> {
        Ok(self.engine.crew.wait(longest)?)
    }
}
