//! The server: documents, client records, a journal, and messages that arrive late.
//!
//! Each function that changes [`Data`] is one atomic conditional command. The journal is modelled
//! from its end: at any moment a restart may be foreseen (`foresee_restart`), which keeps what the
//! journal will hold; a write that waits for the journal makes that future impossible. So every
//! prefix of the log that a crash can leave is explored, and a state keeps one old copy of the data
//! instead of all.
//!
//! The server leaves out replication (the journal stands for "majority"), shards, read locks and
//! the size of documents.

use std::collections::BTreeSet;

use protocol::{
    ClientId, ClientRecord, LockState, Recorder, Repair, Seq, TxId, TxStatus, Version,
    lock::{admits_writer, repair_committed, repair_rolled_back, visible_version},
    recorder::RecordWrite,
};

use crate::{
    plan::{Op, Plan},
    shared::Shared,
};

/// Value of a document: two bits per transaction count the transaction's writes in it.
pub type Marks = u16;

/// The mark of transaction `t`.
pub fn mark(t: usize) -> Marks {
    1 << (2 * t)
}

/// Number of times that the write of transaction `t` is in `marks`.
pub fn times(marks: Marks, t: usize) -> u16 {
    (marks >> (2 * t)) & 3
}

/// One bit for each transaction whose write is in `marks`.
fn writers(marks: Marks) -> u8 {
    (0..8).filter(|t| times(marks, *t) > 0).fold(0, |bits, t| bits | 1 << t)
}

/// The name of the client with this index.
pub fn client_id(client: usize) -> ClientId {
    ClientId([client as u8; 12])
}

/// The index of the client with this name.
pub fn client_index(id: ClientId) -> usize {
    usize::from(id.0[0])
}

/// A stored document. The marks of an absent document survive in `safe`; they are auxiliary and
/// show which transaction removed it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Doc {
    /// True if there is a safe version.
    pub stored: bool,
    /// Marks of the safe version.
    pub safe: Marks,
    /// The unsafe version; of a pending removal: the marks that it will leave behind (auxiliary).
    pub pending: Option<Marks>,
    /// Read and write locks on the document.
    pub lock: LockState,
    /// True if the safe version has the date that it had at the start.
    pub dated: bool,
    /// Auxiliary: whether the document has been deleted from outside.
    pub deleted: bool,
    /// Auxiliary: whether the safe version is gone because its date was over.
    pub expired: bool,
    /// Auxiliary: one bit for each transaction whose write, committed or pending, was deleted with
    /// the document and need not be there.
    pub lost: u8,
}

/// Result of a lock write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prepared {
    /// The document is locked and prepared.
    Done,
    /// The document does not exist.
    Locked,
    /// The document does not exist.
    NotThere,
    /// The document to be inserted is there.
    Duplicate,
}

impl Doc {
    /// Carries out a lock write: admission, copy and change in one atomic step. `copied` holds the
    /// marks of an earlier read, for the mutation that trusts it.
    pub fn prepare(&mut self, me: TxId, op: Op, mark: Marks, copied: Option<Marks>) -> Prepared {
        if self.lock.writer.is_some() || !admits_writer(&self.lock, me) {
            return Prepared::Locked;
        }
        match (op, self.stored) {
            (Op::Insert, true) => return Prepared::Duplicate,
            (Op::Update | Op::Remove, false) => return Prepared::NotThere,
            _ => {}
        }
        let (insert, remove) = (op == Op::Insert, op == Op::Remove);
        self.lock = LockState { writer: Some(me), readers: Vec::new(), insert, remove };
        self.pending = Some(copied.unwrap_or(self.safe) + mark);
        Prepared::Done
    }

    /// Carries out the lock write of a transaction that knows that `over` is committed, and
    /// finishes the leftover of `over` in the same atomic step. A removal is not taken over,
    /// because it leaves no document.
    pub fn take_over(&mut self, over: Option<TxId>, me: TxId, op: Op, mark: Marks) -> Prepared {
        if let Some(over) = over.filter(|_| op == Op::Update && !self.lock.remove) {
            self.repair(over, Repair::ReplaceWithUnsafe);
        }
        self.prepare(me, op, mark, None)
    }

    /// Carries out the change behind [`Self::take_over`] with no mark, and returns true if the
    /// document was the transaction's.
    pub fn change(&mut self, me: TxId, mark: Marks) -> bool {
        let is_mine = self.lock.writer == Some(me);
        self.pending = self.pending.map(|pending| if is_mine { pending + mark } else { pending });
        is_mine
    }

