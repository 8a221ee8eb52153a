//! The time by the server's clock, by which leases are judged and ids of clients are made.

use bson::{DateTime, doc};

use super::Server;
use crate::error::{Error, Result};

impl Server {
    /// The current time of the server.
    pub(crate) async fn time(&self) -> Result<DateTime> {
        let hello = self.run_command("admin", doc! {"hello": 1}).await?;
        hello.get_datetime("localTime").copied().map_err(|_| {
            Error::unsupported(
                "the server does not tell its time, which ids of clients and $$NOW in a transaction are made of",
            )
        })
    }

    /// The current time of the server, in seconds since 1970.
    pub(crate) async fn seconds(&self) -> Result<i64> {
        Ok(self.time().await?.timestamp_millis().div_euclid(1_000))
    }
}
