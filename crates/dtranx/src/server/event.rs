//! Events that the stages of a server send each other, beside those of the machines
//! (`core::machine`).

use crate::core::machine::GcEvent;
use crate::core::{ClientId, Epoch, LogTicket, Message, Read, Record, ScanRead, ServerId, TranxId, WorkId, Write};
use crate::wire::{Ask, Response};

/// Event of the log's stage.
pub(super) struct Append {
    pub(super) ticket: LogTicket,
    pub(super) record: Record,
    pub(super) durable: bool,
}

/// Event of the storage's stage. A check waits for no write that is still to be applied: the
/// protocol's locks ensure that this is right.
pub(super) enum Store {
    Check { work: WorkId, reads: Vec<Read>, scans: Vec<ScanRead> },
    Apply { tranx: TranxId, epoch: Epoch, writes: Vec<Write> },
}

/// Event of the garbage collection's stage.
pub(super) enum Garbage {
    /// Event of the stage's machine.
    Event(GcEvent),
    /// The next segment of the log, before it is needed.
    MakeAhead,
    /// No segment is to go until `Release`: the stage `transfer` hears from where on, under this
    /// number.
    Pin { pin: u64 },
    /// The pin is over: segments of the log may be removed again.
    Release,
}

/// A read for a client, to the reading stage.
pub(super) struct ReadFor {
    pub(super) client: ClientId,
    pub(super) id: u64,
    pub(super) ask: Ask,
}

/// A message to another server, to the network stage.
pub(super) struct ToServer {
    pub(super) to: ServerId,
    pub(super) message: Message,
}

/// A message to a client, to the network stage.
pub(super) struct ToClient {
    pub(super) client: ClientId,
    pub(super) response: Response,
}
