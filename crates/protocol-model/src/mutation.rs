//! Deliberate breakages. Each must make the checker find a violation: a model that cannot fail
//! proves nothing.

/// Rules that can be broken on purpose. The first group are rules that the protocol's description
/// states; the second are rules that this model showed to be needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutation {
    /// Repair as in lines 16-22 of figure 7 of paper 000: committed is undone, rolled back is
    /// finished.
    RepairSwapped,
    /// The safe phase of a query before the unsafe one (3.7).
    QuerySafeFirst,
    /// A record is removed while documents still carry its id (3.10).
    RecordRemovedEarly,
    /// A lock whose record is gone is taken for one of a committed transaction (3.10).
    MissingRecordMeansCommitted,
    /// The lock write stores the value of an earlier read (3.3).
    LockTrustsEarlierRead,
    /// The server applies record writes to a fenced record (3.10).
    FenceIgnored,
    /// Finished numbers leave `committed` above `low` (3.14).
    NumbersLeaveAboveLow,
    /// The decision follows the prepared writes at once: no stamp in between is demanded (3.13).
    NoEvidence,
    /// The connection epoch in which the evidence ran is not checked (3.13).
    EpochIgnored,
    /// A lock that is still there after its number was seen below `low` is finished (3.12).
    OrphanRolledForward,
    /// A reader reads the records before it fetches documents (3.2).
    StatusBeforeDocument,
    /// A lock write is sent twice (3.12).
    LockSentTwice,
    /// Of several lock writes sent together, one whose document was given back is taken for done.
    GivenBackTakenForDone,
    /// A statement that names several documents and has failed counts as one that has locked none.
    FailedStatementHoldsNothing,
    /// Of several lock writes in one statement, the first ones are taken for done, as many as have
    /// locked their documents.
    FirstOfHeldByNumber,
    /// Of several lock writes sent together, one that has locked its document is taken for done,
    /// although the server has refused the change.
    LockedTakenForChanged,
    /// A document is taken over from a transaction of the same client that is not decided yet.
    TakenOverUndecided,
    /// A transaction undoes only the documents whose locks were answered, although a lock write
    /// without an `_id` was not answered.
    UndoneByList,
    /// An answer behind a mark is accepted without the status of the writer.
    MarkIgnored,

    /// The connection epoch of finishing is read when the last document is finished, not before the
    /// first one.
    CleanEpochReadLate,
    /// `low` rises above a committed number as soon as its documents are finished.
    LowWithoutEvidence,
    /// The owner retires its record without demanding the last stamp.
    OwnerRetiresAnyRecord,
    /// A rival acts on a status that a restart can still undo.
    RepairTrustsVolatileStatus,
    /// After a lost answer, the owner acts on and reports the content of its record, whether that
    /// is durable or not.
    ExamineTrustsVolatileRecord,
    /// The sweep removes a record although the repairs that its pass found can still be lost.
    SweepTrustsVolatileRepairs,
    /// The sweep does not compare the connection epochs of its two barriers.
    SweepIgnoresEpoch,
    /// The sweep does not check at its first barrier whether the record is still fenced.
    SweepTrustsEarlierFence,
    /// The owner takes "indeterminate" for "rolled back".
    OwnerTrustsMissingRecord,
    /// A reader that finds no record takes it for "rolled back", instead of fetching the document
    /// again.
    ReaderTrustsMissingRecord,
    /// The sweep passes over the collections that the record listed before it was fenced.
    SweepListBeforeFence,
    /// A transaction goes on although its own message that takes back one of its locks may still
    /// arrive.
    TakeBackNotInDoubt,
    /// Finishing overwrites any document with the `_id` by the remembered value, held or not.
    FinishFromMemory,
    /// A client takes a record that it does not find for a removed one, though the holder keeps its
    /// records in another tx database.
    ForeignMeansDead,
    /// A transaction requests its commit without a last look at documents that may expire.
    NotOutlived,
    /// The last look at documents that may expire comes before the last lock.
    OutlivedTooEarly,
    /// The last look only counts the documents held, and leaves expired safe versions where the TTL
    /// monitor finds them.
    ExpiredLeftInPlace,
    /// The last look removes expired safe versions, and does not count the documents held.
    GoneUncounted,
    /// The TTL index also holds locked documents.
    ExpiryFindsLocked,
    /// A repair is conditional on the holder alone, and takes from an earlier fetch whether the
    /// document waits to be inserted.
    RepairTrustsEarlierLook,
    /// A write outside transactions stores reserved fields.
    ReservedStored,
    /// The owner holds transactions back although their decision was not answered and may still
    /// arrive.
    HeldUnanswered,
    /// A document that is to be finished leaves the list when a later transaction of the client has
    /// *sent* a lock write that takes it over.
    DelistedEarly,
    /// A document that is to be finished leaves the list when that lock write was answered.
    DelistedAtTakeOver,
    /// A document that is to be finished leaves the list when the finish was sent.
    DelistedUnanswered,

    /// A transaction uses the number of a connection that is open but has not been answered.
    OpenConnectionTaken,
    /// A write that is bound to a lost connection is sent over the next one, because a lower layer
    /// connects again.
    DialsBelow,
    /// A write that was bound to a connection and not answered is sent again over the next one.
    BoundSentAgain,
    /// A write that was bound to a connection, was not answered, and is not in the record, is
    /// reported as rolled back at once.
    NoBarrier,
}
