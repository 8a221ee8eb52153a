//! Plans of a group: transactions, budgets of faults, and rules that are broken on purpose.

use crate::core::flaw;
use crate::model::plan::{self, Tx};

/// A group to explore, with the server beside it.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Transactions of the clients. The group is server 1, and the other server is server 2.
    pub(super) base: plan::Plan,
    /// Member that the first leader has not reached and does not reach, but for late batches.
    pub(super) cut_off: Option<usize>,
    /// Whether later leaders do not reach the first one.
    pub(super) is_deaf: bool,
    /// Whether the first leader reaches that member once it has removed entries.
    pub(super) rejoins: bool,
    /// Member whose disk syncs nothing, from the beginning of the exploration on.
    pub(super) hung: Option<usize>,
    /// Number of entries that only the first leader has when the exploration begins.
    pub(super) ahead: usize,
    /// Entries in the log of some member from which on clients' transactions are refused.
    pub(super) room: Option<usize>,
    /// Only these members stand for election, if any are named.
    pub(super) candidates: Vec<usize>,
    /// Client whose request comes before any election, if one is named.
    pub(super) elects_after: Option<usize>,
    /// Client that begins only after an election, if one is named.
    pub(super) begins_later: Option<usize>,
    /// The only member that votes for another one, if one is named.
    pub(super) voter: Option<usize>,
    /// The only member that crashes, or whose disk hangs, if one is named.
    pub(super) crash_only: Option<usize>,
    pub(super) budget: Budget,
    pub(super) flaw: Option<Flaw>,
}

/// Faults, and steps of maintenance, that may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    /// Elections after the first.
    pub(super) elections: u8,
    /// Members that crash.
    pub(super) crashes: u8,
    /// Members whose folder is empty from one step to the next.
    pub(super) lost_disks: u8,
    /// Members whose log loses entries that were synced.
    pub(super) damages: u8,
    /// Batches that arrive after longer ones.
    pub(super) late: u8,
    /// Timers that go off while something is under way.
    pub(super) early_ticks: u8,
    /// Marks that a leader appends.
    pub(super) marks: u8,
    /// Members that look for entries to remove.
    pub(super) collections: u8,
    /// Followers that say what their log ends with, before a batch reaches them.
    pub(super) reports: u8,
    /// Clients that ask a later leader what became of their commits.
    pub(super) asks: u8,
    /// Members whose disk syncs nothing any more.
    pub(super) hangs: u8,
}

/// A rule of the group that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Flaw {
    /// G1: a leader acts on what is durable in its own log.
    OwnSync,
    /// G1: a leader counts its own entries before they are synced.
    CountsUnsynced,
    /// G2: a member accepts a batch of a term that is over.
    OldTermAccepted,
    /// G4: a leader's node begins when the leader is elected.
    BeginsBeforeFirstEntry,
    /// G5: a member that starts applies its whole log.
    AppliesAll,
    /// G6: answers to validations leave at once.
    Unconfirmed,
    /// G6: a leader says at once that an epoch is settled.
    SettledUnconfirmed,
    /// G6: a leader says at once that it has made a snapshot.
    SnapshotUnconfirmed,
    /// G6: a round that ended before it was said counts.
    ConfirmedBefore,
    /// G6: a round takes along what was said after it began.
    LatecomersLeave,
    /// G7: a transaction that a leader does not know is aborted, also one that another leader has
    /// numbered.
    AnswersForLaterLives,
    /// G8: a follower makes its log as long as the batch says.
    CutsWithoutConflict,
    /// G9: a log that has lost what was synced ends where the loss begins.
    DamageTakenForTorn,
    /// G10: a member with an empty folder keeps its vote.
    EmptyDiskVotes,
    /// G10: a store without a vote counts in rounds.
    EmptyDiskConfirms,
    /// G10: a store gets a vote before it has what the group has.
    AdmittedBehind,
    /// G11: a member goes by the leader's marks, however far it is itself.
    MarksNotInLog,
    /// G11: a member goes by the marks in its log before it has applied what is before them.
    MarksNotCommitted,
    /// G12: a follower that needs removed entries gets those that are left, without items.
    RemovedWithoutItems,
    /// G13: a participant says that reads are valid in an epoch that no committed entry reserves.
    ValidatesUnreserved,
    /// G13: a leader serves a snapshot as soon as it is in a later epoch, reserved or not.
    ServesUnreserved,
    /// G14: a leader says of any request that it is not in the log.
    NotFoundOfLaterLives,
    /// A leader says of any request of an earlier life that it is not in the log, however far back
    /// it knows the log.
    NotFoundOfForgotten,
    /// G15: a follower that gets items gets the term that the leader has recorded with them.
    StateTransferred,
    /// G16: a piece of items is put to those of another transfer.
    PiecesMixed,
    /// G17: an acknowledgement counts as far as the leader's log goes, whatever the follower has
    /// there.
    ConflictCounted,
    /// G18: a leader goes on with the segment that its life began with, and removes it as if it
    /// were sealed.
    SegmentGoesOn,
    /// G19: a leader reads snapshots by what it kept of replaced items in an earlier life.
    HistoryGoesOn,
    /// G20: a member whose log is full acknowledges nothing.
    FullAcknowledgesNothing,
    /// G21: a leader whose disk syncs nothing goes on leading.
    HungLeads,
}

impl Plan {
    pub(super) fn new(txs: Vec<Tx>) -> Self {
        Self {
            base: plan::Plan::new(2, txs),
            cut_off: None,
            is_deaf: false,
            rejoins: false,
            hung: None,
            ahead: 0,
            room: None,
            candidates: vec![],
            elects_after: None,
            begins_later: None,
            voter: None,
            crash_only: None,
            budget: Budget::default(),
            flaw: None,
        }
    }

    pub(super) fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// The same plan with a broken rule, which may be one of a single server.
    pub(super) fn broken(mut self, flaw: Flaw) -> Self {
        self.base.flaw = match flaw {
            Flaw::AnswersForLaterLives => Some(flaw::Flaw::AnswersForLaterLives),
            Flaw::NotFoundOfLaterLives => Some(flaw::Flaw::NotFoundOfLaterLives),
            Flaw::NotFoundOfForgotten => Some(flaw::Flaw::NotFoundOfForgotten),
            Flaw::ValidatesUnreserved => Some(flaw::Flaw::ValidationBeforeReserved),
            Flaw::ServesUnreserved => Some(flaw::Flaw::SnapshotServedUnreserved),
            _ => None,
        };
        Self { flaw: Some(flaw), ..self }
    }
}
