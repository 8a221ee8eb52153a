//! Names of the steps of validation without reads, and the model under one plan. Which are
//! possible, and what they do, is in the files of the participants.

use super::plan::Plan;

/// The rules of validation under one plan.
#[derive(Clone, Debug)]
pub struct UnaskedModel {
    /// The plan, which is constant during an exploration.
    pub plan: Plan,
}

/// A change by the client itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Own {
    /// The decision of this transaction.
    Decision(usize),
    /// A plain write, by its index.
    Plain(usize),
}

/// A step of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The transaction that is validated begins.
    Begin,
    /// The transaction reads its next document; it misses the last decision, or does not.
    Read {
        /// True if the read misses the last decision.
        misses: bool,
    },
    /// The transaction locks its document.
    Lock,
    /// The validation of the transaction begins.
    Validate,
    /// The validation reads this document again.
    Ask(usize),
    /// The client sends a look.
    Look,
    /// The transaction sends its later look.
    LaterLook,
    /// The client looks up the collection of this document, and the server answers.
    LookUp(usize),
    /// The answer of the look-up arrives.
    Learn,
    /// The server reads the records for the look.
    LookAtRecords,
    /// The server looks for notices for the look.
    LookForNotices,
    /// The answer to the look at the change stamps arrives.
    AnswerLook,
    /// The client counts its change, and sends it.
    Send(Own),
    /// The server carries it out.
    CarryOut(Own),
    /// The answer to the client's own change arrives.
    Answer(Own),
    /// The finisher takes a decided transaction over.
    HandOver(usize),
    /// The client will never learn what becomes of its change.
    Lose(Own),
    /// The server decides the other client's next transaction.
    TheyDecide,
    /// The other client learns that.
    TheyKnow,
    /// The other client sends the notice that names this document.
    SendNotice(usize),
    /// The server inserts the notice.
    InsertNotice(usize),
    /// The server acknowledges the notice that names this document.
    AnswerNotice(usize),
    /// The other client says that the notice which names this document is over.
    EndNotice(usize),
    /// The server stores that the notice is over.
    CarryOutEnd(usize),
    /// The notice that names this document is removed.
    RemoveNotice(usize),
    /// The other client sends its next plain write.
    TheyWrite,
    /// The server carries out this plain write of the other client.
    TheirWrite(usize),
    /// The server removes this document by an index.
    Expire(usize),
    /// The server ends and starts again.
    Restart,
    /// One tick of time passes.
    Tick,
}
