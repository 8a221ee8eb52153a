//! Commands passed on over connections of the gateway's own.

use std::{sync::Arc, time::Duration};

use bson::RawDocument;
use mongowire::{Failure, Pool, PoolLimits, Settings};

use super::Unanswered;
use crate::{
    error::{CommandError, code},
    reply::Reply,
    request::Sequence,
};

/// Time after which an unused connection is closed.
const IDLE: Duration = Duration::from_secs(60);
/// A command runs as long as its client waits for it.
const FOR_EVER: Duration = Duration::MAX;

/// Lean connections of the gateway to one server, and how it runs commands on them.
pub(super) struct Lean {
    pool: Pool,
    /// What sets the limits of the pool, for errors.
    limited_by: &'static str,
}

impl Lean {
    /// At most so many connections, for one of which a command waits for so long.
    pub(super) fn new(settings: Settings, most: usize, wait: Duration, limited_by: &'static str) -> Self {
        let limits = PoolLimits { most, wait, idle: Some(IDLE) };
        Self { pool: Pool::new(settings, limits, Arc::default()), limited_by }
    }

    /// Runs a client's command on a free connection and answers what the server answered:
    /// [`super::Upstream::run_command`].
    pub(super) async fn run_command(
        &self,
        database: &str,
        body: &RawDocument,
        sequences: &[Sequence],
    ) -> Result<Reply, Unanswered> {
        let named = body.get("$db").map_err(|error| Unanswered::unsent(code::INVALID_BSON, error.to_string()))?;
        let database = named.is_none().then_some(database);
        let answer = async { self.pool.get().await?.run_command(database, body, sequences, FOR_EVER).await };
        answer.await.map(Reply::from).map_err(|failure| self.refused(&failure))
    }

    fn refused(&self, failure: &Failure) -> Unanswered {
        let error = match failure {
            Failure::Busy { .. } => {
                CommandError::new(code::NETWORK_TIMEOUT, format!("{failure} ({})", self.limited_by))
            }
            _ => {
                let address = &self.pool.settings().address;
                CommandError::new(code::HOST_UNREACHABLE, format!("the server {address} cannot be used: {failure}"))
            }
        };
        Unanswered { error, is_unsent: !failure.is_maybe_done() }
    }
}
