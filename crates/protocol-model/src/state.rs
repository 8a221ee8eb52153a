//! A state of the model: the server, the clients with their transactions, the janitor, the reader.

use protocol::{
    LockState, Recorder, Repair, Seq, TxId,
    recorder::{RecordWrite, TransactionEnd},
};

use crate::{
    plan::{Faults, Plan, TxPlan},
    server::{Data, Doc, Marks, Server, client_id},
    shared::Shared,
};

/// An outcome that was reported to the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reported {
    /// The transaction is committed; its user knows it.
    Committed,
    /// The transaction is not committed, and will not be.
    RolledBack,
    /// The outcome can no longer be found out.
    Indeterminate,
}

/// State of a transaction. A number is the index of the next write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// About to send a lock write.
    Writing(usize),
    /// About to carry out this one of the lock writes that are sent together; true if all before it
    /// have locked.
    Together(usize, bool),
    /// The same of the change behind a lock that was taken.
    Changing(usize, bool),
    /// Not all lock writes of the command have locked: about to ask which documents are held.
    Asking,
    /// The first document that is not held, and the one that is about to be given back.
    GivingBack(usize, usize),
    /// Waits until the record lists the collection of the next write.
    Enlisting(usize),
    /// A write was refused after it had locked: about to take it back.
    TakingBack(usize),
    /// Only with a mutation: the document that is about to be overwritten has been read.
    Copying(usize, Marks),
    /// A lock write met a rival's lock.
    Meeting(usize, Meeting),
    /// About to remove the safe version of this write's document, if its date is over.
    Outliving(usize),
    /// About to check whether the transaction still holds this write's document.
    Counting(usize),
    /// Commit is requested; the client's record writes decide.
    Waiting,
    /// Committed; about to finish a document.
    Finishing(usize),
    /// Rolled back; about to undo a document.
    Undoing(usize),
    /// The transaction is over, with nothing left to do.
    Over,
    /// The transaction's client has died.
    Dead,
}

/// State of a transaction that runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// Present step of the transaction.
    pub step: Step,
    /// Number of the transaction, from its first lock write on.
    pub seq: Option<Seq>,
    /// Connection epoch before the first lock write; once the transaction is committed, before its
    /// first document was finished.
    pub epoch: u64,
    /// Outcome that was reported to the user.
    pub reported: Option<Reported>,
    /// One bit for each write that found no document.
    pub missed: u8,
    /// One bit for each write that the user has gone without.
    pub left_out: u8,
    /// True if that connection had been answered by then.
    pub answered: bool,
    /// True if one of the transaction's writes has been refused after it had locked.
    pub refused: bool,
    /// One bit for each answered lock write, if the documents are known from the answers alone.
    pub known: u8,
    /// Auxiliary: one bit for each lock write that arrived after its document had been undone.
    pub orphaned: u8,
    /// Only with a mutation: one bit for each document that has left the list of documents to be
    /// finished.
    pub delisted: u8,
}

/// State of dealing with a lock, by a writer or by the janitor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Meeting {
    /// A locked document has been fetched.
    Found {
        /// Index of the locked document.
        doc: usize,
        /// Locks as they were fetched.
        lock: LockState,
    },
    /// The writer is finished or its record gone: about to fetch again.
    Again {
        /// Index of the locked document.
        doc: usize,
        /// Transaction that held the lock.
        writer: TxId,
        /// Locks as they were fetched.
        lock: LockState,
    },
    /// About to send a conditional repair.
    Repairing {
        /// Index of the locked document.
        doc: usize,
        /// Writer that must still hold the document.
        writer: TxId,
        /// Repair that is about to be made.
        repair: Repair,
    },
}

/// The one record write of a client that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Pump {
    /// No write is under way.
    Idle,
    /// Applied in the server's memory at this boot; the answer is not received.
    Answered(RecordWrite, u64),
    /// Not applied, or the answer is lost: about to read the record.
    Examine(RecordWrite),
    /// Not applied: about to be sent again.
    Resend(RecordWrite),
    /// The record is of no more use: about to fence it, and then to report these outcomes.
    FenceOwn(Vec<TransactionEnd>),
    /// The record is of no more use.
    Gone,
}

/// State of a client and of its record writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    /// True if the client lives, and so takes steps.
    pub alive: bool,
    /// The client's own view of its record.
    pub recorder: Recorder,
    /// The epoch of the connection that writes the record.
    pub epoch: u64,
    /// Server process, by its boot, that has answered the connection; `None` while the connection
    /// is not answered.
    pub process: Option<u64>,
    /// The record write under way.
    pub pump: Pump,
    /// The collections that the record is known to list, as bits.
    pub listed: u8,
    /// The collections that transactions wait to have listed.
    pub enlisting: u8,
    /// The collections that the record write under way adds to the list.
    pub sent: u8,
}

/// Present task of the janitor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Task {
    /// A lock that a client has left behind.
    Meeting(Meeting),
    /// The leftovers of a fenced client.
    Sweep(Sweep),
}

