//! Inputs and commands of a server's node: the whole of its contact with the world.
//!
//! A node is called with the time and one [`Input`], and answers with [`Command`]s. Commands to the
//! same receiver are carried out in order; nothing is assumed about different receivers (log,
//! storage, network, clients).

use serde::{Deserialize, Serialize};

use super::{
    id::{ClientId, Epoch, LogTicket, MessageId, RequestId, SegmentId, ServerId, TranxId, ValidationId, WorkId},
    item::Current,
    message::{JOINING_QUESTION, Message, Settlement, SnapshotMessage, Vote},
    record::{GcRecord, Record, SegmentSummary},
    refusal::Refusal,
    standing::Again,
    transaction::{Read, ScanRead, Transaction, Write},
};

/// Answer to a client's request to commit, or to its question what became of one. The same request
/// always gets the same answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CommitAnswer {
    /// The transaction is committed, durably. The id is the version of everything that it wrote.
    Committed(TranxId),
    /// The transaction only read, and all that it read was there at one instant since the request.
    /// No log has anything of it.
    Validated(ValidationId),
    /// The transaction is not committed, and never will be.
    Refused(Refusal),
    /// The request came under a client's name that this incarnation of the server did not give: it
    /// is not carried out, but an earlier copy of it may have been. To a question: the outcome of
    /// the request is not known.
    Indeterminate,
}

/// The answer to a client that wants a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SnapshotAnswer {
    /// The end of this epoch: every server can be read as of then, as long as it keeps that.
    Made(Epoch),
    /// There is no snapshot, and nothing has happened.
    Refused(Refusal),
}

/// Findings of the storage when it checked a part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CheckAnswer {
    /// The keys whose version is not the one that was read, with what they hold now. Values may be
    /// left out of the list to keep it small; then `stale_scans` or another entry must still show
    /// that the check failed.
    pub stale: Vec<Current>,
    /// True if a scan found other keys or versions than before.
    pub stale_scans: bool,
}

/// Event that a node handles.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// A connection was accepted, under a name that has never been used: its incarnation is the
    /// node's.
    ClientConnected {
        /// Name that the connection has from now on.
        client: ClientId,
    },
    /// A connection has ended: nothing more comes from it, and answers to it are lost.
    ClientGone {
        /// Name of the client whose connection has ended.
        client: ClientId,
    },
    /// A client wants to commit. Repeated requests are recognised by their `message`.
    Commit {
        /// Name of the client that the answer goes to.
        client: ClientId,
        /// Number of the request, the same when it is repeated.
        message: MessageId,
        /// Reads and writes of the transaction.
        transaction: Transaction,
        /// Facts about the attempts before.
        again: Again,
    },
    /// The connection over which a server speaks is lost: what is not sent yet would not reach it.
    ServerGone {
        /// Server at the other end of the connection.
        server: ServerId,
    },
    /// A client wants a snapshot of all that is committed now. The request may be repeated at any
    /// time.
    Snapshot {
        /// Name of the client that the answer goes to.
        client: ClientId,
        /// Number of the request, the same when it is repeated.
        message: MessageId,
    },
    /// A client asks what became of a request to commit that an earlier life of the server got. The
    /// question may be repeated at any time.
    RequestOutcome {
        /// Name of the client that the answer goes to.
        client: ClientId,
        /// Number of the question, the same when it is repeated.
        message: MessageId,
        /// Name of the request that is asked about.
        request: RequestId,
        /// As for [`Node::request_outcome`](super::Node::request_outcome).
        above: u64,
    },
    /// All other servers know this one, which is new: they have it in their lists.
    Met,
    /// A message from another server.
    Receive {
        /// The server that sent it.
        from: ServerId,
        /// Message that has arrived; it may be late, or a repeated one.
        message: Message,
    },
    /// The log is durable up to and with this record.
    Logged {
        /// Ticket of the last durable record.
        through: LogTicket,
    },
    /// The storage has carried out [`Command::Check`].
    Checked {
        /// Work whose keys and scans were checked.
        work: WorkId,
        /// The items that the storage holds under the checked keys now.
        answer: CheckAnswer,
    },
    /// [`Command::Apply`] is done: reads see it.
    Applied {
        /// Transaction whose writes are applied.
        tranx: TranxId,
    },
    /// A segment of the log gets no more records.
    SegmentSealed {
        /// Segment that gets no more records.
        segment: SegmentId,
        /// Summary of the segment. The log has reported one for every record that it appended.
        summary: SegmentSummary,
    },
    /// Time to look for segments that are no longer needed: the low-water marks are logged, and
    /// the segments go that they make superfluous. Ignored while the last look is still under way.
    CollectGarbage,
    /// The storage has carried out [`Command::PersistStorage`].
    StoragePersisted,
    /// [`Command::WriteGcRecord`] is done: the record is durable.
    GcRecorded,
    /// Time has passed; see `Node::next_deadline_ms`.
    Tick,
}

