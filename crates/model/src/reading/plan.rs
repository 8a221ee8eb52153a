//! What one exploration contains: the transactions and the faults that may happen.

use super::breakage::Breakage;

/// One statement of a transaction.
#[derive(Clone, Debug)]
pub enum Op {
    /// Reads these documents.
    Read(Vec<usize>),
    /// Changes a document: to what the transaction read there, if it has read it, with its own mark.
    Write(usize),
    /// Removes a document.
    Remove(usize),
}

/// A transaction.
#[derive(Clone, Debug, Default)]
pub struct TxPlan {
    /// Its statements, in their order; then it commits.
    pub ops: Vec<Op>,
    /// Does it read at repeatable read? Otherwise at read committed.
    pub repeatable: bool,
}

/// How often each fault may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// Somebody rolls back a transaction that is not decided: its number is killed, or its client fenced.
    pub kills: u8,
    /// The server restarts and loses a suffix of what is not journaled.
    pub restarts: u8,
}

/// One exploration.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Name of the plan in messages of tests.
    pub name: &'static str,
    /// How many documents there are, all clean at the start.
    pub docs: usize,
    /// The transactions.
    pub txs: Vec<TxPlan>,
    /// Budgets.
    pub faults: Faults,
    /// What is broken on purpose.
    pub breakage: Option<Breakage>,
}

impl Plan {
    /// Is this broken on purpose?
    pub fn has(&self, breakage: Breakage) -> bool {
        self.breakage == Some(breakage)
    }

    /// The same plan with something broken.
    pub fn broken(mut self, breakage: Breakage) -> Self {
        self.breakage = Some(breakage);
        self
    }
}
