//! Plans of explorations: the documents, the transactions and the faults that may happen.

use super::{
    breakage::Breakage,
    query::{ANY, Docs, Fold, ONE, Query, Values, with},
};

/// One statement of a transaction. Collections and documents have numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Reads a document by its `_id`.
    Point(usize),
    /// Reads the documents of a collection that have one of these values.
    Scan(usize, Values),
    /// Reads the one document of a collection that has the value 1, by a unique index. The plan
    /// must ensure that no two documents have it.
    Key(usize),
    /// Counts the documents with these values.
    Count(usize, Values),
    /// Reads the first of the documents with these values, in the order of values.
    First(usize, Values),
    /// Gives a document a value.
    Write(usize, Values),
    /// Gives a document the second value if it has one of the first values.
    WriteIf(usize, Values, Values),
    /// Gives the second value to all documents of a collection that have one of the first values.
    WriteMany(usize, Values, Values),
    /// Inserts a document. The transaction survives the error that the document is there already.
    Insert(usize, Values),
    /// Removes the document with this index.
    Remove(usize),
}

/// The level of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// All answers are true at one moment, and no rival writes the same documents between that
    /// moment and the decision.
    #[default]
    Snapshot,
    /// The guarantee of snapshots, and a place in a serial order.
    Serializable,
}

/// Time at which a transaction requests quiet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Asks {
    /// The transaction requests no quiet: it waits for rivals, or gives way.
    #[default]
    Never,
    /// The other client's write comes before the transaction's first read.
    First,
    /// The other client's write comes before the transaction's validation.
    Last,
}

/// A transaction. Those with lower numbers are older.
#[derive(Clone, Debug, Default)]
pub struct TxPlan {
    /// Statements in their order, before the commit.
    pub ops: Vec<Op>,
    /// Isolation level of the transaction.
    pub level: Level,
    /// Client of the transaction, in whose record it is decided.
    pub client: usize,
    /// Time at which the transaction requests quiet, at serializable.
    pub asks: Asks,
    /// True if the transaction's reads are sent again behind each of its writes, which counts at
    /// the commit if it has read and written nothing since. For plans with remembered looks.
    pub ahead: bool,
    /// The transaction that has to end before it begins.
    pub after: Option<usize>,
}

/// A document at the start.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Collection of the document, by its index.
    pub ns: usize,
    /// Value of the document, `ABSENT` too.
    pub value: Values,
}

/// Change stamps, one for each collection or each document.
pub type Stamps = [u8; 4];

/// The plan of one exploration.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Name of the plan in messages of tests.
    pub name: &'static str,
    /// The documents, at most four.
    pub docs: Vec<Start>,
    /// The transactions that run, by their index.
    pub txs: Vec<TxPlan>,
    /// Single writes outside transactions, at any time, each with its document and value.
    pub directs: Vec<(usize, Values)>,
    /// Budget of restarts, each of which loses a suffix of the unjournaled writes.
    pub restarts: u8,
    /// True if scans read statuses before safe versions. Otherwise all versions are read in one
    /// command, and statuses afterwards.
    pub one_by_one: bool,
    /// True if the older transaction waits for write locks. Otherwise every transaction that meets
    /// one gives way at once.
    pub lock_waits: bool,
    /// True if at serializable a rival that does not change the answer of a read by `_id` is passed
    /// by.
    pub refined: bool,
    /// True if the first look of a validation is the last one that the client remembers, with the
    /// stamps that the client's own record has acknowledged since. Otherwise each validation looks
    /// anew.
    pub remembered: bool,
    /// True if stamps belong to documents and not to collections.
    pub by_document: bool,
    /// True if entries are run again in the opposite order.
    pub backwards: bool,
    /// The rule that is broken on purpose.
    pub breakage: Option<Breakage>,
}

impl Plan {
    /// Returns true if this rule is broken on purpose.
    pub fn has(&self, breakage: Breakage) -> bool {
        self.breakage == Some(breakage)
    }

    /// Returns this plan with the rule broken.
    pub fn broken(mut self, breakage: Breakage) -> Self {
        self.breakage = Some(breakage);
        self
    }

    /// The documents of a collection that have one of these values.
    pub fn matching(&self, ns: usize, values: Values) -> Docs {
        let docs = self.docs.iter().enumerate().filter(|(_, doc)| doc.ns == ns);
        docs.map(|(doc, _)| with(doc, values)).sum()
    }

    /// One bit for each collection of these documents.
    pub fn collections(&self, docs: Docs) -> u8 {
        let of = |(doc, start): (usize, &Start)| u8::from(docs & with(doc, ANY) != 0) << start.ns;
        self.docs.iter().enumerate().map(of).fold(0, |all, one| all | one)
    }

    /// One bit for each stamp that a change of these documents sets.
    pub fn stamps(&self, docs: Docs) -> u8 {
        let of = |(doc, _): (usize, &Start)| u8::from(docs & with(doc, ANY) != 0) << doc;
        match self.by_document {
            true => self.docs.iter().enumerate().map(of).fold(0, |all, one| all | one),
            false => self.collections(docs),
        }
    }

    /// The query of a statement.
    pub fn query(&self, op: Op) -> Query {
        let scan = |ns, values, fold| Query { bits: self.matching(ns, values), fold, point: false, key: false };
        match op {
            Op::Point(doc) => Query::by_id(doc, ANY, Fold::Documents),
            Op::Scan(ns, values) => scan(ns, values, Fold::Documents),
            Op::Key(ns) => Query { key: true, ..scan(ns, ONE, Fold::Documents) },
            Op::Count(ns, values) => scan(ns, values, Fold::Count),
            Op::First(ns, values) => scan(ns, values, Fold::First),
            Op::WriteMany(ns, values, _) => scan(ns, values, Fold::Ids),
            Op::WriteIf(doc, values, _) => Query::by_id(doc, values, Fold::Ids),
            Op::Write(doc, _) | Op::Insert(doc, _) | Op::Remove(doc) => Query::by_id(doc, ANY, Fold::Ids),
        }
    }

    /// The clients that write in transactions: only they have records.
    pub fn writers(&self) -> Vec<usize> {
        let mut clients: Vec<usize> =
            self.txs.iter().filter(|tx| tx.ops.iter().any(Op::writes)).map(|tx| tx.client).collect();
        clients.sort_unstable();
        clients.dedup();
        clients
    }
}

impl Op {
    /// Returns true if the statement writes.
    pub fn writes(&self) -> bool {
        !matches!(self, Self::Point(_) | Self::Scan(..) | Self::Key(_) | Self::Count(..) | Self::First(..))
    }
}
