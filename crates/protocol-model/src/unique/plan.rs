//! Plans of explorations: which documents, transactions and faults there are, and which rule is
//! broken. The breakages are in `breakage`, the plans that are explored in `tests/it/unique`.

use super::breakage::Breakage;

/// A value of the unique field.
pub type Value = u8;

/// The value of a document that has no such field. It has to be unique like any other.
pub const NULL: Value = 0;

/// One statement of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Makes document `.0` with the value `.1`.
    Insert(usize, Value),
    /// Gives document `.0` the value `.1`; finds nothing when it is not there.
    Update(usize, Value),
    /// Removes the document; finds nothing when it is not there.
    Remove(usize),
}

impl Op {
    /// Index of the document that it changes.
    pub fn doc(self) -> usize {
        match self {
            Self::Insert(doc, _) | Self::Update(doc, _) | Self::Remove(doc) => doc,
        }
    }

    /// The value that it writes; `None` for a removal.
    pub fn value(self) -> Option<Value> {
        match self {
            Self::Insert(_, value) | Self::Update(_, value) => Some(value),
            Self::Remove(_) => None,
        }
    }
}

/// End of a transaction that meets no fault and no conflict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum End {
    /// The transaction commits at its end.
    #[default]
    Commit,
    /// The transaction's user rolls it back.
    RollBack,
}

/// Form in which the first statements of a transaction are sent to the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sent {
    /// Each statement is a command of its own.
    #[default]
    Alone,
    /// Writes to different documents in one command, each with its question behind it; an update
    /// locks and copies its document, and then changes the copy.
    Together,
    /// As [`Sent::Together`], but an update locks its document and changes it in one statement.
    Fused,
}

/// Statements and end of a transaction.
#[derive(Clone, Debug, Default)]
pub struct TxPlan {
    /// Statements of the transaction, in their order.
    pub ops: Vec<Op>,
    /// Planned end of the transaction.
    pub end: End,
    /// True if the transaction survives a duplicate: the statement is taken back, and the next one
    /// follows.
    pub goes_on: bool,
    /// True if this is a write outside transactions, which takes the same steps unless that is
    /// broken on purpose.
    pub outside: bool,
    /// Form in which its first statements are sent.
    pub sent: Sent,
}

/// Budget of each kind of fault: the number of times that it may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// A transaction's client dies, at any step.
    pub deaths: u8,
    /// Roll-backs of a transaction by a rival, while its client lives and does not notice.
    pub aborts: u8,
}

/// The plan of one exploration.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Name of the plan, for messages.
    pub name: &'static str,
    /// The value of each document at the start, or that it is not there.
    pub docs: Vec<Option<Value>>,
    /// The transactions that run, by their index.
    pub txs: Vec<TxPlan>,
    /// Number of faults of each kind that may happen.
    pub faults: Faults,
    /// True if the janitor also repairs documents of decided transactions whose owners are about to
    /// clean them.
    pub eager_janitor: bool,
    /// True if no transaction blocks another, so that none may fail.
    pub must_commit: bool,
    /// The rule that is broken on purpose.
    pub breakage: Option<Breakage>,
}

impl Plan {
    /// Number of the first statements of a transaction that one command carries out: those of
    /// different documents, if they go together at all.
    pub fn together(&self, t: usize) -> usize {
        let TxPlan { ops, sent, .. } = &self.txs[t];
        let is_new = |at: &usize| !ops[..*at].iter().any(|op| op.doc() == ops[*at].doc());
        if *sent == Sent::Alone { 0 } else { (0..ops.len()).take_while(is_new).count() }
    }

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
