//! Rules that a plan can break on purpose, each in one place of the model. A test expects the
//! checker to find a violation with each; an invariant that none of them violates proves nothing.

/// Rules that can be broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Breakage {
    /// The check runs before the value is placed.
    CheckBeforePlacing,
    /// Values are not checked against committed ones.
    NoCheck,
    /// The count that an insert takes along leaves out documents that others hold, and not only
    /// those that the transaction itself holds.
    HeldAreNotCounted,
    /// A document that an insert's count has found is called a duplicate, without a read of its
    /// holder's status.
    CountedIsDuplicate,
    /// Of a command of several statements: a statement is taken for done although its question has
    /// found another document.
    AskedIsDone,
    /// Of a command of several statements: the questions of all stand behind the last statement.
    AskedAtTheEnd,
    /// Of a command of several statements: what stands behind the first one that was not carried
    /// out is given back, and taken for done.
    GivenBackIsDone,
    /// There is no mirrored index.
    NoMirror,
    /// A document that only waits to be inserted has no slot.
    NoSlotOnInserts,
    /// The slot is not set when finishing is refused.
    NoSlotAtFinishing,
    /// A rival that repairs does not set the slot when finishing is refused.
    RivalSetsNoSlot,
    /// When finishing is refused, the slot is set on that document only, not on all of the
    /// transaction.
    SlotOnOneOnly,
    /// A finished document keeps its slot.
    FinishKeepsSlot,
    /// The check takes the safe value of a document that an active rival holds for free.
    ActiveRivalIsFree,
    /// The check takes the safe value of a document that a decided rival holds for free, instead of
    /// repairing it.
    DecidedRivalIsFree,
    /// The check takes the safe value of a document that the transaction itself holds for taken.
    OwnSafeIsTaken,
    /// Every write that the mirrored index refuses is called a duplicate, without a search for the
    /// holder of the value.
    RefusedIsDuplicate,
    /// A statement that is refused as a duplicate leaves its placed value, and the transaction goes
    /// on.
    RefusedStays,
    /// A statement is taken back without a check of the value that becomes pending again.
    TakenBackUnchecked,
    /// A write outside a transaction relies on the user's index alone.
    OutsideTrustsUserIndex,
}