/// Command that a node gives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Send to another server; the message may be lost.
    Send {
        /// The receiver: never this server itself.
        to: ServerId,
        /// Message that the other server gets.
        message: Message,
    },
    /// Answer a client; the answer is dropped if the client is gone.
    Reply {
        /// Name of the client that is answered.
        client: ClientId,
        /// Number of the request that is answered.
        message: MessageId,
        /// The commit of the transaction, or the reason against it.
        answer: CommitAnswer,
    },
    /// To a client that wants a snapshot; dropped if it is gone.
    ReplySnapshot {
        /// Name of the client that is answered.
        client: ClientId,
        /// Number of the request that is answered.
        message: MessageId,
        /// The snapshot, or why there is none.
        answer: SnapshotAnswer,
    },
    /// To the log: append this record, in the order of the tickets. It is durable only if all
    /// before it are. Answered by [`Input::Logged`]: as soon as possible if `durable`; otherwise
    /// with the next such record, or after some milliseconds.
    Log {
        /// Ticket by which [`Input::Logged`] names the record.
        ticket: LogTicket,
        /// Record that is appended to the log.
        record: Record,
        /// True if something waits until the record is durable.
        durable: bool,
    },
    /// To the storage: check that the keys have these versions, and that each scan finds what it
    /// found. Answered by [`Input::Checked`].
    Check {
        /// Part that is to be checked.
        work: WorkId,
        /// Keys, each with the version that was read.
        reads: Vec<Read>,
        /// Scans, each with the items that were found.
        scans: Vec<ScanRead>,
    },
    /// To the storage: do these writes, all at once, with the transaction's id as version. They
    /// need not be durable there: the log has them. Answered by [`Input::Applied`].
    Apply {
        /// Transaction whose writes are to be applied.
        tranx: TranxId,
        /// The epoch in which the transaction takes place: the items that it replaces must be kept
        /// for reads as of an earlier one.
        epoch: Epoch,
        /// Writes of the transaction on this server.
        writes: Vec<Write>,
    },
    /// To the storage: make everything that was applied durable. Answered by
    /// [`Input::StoragePersisted`].
    PersistStorage,
    /// To the GC log: overwrite its record, atomically and durably. Answered by
    /// [`Input::GcRecorded`].
    WriteGcRecord(GcRecord),
    /// To the log: remove every segment up to and with this one. Need not be durable, but a later
    /// segment may never go before an earlier one.
    RemoveSegments {
        /// The last segment to go.
        through: SegmentId,
    },
}

impl Command {
    /// Returns true if the command says something that follows from no committed entry of the log,
    /// but from how things are now: in a group it leaves only when a majority has confirmed the
    /// term in a round that began after it was said (decision 0075, G6).
    pub(crate) fn speaks_of_now(&self) -> bool {
        match self {
            Self::Send { message: Message::Validated { vote, .. }, .. } => *vote == Vote::Yes,
            Self::Send { message: Message::Snapshot(SnapshotMessage::Settled { settlement, .. }), .. } => {
                *settlement == Settlement::Settled
            }
            // A leader that others have replaced may be behind what its group has entered since.
            Self::Send { message: Message::Snapshot(SnapshotMessage::Asked { number, .. }), .. } => {
                *number == JOINING_QUESTION
            }
            Self::Reply { answer, .. } => matches!(answer, CommitAnswer::Validated(_)),
            Self::ReplySnapshot { answer, .. } => matches!(answer, SnapshotAnswer::Made(_)),
            _ => false,
        }
    }
}
