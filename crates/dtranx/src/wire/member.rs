//! Messages that the members of a group send each other, over connections of their own. What they
//! mean is in `core::group`; here they are as they travel, with the records of the entries.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::cluster::Places;
use crate::core::{Item, Key, StoreId};
use crate::log::{Configured, Position};

/// Greatest size of the records of the entries in one batch, in bytes, unless it has one entry.
pub const BATCH_LIMIT_BYTES: usize = 4 << 20;

/// Greatest size of the keys and values in one piece of items, in bytes, unless it has one item.
pub const PIECE_LIMIT_BYTES: usize = 1 << 20;

/// Greatest number of entries in one batch.
pub const MAX_BATCH_ENTRIES: usize = 1 << 10;

/// A message from one member of a group to another. Any of them may be lost, late or repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberMessage {
    /// A leader sends entries, or none to show that it leads: [`MemberMessage::Acknowledge`].
    Batch {
        /// Term in which the sender leads.
        term: u64,
        /// Greatest index that the leader knows to be committed.
        committed: u64,
        /// Place in the log before the first entry.
        before: Position,
        /// Entries, at most [`MAX_BATCH_ENTRIES`], with at most [`BATCH_LIMIT_BYTES`] of records
        /// unless there is one.
        entries: Vec<BatchEntry>,
    },
    /// A follower has its log synced up to this entry.
    Acknowledge {
        /// Latest term that the follower knows.
        term: u64,
        /// Last entry of its log that is synced and not void.
        last: Position,
        /// True if its log has grown to its limit: transactions that write are to be refused.
        is_full: bool,
    },
    /// A member stands for election: [`MemberMessage::Vote`].
    Stand {
        /// Term in which it stands.
        term: u64,
        /// Last entry of its log.
        last: Position,
    },
    /// A member has voted, or knows of a later term.
    Vote {
        /// Latest term that the member knows, in which it has voted if it has.
        term: u64,
        /// True if this is a vote for the receiver.
        is_granted: bool,
    },
    /// A leader wants its term confirmed: [`MemberMessage::Confirm`].
    Round {
        /// Term that the leader wants confirmed.
        term: u64,
        /// Number of the round in that term.
        number: u64,
    },
    /// The term was still the latest one when the round arrived.
    Confirm {
        /// Term of the leader that has asked.
        term: u64,
        /// Number of the round that is answered.
        number: u64,
    },
    /// A member asks whether it would be elected: [`MemberMessage::Would`].
    Ask {
        /// Term in which it would stand.
        term: u64,
        /// Last entry of its log.
        last: Position,
    },
    /// Answers whether the receiver would get this member's vote.
    Would {
        /// Latest term that the member knows.
        term: u64,
        /// Term that was asked about.
        asked: u64,
        /// True if the receiver would get the vote.
        is_granted: bool,
    },
    /// A leader waits for no member that lacks entries up to this one: each may remove them.
    Spare {
        /// Term in which the sender leads.
        term: u64,
        /// Index of the last of these entries.
        through: u64,
    },
    /// A leader sends items to a member that lacks entries which the leader has removed:
    /// [`MemberMessage::Taken`].
    Piece(Piece),
    /// A member has written and synced what it has got of a leader's items.
    Taken {
        /// Term of the leader.
        term: u64,
        /// Place before the first entry of the log that the leader keeps for the transfer.
        before: Position,
        /// The last key that is written: the piece behind it is the next.
        through: Option<Key>,
    },
    /// A store that has taken a lost one's place asks what that one can have promised:
    /// [`MemberMessage::RejoinAnswer`].
    Rejoin,
    /// The latest term and the newest entry that a member knows, which has noted the store that
    /// asks: the lost one can have promised no more to it.
    RejoinAnswer {
        /// Latest term that the member knows.
        term: u64,
        /// Last entry of its log.
        last: Position,
        /// True if the store of this member takes a lost one's place itself, and has no vote.
        is_rejoining: bool,
        /// The stores that this member knows as those of the group, its own among them, each by the
        /// first 64 bits of its id; it takes nothing from others.
        members: Vec<u64>,
        /// Place in the log of the configuration that is in force there, and of which it is known
        /// that it is committed; `None` if it is not known, or a change of voters is under way.
        settled: Option<Position>,
    },
    /// The configuration that is in force on the sender has changed.
    Told(Told),
}

