//! A transaction under way: its statement, its writes, and the entries of its reads.

use super::{
    command::Command,
    plan::{Plan, Stamps},
    query::{Docs, Query, Written},
};

/// The purpose for which entries are run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Goal {
    /// The entry with this number becomes one of the documents that the transaction has not
    /// written.
    Convert(usize),
    /// Validation that compares the change stamps of two looks.
    Validate,
    /// Validation of at most one document that is not held, which needs no looks.
    Once,
    /// Validation behind a write, ahead of the commit.
    Ahead,
}

/// State of a transaction in the statement with the number `Run::op`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// About to begin the statement.
    Begin,
    /// The statement, or its selection, is being read.
    Reading,
    /// About to lock and change the first of `Run::to_lock`.
    Locking,
    /// Asking one record after the other for quiet.
    Asking,
    /// Looks, and entries that are run again.
    Bracket(Goal),
    /// At serializable: waiting for these active rivals.
    Waiting(u8),
    /// About to write its evidence.
    Proving,
    /// About to decide the transaction.
    Deciding,
    /// The decision is sent, but not acknowledged.
    Decided,
    /// Broken on purpose: about to set the stamps.
    Stamping,
    /// The transaction is committed or rolled back.
    Over,
}

/// A read that the transaction remembers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The read, of documents that the transaction did not hold.
    pub query: Query,
    /// True if the answer includes the transaction's own writes.
    pub own: bool,
    /// Documents that the read has answered.
    pub result: Docs,
    /// True if the read has met a rival's lock.
    pub met: bool,
}

impl Entry {
    /// Documents that the answer depends on.
    pub fn docs(&self) -> Docs {
        self.query.depends_on(self.result)
    }

    /// Returns true if the answer depends on one document alone.
    pub fn is_of_one(&self) -> bool {
        self.query.is_of_one(self.result)
    }
}

/// Auxiliary: an answer that the transaction was given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Answer {
    /// Query that the statement has run.
    pub query: Query,
    /// Writes of the transaction up to then.
    pub own: Written,
    /// Documents that the statement has answered.
    pub result: Docs,
}

/// State of a transaction that runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// The step that it takes next.
    pub step: Step,
    /// Index of the present statement.
    pub op: usize,
    /// Server process in which the transaction began.
    pub boot: u8,
    /// The read that is running.
    pub command: Option<Command>,
    /// One bit for each document that the statement has still to lock.
    pub to_lock: u8,
    /// Documents that the transaction has written, with their values.
    pub own: Written,
    /// Reads that the transaction remembers.
    pub entries: Vec<Entry>,
    /// The two looks: the stamps of one record after the other.
    pub looks: [Vec<Stamps>; 2],
    /// The server process of the first look.
    pub look_boot: u8,
    /// The entry that is run again next.
    pub next: usize,
    /// The answer of the others' part of an entry that is converted.
    pub part: Docs,
    /// Rivals that were found active (remembered only if that is broken on purpose).
    pub known: u8,
    /// True if it was validated before its last write, which happens only if that is broken on
    /// purpose.
    pub early: bool,
    /// True if a write has been sent with reads behind it, which come next.
    pub asks_ahead: bool,
    /// True if all was valid behind its last write, and nothing was read since.
    pub is_valid_ahead: bool,
    /// True if it was decided on the reads ahead of the commit.
    pub rests_on_ahead: bool,
    /// True if its looks have differed.
    pub disturbed: bool,
    /// True if it has requested quiet in all records.
    pub has_asked: bool,
    /// Active rivals that were met in this round and not waited for.
    pub met: u8,
    /// One bit for each client in whose record its second look has found its own quiet.
    pub asked: u8,
    /// The quiet that was known to be over when its validation began.
    pub heard: Option<usize>,
    /// True if it was valid beside active rivals.
    pub has_passed_by: bool,
    /// True if its decision was refused, so that it was validated again.
    pub was_refused: bool,
    /// The transaction's stamp, once it has one.
    pub stamp: u8,
    /// Auxiliary: the transactions that had ended before it began.
    pub before: u8,
    /// Auxiliary: the moment of its last lock; without locks, of its beginning.
    pub locked_at: usize,
    /// Auxiliary: answers that the transaction got.
    pub answers: Vec<Answer>,
}

impl Run {
    /// The transaction before it begins.
    pub fn new(plan: &Plan, t: usize) -> Self {
        Self {
            step: if plan.txs[t].ops.is_empty() { Step::Over } else { Step::Begin },
            op: 0,
            boot: 0,
            command: None,
            to_lock: 0,
            own: Written::default(),
            entries: Vec::new(),
            looks: [Vec::new(), Vec::new()],
            look_boot: 0,
            next: 0,
            part: 0,
            known: 0,
            early: false,
            asks_ahead: false,
            is_valid_ahead: false,
            rests_on_ahead: false,
            disturbed: false,
            has_asked: false,
            met: 0,
            asked: 0,
            heard: None,
            has_passed_by: false,
            was_refused: false,
            stamp: 0,
            before: 0,
            locked_at: 0,
            answers: Vec::new(),
        }
    }

    /// Notes an answer for the judges.
    pub fn note_answer(&mut self, query: Query, result: Docs) {
        self.answers.push(Answer { query, own: self.own, result });
    }

    /// Clears the fields that only a transaction under way needs.
    pub fn forget(&mut self) {
        self.entries.clear();
        self.looks = [Vec::new(), Vec::new()];
        (self.command, self.to_lock, self.next, self.part, self.known) = (None, 0, 0, 0, 0);
        (self.look_boot, self.boot, self.op) = (0, 0, 0);
        (self.met, self.asked, self.heard) = (0, 0, None);
        (self.asks_ahead, self.is_valid_ahead) = (false, false);
    }
}
