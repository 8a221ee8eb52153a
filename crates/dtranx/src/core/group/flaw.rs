//! Rules that a test breaks: the model has to notice each.

/// One rule that the machine breaks on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Flaw {
    /// G1: a leader's node hears of an entry that is synced in its own log.
    OwnSync,
    /// G1: acknowledgements count, whether or not the leader has synced what they are about.
    CountsUnsynced,
    /// G2: a member takes a batch of a term that is over.
    OldTermAccepted,
    /// G3: votes and candidacies leave before term and vote are synced.
    VotesUnsynced,
    /// G3: a follower acknowledges entries before they are synced.
    AcknowledgesUnsynced,
    /// G4: a node begins when its leader is elected.
    BeginsBeforeFirstEntry,
    /// G5: a member that starts applies its whole log.
    AppliesAll,
    /// G5: a member applies what is committed, synced in its own log or not.
    AppliesUnsynced,
    /// G6: answers that speak of now leave at once.
    Unconfirmed,
    /// G6: a round that ended before something was said counts for it.
    ConfirmedBefore,
    /// G6: a round takes along what was said after it began.
    LatecomersLeave,
    /// G8: a follower makes its log as long as a batch says.
    CutsWithoutConflict,
    /// G17: an acknowledgement counts by its index alone.
    ConflictCounted,
    /// A leader that steps down keeps its node.
    NodeKept,
    /// 0081, R2: a rejoining member asks no more when one other has answered.
    RejoinsByMajority,
    /// 0081, R3: a rejoining member takes no term from the others.
    RejoinsInAnyTerm,
    /// 0081, R4: a rejoining member gives its vote while it follows.
    VotesBeforeItRejoined,
    /// 0081, R5: a rejoining member has a vote before it has what the others had.
    RejoinsEmpty,
    /// 0088, C1: a member that starts goes by the configuration before its log.
    ForgetsConfigurations,
    /// 0088, C2: a member that gets a joint configuration goes by the next voters alone.
    GoesByNextVoters,
    /// 0088, C2: a round of a joint configuration is confirmed by the next voters alone.
    RoundsByNextVoters,
    /// 0088, C8: a leader that has no vote next appends the final configuration.
    LeavesWithTheFinal,
    /// 0088, C11: answers to a rejoining member count while a change is under way.
    RejoinsDuringChange,
    /// 0088, C12: a leader that alone has a vote calls entries committed that it has not synced.
    CommitsAlone,
}
