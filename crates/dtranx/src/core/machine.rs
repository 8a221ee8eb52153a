//! Events that the machines of a server send each other, and the state that each works with while
//! it handles one.
//!
//! | machine | owns alone | sends requests to |
//! | --- | --- | --- |
//! | [`TranxService`](super::tranx_service) | votes, parts, numbers, the end of the log | all others |
//! | [`LockService`](super::lock) | the locks | |
//! | [`AckService`](super::acknowledgement) | decisions and their missing acknowledgements | |
//! | [`RecoveryService`](super::recovery_service) | what is in doubt | |
//! | [`Gc`](super::gc) | the sealed segments | |
//!
//! Each has one type of event. Events from one machine to another arrive in the order in which they
//! were sent, and none is lost; nothing is assumed about events between different machines. So the
//! machines may run on one thread or on several.

use super::{
    config::NodeConfig,
    event::{CheckAnswer, Command},
    id::{ClientId, LogTicket, MessageId, RequestId, SegmentId, ServerId, TranxId, WorkId},
    item::Key,
    message::{Message, Outcome},
    record::{GcRecord, SegmentSummary},
    refusal::Refusal,
    standing::Again,
    transaction::Transaction,
    wanted::{Claim, Locks},
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
            Message::InquiryAnswer { tranx, outcome } => {
                Self::Recovery(RecoveryEvent::InquiryAnswer { tranx, outcome })
            }
            message => Self::Tranx(TranxEvent::Receive { from, message }),
        }
    }
}

/// Event of the transaction service.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TranxEvent {
    /// From the network: see [`super::Input`].
    ClientConnected {
        client: ClientId,
    },
    ClientGone {
        client: ClientId,
    },
    Commit {
        client: ClientId,
        message: MessageId,
        /// True if the client had sent it before.
        is_repeated: bool,
        transaction: Transaction,
        again: Again,
    },
    /// From the network: see [`super::Input`].
    ServerGone {
        server: ServerId,
    },
    Snapshot {
        client: ClientId,
        message: MessageId,
    },
    RequestOutcome {
        client: ClientId,
        message: MessageId,
        request: RequestId,
        above: u64,
    },
    /// From the network: see [`super::Input`].
    Met,
    /// A message about votes, decisions, inquiries, low-water marks or snapshots.
    Receive {
        from: ServerId,
        message: Message,
    },
    /// From the log and the storage: see [`super::Input`].
    Logged {
        through: LogTicket,
    },
    Checked {
        work: WorkId,
        answer: CheckAnswer,
    },
    Applied {
        tranx: TranxId,
    },
    /// From the lock service: its answer.
    Granted {
        work: WorkId,
    },
    Refused {
        work: WorkId,
        refusal: Refusal,
    },
    /// From the acknowledgement service: all participants have acknowledged these commits of this
    /// server.
    Complete {
        numbers: Vec<u64>,
    },
    /// From the recovery service: the outcome of a transaction that was in doubt.
    Resolved {
        tranx: TranxId,
        outcome: Outcome,
    },
    /// From the clock: announce the low-water mark, and look for garbage.
    CollectGarbage,
}

/// Event of the lock service: a request to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LockEvent {
    /// All of these locks, at once or after a wait.
    Acquire { work: WorkId, locks: Locks, claim: Claim },
    /// Waits until each of these keys has been without an exclusive lock once. It locks nothing.
    Probe { work: WorkId, keys: Vec<Key> },
    /// Drop whatever the transaction holds or waits for.
    Release { work: WorkId },
    /// The transaction is aborted, but another attempt is expected, for which its locks are kept
    /// for a while.
    Keep { work: WorkId },
    /// This server cannot be reached: grants to its transactions would not arrive.
    Gone { server: ServerId },
}

/// Event of the acknowledgement service.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AckEvent {
    /// A transaction of this server's is decided, a commit durably. The decision goes to the
    /// `participants` except this server, which knows it; all of them must acknowledge a commit.
    Decided { tranx: TranxId, outcome: Outcome, participants: Vec<ServerId> },
    /// This server's part of a commit is durable and applied: acknowledge it to the coordinator.
    Done { tranx: TranxId },
    /// Another server has acknowledged these.
    Acknowledged { from: ServerId, tranxs: Vec<TranxId> },
    /// A server inquires about this transaction.
    #[cfg(test)]
    Inquired { from: ServerId, tranx: TranxId },
}

/// Event of the recovery service.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RecoveryEvent {
    /// Another server's transaction is in doubt here, and has been for too long.
    InDoubt { tranx: TranxId, participants: Vec<ServerId> },
    /// The transaction is no longer in doubt.
    Settled { tranx: TranxId },
    /// A server answers an inquiry; `None`: it does not know the outcome either.
    InquiryAnswer { tranx: TranxId, outcome: Option<Outcome> },
}

/// Event of the garbage collection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum GcEvent {
    /// From the transaction service: the low-water marks of a record that is durable, with what was
    /// reserved before it. Ignored while a collection is under way.
    Collect(GcRecord),
    /// From the log: see [`super::Input`].
    Sealed { segment: SegmentId, summary: SegmentSummary },
    /// The storage has carried out [`Command::PersistStorage`].
    Persisted,
    /// The log has carried out [`Command::WriteGcRecord`].
    Recorded,
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
    /// Sends an event to another machine of this server.
    pub(crate) fn tell(&mut self, event: Event) {
        self.out.events.push(event);
    }

    /// Sends a message to another server.
    pub(crate) fn send(&mut self, to: ServerId, message: Message) {
        self.out.commands.push(Command::Send { to, message });
    }
}
