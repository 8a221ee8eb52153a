//! Events that the stages of a group's member send each other.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bytes::Bytes;

use super::event::{ToClient, ToServer};
use super::transfer::TransferName;
use crate::cluster::Places;
use crate::core::group::{Promised, Rejoin, WriteId};
use crate::core::{ClientId, Command, Key, Node, SegmentId, StoreId};
use crate::log::{Beginning, Configured, Position, SegmentNumber, State};
use crate::wire::{MemberMessage, Piece, Told};

/// Event from the network to the stage `group`.
pub(super) enum FromMembers {
    /// The stores of the group are known, by the members' numbers: from now on the member takes
    /// part, without a vote if its own store has taken a lost one's place. `before` is the
    /// configuration before the first entry of the log, or a later one that was told to this store.
    Met { stores: BTreeMap<u8, StoreId>, before: (Position, Places), rejoins: Option<Rejoin> },
    /// Another member has said something.
    Heard { from: u8, message: MemberMessage },
    /// Another member has told, in its handshake, which configuration is in force there.
    Told { from: u8, told: Told },
    /// An operator asks for a change of the members.
    Asked { client: ClientId, id: u64, change: Change },
}

/// A change of the members of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// A store that waits at this address is to become a member.
    Add { address: SocketAddr, store: StoreId },
    /// This member is to go.
    Remove { number: u8 },
}

/// Reason why the engine of a member is to be started again, or not any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Restart {
    /// The member no longer leads.
    SteppedDown,
    /// Another store has taken the place of another member's.
    Replaced,
    /// The store, which takes a lost one's place, was told of a later configuration of the group.
    Told,
    /// Its own store knows what the lost one can have promised, and follows from now on.
    Follow(Promised),
    /// Its own store has all of that, and gets a vote.
    Rejoined,
    /// The member was removed from its group, by the configuration in this entry, as this member
    /// says: it ends.
    Removed { at: u64, by: u8 },
}

/// A message to another member, to the network stage.
pub(super) struct ToMember {
    pub(super) to: u8,
    pub(super) message: MemberMessage,
}

/// Something that the node has said and that speaks of now, to the stage `group`: it leaves when a
/// round has confirmed the term (decision 0075, G6).
pub(super) enum Held {
    ToServer(ToServer),
    ToClient(ToClient),
}

/// Event of the log's stage of a member.
pub(super) enum LogWork {
    /// Append, and sync: the state, then the entries, of which the first makes all of its index and
    /// above void.
    Write { write: WriteId, state: Option<State>, entries: Vec<(Position, Bytes)> },
    /// Entries up to this one are committed and synced here. If no node runs here, they are to be
    /// applied.
    Act { through: u64, applies: bool },
    /// A life begins: the log goes on in a new segment (G18).
    Begin,
    /// A follower lacks entries that are not in memory.
    Fetch(Fetch),
    /// No member that is waited for lacks entries up to this one.
    Spare { through: u64 },
}

/// An entry that is not known to be committed.
pub(super) struct Pending {
    pub(super) entry: Position,
    pub(super) segment: SegmentNumber,
    pub(super) payload: Bytes,
}

/// A batch whose entries are to be read from the log.
pub(super) struct Fetch {
    pub(super) to: u8,
    pub(super) term: u64,
    pub(super) committed: u64,
    pub(super) before: Position,
    pub(super) wanted: Vec<Position>,
}

/// Event from the log's stage to the stage `group`.
pub(super) enum FromLog {
    /// All writes up to this one are synced.
    Synced(WriteId),
    /// Payloads of the first entries of a batch.
    Fetched { fetch: Fetch, payloads: Vec<Bytes> },
    /// The entries that this follower lacks are removed.
    Removed { to: u8 },
}

/// Event of the stage `follow`.
pub(super) enum Follow {
    /// A committed entry, in the order of the log.
    Apply { segment: SegmentId, payload: Bytes },
    /// A life begins: the node is made of what was applied.
    Begin,
}

/// The node of a life, which is to be given to its stages.
pub(super) struct Begun {
    pub(super) node: Node,
    pub(super) commands: Vec<Command>,
}

/// Event of the stage `transfer`. From other stages than `gc` it may be dropped when there are too
/// many: it comes again.
pub(super) enum Transfer {
    /// A follower lacks entries that are removed here; this member leads in that term.
    Lacks { member: u8, term: u64 },
    /// The log is pinned, under this number.
    Pinned { pin: u64, from: Beginning },
    /// A follower has all pieces of this name up to a key.
    Taken { member: u8, name: TransferName, through: Option<Key> },
    /// A follower has the log up to this entry; all that may go now, or not yet.
    Reached { member: u8, index: u64, has_all: bool },
    /// This member no longer leads in the term in which it did.
    Ended,
    /// A piece of the leader's items, for this member.
    Piece { from: u8, piece: Piece },
}

/// Event from the stage `transfer` to the stage `group`.
pub(super) enum FromTransfer {
    /// A follower is being given the items, and the log is kept from behind this entry on.
    Begun { member: u8, from: u64 },
    /// A follower is given nothing more.
    Over { member: u8 },
    /// All of a leader's items are written here.
    Whole { name: TransferName, gc_payload: Vec<u8>, configured: Option<Configured> },
}