    /// Repairs or finishes the document if `writer` still holds it.
    pub fn repair(&mut self, writer: TxId, repair: Repair) {
        if self.lock.writer != Some(writer) {
            return;
        }
        match repair {
            Repair::ReplaceWithUnsafe => {
                self.safe = self.pending.unwrap_or(self.safe);
                self.stored = true;
                self.dated = false;
            }
            Repair::Delete => {
                self.stored = false;
                if !self.lock.insert {
                    self.safe = self.pending.unwrap_or(self.safe);
                }
            }
            Repair::DropUnsafe => self.stored = true,
        }
        self.pending = None;
        self.lock = LockState::default();
    }

    /// Finishes the change of the committed `writer`, if it still holds the document.
    pub fn finish(&mut self, writer: TxId) {
        let repair = repair_committed(&self.lock);
        self.repair(writer, repair);
    }

    /// Takes back the change of `writer`, if it still holds the document.
    pub fn take_back(&mut self, writer: TxId) {
        let repair = repair_rolled_back(&self.lock);
        self.repair(writer, repair);
    }

    /// Deletes the document without regard to locks.
    pub fn delete_from_outside(&mut self) {
        let marks = self.safe | self.pending.unwrap_or(0);
        *self = Self { deleted: true, lost: self.lost | writers(marks), ..Self::default() };
    }

    /// The TTL monitor removes the document without regard to locks. A pending removal is not
    /// missed; any other pending write is lost.
    pub fn expire(&mut self) {
        let removed = self.pending.filter(|_| self.lock.remove).unwrap_or(0);
        *self = Self { expired: true, lost: self.lost | writers(removed), ..Self::default() };
    }

    /// Result for a reader that learned `status` after it fetched the document: whether the
    /// document exists, and its marks. `None` if the reader must fetch again.
    pub fn seen(&self, status: impl FnOnce(TxId) -> TxStatus) -> Option<(bool, Marks)> {
        let pending = self.pending.unwrap_or(self.safe);
        visible_version(&self.lock, None, status).map(|version| match version {
            Version::Safe => (self.stored, self.safe),
            Version::Unsafe => (true, pending),
            Version::Absent if self.lock.insert => (false, self.safe),
            Version::Absent => (false, pending),
        })
    }
}

/// A client record, with additional fields of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stored {
    /// Part of the record by which transactions are decided.
    pub record: ClientRecord,
    /// Auxiliary: aborted numbers for which the trace had no room.
    pub forgotten: BTreeSet<Seq>,
    /// Collections that the record lists, as bits.
    pub names: u8,
}

/// Stored data, which a crash of the server loses together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Data {
    /// The stored documents, by their index.
    pub docs: Vec<Doc>,
    /// The client records; `None` once removed.
    pub records: Vec<Option<Shared<Stored>>>,
    /// Auxiliary: the committed transactions of removed records.
    pub archive: BTreeSet<TxId>,
}

impl Data {
    /// Data at the start of `plan`: all documents are clean, and all clients registered.
    pub fn new(plan: &Plan) -> Self {
        let record = |client| Stored {
            record: Recorder::initial_record(),
            forgotten: BTreeSet::new(),
            names: plan.listed_at_start(client),
        };
        let doc = |stored| Doc { stored, dated: stored && plan.expires, ..Doc::default() };
        Self {
            docs: plan.docs.iter().map(|stored| doc(*stored)).collect(),
            records: (0..plan.clients()).map(|client| Some(Shared::new(record(client)))).collect(),
            archive: BTreeSet::new(),
        }
    }

    /// Record of a client, unless it is removed.
    pub fn record(&self, client: ClientId) -> Option<&ClientRecord> {
        self.records[client_index(client)].as_ref().map(|stored| &stored.record)
    }

    /// Sets `fenced`; false if the record does not exist.
    pub fn fence(&mut self, client: usize) -> bool {
        let stored = self.records[client].as_mut();
        stored.map(|stored| stored.record.fenced = true).is_some()
    }

    /// Auxiliary: whether the transaction is committed, even if the record had no room to keep
    /// that.
    pub fn is_committed(&self, tx: TxId) -> bool {
        let Some(stored) = &self.records[client_index(tx.client)] else {
            return self.archive.contains(&tx);
        };
        let status = protocol::status::status_of(Some(&stored.record), tx.seq);
        matches!(status, TxStatus::Committed | TxStatus::Finished) && !stored.forgotten.contains(&tx.seq)
    }

    /// Returns true if a document carries a lock of this client.
    pub fn carries(&self, client: usize) -> bool {
        self.docs.iter().any(|doc| doc.lock.writer.is_some_and(|tx| client_index(tx.client) == client))
    }
}

