//! Names of the steps, and the model that takes them.

use super::plan::Plan;

/// Queries beside own transactions under one plan.
#[derive(Clone, Debug)]
pub struct BesideModel {
    /// The plan, which is constant during an exploration.
    pub plan: Plan,
}

/// A step of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The transaction locks its next document.
    Write(usize),
    /// The transaction begins to be decided.
    Begin(usize),
    /// The server commits the transaction.
    Decide(usize),
    /// The transaction is not committed.
    Refuse(usize),
    /// The client learns that the transaction is committed.
    Learn(usize),
    /// The finisher makes this document clean.
    Finish(usize),
    /// The query gets its permit, beside what is left.
    Permit,
    /// The query reads this document.
    Read(usize),
    /// The whole answer to the query has come.
    Answer,
    /// The query asks for the outcome of this transaction.
    Ask(usize),
    /// The query has all outcomes that it needs.
    HaveOutcomes,
    /// The query looks at what has begun to be decided meanwhile.
    Look,
    /// The query is believed, or not.
    Judge,
}
