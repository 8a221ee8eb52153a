//! Events that the machines of a server send each other, and the state that each works with while
//! it handles one.
//!
//! | machine | owns alone | asks |
//! | --- | --- | --- |
//! | [`TranxService`](super::tranx_service) | votes, parts, numbers, the end of the log | all others |
//! | [`LockService`](super::lock) | the locks | |
//! | [`AckService`](super::acknowledgement) | who has not acknowledged what | |
//! | [`RecoveryService`](super::recovery) | what is in doubt | |
//! | [`Gc`](super::gc) | the sealed segments | |
//!
//! Each has one type of event. Events from one machine to another arrive in the order in which they
//! were sent, and none is lost; nothing is assumed about events between different machines. So the
//! machines may run on one thread or on several.

use super::{
    acknowledgement::AckEvent, config::NodeConfig, event::Command, gc::GcEvent, id::ServerId, lock::LockEvent,
    message::Message, recovery::RecoveryEvent, tranx_service::TranxEvent,
};

/// An event for one of the machines.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Event {
    Tranx(TranxEvent),
    Lock(LockEvent),
    Ack(AckEvent),
    Recovery(RecoveryEvent),
    Gc(GcEvent),
}

impl Event {
    /// A message from another server, for the machine that it concerns.
    pub(crate) fn received(from: ServerId, message: Message) -> Self {
        match message {
            Message::Acknowledge(tranxs) => Self::Ack(AckEvent::Acknowledged { from, tranxs }),
            Message::Told { tranx, outcome } => Self::Recovery(RecoveryEvent::Told { tranx, outcome }),
            message => Self::Tranx(TranxEvent::Receive { from, message }),
        }
    }
}

/// Results of a machine's turn: commands for the world, events for the others; each in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox {
    pub(crate) commands: Vec<Command>,
    pub(crate) events: Vec<Event>,
}

/// State that a machine works with while it handles an event.
pub(crate) struct Turn<'a> {
    pub(crate) now_ms: u64,
    pub(crate) config: &'a NodeConfig,
    pub(crate) out: &'a mut Outbox,
}

impl Turn<'_> {
    /// Tells another machine of this server.
    pub(crate) fn tell(&mut self, event: Event) {
        self.out.events.push(event);
    }

    /// Sends a message to another server.
    pub(crate) fn send(&mut self, to: ServerId, message: Message) {
        self.out.commands.push(Command::Send { to, message });
    }
}
