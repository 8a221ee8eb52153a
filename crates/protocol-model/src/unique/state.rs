//! A state of the model of unique indexes: stored documents, runs of transactions, repairs under
//! way, and what was reported to users. The documents are in `documents`.

use protocol::TxStatus;

use super::{
    breakage::Breakage,
    documents::{Documents, Stored},
    plan::{Faults, Op, Plan, Value},
};

/// Why a transaction did not commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// The value is taken: a duplicate-key error.
    Duplicate,
    /// The `_id` was taken already.
    DuplicateId,
    /// A rival holds the document or the value.
    Conflict,
    /// The user rolled the transaction back.
    User,
    /// A rival rolled the transaction back.
    AbortedByRival,
}

/// The answer that a user got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reported {
    /// The transaction is committed; its user knows it.
    Committed,
    /// The transaction is not committed, for this reason.
    RolledBack(Why),
}

/// The part of a statement that is to be done, or done again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Lock and copy; for an insert, place.
    Lock,
    /// Place the new value, or remove.
    Change,
    /// After an insert, in the same command: count other documents with the value in a safe
    /// version, from this document on.
    Count(usize),
    /// Look for the value in safe versions, from this document on.
    Check(usize),
    /// Give the document its state from before the statement.
    TakeBack,
}

/// State of a repair under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mending {
    /// Index of the document to repair.
    pub doc: usize,
    /// The decided transaction that holds it.
    pub holder: usize,
    /// Finishing was refused: the slot is to be set first.
    pub slotting: bool,
}

/// Step of a transaction that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// About to do a part of its statement.
    Doing(Part),
    /// The mirrored index refused this value: about to search for its holder, and then to do the
    /// part again.
    Asking(Value, Part),
    /// Repairs a rival's document, and then does the part again.
    Mending(Mending, Part),
    /// All statements are done: about to commit or to roll back.
    Ending,
    /// Committed; with `true`, finishing was refused, and the slot is to be set first.
    Finishing(bool),
    /// A command of several statements has ended before it had carried out this one: about to give
    /// back the document of the second one, and of those behind it.
    GivingBack(usize, usize),
    /// Rolled back; about to undo.
    Undoing,
    /// The transaction is over, with nothing left to do.
    Over,
    /// The transaction's client has died.
    Dead,
}

/// State of a transaction that runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// Index of its present statement.
    pub op: usize,
    /// Present step of the transaction.
    pub step: Step,
    /// Outcome that was reported to the user.
    pub reported: Option<Reported>,
    /// The present statement's document as it was before the statement.
    pub before: Option<Stored>,
    /// True if the statement was refused and is taken back.
    pub back: bool,
    /// Number of the first statements that one command carries out, while it is under way; 0
    /// otherwise.
    pub together: usize,
    /// The first statement of this command that has matched nothing.
    pub missed: Option<usize>,
    /// Auxiliary: documents that the statements have changed, with their new values, in order.
    pub effects: Vec<(usize, Option<Value>)>,
    /// Auxiliary: whether the statement's value was in another document at some moment since the
    /// statement began, in a committed version or in the transaction's own view.
    pub witness: bool,
}

/// Faults that must not happen in any step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// A decided transaction's document could not be made clean, and there was nothing left to try.
    RepairRefused,
    /// A duplicate was answered where there was none.
    FalseDuplicate,
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The documents of the collection.
    pub documents: Documents,
    /// The outcome of each transaction.
    pub statuses: Vec<TxStatus>,
    /// State of each transaction, by its index.
    pub runs: Vec<Run>,
    /// Repair under way by the janitor, if there is one.
    pub janitor: Option<Mending>,
    /// Faults that may still happen.
    pub faults: Faults,
    /// Auxiliary: values of the documents as the committed transactions wrote them.
    pub truth: Vec<Option<Value>>,
    /// Auxiliary: whether a slot has been set so that a document can be finished.
    pub slotted: bool,
    /// Auxiliary: whether a statement has been refused as a duplicate.
    pub refused: bool,
    /// Auxiliary: whether a rival or the janitor has repaired a document.
    pub repaired: bool,
    /// Auxiliary: a fault that has happened.
    pub flaw: Option<Flaw>,
}

impl State {
    /// The state in which `plan` begins.
    pub fn new(plan: &Plan) -> Self {
        let mirror = !plan.has(super::Breakage::NoMirror);
        let docs = plan.docs.iter().map(|value| value.map(Stored::clean)).collect();
        let mut state = Self {
            documents: Documents { docs, mirror },
            statuses: vec![TxStatus::Active; plan.txs.len()],
            runs: (0..plan.txs.len()).map(|t| Run::new(plan, t)).collect(),
            janitor: None,
            faults: plan.faults,
            truth: plan.docs.clone(),
            slotted: false,
            refused: false,
            repaired: false,
            flaw: None,
        };
        state.observe(plan);
        state
    }

    /// Updates the auxiliary variables and ends runs without further steps, after every step of the
    /// model.
    pub fn observe(&mut self, plan: &Plan) {
        for t in 0..self.runs.len() {
            let is_left = self.documents.held_by(t).next().is_some();
            let Run { op, step, witness, .. } = self.runs[t];
            match step {
                Step::Finishing(_) | Step::Undoing if !is_left => self.runs[t].step = Step::Over,
                Step::Doing(_) | Step::Asking(..) | Step::Mending(..) if !witness => {
                    let op = plan.txs[t].ops[op];
                    self.runs[t].witness = op.value().is_some_and(|value| self.is_taken(t, op.doc(), value));
                }
                _ => {}
            }
        }
    }

    fn is_taken(&self, t: usize, doc: usize, value: Value) -> bool {
        let has = |other: usize, me| self.documents.visible(other, &self.statuses, me) == Some(value);
        let mut others = (0..self.documents.docs.len()).filter(|other| *other != doc);
        others.any(|other| has(other, None) || has(other, Some(t)))
    }

    /// Rolls a transaction back, unless it is decided.
    pub fn roll_back(&mut self, t: usize) {
        if self.statuses[t] == TxStatus::Active {
            self.statuses[t] = TxStatus::RolledBack;
        }
    }
}

impl Run {
    fn new(plan: &Plan, t: usize) -> Self {
        Self {
            op: 0,
            step: Self::first_step(plan),
            reported: None,
            before: None,
            back: false,
            together: plan.together(t),
            missed: None,
            effects: Vec::new(),
            witness: false,
        }
    }

    /// The step with which a statement begins.
    pub fn first_step(plan: &Plan) -> Step {
        let checks_first = plan.has(super::Breakage::CheckBeforePlacing);
        Step::Doing(if checks_first { Part::Check(0) } else { Part::Lock })
    }
}

/// The statement that the transaction is at.
pub(super) fn op(plan: &Plan, state: &State, t: usize) -> Op {
    plan.txs[t].ops[state.runs[t].op]
}

/// Returns true if the question behind a statement counts this document of others.
pub(super) fn counts(plan: &Plan, t: usize, op: Op, stored: &Stored) -> bool {
    let is_passed_by = match stored.holder() {
        Some(holder) if holder == t => !plan.has(Breakage::OwnSafeIsTaken),
        Some(_) => plan.has(Breakage::HeldAreNotCounted),
        None => false,
    };
    stored.safe == op.value() && !is_passed_by
}
