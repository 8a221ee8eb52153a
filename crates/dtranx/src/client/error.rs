//! What can go wrong for a client, by what it knows about its transaction then.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use super::link::{Answer, Link, Ticket, call_again};
use crate::core::{CommitAnswer, LimitError, Refusal, ServerId, TranxId};
use crate::wire::{Ask, Reply};

/// The result of everything in this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong. Only after [`Error::Unknown`] may the transaction be committed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It is not committed, and the refusal says whether to try again ([`Refusal::advice`]).
    #[error("not committed: {0}")]
    Refused(Refusal),
    /// It is not committed after as many attempts as the options allow. The last refusal.
    #[error("not committed after {attempts} attempts: {last}")]
    GivenUp {
        /// How many times it was tried.
        attempts: u32,
        /// The last refusal.
        last: Refusal,
    },
    /// The answer to the commit was lost: it may be committed. It can be asked for again.
    #[error("nobody knows yet whether it is committed: {0}")]
    Unknown(Unknown),
    /// A server could not be asked, or did not answer a read. Nothing was committed.
    #[error("server {server}: {why}")]
    Unavailable {
        /// Which.
        server: ServerId,
        /// Why.
        why: String,
    },
    /// No server of the cluster could be reached.
    #[error("no server could be reached: {why}")]
    Unreachable {
        /// Why not the last one that was tried.
        why: String,
    },
    /// A key, value or transaction is beyond a limit. Nothing was committed.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The application gave the transaction up. Nothing was committed.
    #[error("{0}")]
    Aborted(String),
}

/// A commit without an answer.
pub struct Unknown {
    pending: Box<Pending>,
}

struct Pending {
    server: ServerId,
    link: Arc<dyn Link>,
    /// Without it the server cannot be asked: it was restarted.
    ticket: Option<Ticket>,
    ask: Ask,
}

/// What became of a commit that was asked about again.
#[derive(Debug)]
pub(super) enum Again {
    Answer(Result<TranxId, Refusal>),
    /// Still no answer; it may be asked again.
    Silence(Unknown),
}

impl Unknown {
    /// Asks again what became of the transaction. The server carries it out if it has not, once.
    ///
    /// # Errors
    /// It is refused, or still unknown. A server that was restarted since cannot tell any more; then it stays unknown, and
    /// only reading shows what happened.
    pub fn ask_again(self, until: Instant) -> Result<TranxId> {
        match self.again(until) {
            Again::Answer(answer) => answer.map_err(Error::Refused),
            Again::Silence(unknown) => Err(Error::Unknown(unknown)),
        }
    }

    pub(super) fn new(server: ServerId, link: Arc<dyn Link>, ticket: Option<Ticket>, ask: Ask) -> Self {
        Self { pending: Box::new(Pending { server, link, ticket, ask }) }
    }

    pub(super) fn again(mut self, until: Instant) -> Again {
        let Pending { link, ticket, ask, .. } = &*self.pending;
        let Some(ticket) = ticket else { return Again::Silence(self) };
        match call_again(&**link, *ticket, ask.clone(), until) {
            // The server that knew is no more.
            Answer::Reply(Reply::Commit(CommitAnswer::Indeterminate)) => {
                self.pending.ticket = None;
                Again::Silence(self)
            }
            Answer::Reply(Reply::Commit(CommitAnswer::Committed(tranx))) => Again::Answer(Ok(tranx)),
            Answer::Reply(Reply::Commit(CommitAnswer::Refused(refusal))) => Again::Answer(Err(refusal)),
            Answer::Reply(_) | Answer::NotCarriedOut(_) | Answer::Silence(_) => Again::Silence(self),
        }
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server {} has not answered", self.pending.server)
    }
}

impl fmt::Debug for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unknown")
            .field("server", &self.pending.server)
            .field("ticket", &self.pending.ticket)
            .finish_non_exhaustive()
    }
}
