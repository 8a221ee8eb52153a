//! The states: documents, transactions, and the query.

/// Number of documents in the one collection of this model.
pub const DOCUMENTS: usize = 3;

/// A version of a document: a bit for each transaction whose write it has.
pub type Version = u8;

/// A document as it is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Document {
    /// The safe version: what the last finished transaction has left.
    pub safe: Version,
    /// The transaction that holds it, and the unsafe version.
    pub held: Option<(usize, Version)>,
}

/// State of one transaction of the client, in the order in which it goes through them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The transaction has written to this many of its documents.
    Writes(usize),
    /// The transaction has begun to be decided.
    Deciding,
    /// The server has committed it, and its client does not know.
    Decided,
    /// The client knows that the transaction is committed.
    Known,
    /// The transaction is rolled back, and the client knows that.
    RolledBack,
}

/// State of the one query, in the order in which it goes through them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Query {
    /// The query is not permitted yet.
    Out,
    /// The query reads the documents, one after the other.
    Reads,
    /// The query asks for the outcome of each transaction that holds one of its documents.
    Asks,
    /// The query has all outcomes that it asked for.
    HasOutcomes,
    /// The query is believed, and has shown these versions.
    Believed([Version; DOCUMENTS]),
    /// The query is not believed: it has to be sent in another way.
    InVain,
}

/// State of the whole system.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The documents of the collection, as the server has them.
    pub documents: [Document; DOCUMENTS],
    /// The state of each transaction, by its place in the plan.
    pub phases: Vec<Phase>,
    /// The committed transactions, in the order in which the server has decided them.
    pub order: Vec<usize>,
    /// The transactions that count as begun, in that order.
    pub begun: Vec<usize>,
    /// The state of the query, of which there is one.
    pub query: Query,
    /// The documents as the query has read them.
    pub read: [Option<Document>; DOCUMENTS],
    /// Number of transactions that counted as begun when the query was permitted.
    pub permitted: Option<usize>,
    /// The transactions that were being decided then, as far as the client knows.
    pub open: Vec<usize>,
    /// Number of transactions that were committed when the query began.
    pub committed: usize,
    /// True for each transaction that is committed, as far as the query has asked.
    pub outcomes: Vec<Option<bool>>,
    /// The transactions that had begun since the permit, if the query has looked.
    pub later: Option<Vec<usize>>,
}

impl State {
    pub(super) fn new(transactions: usize) -> Self {
        Self {
            documents: Default::default(),
            phases: vec![Phase::Writes(0); transactions],
            order: Vec::new(),
            begun: Vec::new(),
            query: Query::Out,
            read: Default::default(),
            permitted: None,
            open: Vec::new(),
            committed: 0,
            outcomes: vec![None; transactions],
            later: None,
        }
    }

    /// Returns true if the server has committed the transaction.
    pub(super) fn is_committed(&self, transaction: usize) -> bool {
        self.order.contains(&transaction)
    }
}
