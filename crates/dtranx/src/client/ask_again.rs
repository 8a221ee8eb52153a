//! Asks again about a commit without an answer.

use std::time::Instant;

use super::error::{Error, Result};
use super::outcome::Committed;
use super::unknown::{Again, Unknown};

impl Unknown {
    /// Asks again what became of the transaction, and blocks until it is known or the time is up.
    /// The server carries it out if it has not, once.
    ///
    /// # Errors
    /// It is refused, or still unknown. A server that was restarted since cannot tell any more;
    /// then it stays unknown, and only reading shows what happened.
    pub fn ask_again(self, until: Instant) -> Result<Committed> {
        pollster::block_on(self.ask_again_async(until))
    }

    /// Asks again like [`Unknown::ask_again`], without blocking.
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

    /// The error, if nothing was to be written: that cannot be committed.
    pub(super) fn of_reads(self) -> Error {
        let why = "it has not answered whether what the transaction read is so".to_owned();
        Error::Unavailable { server: self.server(), why }
    }
}
