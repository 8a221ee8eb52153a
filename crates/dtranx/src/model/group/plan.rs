//! Plans of a group: transactions, budgets of faults, and rules that are broken on purpose.

use crate::model::plan::{self, Tx};

/// A group to explore, with the server beside it.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Transactions of the clients. The group is server 1, and the other server is server 2.
    pub(super) base: plan::Plan,
    /// Member that the first leader has not reached and does not reach.
    pub(super) cut_off: Option<usize>,
    /// Only these members stand for election, if any are named.
    pub(super) candidates: Vec<usize>,
    /// The only member that crashes, if one is named.
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
    /// G7: what a leader does not know is aborted, whoever has numbered it.
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
    /// G12: a follower that needs removed entries gets those that are left, without items.
    RemovedWithoutItems,
}

impl Plan {
    pub(super) fn new(txs: Vec<Tx>) -> Self {
        Self {
            base: plan::Plan::new(2, txs),
            cut_off: None,
            candidates: vec![],
            crash_only: None,
            budget: Budget::default(),
            flaw: None,
        }
    }

    pub(super) fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }
}