/// A pass over the documents of a fenced client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sweep {
    /// Index of the fenced client.
    pub client: usize,
    /// Connection epoch of the first barrier; `None` only with a mutation that leaves this barrier
    /// for later.
    pub epoch: Option<u64>,
    /// Collections of the pass, as bits.
    pub names: u8,
    /// Index of the next document.
    pub doc: usize,
    /// State of dealing with this document's lock.
    pub meeting: Option<Meeting>,
}

/// Ways in which an answer can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// The answer lacks a write that it had to show.
    Stale,
    /// The answer shows a write that is not committed.
    Dirty,
}

/// Progress of one read of a document by a reader.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReadStep {
    /// The read has not begun.
    #[default]
    Start,
    /// The document is fetched, with this content.
    Fetched(Doc),
    /// The document's holder is finished or has no record: about to fetch again.
    Again(TxId),
    /// A query's first phase is over; true if it found the document.
    Second(bool),
    /// The unsafe phase found a pending document; true if an earlier phase found it.
    Pending(Doc, bool),
    /// One command: its unsafe phase is over; the writer of a pending document that it found.
    Probed(Option<TxId>),
    /// One command: the answer is there, behind a mark; true if it holds the document.
    Answered(TxId, bool),
}

/// A reader outside transactions, with the reads of its plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reader {
    /// Index of the next read.
    pub next: usize,
    /// State of the present read.
    pub step: ReadStep,
    /// True if a query in one command is run again by its phases, because of a mark.
    pub long_way: bool,
    /// One bit for each transaction that the read must see: acknowledged or seen before it began.
    pub must: u8,
    /// One bit for each transaction that an earlier read saw.
    pub seen: u8,
    /// Only with a mutation: the data as they were before the first read.
    pub stale: Option<Shared<Data>>,
    /// Auxiliary: what was wrong with an answer.
    pub flaw: Option<Flaw>,
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// State of the server and of its data.
    pub server: Server,
    /// State of each client, by index.
    pub clients: Vec<Shared<Client>>,
    /// State of each transaction, by its index.
    pub runs: Vec<Run>,
    /// Task of the janitor, which repairs leftovers of others and removes fenced records.
    pub janitor: Option<Task>,
    /// State of the reader outside transactions.
    pub reader: Reader,
    /// Faults that may still happen.
    pub faults: Faults,
    /// Auxiliary: whether a rival has repaired a document.
    pub repaired: bool,
}

impl State {
    /// Returns true if the client's lease is not renewed any more: it is dead, or has given its
    /// record up.
    pub fn is_leaseless(&self, client: usize) -> bool {
        !self.clients[client].alive || self.clients[client].pump == Pump::Gone
    }

    /// The state in which `plan` begins.
    pub fn new(plan: &Plan) -> Self {
        let client = |client| {
            Shared::new(Client {
                alive: true,
                recorder: Recorder::new(),
                epoch: 0,
                process: Some(0),
                pump: Pump::Idle,
                listed: plan.listed_at_start(client),
                enlisting: 0,
                sent: 0,
            })
        };
        let begin = |tx: &TxPlan| if tx.together { Step::Together(0, true) } else { Step::Writing(0) };
        let run = |tx: &TxPlan| Run {
            step: begin(tx),
            seq: None,
            epoch: 0,
            reported: None,
            missed: 0,
            left_out: 0,
            refused: false,
            known: 0,
            orphaned: 0,
            answered: false,
            delisted: 0,
        };
        let now = Shared::new(Data::new(plan));
        Self {
            server: Server { now, journal_end: None, boot: 0, late: Vec::new(), over: 0, found: 0 },
            clients: (0..plan.clients()).map(client).collect(),
            runs: plan.txs.iter().map(run).collect(),
            janitor: None,
            reader: Reader::default(),
            faults: plan.faults,
            repaired: false,
        }
    }

    /// The id of a transaction, once it has a number.
    pub fn tx_id(&self, plan: &Plan, t: usize) -> Option<TxId> {
        self.runs[t].seq.map(|seq| TxId { client: client_id(plan.txs[t].client), seq })
    }

    /// Index of the client's transaction with this number.
    pub fn run_of(&self, plan: &Plan, client: usize, seq: Seq) -> Option<usize> {
        (0..self.runs.len()).find(|t| plan.txs[*t].client == client && self.runs[*t].seq == Some(seq))
    }

    /// Removes the record of a client, if no document needs it any more.
    pub fn remove_record(&mut self, plan: &Plan, client: usize) {
        let mine = (0..self.runs.len()).filter(|t| plan.txs[*t].client == client);
        let committed: Vec<TxId> =
            mine.filter(|t| self.is_committed(plan, *t)).filter_map(|t| self.tx_id(plan, t)).collect();
        self.server.now.archive.extend(committed);
        self.server.now.records[client] = None;
    }

    /// Auxiliary: whether the transaction is committed, even if the record had no room to keep
    /// that.
    pub fn is_committed(&self, plan: &Plan, t: usize) -> bool {
        self.tx_id(plan, t).is_some_and(|tx| self.server.now.is_committed(tx))
    }
}
