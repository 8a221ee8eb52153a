//! A way to one server: over a socket, or into an engine in the same process.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::core::ClientId;
use crate::wire::{Ask, Reply};

/// How much longer than its deadline a request is waited for: the link should have answered by then.
const SLACK: Duration = Duration::from_secs(6);

/// Under which name and number a request was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) client: ClientId,
    pub(crate) id: u64,
}

/// What came of a request.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The server's answer.
    Reply(Reply),
    /// It was never sent, or cannot have been carried out.
    NotCarriedOut(String),
    /// It was sent and not answered.
    Silence(Ticket),
}

/// Told once.
pub(crate) type Done = Box<dyn FnOnce(Answer) + Send>;

/// A way to one server.
pub(crate) trait Link: Send + Sync {
    /// Sends a request, again and again if need be, until it is answered or the time is up.
    fn ask(&self, ask: Ask, until: Instant, done: Done);

    /// Sends a request under the number that it had before.
    fn ask_again(&self, ticket: Ticket, ask: Ask, until: Instant, done: Done);
}

/// A request that is waited for later.
pub(super) struct Call {
    answer: mpsc::Receiver<Answer>,
    until: Instant,
}

impl Call {
    pub(super) fn start(link: &dyn Link, ask: Ask, until: Instant) -> Self {
        let (tell, answer) = mpsc::sync_channel(1);
        // Nobody listens any more if the wait is over.
        link.ask(ask, until, Box::new(move |answer| drop(tell.send(answer))));
        Self { answer, until }
    }

    /// `None` when the link itself is gone.
    pub(super) fn wait(self) -> Option<Answer> {
        let longest = self.until.saturating_duration_since(Instant::now()) + SLACK;
        self.answer.recv_timeout(longest).ok()
    }
}

/// Asks again, and waits.
pub(super) fn call_again(link: &dyn Link, ticket: Ticket, ask: Ask, until: Instant) -> Answer {
    let (tell, answer) = mpsc::sync_channel(1);
    link.ask_again(ticket, ask, until, Box::new(move |answer| drop(tell.send(answer))));
    let longest = until.saturating_duration_since(Instant::now()) + SLACK;
    answer.recv_timeout(longest).unwrap_or(Answer::Silence(ticket))
}
