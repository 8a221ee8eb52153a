//! A state of the model of reading: documents with their locks, statuses of transactions, and where
//! each transaction is. The steps are in `statement` and `writing`.

use protocol::{
    LockState, Repair, TxId, TxStatus,
    lock::{Encounter, meet_writer, visible_version},
};

use super::plan::{Faults, Plan};
use crate::server::{client_id, client_index};

/// The value of a document: one bit for each transaction whose write is in it.
pub type Marks = u8;

/// A document as the server stores it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Doc {
    /// True if the document exists.
    pub stored: bool,
    /// Marks of the safe version.
    pub safe: Marks,
    /// The unsafe version; of a pending removal: the marks that it will leave behind (auxiliary).
    pub pending: Option<Marks>,
    /// Read and write locks on the document.
    pub lock: LockState,
}

/// State of a transaction in the statement with the number `Run::op`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// About to begin the statement.
    Begin,
    /// About to select this document.
    Selecting(usize),
    /// About to read-lock this document, if no rival holds it.
    Locking(usize),
    /// The update has skipped documents: about to look at this one.
    Looking(usize),
    /// About to read this document.
    Reading(usize),
    /// About to lock and change the document.
    Writing,
    /// About to check whether the transaction lives, and to answer.
    Checking,
    /// About to commit the transaction.
    Committing,
    /// The transaction is decided, as far as it knows.
    Over,
}

/// A transaction under way. The ids of all are known from the start.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// The step that the actor takes next.
    pub step: Step,
    /// Index of the present statement.
    pub op: usize,
    /// Server process in which the transaction took its first lock.
    pub boot: Option<u8>,
    /// True if the statement skipped a document that it should have locked.
    pub skipped: bool,
    /// One bit for each statement that was to write and found no document.
    pub missed: u8,
    /// Marks that the statement has seen in each document.
    pub found: Vec<Option<Marks>>,
    /// Marks that were answered for each document, without the transaction's own writes.
    pub seen: Vec<Option<Marks>>,
    /// Auxiliary: whether a rival, or a restart, has removed one of its locks.
    pub robbed: bool,
    /// Auxiliary: whether the statement has read a document after that.
    pub tainted: bool,
    /// Auxiliary: what was wrong with an answer.
    pub flaw: Option<Flaw>,
}

/// Ways in which an answer or a decision can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// A statement answered another value of a document than an earlier statement.
    Changed,
    /// A statement answered with a value that it read after a lock of its transaction was removed.
    Doomed,
    /// A transaction was committed although a document had changed since its answer.
    Unlocked,
    /// A write rests on a value that had changed.
    Outdated,
}

/// Data that a restart may lose.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Data {
    /// The stored documents, by their index.
    pub docs: Vec<Doc>,
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// Content of the server's memory.
    pub now: Data,
    /// Data that the foreseen restart will leave; `None` if no restart is foreseen.
    pub journal_end: Option<Data>,
    /// Number of restarts of the server.
    pub boot: u8,
    /// Statuses of the transactions. They are durable: every client makes a status durable before
    /// it acts on it.
    pub statuses: Vec<TxStatus>,
    /// State of each transaction, by its index.
    pub runs: Vec<Run>,
    /// Faults that may still happen.
    pub faults: Faults,
}

/// The id of a transaction: each has a client of its own.
pub fn tx_id(t: usize) -> TxId {
    TxId { client: client_id(t), seq: 1 }
}

/// The transaction with this id.
pub fn run_of(tx: TxId) -> usize {
    client_index(tx.client)
}

impl Doc {
    /// Marks that `me` sees: of its own version, or of the latest committed one. `None` if the
    /// document does not exist.
    pub fn seen_by(&self, me: Option<TxId>, statuses: &[TxStatus]) -> Option<Marks> {
        let version = visible_version(&self.lock, me, |tx| statuses[run_of(tx)])?;
        match version {
            protocol::Version::Safe => self.stored.then_some(self.safe),
            protocol::Version::Unsafe => self.pending,
            protocol::Version::Absent => None,
        }
    }