/// Facts on which the admission of a record write depends, besides the record.
#[derive(Clone, Copy, Debug, Default)]
pub struct Admission {
    /// True if a mutation accepts any stamp.
    pub any_stamp: bool,
    /// True if a mutation ignores the fence.
    pub ignore_fence: bool,
    /// True if the trace of aborted numbers has no room.
    pub prune_trace: bool,
}

impl Stored {
    /// Carries out one conditional update of the record. Returns whether it was applied.
    pub fn write(&mut self, write: &RecordWrite, names: u8, how: Admission) -> bool {
        let record = &mut self.record;
        let admitted = (record.stamp == write.demands || how.any_stamp)
            && (!record.fenced || how.ignore_fence)
            && write.decides.iter().all(|seq| !record.killed.contains(seq));
        if !admitted {
            return false;
        }
        self.names |= names;
        record.stamp = write.stamp;
        record.low = write.low;
        record.committed = write.committed.iter().copied().collect();
        record.rolled_back = write.rolled_back.iter().copied().collect();
        record.killed.retain(|seq| *seq >= write.low);
        let trace = if how.prune_trace { &mut self.forgotten } else { &mut record.aborted };
        trace.extend(&write.aborted);
        true
    }
}

/// A message that its sender has given up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// The lock write number `write` of transaction `t`.
    Lock {
        /// Transaction for which it locks.
        tx: TxId,
        /// Index of that transaction in the plan.
        t: usize,
        /// Index of the write in the transaction.
        write: usize,
        /// Transaction from which the document is taken over, if any.
        over: Option<TxId>,
    },
    /// The change of a document that transaction `t` may have locked before.
    Change {
        /// Transaction that changes the document.
        tx: TxId,
        /// Index of that transaction in the plan.
        t: usize,
        /// Index of the document that is changed.
        doc: usize,
    },
    /// Finishes a document of a committed transaction.
    Finish {
        /// Transaction whose commit is being finished.
        tx: TxId,
        /// Index of the document that becomes clean.
        doc: usize,
    },
    /// Takes back what a live transaction has done to a document.
    TakeBack {
        /// Transaction that gives the document back.
        tx: TxId,
        /// Index of the document to give back.
        doc: usize,
    },
    /// Removes the safe version of a held document, if its date is over.
    Outlive {
        /// The transaction that holds the document.
        tx: TxId,
        /// Index of the document that may expire.
        doc: usize,
    },
    /// A write to the record of a client, and the collections that the write adds to the record's
    /// list.
    Record(usize, RecordWrite, u8),
}

/// The server process, and the messages under way to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Server {
    /// Content of the server's memory.
    pub now: Shared<Data>,
    /// Data that the foreseen restart will leave; `None` if no restart is foreseen.
    pub journal_end: Option<Shared<Data>>,
    /// Number of restarts of the server, which is the connection epoch of new connections.
    pub boot: u64,
    /// Messages that may still arrive.
    pub late: Vec<Message>,
    /// The server's clock: one bit for each document whose date at the start is over.
    pub over: u8,
    /// One bit for each document that the TTL monitor has found and is about to look at again.
    pub found: u8,
}

impl Server {
    /// Returns true if the document has a safe version whose date is over.
    pub fn is_expired(&self, doc: usize) -> bool {
        let stored = &self.now.docs[doc];
        stored.stored && stored.dated && self.over >> doc & 1 == 1
    }

    /// Removes an expired safe version, so that the document looks as if it waited to be inserted.
    /// That happens only if `me` holds the document and has not removed it.
    pub fn outlive(&mut self, me: TxId, doc: usize) {
        let lock = &self.now.docs[doc].lock;
        if lock.writer == Some(me) && !lock.remove && self.is_expired(doc) {
            let doc = &mut self.now.docs[doc];
            (doc.stored, doc.expired, doc.lock.insert) = (false, true, true);
        }
    }

    /// Notes that a write has waited for the journal, so that no earlier write can be lost any
    /// more.
    pub fn flush(&mut self) {
        self.journal_end = None;
    }

    /// Foresees a restart: no later write is journaled before it.
    pub fn foresee_restart(&mut self) {
        self.journal_end = Some(self.now.clone());
    }

    /// Restarts the server as foreseen. Writes that are not journaled and messages under way are
    /// lost.
    pub fn restart(&mut self) {
        if let Some(data) = self.journal_end.take() {
            self.now = data;
            self.boot += 1;
            self.late.clear();
            self.found = 0;
        }
    }
}
