//! Names of the steps of the read lease, and the model under one plan. Which are possible, and what
//! they do, is in the files of the participants.

use super::{plan::Plan, state::Message};

/// The read lease under one plan.
#[derive(Clone, Debug)]
pub struct ReadLeaseModel {
    /// The plan, which is constant during an exploration.
    pub plan: Plan,
}

/// A command to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// The holder writes the flag.
    Flag,
    /// The holder lists the open records.
    List,
    /// The holder takes the flag away.
    Unset,
    /// The holder looks for pending documents of a collection, and finishes them.
    Settle(usize),
    /// A plain query of a collection by the holder.
    Query(usize),
    /// The decision of the holder's own transaction.
    Decision,
    /// The holder finishes a document of its own transaction.
    Finish,
    /// The newcomer inserts its record.
    Insert,
    /// The newcomer looks for the flag.
    Look,
    /// The newcomer takes the flag away.
    Unflag,
    /// The decision of the newcomer's transaction.
    TheirDecision,
}

/// A step of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The holder or the newcomer sends a command.
    Send(Command),
    /// The server carries a command out.
    CarryOut(Command),
    /// The client takes notice of the answer.
    Answer(Command),
    /// The holder drops its lease because no query uses it.
    Drop,
    /// The holder does not wait for the answer of `Unset`.
    ForgetUnset,
    /// The server carries that command out.
    LateUnset,
    /// The holder's transaction is registered as deciding.
    Register,
    /// The answer to the decision of the holder's transaction is lost.
    LoseAnswer,
    /// The holder's transaction is handed over to the finisher.
    HandOver,
    /// The newcomer has waited long enough.
    StopWaiting,
    /// The server carries out `Unflag` of a newcomer that is gone.
    LateUnflag,
    /// The newcomer's document is finished.
    FinishTheirs,
    /// The newcomer's record is closed.
    CloseTheirs,
    /// The holder's record is fenced.
    Fence,
    /// The holder's record is closed.
    CloseOwn,
    /// The server starts again, and these documents are not finished any more: the two of the
    /// holder's transaction, and the newcomer's.
    Restart([bool; 3]),
    /// The holder's users read a document of a decided transaction by its `_id`.
    ReadById(usize),
    /// One tick of real time passes.
    Tick,
    /// A tick that the holder's clock misses.
    MissTick,
}

impl Message {
    /// The next step of a command that is under way.
    pub fn step(self, command: Command) -> Action {
        match self {
            Self::Sent => Action::CarryOut(command),
            Self::Done => Action::Answer(command),
        }
    }
}