    /// Marks of the committed transactions, with that of a committed removal.
    pub fn committed(&self, statuses: &[TxStatus]) -> Marks {
        let finished = self.lock.writer.is_some_and(|tx| statuses[run_of(tx)] == TxStatus::Committed);
        if finished { self.pending.unwrap_or(self.safe) } else { self.safe }
    }

    fn repair(&mut self, repair: Repair) {
        match repair {
            Repair::ReplaceWithUnsafe => self.safe = self.pending.unwrap_or(self.safe),
            Repair::Delete => {
                self.safe = self.pending.unwrap_or(self.safe);
                self.stored = false;
            }
            Repair::DropUnsafe => {}
        }
        self.pending = None;
        self.lock = LockState::default();
    }

    /// Removes the locks of decided transactions, except `me`. Returns the transactions whose locks
    /// it has removed.
    pub fn clear(&mut self, me: Option<TxId>, statuses: &[TxStatus]) -> Vec<TxId> {
        let mut cleared = Vec::new();
        if let Some(writer) = self.lock.writer.filter(|writer| Some(*writer) != me)
            && let Encounter::Repair(repair) = meet_writer(&self.lock, statuses[run_of(writer)])
        {
            let readers = std::mem::take(&mut self.lock.readers);
            self.repair(repair);
            self.lock.readers = readers;
            cleared.push(writer);
        }
        let is_dead = |tx: &TxId| Some(*tx) != me && statuses[run_of(*tx)] != TxStatus::Active;
        cleared.extend(self.lock.readers.iter().copied().filter(is_dead));
        self.lock.readers.retain(|tx| !is_dead(tx));
        cleared
    }

    fn holders(&self) -> impl Iterator<Item = TxId> {
        self.lock.writer.into_iter().chain(self.lock.readers.iter().copied())
    }
}

impl State {
    /// The state in which `plan` begins.
    pub fn new(plan: &Plan) -> Self {
        let doc = Doc { stored: true, safe: 0, pending: None, lock: LockState::default() };
        let run = Run {
            step: Step::Begin,
            op: 0,
            boot: None,
            skipped: false,
            missed: 0,
            found: vec![None; plan.docs],
            seen: vec![None; plan.docs],
            robbed: false,
            tainted: false,
            flaw: None,
        };
        Self {
            now: Data { docs: vec![doc; plan.docs] },
            journal_end: None,
            boot: 0,
            statuses: vec![TxStatus::Active; plan.txs.len()],
            runs: vec![run; plan.txs.len()],
            faults: plan.faults,
        }
    }

    /// Decides a status by a journaled write.
    pub fn decide(&mut self, t: usize, status: TxStatus) {
        self.statuses[t] = status;
        self.journal_end = None;
    }

    /// Removes the locks of decided transactions from a document.
    pub fn clear(&mut self, doc: usize, me: Option<TxId>) {
        for tx in self.now.docs[doc].clear(me, &self.statuses) {
            self.runs[run_of(tx)].robbed = true;
        }
    }

    /// Returns true if the document has a lock of a decided transaction.
    pub fn is_left(&self, doc: usize) -> bool {
        self.now.docs[doc].holders().any(|tx| self.statuses[run_of(tx)] != TxStatus::Active)
    }

    /// Ends a transaction that its own client or a rival rolls back.
    pub fn roll_back(&mut self, t: usize) {
        if self.statuses[t] == TxStatus::Active {
            self.statuses[t] = TxStatus::RolledBack;
        }
        self.runs[t].step = Step::Over;
    }

    /// Restarts the server as foreseen.
    pub fn restart(&mut self) {
        let Some(data) = self.journal_end.take() else { return };
        for (before, after) in self.now.docs.iter().zip(&data.docs) {
            for tx in before.holders().filter(|tx| !after.holders().any(|other| other == *tx)) {
                self.runs[run_of(tx)].robbed = true;
            }
        }
        self.now = data;
        self.boot += 1;
        self.faults.restarts -= 1;
    }
}
