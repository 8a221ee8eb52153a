//! Events of a member's machine, and what it wants done.

use std::collections::BTreeSet;

use super::{
    id::{AnswerId, Entries, Index, MemberId, Position, Term, WriteId},
    message::Message,
    promised::Promised,
};

/// Input of a member's machine: something that has happened to the member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Event {
    /// A timer went off that [`Command::Set`] has set.
    Tick(Timer),
    /// A message of another store, which may be late, repeated, or of no member.
    Receive { from: MemberId, message: Message },
    /// The node of this life has filled an entry. It gets the next index; [`Command::Write`] says
    /// which.
    Append { life: Term },
    /// All writes up to this one are synced.
    Synced { through: WriteId },
    /// The node of this life has said something that speaks of now (G6).
    Hold { life: Term, answer: AnswerId },
    /// An operator wants these members, with and without a vote, and all others gone (0088). The
    /// caller has seen that new ones take the same stores for the places as this one.
    Change { voters: BTreeSet<MemberId>, learners: BTreeSet<MemberId> },
    /// Another member has a configuration of these members in force (0088, C6).
    Meet { at: Position, members: BTreeSet<MemberId> },
}

/// A timer. Durations are the caller's, and so is the chance in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Timer {
    /// Silence before a member asks whether it would be elected: another duration each time.
    Election,
    /// Silence after which a member would vote for another one than the leader. It lasts as long as
    /// `Election` lasts at least.
    Silence,
    /// Time between the rounds of a leader.
    Heartbeat,
    /// Half of the time after which a leader without contact to a majority steps down.
    Contact,
    /// Half of the time after which a leader steps down whose own log does not sync (G21).
    Disk,
}

/// State that a member keeps durably besides its entries. It is a record of its own in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) term: u64,
    pub(crate) vote: Option<MemberId>,
    /// Greatest index that was known to be committed when it was written.
    pub(crate) committed: u64,
}

/// Content of a member's log when it starts: the newest state, and the entries that are not void.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Found {
    pub(crate) state: State,
    pub(crate) entries: Entries,
}

/// Something that the machine wants done. Commands are carried out in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Command {
    /// Let this timer go off after its duration, and not before: an earlier setting is void.
    Set(Timer),
    /// Append to the own log and sync: the state, then the entries, of which the first makes all
    /// earlier ones of its index and above void.
    Write { write: WriteId, state: Option<State>, entries: Option<Entries> },
    /// Send to another member; the message may be lost.
    Send { to: MemberId, message: Message },
    /// Give the committed entries up to this one to the recovery that waits for a life: from the
    /// beginning of the log after a start and after [`Command::End`].
    Apply { through: Index },
    /// Begin the node of this life, by the recovery and what it was given.
    Begin { life: Term },
    /// Tell the node that what it has logged is durable, up to this entry (G1).
    Logged { through: Index },
    /// Drop the node of this life, with all that it has said and that waits.
    End { life: Term },
    /// Let this answer leave (G6).
    Release { answer: AnswerId },
    /// A member is too far behind for the entries that are left here: it needs the items.
    Transfer { to: MemberId },
    /// All others have said what the lost store can have promised: keep that, and start this member
    /// again, to follow.
    Follow(Promised),
    /// This member may have a vote from now on: keep that, and start it again with one.
    Rejoined,
    /// Nothing is changed, for this reason (0088).
    Unchanged(Unchanged),
    /// Stop this member: its log, or another one's, is not what it was. Nothing follows.
    Stop(Damage),
}

/// Reason why the members of a group are not changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Unchanged {
    /// No life serves on this member.
    NoLeader,
    /// The last change, with the entry of this index, is not over.
    UnderWay { at: Index },
    /// No voters or too many, too many learners, a voter that is to be a learner, or no difference.
    NoSuchGroup,
    /// This member is to get a vote, and is no learner that has all that is committed.
    Behind { member: MemberId, counted: Index, committed: Index },
}

/// Damage of a log that a member notices: a state that no sound log gets into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Damage {
    /// An entry that this member knows to be committed is to be replaced.
    Cut { index: Index, ours: Term, theirs: Term },
    /// The log ends before an entry that it calls committed.
    Missing { committed: Index, last: Index },
    /// A leader's log has another entry where the own one begins.
    Beginning,
}
