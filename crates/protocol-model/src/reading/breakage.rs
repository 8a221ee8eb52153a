//! Rules that a plan can break on purpose, each in one place of the model. A test expects the
//! checker to find a violation with each; an invariant that none of them violates proves nothing.

/// Rules that can be broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Breakage {
    /// A document that the update of many documents skipped counts as removed as soon as no rival
    /// holds it. It is part of the answer all the same, and not locked.
    TakenForRemoved,
    /// A statement answers with the values that it saw when it selected, before its locks.
    SelectionAnswers,
    /// A document whose read lock was removed may be written by the transaction that had taken it.
    LostReadLockPasses,
    /// A transaction takes the write lock of a document that others have read-locked.
    ReadersIgnored,
    /// Statements do not check whether their transaction lives; only the commit does.
    DoomedAnswers,
    /// A statement checks whether its transaction lives before it reads, not afterwards.
    CheckedBeforeReading,
    /// A statement checks the status of its transaction, not the server process that answers.
    RestartUnnoticed,
}
