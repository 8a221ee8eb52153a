//! A state of the model: documents, statuses, transactions.

use protocol::{
    LockState, Repair, TxId, TxStatus,
    lock::{Encounter, meet_writer, visible_version},
};

use super::plan::{Faults, Plan};
use crate::server::{client_id, client_index};

/// The value of a document: one bit for each transaction whose write is in it.
pub type Marks = u8;

/// A stored document.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Doc {
    /// Is it there?
    pub stored: bool,
    /// The safe version.
    pub safe: Marks,
    /// The unsafe version; of a pending removal: the marks that it will leave behind (auxiliary).
    pub pending: Option<Marks>,
    /// The metadata.
    pub lock: LockState,
}

/// Where a transaction is: in the statement with the number `Run::op`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// About to begin the statement.
    Begin,
    /// About to select this one of the documents.
    Selecting(usize),
    /// About to read-lock this one, if no rival holds it.
    Locking(usize),
    /// Some were skipped: about to look at this one.
    Looking(usize),
    /// About to read this one.
    Reading(usize),
    /// About to lock and change the document.
    Writing,
    /// About to look whether the transaction lives, and to answer.
    Checking,
    /// About to commit.
    Committing,
    /// It is decided, as far as it knows.
    Over,
}

/// A transaction under way. The ids of all are known from the start.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// The step that the actor takes next.
    pub step: Step,
    /// The number of the statement.
    pub op: usize,
    /// The server process in which it took its first lock.
    pub boot: Option<u8>,
    /// Did the statement skip a document that it was to lock?
    pub skipped: bool,
    /// One bit for each statement that was to write and found no document.
    pub missed: u8,
    /// What the statement has seen of each document.
    pub found: Vec<Option<Marks>>,
    /// What was answered about each document, its own writes aside.
    pub seen: Vec<Option<Marks>>,
    /// Auxiliary: somebody else, or a restart, has removed a lock of it.
    pub robbed: bool,
    /// Auxiliary: the statement has read something after that.
    pub tainted: bool,
    /// Auxiliary: what was wrong with an answer.
    pub flaw: Option<Flaw>,
}

/// What is wrong with an answer or a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// A document was answered that is not what an earlier statement answered.
    Changed,
    /// A statement answered what it had read after a lock of its transaction was removed.
    Doomed,
    /// A transaction was committed though a document is not any more what it was answered.
    Unlocked,
    /// A write rests on a value that had changed.
    Outdated,
}

/// What a restart may lose.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Data {
    /// The documents.
    pub docs: Vec<Doc>,
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// What is in the server's memory.
    pub now: Data,
    /// If a restart is foreseen: what it will leave.
    pub journal_end: Option<Data>,
    /// How often the server was started, less one.
    pub boot: u8,
    /// The statuses, durable: whoever acts on one has made it so.
    pub statuses: Vec<TxStatus>,
    /// The transactions.
    pub runs: Vec<Run>,
    /// Budgets left.
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
    /// What `me` sees: its own version, or the latest committed one. `None` if it is not there.
    pub fn seen_by(&self, me: Option<TxId>, statuses: &[TxStatus]) -> Option<Marks> {
        let version = visible_version(&self.lock, me, |tx| statuses[run_of(tx)])?;
        match version {
            protocol::Version::Safe => self.stored.then_some(self.safe),
            protocol::Version::Unsafe => self.pending,
            protocol::Version::Absent => None,
        }
    }

    /// The marks of what is committed, those of what removed it included.
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

    /// Removes the locks of whoever is decided, except `me`. Answers whose it has removed.
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

    /// A status is decided, by a journaled write.
    pub fn decide(&mut self, t: usize, status: TxStatus) {
        self.statuses[t] = status;
        self.journal_end = None;
    }

    /// Removes the locks of whoever is decided from a document.
    pub fn clear(&mut self, doc: usize, me: Option<TxId>) {
        for tx in self.now.docs[doc].clear(me, &self.statuses) {
            self.runs[run_of(tx)].robbed = true;
        }
    }

    /// Is there a lock of somebody who is decided?
    pub fn is_left(&self, doc: usize) -> bool {
        self.now.docs[doc].holders().any(|tx| self.statuses[run_of(tx)] != TxStatus::Active)
    }

    /// The foreseen restart.
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
