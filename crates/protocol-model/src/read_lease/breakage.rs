//! Rules that a plan can break on purpose, each in one place of the model. A test expects the
//! checker to find a violation with each; an invariant that none of them violates proves nothing.

/// Rules that can be broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Breakage {
    /// The newcomer does not wait.
    NoWait,
    /// The newcomer waits for half of a lease.
    HalfWait,
    /// The newcomer waits for as long as a lease, without a margin for clocks.
    WaitWithoutMargin,
    /// The newcomer counts its wait from the sending of its insert, not from the answer.
    WaitFromSending,
    /// The newcomer looks for the flag only before it inserts its record.
    LookBeforeInsert,
    /// The newcomer takes no notice of flags in closed records.
    ClosedFlagsIgnored,
    /// A newcomer takes a flag away although its record is neither fenced nor closed.
    LivingUnflagged,
    /// The holder lists the records before its flag is written.
    FlagAfterList,
    /// The holder's list does not look at the holder's own record.
    OwnRecordUnchecked,
    /// The lease is counted from the list's answer, not from its sending.
    CountedFromAnswer,
    /// A list that was sent before the lease was dropped still counts.
    ListOutlivesDrop,
    /// A lease that has run out and is renewed later counts as one period.
    LapseKeepsPeriod,
    /// The flag is taken away before the lease is dropped.
    UnsetFirst,
    /// A flag is written although the command that takes away the one before was not answered.
    FlagBesideUnset,
    /// The answer of a query counts without a check.
    NoCheckAfter,
    /// The check of an answer takes no notice of the lease's period.
    PeriodIgnored,
    /// The check of an answer takes no notice of the server's process.
    ProcessNotCompared,
    /// A collection that was settled in an earlier process of the server counts as settled.
    NotSettledAgain,
    /// A collection counts as settled in the process that is known at the end, not at the
    /// beginning.
    SettledInLater,
    /// The holder's own transaction is registered when it is handed to the finisher, not before it
    /// is decided.
    RegisteredAtHandOver,
    /// The holder's own transaction is no longer registered as deciding before it is handed over.
    DroppedBeforeHandOver,
    /// The holder's own transaction counts as finished as soon as its first document is.
    FirstFinishEnds,
    /// Settling a collection leaves out what the holder remembers to have finished there, in
    /// whatever process of the server.
    SettleTrustsMemory,
    /// The lease is kept when the outcome of an own transaction stays unknown.
    UnknownKeepsLease,
}
