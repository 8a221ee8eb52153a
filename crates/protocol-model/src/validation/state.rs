//! A state of the model: documents, records, and the history of decisions.

use protocol::{
    LockState, Repair, TxId, TxStatus, Version,
    lock::{Encounter, meet_writer, visible_version},
};

use super::{
    command::Command,
    plan::{Plan, Stamps},
    query::{ABSENT, ANY, Docs, Values, Written, value, with},
    transaction::{Run, Step},
};
use crate::server::client_id;

/// A document as the server stores it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Doc {
    /// The value of the safe version; `ABSENT`: there is none.
    pub safe: Values,
    /// The holder of the write lock, and the value of the unsafe version; `ABSENT`: the holder
    /// removes the document.
    pub pending: Option<(usize, Values)>,
}

/// The quiet that a record describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quiet {
    /// The transaction that has set it.
    pub by: usize,
    /// One bit for each collection in which nothing is to be decided.
    pub tags: u8,
    /// True if the quiet has ended.
    pub is_over: bool,
    /// Transaction whose quiet this one has replaced in the record.
    pub before: Option<usize>,
}

/// The record of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Record {
    /// One bit for each transaction that is committed.
    pub committed: u8,
    /// For each collection, or each document, the stamp of the last write that decided a change of
    /// it; 0: none.
    pub changes: Stamps,
    /// The quiet that was set last.
    pub quiet: Option<Quiet>,
}

/// A look that a client remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Memory {
    /// The stamps of one record after the other.
    pub look: Vec<Stamps>,
    /// The server process that answered.
    pub boot: u8,
    /// The stamps that the client's own record has acknowledged.
    pub own: Stamps,
    /// True if another transaction of the client has looked since.
    pub looked: bool,
}

/// Auxiliary: one moment of the history of decisions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Moment {
    /// Committed versions at that moment.
    pub docs: Docs,
    /// The documents that the decision wrote.
    pub wrote: Docs,
}

/// Data that a restart may lose.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Data {
    /// The stored documents, by their index.
    pub docs: Vec<Doc>,
    /// The records, one for each client.
    pub records: Vec<Record>,
    /// Auxiliary: the committed versions after each decision.
    pub history: Vec<Moment>,
}

/// Ways in which a committed transaction can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// There is no moment at which all answers of the transaction are true.
    NoMoment,
    /// A write of another transaction is lost.
    LostUpdate,
    /// The committed transactions have no serial order.
    NoOrder,
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
    /// Restarts that may still happen.
    pub restarts: u8,
    /// One bit for each single write that has happened.
    pub directs: u8,
    /// One bit for each transaction that is rolled back.
    pub rolled_back: u8,
    /// One bit for each transaction whose commit was acknowledged.
    pub committed: u8,
    /// State of each transaction, by its index.
    pub runs: Vec<Run>,
    /// Stamps that each client remembers (only if the plan says so).
    pub memories: Vec<Memory>,
    /// For each client the last quiet in its record that it knows to be over.
    pub heard: Vec<Option<usize>>,
    /// Auxiliary: a fault that has happened.
    pub flaw: Option<Flaw>,
}

/// The id of a transaction.
pub fn tx_id(t: usize) -> TxId {
    TxId { client: client_id(t), seq: 1 }
}

impl Doc {
    fn lock(&self) -> LockState {
        let Some((t, pending)) = self.pending else { return LockState::default() };
        let (insert, remove) = (self.safe == ABSENT, pending == ABSENT);
        LockState { writer: Some(tx_id(t)), insert, remove, ..LockState::default() }
    }

    /// The value that `me` sees if the writer has this status.
    pub fn seen_by(&self, me: Option<usize>, status: TxStatus) -> Values {
        match (visible_version(&self.lock(), me.map(tx_id), |_| status), self.pending) {
            (Some(Version::Safe), _) => self.safe,
            (Some(Version::Unsafe), Some((_, pending))) => pending,
            _ => ABSENT,
        }
    }

    /// Removes the lock of a writer that is decided.
    fn repair(&mut self, status: TxStatus) {
        if let Encounter::Repair(repair) = meet_writer(&self.lock(), status) {
            let pending = self.pending.take().map(|(_, pending)| pending);
            match repair {
                Repair::ReplaceWithUnsafe => self.safe = pending.unwrap_or(self.safe),
                Repair::Delete => self.safe = ABSENT,
                Repair::DropUnsafe => {}
            }
        }
    }
}

