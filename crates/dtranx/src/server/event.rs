//! What the stages of a server send each other, beside the node's own [`crate::core::Input`].

use crate::core::{
    ClientId, GcRecord, LogTicket, Message, Read, Record, ScanRead, SegmentId, ServerId, TranxId, Write,
};
use crate::wire::{Ask, Response};

/// To the log.
pub(super) struct Append {
    pub(super) ticket: LogTicket,
    pub(super) record: Record,
    pub(super) durable: bool,
}

/// To the storage, in order.
pub(super) enum Store {
    Check {
        tranx: TranxId,
        reads: Vec<Read>,
        scans: Vec<ScanRead>,
    },
    Apply {
        tranx: TranxId,
        writes: Vec<Write>,
    },
    /// What was applied before this is to be made durable: handed on to the garbage collection.
    Persist,
}

/// To the garbage collection.
pub(super) enum Collect {
    Persist,
    Write(GcRecord),
    Remove(SegmentId),
    /// The next segment of the log, before it is needed.
    MakeAhead,
}

/// To the stage that reads for clients.
pub(super) struct ReadFor {
    pub(super) client: ClientId,
    pub(super) id: u64,
    pub(super) ask: Ask,
}

/// To whoever has the connections.
pub(super) enum Outgoing {
    Server(ServerId, Message),
    Client(ClientId, Response),
}