/// A configuration of a group, as one of its members tells it to others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Place of its entry in the log; zeros for the first configuration, which is in no log.
    pub at: Position,
    /// True if the member knows that it is committed.
    pub is_settled: bool,
    /// The configuration.
    pub places: Places,
    /// The stores that are in its places now, and those that were in removed ones, as the member
    /// has noted, by the places' numbers.
    pub stores: Vec<(u8, StoreId)>,
}

/// Greatest term and index in what members say: none is believed that is greater. One that was told
/// of such a place in the log would wait for it for ever.
pub(crate) const GREATEST: u64 = 1 << 62;

impl Told {
    /// Returns true if a member of a group can tell this. What is settled is not a change under
    /// way.
    pub(crate) fn is_possible(&self) -> bool {
        let Self { at, is_settled, places, stores } = self;
        let numbers: BTreeSet<u8> = stores.iter().map(|(number, _)| *number).collect();
        places.is_possible()
            && !(*is_settled && places.is_joint())
            && at.index < GREATEST
            && at.term < GREATEST
            && numbers.len() == stores.len()
            && !numbers.contains(&0)
    }
}

/// State of a group, as the member that leads knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupStatus {
    /// Number of the member that leads.
    pub leads: u8,
    /// The configuration in force there.
    pub told: Told,
    /// Greatest index that is known to be committed.
    pub committed: u64,
    /// Greatest index up to which each other member is known to have the leader's log.
    pub reached: Vec<(u8, u64)>,
}

/// Items of a leader, in the order of their keys: a part of all that it has. Pieces belong together
/// if they have the same term and place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// Term in which the sender leads.
    pub term: u64,
    /// Place before the first entry of the log that the leader keeps for the transfer.
    pub before: Position,
    /// The last key of the piece before; `None`: this is the first.
    pub after: Option<Key>,
    /// All items behind that key, up to the last one here: at most [`PIECE_LIMIT_BYTES`] of keys
    /// and values unless there is one.
    pub items: Vec<(Key, Item)>,
    /// In the last piece: what the log has to know that begins behind the items.
    pub last: Option<LastPiece>,
}

/// End of a transfer of items: what the leader's log keeps of the entries before the place from
/// which on it goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastPiece {
    /// Payload of the leader's GC log.
    pub gc_payload: Bytes,
    /// The configuration that was in force there; `None`: the first one was.
    pub configured: Option<Configured>,
}

/// A message from a member of a group to another server, or to a member of another group. `M` is
/// [`crate::core::Message`], or a reference to one that is only to be sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GroupMessage<M> {
    /// The sender leads: messages for the group go to it from now on, unless another one leads in a
    /// later term.
    Leads {
        /// Term in which it leads.
        term: u64,
    },
    /// A message of the group's server.
    Message(M),
}

/// An entry of a log in a batch. The index of the first is one more than that of the place before.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchEntry {
    /// Term of the leader that made the entry.
    pub term: u64,
    /// Records of the entry, each after its length, as in the log.
    pub payload: Bytes,
}

/// The size of the records in the place of the records.
impl std::fmt::Debug for BatchEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BatchEntry(term {}, {} bytes)", self.term, self.payload.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Place, Role};

    #[test]
    fn what_no_member_can_tell_is_not_believed() {
        let place = |number: u8, role| Place {
            number,
            store: StoreId([number; 16]),
            address: ([127, 0, 0, 1], u16::from(number)).into(),
            role,
        };
        let places = |role| Places { given: 3, places: vec![place(1, Role::Votes), place(3, role)] };
        let good = Told {
            at: Position { term: 2, index: 7 },
            is_settled: true,
            places: places(Role::Votes),
            stores: vec![(1, StoreId([1; 16])), (2, StoreId([2; 16])), (3, StoreId([3; 16]))],
        };
        assert!(good.is_possible());
        let store = StoreId([9; 16]);
        for bad in [
            Told { places: places(Role::Comes), ..good.clone() },
            Told { places: Places::default(), ..good.clone() },
            Told { at: Position { term: 2, index: GREATEST }, ..good.clone() },
            Told { at: Position { term: GREATEST, index: 7 }, ..good.clone() },
            Told { stores: vec![(0, store)], ..good.clone() },
            Told { stores: vec![(2, store), (2, StoreId([8; 16]))], ..good.clone() },
        ] {
            assert!(!bad.is_possible(), "{bad:?}");
        }
    }
}