impl State {
    /// The state in which `plan` begins.
    pub fn new(plan: &Plan) -> Self {
        let docs = plan.docs.iter().map(|start| Doc { safe: start.value, pending: None }).collect();
        let clients = plan.txs.iter().map(|tx| tx.client + 1).max().unwrap_or(0);
        let start = plan.docs.iter().enumerate().map(|(doc, start)| with(doc, start.value)).sum();
        Self {
            now: Data {
                docs,
                records: vec![Record::default(); clients],
                history: vec![Moment { docs: start, wrote: 0 }],
            },
            journal_end: None,
            boot: 0,
            restarts: plan.restarts,
            directs: 0,
            rolled_back: 0,
            committed: 0,
            runs: (0..plan.txs.len()).map(|t| Run::new(plan, t)).collect(),
            memories: match plan.remembered {
                true => {
                    vec![Memory { look: vec![Stamps::default(); plan.writers().len()], ..Memory::default() }; clients]
                }
                false => Vec::new(),
            },
            heard: vec![None; clients],
            flaw: None,
        }
    }

    /// The status of a transaction, from its client's record.
    pub fn status(&self, plan: &Plan, t: usize) -> TxStatus {
        if self.now.records[plan.txs[t].client].committed >> t & 1 == 1 {
            TxStatus::Committed
        } else if self.rolled_back >> t & 1 == 1 {
            TxStatus::RolledBack
        } else {
            TxStatus::Active
        }
    }

    /// The status on which a client acts. A commitment is made durable before it is acted on.
    pub fn durable_status(&mut self, plan: &Plan, t: usize) -> TxStatus {
        let status = self.status(plan, t);
        if status == TxStatus::Committed {
            self.journal_end = None;
        }
        status
    }

    /// The number of the latest moment of the history.
    pub fn latest(&self) -> usize {
        self.now.history.len() - 1
    }

    /// The committed values, by documents and records.
    pub fn logical(&self, plan: &Plan) -> Docs {
        let seen = |(doc, it): (usize, &Doc)| {
            let status = it.pending.map_or(TxStatus::Active, |(t, _)| self.status(plan, t));
            with(doc, it.seen_by(None, status))
        };
        self.now.docs.iter().enumerate().map(seen).sum()
    }

    /// Adds a decision or a single write to the history, with the new values of its documents.
    pub fn happens(&mut self, what: Written) {
        let docs = what.over(self.now.history[self.latest()].docs);
        self.now.history.push(Moment { docs, wrote: what.docs });
    }

    /// Returns true if the holder of the write lock is decided.
    pub fn is_left(&self, plan: &Plan, doc: usize) -> bool {
        self.now.docs[doc].pending.is_some_and(|(t, _)| self.status(plan, t) != TxStatus::Active)
    }

    /// Finishes or undoes a document whose writer is decided.
    pub fn clean(&mut self, plan: &Plan, doc: usize) {
        if let Some((t, _)) = self.now.docs[doc].pending {
            let status = self.durable_status(plan, t);
            self.now.docs[doc].repair(status);
        }
    }

    /// A single write outside transactions, to a clean document.
    pub fn write_directly(&mut self, at: usize, doc: usize, values: Values) {
        self.directs |= 1 << at;
        self.now.docs[doc].safe = values;
        self.happens(Written { docs: with(doc, ANY), values: with(doc, values) });
    }

    /// Ends the transaction without a decision.
    pub fn roll_back(&mut self, t: usize) {
        self.rolled_back |= 1 << t;
        self.runs[t] = Run { step: Step::Over, own: Written::default(), answers: Vec::new(), ..self.runs[t].clone() };
        (self.runs[t].before, self.runs[t].locked_at) = (0, 0);
        self.runs[t].forget();
    }

    /// Restarts the server as foreseen. Reads under way begin again.
    pub fn restart(&mut self) {
        let Some(data) = self.journal_end.take() else { return };
        self.now = data;
        self.boot += 1;
        self.restarts -= 1;
        let latest = self.latest();
        for run in &mut self.runs {
            run.locked_at = run.locked_at.min(latest);
            run.command = run.command.take().map(Command::again);
        }
    }

    /// Another transaction of the client looks at the stamps, once.
    pub fn look_besides(&mut self, plan: &Plan, client: usize) {
        let look = plan.writers().into_iter().map(|record| self.now.records[record].changes).collect();
        let Memory { own, .. } = self.memories[client];
        self.memories[client] = Memory { look, boot: self.boot, own, looked: true };
    }

    /// Value of a document for a transaction that holds it or finds it clean.
    pub fn value_for(&self, t: usize, doc: usize) -> Values {
        let own = self.runs[t].own;
        if own.has(doc) { value(own.values, doc) } else { self.now.docs[doc].safe }
    }
}
