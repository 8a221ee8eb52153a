//! Plans of explorations: the transactions and the faults that may happen.

use super::breakage::Breakage;

/// One statement of a transaction.
#[derive(Clone, Debug)]
pub enum Op {
    /// Reads these documents by their ids.
    Read(Vec<usize>),
    /// Adds the transaction's mark to a document, on top of the value that the transaction read
    /// there, if it has read the document.
    Write(usize),
    /// Removes the document with this index.
    Remove(usize),
}

/// Statements and level of a transaction.
#[derive(Clone, Debug, Default)]
pub struct TxPlan {
    /// Statements in their order, before the commit.
    pub ops: Vec<Op>,
    /// True if the transaction reads at repeatable read; otherwise it reads at read committed.
    pub repeatable: bool,
}

/// Budget of each kind of fault: the number of times that it may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// Roll-backs of a transaction that is not decided, by rivals: its number is aborted, or its
    /// client fenced.
    pub aborts: u8,
    /// The server restarts and loses a suffix of what is not journaled.
    pub restarts: u8,
}

/// The plan of one exploration.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Name of the plan in messages of tests.
    pub name: &'static str,
    /// Number of documents, all clean at the start.
    pub docs: usize,
    /// The transactions that run, by their index.
    pub txs: Vec<TxPlan>,
    /// Number of faults of each kind that may happen.
    pub faults: Faults,
    /// The rule that is broken on purpose.
    pub breakage: Option<Breakage>,
}

impl Plan {
    /// Returns true if this rule is broken on purpose.
    pub fn has(&self, breakage: Breakage) -> bool {
        self.breakage == Some(breakage)
    }

    /// Returns this plan with the rule broken.
    pub fn broken(mut self, breakage: Breakage) -> Self {
        self.breakage = Some(breakage);
        self
    }
}
