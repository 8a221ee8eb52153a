//! Deliberate breakages. Each must make the checker find a violation, but for those that the tests
//! name as not needed.

/// Rules that can be broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Breakage {
    /// The number of own changes is remembered after the first read, not before it.
    BaseAfterRead,
    /// The look of the beginning is the one that is remembered after the first read.
    LookAfterRead,
    /// The later look is sent before the last lock is acknowledged.
    LookBeforeLock,
    /// The client's own memory is read when the later look is sent, not when it is answered.
    MemoryAtSending,
    /// Documents that are taken for unchanged are not compared where others are read again.
    NotBesideAsked,
    /// One of several documents that are read again may be disturbed.
    OneOfSeveralDisturbed,
    /// Stamps of other clients are not compared for what is taken for unchanged.
    StampsIgnored,
    /// Connections that were begun are not noticed.
    ConnectionsIgnored,
    /// The first look may be of any age.
    AgeIgnored,
    /// A notice is found in the later look only.
    NoticeInLaterOnly,
    /// A notice is posted when the first plain write is answered.
    NoticeAfterWrite,
    /// A plain write is sent although its notice is not acknowledged.
    NoticeUnacknowledged,
    /// A plain write is sent under a notice that does not name its collection.
    NoticeOfAnother,
    /// A notice that is old is not posted again.
    NoticeNotRenewed,
    /// The age of a notice counts from its answer, not from its sending.
    NoticeAgeFromAnswer,
    /// A notice is removed when its client is shut down.
    NoticeRemovedAtShutdown,
    /// A notice is ended while a plain write is under way.
    EndedBeforeKnown,
    /// Plain writes are sent under a notice that was ended.
    EndForgotten,
    /// A notice that is over by the later look does not count.
    EndIgnored,
    /// The client uses what it knows of a collection, however early it has looked that up.
    CatalogFromBeforeEnd,
    /// Knowledge of a collection counts from the answer, not from the question.
    CatalogFromAnswer,
    /// Documents that the server may remove are taken for unchanged like any other.
    ExpiryIgnored,
    /// A plain write counts when it is answered, not from its sending.
    PlainFromAnswer,
    /// A plain write whose outcome is unknown does not count.
    UnknownPlainUncounted,
    /// A decision counts from its answer, not from its sending.
    DecisionFromAnswer,
    /// A decision does not count any more when it is answered, before the finisher has it.
    UncountedBeforeFinisher,
    /// A decision whose outcome is unknown does not count.
    UnknownDecisionUncounted,
    /// A read misses what is decided and not acknowledged.
    ReadsOfAcknowledged,
}
