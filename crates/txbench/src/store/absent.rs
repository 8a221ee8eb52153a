//! No servers: what stands in for them in a workbench without the target `dtranx`.

use std::net::SocketAddr;

use crate::error::BenchError;

/// Servers of DTranx, of which there are none.
pub enum Store {}

impl Store {
    /// Refuses to start servers: this build is without DTranx.
    ///
    /// # Errors
    /// Always [`BenchError::Refused`].
    pub async fn start(_servers: u16) -> Result<Self, BenchError> {
        Err(refused())
    }

    /// Refuses to connect to servers: this build is without DTranx.
    ///
    /// # Errors
    /// Always [`BenchError::Refused`].
    pub async fn named(_option: &str, _addresses: &[SocketAddr]) -> Result<Self, BenchError> {
        Err(refused())
    }

    /// Connection string of the servers.
    pub fn uri(&self) -> &str {
        match *self {}
    }

    /// Removes a database; never called.
    ///
    /// # Errors
    /// None: there is no such value.
    pub async fn remove(&self, _db: &str) -> Result<(), BenchError> {
        match *self {}
    }

    /// Description of the servers, in words.
    pub fn describe(&self) -> String {
        match *self {}
    }
}

fn refused() -> BenchError {
    BenchError::Refused("DTranx: this program is built without the feature `dtranx`".to_owned())
}
