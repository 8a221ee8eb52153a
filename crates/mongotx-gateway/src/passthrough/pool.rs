//! Connections to one server, opened when they are needed, kept for those who come next.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bson::{RawDocument, RawDocumentBuf, cstr};
use mongodb::options::ServerAddress;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};

use super::link::{Link, LinkError};
use crate::{
    error::{CommandError, code},
    options::Limits,
    reply::Reply,
    request::Sequence,
};

/// The connections to a server.
pub(super) struct Pool {
    address: ServerAddress,
    limits: Limits,
    /// One permit per connection in use.
    free: Semaphore,
    /// Those not in use, the last used one last.
    idle: Mutex<Vec<Link>>,
}

impl Pool {
    pub(super) fn new(address: ServerAddress, limits: &Limits) -> Self {
        let free = Semaphore::new(limits.upstream.min(Semaphore::MAX_PERMITS));
        Self { address, limits: limits.clone(), free, idle: Mutex::default() }
    }

    /// See [`super::Upstream::run`].
    pub(super) async fn run(
        &self,
        database: &str,
        body: &RawDocument,
        sequences: &[Sequence],
    ) -> Result<Reply, CommandError> {
        let _permit = self.permit().await?;
        let command = addressed(database, body)?;
        let mut link = match self.take() {
            Some(link) => link,
            None => Link::open(&self.address).await.map_err(|error| self.unreachable(&error))?,
        };
        let reply = link.run(command.as_deref().unwrap_or(body), sequences).await;
        let reply = reply.map_err(|error| self.unreachable(&error))?;
        self.idle().push(link);
        Ok(reply.into())
    }

    async fn permit(&self) -> Result<SemaphorePermit<'_>, CommandError> {
        let wait = self.limits.upstream_wait;
        match timeout(wait, self.free.acquire()).await {
            Ok(Ok(permit)) => Ok(permit),
            // Nobody closes the semaphore.
            Ok(Err(_)) | Err(_) => {
                let text = format!(
                    "all {} connections to the server are in use, and none was free within {wait:?}",
                    self.limits.upstream
                );
                Err(CommandError::new(code::NETWORK_TIMEOUT, text))
            }
        }
    }

    /// A connection that was used before and that the server has not closed.
    fn take(&self) -> Option<Link> {
        let mut idle = self.idle();
        while let Some(link) = idle.pop() {
            if link.is_quiet() {
                return Some(link);
            }
        }
        None
    }

    fn unreachable(&self, error: &LinkError) -> CommandError {
        CommandError::new(code::HOST_UNREACHABLE, format!("the server {} cannot be used: {error}", self.address))
    }

    /// No code panics while it holds this lock.
    fn idle(&self) -> MutexGuard<'_, Vec<Link>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The command with the name of its database, if it does not have it yet.
fn addressed(database: &str, body: &RawDocument) -> Result<Option<RawDocumentBuf>, CommandError> {
    let invalid = |error: bson::error::Error| CommandError::new(code::INVALID_BSON, error.to_string());
    if body.get("$db").map_err(invalid)?.is_some() {
        return Ok(None);
    }
    let mut command = body.to_owned();
    command.append(cstr!("$db"), database);
    Ok(Some(command))
}
