//! Plans of explorations: the transactions, the reads, the faults that may happen and how often.
//!
//! A plan is constant during an exploration; what changes is in `state`.

use crate::mutation::Mutation;

/// The change that a transaction makes to a document. An update adds the transaction's mark, so a
/// lost update shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Adds a mark to a document that is there; finds nothing otherwise.
    Update,
    /// Makes a document; a conflict when it is there.
    Insert,
    /// Removes a document that is there; finds nothing otherwise.
    Remove,
}

/// A transaction: its client and its writes, in this order. It writes each document at most once.
#[derive(Clone, Debug, Default)]
pub struct TxPlan {
    /// Index of the client that runs the transaction.
    pub client: usize,
    /// Writes, each with the index of its document.
    pub writes: Vec<(usize, Op)>,
    /// True if all lock writes are sent in one command.
    pub together: bool,
    /// Order in which the server carries out the lock writes of such a command, as places in
    /// `writes`, if one statement names all documents. Empty: the order of `writes`.
    pub order: Vec<usize>,
    /// The write of such a statement that the server refuses: the statement ends there, whatever it
    /// has done. The user goes without this write and those behind it, and commits.
    pub ends_at: Option<usize>,
    /// True if each update of such a command is two statements: one locks and copies the document,
    /// the next changes the copy.
    pub in_two: bool,
    /// The write of such a command whose change the server refuses the first time, after the lock.
    pub change_refused: Option<usize>,
    /// True if the transaction takes documents over from transactions of the same client that are
    /// committed and not finished.
    pub takes_over: bool,
    /// True if the documents are found by other fields than their `_id`s, so that the client knows
    /// them only from the answers to its lock writes.
    pub by_key: bool,
    /// True if a unique index refuses the last write the first time, after the lock. The write is
    /// then taken back and tried again.
    pub refused: bool,
}

impl TxPlan {
    /// The write that the server carries out as number `i` of a command.
    pub fn carried_out_as(&self, i: usize) -> usize {
        self.order.get(i).copied().unwrap_or(i)
    }
}

/// One read-committed read. The reader runs them one after the other.
#[derive(Clone, Copy, Debug)]
pub enum Read {
    /// Fetches a document by id.
    ById(usize),
    /// Tests, for one document, whether a query for "has the mark of transaction `holds`" returns
    /// it.
    Query {
        /// Index of the document to find.
        doc: usize,
        /// Index of the transaction that holds it.
        holds: usize,
    },
    /// The same query in one command. A pending document puts a mark before the answer, and the
    /// status of its writer is read afterwards. If the writer is active, the answer stands.
    /// Otherwise the answer is discarded, and the query is run again as in `Query`.
    Together {
        /// Index of the document to find.
        doc: usize,
        /// Index of the transaction that holds it.
        holds: usize,
    },
}

/// Budget of each kind of fault: the number of times that it may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// The server restarts and loses a suffix of what is not journaled.
    pub server_crashes: u8,
    /// A client dies for ever. The lease of a dead client may always be found expired.
    pub client_deaths: u8,
    /// The lease of a live client is found expired: the client is a zombie and does not know it.
    pub expiries: u8,
    /// A lock write or a record write is given up by its sender and arrives later, or never.
    pub late_messages: u8,
    /// The sender of a finish gives it up and sends it again; the first copy arrives later, or
    /// never.
    pub late_finishes: u8,
    /// A rival aborts one transaction by its number (`killed`).
    pub aborts: u8,
    /// An owner stops waiting for the outcome of its record write.
    pub give_ups: u8,
    /// Deletions of a document without regard to locks: by the TTL monitor, by another program.
    pub deletions: u8,
    /// The server refuses a decision, because a reader has set quiet in a collection to which one
    /// of the decision's transactions has written.
    pub quiets: u8,
    /// A write outside transactions gives a document reserved fields, which look like the lock of a
    /// transaction that is decided or forgotten.
    pub forgeries: u8,
    /// A client whose records are in another tx database meets a lock, and finds no record of its
    /// holder there.
    pub strangers: u8,
}

/// The plan of one exploration.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Name of the plan, for messages.
    pub name: &'static str,
    /// For each document, whether it is there at the start.
    pub docs: Vec<bool>,
    /// The transactions; those of one client run concurrently.
    pub txs: Vec<TxPlan>,
    /// The reads of the reader, in order.
    pub reads: Vec<Read>,
    /// Number of faults of each kind that may happen.
    pub faults: Faults,
    /// True if the trace of aborted numbers below `low` has no room, so that numbers are forgotten
    /// at once.
    pub prune_trace: bool,
    /// True if each document stands for a collection of its own, which a record has to list before
    /// a document is locked there. At the start each record lists the first collection that its
    /// client writes to.
    pub enlists: bool,
    /// True if decisions are bound to the connection that writes the record (decision 0039).
    /// Otherwise each decision takes a stamp before it.
    pub bound: bool,
    /// True if there is a TTL index. If so, every document that is there at the start has a date.
    pub expires: bool,
    /// Kind of change in a forged lock: an insert or a removal; `None` for an update.
    pub forged: Option<Op>,
    /// The rule that is broken on purpose.
    pub mutation: Option<Mutation>,
}

impl Plan {
    /// Returns true if this rule is broken on purpose.
    pub fn has(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// Number of clients in the plan.
    pub fn clients(&self) -> usize {
        self.txs.iter().map(|tx| tx.client + 1).max().unwrap_or(0)
    }

    /// The collections that the record of a client lists at the start, as bits.
    pub fn listed_at_start(&self, client: usize) -> u8 {
        let first = self.txs.iter().find(|tx| tx.client == client).and_then(|tx| tx.writes.first());
        first.filter(|_| self.enlists).map_or(u8::MAX, |(doc, _)| 1 << doc)
    }

    /// Returns this plan with the rule broken.
    pub fn broken(mut self, mutation: Mutation) -> Self {
        self.mutation = Some(mutation);
        self
    }
}
