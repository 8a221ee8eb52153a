//! Resolves a commit whose answer was lost, by sending it again, or by asking what became of it.

use std::time::Instant;

use super::error::{Error, Result};
use super::outcome::Committed;
use super::unknown::{Again, Unknown};

impl Unknown {
    /// Sends the commit again under the same name, and blocks until its outcome is known or the
    /// time is up. If the server has not carried the commit out, it does so now, once.
    ///
    /// A server that was restarted since, or a group that has another leader, does not carry it
    /// out, but looks for it among what it has committed.
    ///
    /// # Errors
    /// The commit is refused, with [`Refusal::Restarted`](crate::core::Refusal::Restarted) if it
    /// was not committed before the restart; or its outcome is still unknown. It stays so if the
    /// server remembers too few commits, and only reading shows what happened.
    pub fn ask_again(self, until: Instant) -> Result<Committed> {
        pollster::block_on(self.ask_again_async(until))
    }

    /// Resolves the commit like [`Unknown::ask_again`], without blocking.
    ///
    /// # Errors
    /// As for [`Unknown::ask_again`].
    pub async fn ask_again_async(self, until: Instant) -> Result<Committed> {
        match self.again(until).await {
            Again::Answer(Ok(tranx)) => Ok(Committed { tranx }),
            Again::Answer(Err(refusal)) => Err(Error::Refused(refusal)),
            Again::Silence(unknown) => Err(Error::Unknown(unknown)),
        }
    }

    /// The error for a transaction that was to write nothing, and whose validation was not
    /// answered.
    pub(super) fn of_reads(self) -> Error {
        let why = "it has not answered whether what the transaction read is so".to_owned();
        Error::Unavailable { server: self.server(), why }
    }
}
