//! A request under way, as a future. It needs no runtime: the link's threads keep its deadline and
//! wake the task that waits.

use std::time::Instant;

use futures_channel::oneshot;

use super::Generation;
use super::link::{Answer, Link, Ticket};
use crate::core::ServerId;
use crate::wire::Ask;

/// A request under way. Dropping it does not take the request back.
pub(super) struct Call {
    pub(super) server: ServerId,
    answer: oneshot::Receiver<Answer>,
}

impl Call {
    pub(super) fn start(
        link: &dyn Link,
        server: ServerId,
        ask: Ask,
        read_in: Option<Generation>,
        until: Instant,
    ) -> Self {
        let (tell, answer) = oneshot::channel();
        // The receiver is gone if the future was dropped.
        link.ask(ask, read_in, until, Box::new(move |answer| drop(tell.send(answer))));
        Self { server, answer }
    }

    pub(super) fn start_again(link: &dyn Link, server: ServerId, ticket: Ticket, ask: Ask, until: Instant) -> Self {
        let (tell, answer) = oneshot::channel();
        link.ask_again(ticket, ask, until, Box::new(move |answer| drop(tell.send(answer))));
        Self { server, answer }
    }

    /// `None` when the link itself is gone.
    pub(super) async fn answer(self) -> Option<Answer> {
        self.answer.await.ok()
    }
}
