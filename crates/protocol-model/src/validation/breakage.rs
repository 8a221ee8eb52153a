//! Rules that a plan can break on purpose, each in one place of the model. A test expects the
//! checker to find a violation with each; an invariant that none of them violates proves nothing.

/// Rules that can be broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Breakage {
    /// Validation compares answers and never looks at the stamps.
    NoLooks,
    /// Validation looks before it runs the entries again, and not afterwards.
    OneLook,
    /// The first look is sent after the first entry was run again.
    FirstLookLate,
    /// The second look is sent before the last entry is run again.
    SecondLookEarly,
    /// The stamps are set by a write of their own, after the decision.
    StampsAfterDecision,
    /// The decision sets the stamp of one of the collections that were written, not of all.
    OneCollectionStamped,
    /// One write decides several transactions and sets the stamps of the first one only.
    OneOfSeveralStamped,
    /// A stamp is used again, for another content.
    StampUsedTwice,
    /// The two looks may be of different server processes.
    EpochIgnored,
    /// Several documents that are read by their `_id`s may be disturbed.
    SeveralDisturbed,
    /// A scan may be disturbed, if nothing else is.
    ScanDisturbed,
    /// Two looks, at safe versions and at pending ones, are taken as proof that no document has a
    /// key.
    NothingByKeyConcluded,
    /// Only the stamps of what was found are compared, also where others could match besides.
    ScanComparedAsKeys,
    /// A decision is noted in the client's remembered look before it is acknowledged.
    KnownBeforeDecided,
    /// The client's own record is left out when looks are compared, though looks are remembered.
    OwnRecordIgnored,
    /// The selection of an update of many documents leaves no entry.
    PredicateWriteWithoutEntry,
    /// A write that matched no document leaves no entry.
    NoMatchWithoutEntry,
    /// An insert that met a duplicate leaves no entry.
    DuplicateWithoutEntry,
    /// The entry of a duplicate is kept although the document was gone when the entry was read.
    DuplicateUnconfirmed,
    /// An update of many documents passes over a document that does not match any more when it is
    /// to be locked.
    UnmatchedPassedOver,
    /// A read-only transaction that read several documents by their `_id`s is not validated.
    SeveralExempt,
    /// Several documents that are read by their `_id`s and not held are read again once, without
    /// looks.
    SeveralReadAgainOnce,
    /// A read-only transaction of one scan is not validated.
    ScanExempt,
    /// Read-only transactions are not validated.
    ReadOnlyExempt,
    /// At serializable, one document that was locked when it was read is exempt.
    LockedExempt,
    /// The lock of a document that was read is taken without a comparison, and the entry is
    /// dropped.
    NoComparisonUnderLock,
    /// Every entry is run again as the transaction sees it, its later writes included.
    OwnViewAgain,
    /// An entry of the own view is converted by an own view that is read before the documents of
    /// others.
    OwnViewFirst,
    /// Entries of the own view are converted without looks.
    ConvertedWithoutLooks,
    /// Validation comes before the last write.
    ValidatedBeforeLastLock,
    /// Reads that were sent ahead of the commit count although the transaction has read since.
    AheadOfARead,
    /// Reads that were sent ahead of the commit count although the transaction has written since.
    AheadOfAWrite,
    /// Stamps that the client has acknowledged since the insert count as known before the reads
    /// behind it.
    AheadKnownLate,
    /// There is no look behind the reads that are sent ahead of the commit.
    AheadWithOneLook,
    /// Reads that were sent ahead of the commit count although an answer was another one.
    AheadUncompared,
    /// The decision does not wait for the last entry's answer.
    LastAnswerIgnored,
    /// A rival that was once active counts as active when entries are run again.
    StatusRemembered,
    /// A document by its `_id` is answered in the unsafe version that was fetched before its writer
    /// was decided.
    EarlierVersionMapped,
    /// A scan looks for pending documents after it has read the safe versions.
    ProbeAfterScan,
    /// At serializable, active rivals are ignored.
    RivalsIgnored,
    /// At serializable every transaction waits for active rivals, the younger ones, too.
    NoOrderOfAges,
    /// Decisions heed quiet while it stands, and no transaction is validated again.
    NotValidatedAgain,
    /// Rivals are passed by although the quiet in their records may be gone.
    QuietNotLookedAt,
    /// Quiet that still stands when a validation begins counts as over.
    HeardWhileItStands,
    /// Quiet that is over when a validation ends counts as over when it began.
    HeardAfterwards,
    /// Quiet in other collections replaces quiet that the owner has not heard of, as if there had
    /// been none.
    QuietForgotten,
    /// At serializable, one document may be disturbed although rivals of others were looked for
    /// before it.
    DisturbedAfterRivals,
    /// A request for quiet does not wait for the journal.
    QuietUnjournaled,
    /// Quiet is requested in only one of the collections that were read.
    QuietOfOneCollection,
    /// Younger transactions wait for write locks, too.
    LockWaitsWithoutAges,
}
