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

/// A transaction: who runs it and what it writes, in this order, each document at most once.
#[derive(Clone, Debug, Default)]
pub struct TxPlan {
    /// Index of the client that runs it.
    pub client: usize,
    /// Index of the document and what is done to it.
    pub writes: Vec<(usize, Op)>,
    /// Are they sent in one command?
    pub together: bool,
    /// Does it take documents over from transactions of the same client that are committed and not
    /// finished?
    pub takes_over: bool,
    /// Are its documents found by other fields than their `_id`s, so that only the answers of its
    /// lock writes tell which ones they are?
    pub by_key: bool,
    /// Is its last write refused the first time, after it has locked (a unique index)? It is taken
    /// back and tried again.
    pub refused: bool,
}

/// One read-committed read. The reader runs them one after the other.
#[derive(Clone, Copy, Debug)]
pub enum Read {
    /// Fetches a document by id.
    ById(usize),
    /// Asks, for one document, whether a query for "has the mark of transaction `holds`" returns
    /// it.
    Query {
        /// Index of the document to find.
        doc: usize,
        /// Index of the transaction that holds it.
        holds: usize,
    },
    /// The same in one command: pending documents put a mark before the answer, and the status of
    /// their writer is read after it. Active: the answer stands. Otherwise it is thrown away, and
    /// the query goes the long way.
    Together {
        /// Index of the document to lock.
        doc: usize,
        /// Index of the transaction that holds it.
        holds: usize,
    },
}

/// How often each fault may still happen.
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
    /// A finish is given up by its sender, and sent again; the first copy arrives later, or never.
    pub late_finishes: u8,
    /// A rival rolls back one number (`killed`).
    pub kills: u8,
    /// An owner waits no longer for what became of its record write.
    pub give_ups: u8,
    /// Deletions of a document without regard to locks: by the TTL monitor, by another program.
    pub deletions: u8,
    /// The server refuses a decision, because a reader has asked for quiet where one of its
    /// transactions has written.
    pub quiets: u8,
    /// A write outside transactions gives a document reserved fields: what looks like a lock of a
    /// transaction that is decided, or of which nothing is known any more.
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
    /// For each document: is it there at the start?
    pub docs: Vec<bool>,
    /// The transactions; those of one client run concurrently.
    pub txs: Vec<TxPlan>,
    /// The reads of the reader, in order.
    pub reads: Vec<Read>,
    /// Number of faults of each kind that may happen.
    pub faults: Faults,
    /// The trace of aborted numbers below `low` has no room: numbers are forgotten at once.
    pub prune_trace: bool,
    /// Each document stands for a collection of its own, which a record has to list before anything
    /// is locked there. At the start each record lists the first one that its client writes to.
    pub enlists: bool,
    /// Are decisions bound to the connection that writes the record (decision 0039)? Otherwise each
    /// takes a stamp before it.
    pub bound: bool,
    /// Is there a TTL index? Every document that is there at the start has a date then.
    pub expires: bool,
    /// Whether a forged lock says that its document waits to be inserted, or removed. `None`: that
    /// it is changed.
    pub forged: Option<Op>,
    /// The rule that is broken on purpose.
    pub mutation: Option<Mutation>,
}

impl Plan {
    /// Is this broken on purpose?
    pub fn has(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// How many clients there are.
    pub fn clients(&self) -> usize {
        self.txs.iter().map(|tx| tx.client + 1).max().unwrap_or(0)
    }

    /// The collections that the record of a client lists at the start, as bits.
    pub fn listed_at_start(&self, client: usize) -> u8 {
        let first = self.txs.iter().find(|tx| tx.client == client).and_then(|tx| tx.writes.first());
        first.filter(|_| self.enlists).map_or(u8::MAX, |(doc, _)| 1 << doc)
    }

    /// The same plan with something broken.
    pub fn broken(mut self, mutation: Mutation) -> Self {
        self.mutation = Some(mutation);
        self
    }
}
