//! Rules that a test may break on purpose: the model and the simulation must notice each of these.
//!
//! Outside of tests nothing can be broken: `NodeConfig::has` is constantly false.

/// One rule of the protocol that the server breaks on purpose, in tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Flaw {
    /// A restarted participant takes only the exclusive locks of what it is in doubt about.
    ReadLocksNotRestored,
    /// A participant accepts keys whose range it has given to another server.
    KeysElsewhereAccepted,
    /// A range is given away while other transactions hold locks in it.
    FenceNotLocked,
    /// A restarted participant in doubt about a move lets others lock the range that it gives.
    FenceNotRestored,
    /// Two moves may change a server's map at the same time.
    MapNotLocked,
    /// A participant goes by the map that it was started with.
    MapNotChanged,
    /// A new server takes parts of transactions before all others know it.
    UnmetTakesParts,
    /// A new server takes the commits of clients before all others know it.
    UnmetCoordinates,
    /// A new server takes part in the epoch that it begins in, whatever epoch the others are in.
    UnmetInFirstEpoch,
    /// A participant votes before its `Ready` record is durable.
    VoteBeforeDurable,
    /// A client gets its answer, and participants the decision, before the `Commit` record is
    /// durable.
    AnswerBeforeDurable,
    /// A participant acknowledges a commit before it has logged it durably.
    AcknowledgeBeforeDurable,
    /// The acknowledgement service counts a transaction as complete before its participants
    /// acknowledged it.
    CompleteBeforeAcknowledged,
    /// The acknowledgement service counts a transaction as complete when the first participant
    /// acknowledges it.
    CompleteAtFirstAcknowledgement,
    /// An inquiry about a decided transaction is answered by what the acknowledgement service has
    /// heard so far.
    #[cfg(test)]
    InquiryDuringHandover,
    /// Numbers are given out again after a crash.
    NumbersReused,
    /// A participant promises a peer to abort, and does not log it.
    PromiseNotLogged,
    /// A participant takes no locks on what was read.
    ReadsNotLocked,
    /// A participant does not lock the ranges that were scanned.
    RangesNotLocked,
    /// A participant does not check versions.
    VersionsNotChecked,
    /// Reads that several servers validate are not refused when they are being changed.
    ValidationIgnoresLocks,
    /// Items that are validated by version alone are compared before the lock service has answered
    /// about it.
    ProbeAfterCheck,
    /// Absence is validated on several servers without locks that outlive a crash.
    AbsenceOnlyValidated,
    /// A participant takes everything up to the last number for complete, and ignores the
    /// exceptions in the message.
    ExceptionsIgnored,
    /// The log says of all transactions up to the last number that they are complete.
    ExceptionsNotLogged,
    /// A participant forgets that a transaction is complete where its coordinator, which has
    /// crashed since, does not say so any more.
    CompletenessForgotten,
    /// Validations are counted from 1 by each incarnation, under the same name.
    ValidationsRenamed,
    /// A prepare is accepted whatever the low-water mark.
    LatePrepareAccepted,
    /// Segments are removed before the storage has persisted what is in them.
    StorageNotPersisted,
    /// Segments are removed before the GC record is durable.
    GcRecordAfterRemoval,
    /// A repeated request of a client is carried out again.
    RequestRepeated,
    /// A participant unlocks before it has applied.
    UnlockBeforeApplied,
    /// An abort releases nothing while the lock service has not answered: the grant is still to
    /// come.
    AbortReleasesOnlyGranted,
    /// Decisions are sent once.
    DecisionsSentOnce,
    /// A participant takes its own epoch for the transaction's.
    EpochOfParticipant,
    /// A participant does not enter the epoch of a commit that it receives.
    EpochNotEntered,
    /// A server that makes a snapshot does not request the epochs of the others.
    EpochNotAsked,
    /// A restarted server begins with the epochs from the first one on.
    EpochsReused,
    /// A snapshot does not wait for what is accepted and not decided.
    SnapshotNotSettled,
    /// Commits are answered whether or not all servers are in their epoch, and the snapshot that
    /// this disturbs does not notice.
    SnapshotDisturbedUnnoticed,
    /// A snapshot that is disturbed, and confirmed after a later one, does not notice.
    SnapshotOvertakenUnnoticed,
    /// Parts of a validation may be looked at in different epochs.
    ValidationInTwoEpochs,
    /// A server that was restarted acts as if no client had ever had an answer of it.
    SnapshotOverRestart,
    /// Only epochs that snapshots begin with are reserved in the log, not those that commits bring
    /// along.
    EpochsNotReserved,
    /// A validation that has waited for locks has the epoch in which its request arrived.
    ValidationEpochOfArrival,
    /// A validation that has waited to see its keys free counts for the epoch of its grant,
    /// whenever it has seen each of them free.
    ValidationKeysInTwoEpochs,
    /// A participant says that reads are valid in an epoch which its log has not durably reserved.
    ValidationBeforeReserved,
    /// A server serves a snapshot as soon as it is in a later epoch, durably reserved or not.
    SnapshotServedUnreserved,
    /// A coordinator says of numbers that it has not given that their transactions are aborted.
    AnswersForLaterLives,
    /// A life says of any request that it does not know that it is not committed, whichever life it
    /// was made to.
    NotFoundOfLaterLives,
    /// A life says of any request that it does not know that it is not committed, however far back
    /// it knows commits.
    NotFoundOfForgotten,
    /// Younger transactions wait for older ones as long as older ones for younger.
    YoungerNeverGivesWay,
    /// A request for locks goes on waiting when its transaction is aborted.
    WaiterLeftAtAbort,
    /// The locks of a transaction are dropped with the connection to its coordinator.
    GoneDropsLocks,
    /// Transactions of a lost coordinator that wait leave one after the other: the next is granted
    /// what one leaves, and is refused after that.
    GoneLeaveOneByOne,
    /// Locks that are kept for another attempt are kept until it comes.
    KeptForEver,
    /// An operator decides what a server is in doubt about without a look at what the others have.
    #[cfg(test)]
    ResolvedUnseen,
    /// An operator decides by the logs, without a look at the items.
    #[cfg(test)]
    ResolvedByLogsOnly,
    /// An operator decides by the logs and by the first item that the transaction writes.
    #[cfg(test)]
    ResolvedByFirstItem,
    /// Another attempt takes the locks of the one before although they were not kept.
    UnkeptLocksTaken,
}
