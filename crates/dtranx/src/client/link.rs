//! A way to one server: over a socket, or into an engine in the same process.

use std::time::Instant;

use super::Generation;
use crate::core::{ClientId, StoreId};
use crate::wire::{Ask, Reply};

/// Name and number under which a request was sent: by these, a later life of the server finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) client: ClientId,
    pub(crate) id: u64,
    /// Largest number of the server's transactions that was heard of before.
    pub(crate) above: u64,
    /// Store that it was sent to. No other one can know what became of it.
    pub(crate) store: Option<StoreId>,
}

/// Result of a request that was given to a link.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The server has answered.
    Reply(Reply),
    /// The request was never sent, or cannot have been carried out.
    NotCarriedOut(String),
    /// The request was sent and not answered.
    Silence(Ticket),
}

/// Receives the answer. Called once, at the deadline or a little later at the latest; dropped if no
/// receiver is left.
pub(crate) type Done = Box<dyn FnOnce(Answer) + Send>;

/// A way to one server. No call blocks.
pub(crate) trait Link: Send + Sync {
    /// Sends a request, again and again if need be, until it is answered or the time is up. A
    /// commit of what was read in a generation is not sent to a store of a later one, but refused.
    fn ask(&self, ask: Ask, read_in: Option<Generation>, until: Instant, done: Done);

    /// Returns true if the server has welcomed the client once. One that joins the cluster welcomes
    /// nobody before it takes part.
    fn has_met(&self) -> bool {
        true
    }

    /// Sends a request under the name and number that it had before. Where the server would not
    /// know it by them any more, asks what became of it.
    fn ask_again(&self, ticket: Ticket, ask: Ask, until: Instant, done: Done);
}
