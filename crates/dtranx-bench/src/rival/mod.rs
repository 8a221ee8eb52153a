//! The servers of others: found or built, started on free ports of the loopback interface, ended
//! with their handles.

mod dtranx;
mod etcd;
mod redis;

use std::time::Duration;

use tokio::time::{Instant, sleep};

pub(crate) use self::{
    dtranx::{Dtranx, serve},
    etcd::Etcd,
    redis::Redis,
};
use crate::error::BenchError;

/// Time that servers may take until they answer.
const READY_LIMIT: Duration = Duration::from_secs(60);
const READY_POLL: Duration = Duration::from_millis(50);

/// Repeats the request until there is an answer; returns the last error once the time is up.
pub(crate) async fn until_ready(
    rival: &'static str,
    ask: impl AsyncFn() -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let deadline = Instant::now() + READY_LIMIT;
    loop {
        let error = match ask().await {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        if Instant::now() >= deadline {
            let reason = format!("it did not answer within {READY_LIMIT:?}; the last answer: {error}");
            return Err(BenchError::Missing { rival, reason });
        }
        sleep(READY_POLL).await;
    }
}

/// A folder for a server's files.
fn folder(rival: &'static str) -> Result<tempfile::TempDir, BenchError> {
    tempfile::Builder::new()
        .prefix("dtranx-bench-")
        .tempdir()
        .map_err(|error| BenchError::Missing { rival, reason: format!("no folder for its files: {error}") })
}
