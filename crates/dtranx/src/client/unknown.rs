//! A commit without an answer, and the request that repeats it; `ask_again` resolves it.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use super::call::Call;
use super::link::{Answer, Link, Ticket};
use crate::core::{CommitAnswer, Refusal, ServerId, TranxId};
use crate::wire::{Ask, Reply};

/// A commit without an answer.
pub struct Unknown {
    pending: Box<Pending>,
}

struct Pending {
    server: ServerId,
    link: Arc<dyn Link>,
    /// Name and number of the request. Without it there is no use in asking again: the server has
    /// said that it cannot know.
    ticket: Option<Ticket>,
    ask: Ask,
}

/// Answer to asking again about a commit.
#[derive(Debug)]
pub(super) enum Again {
    Answer(Result<Option<TranxId>, Refusal>),
    /// Still no answer; the commit may be sent again.
    Silence(Unknown),
}

impl Unknown {
    pub(super) fn new(server: ServerId, link: Arc<dyn Link>, ticket: Option<Ticket>, ask: Ask) -> Self {
        Self { pending: Box::new(Pending { server, link, ticket, ask }) }
    }

    /// Server that the commit was sent to.
    pub(super) fn server(&self) -> ServerId {
        self.pending.server
    }

    pub(super) async fn again(mut self, until: Instant) -> Again {
        let Pending { server, link, ticket, ask } = &*self.pending;
        let Some(ticket) = ticket else { return Again::Silence(self) };
        match Call::start_again(&**link, *server, *ticket, ask.clone(), until).answer().await {
            // The life that got the request is over, and this one does not know.
            Some(Answer::Reply(Reply::Commit(CommitAnswer::Indeterminate))) => {
                self.pending.ticket = None;
                Again::Silence(self)
            }
            Some(Answer::Reply(Reply::Commit(CommitAnswer::Committed(tranx)))) => Again::Answer(Ok(Some(tranx))),
            Some(Answer::Reply(Reply::Commit(CommitAnswer::Validated(_)))) => Again::Answer(Ok(None)),
            Some(Answer::Reply(Reply::Commit(CommitAnswer::Refused(refusal)))) => Again::Answer(Err(refusal)),
            Some(Answer::Reply(_) | Answer::NotCarriedOut(_) | Answer::Silence(_)) | None => Again::Silence(self),
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
