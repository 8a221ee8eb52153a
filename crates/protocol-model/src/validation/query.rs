//! Sets of documents with their values, packed into bits, and the queries that select from them.

/// Two bits for each document: the first for the value 0, the second for the value 1. Neither means
/// that the document is absent; both, in an answer, that a scan has met it twice.
pub type Docs = u8;

/// One bit for each of the values that a predicate takes.
pub type Values = u8;

/// The set with the value 0 only.
pub const ZERO: Values = 1;
/// The set with the value 1 only.
pub const ONE: Values = 2;
/// The set of both values.
pub const ANY: Values = 3;
/// The empty set: the document is absent.
pub const ABSENT: Values = 0;

/// The document with this value.
pub fn with(doc: usize, values: Values) -> Docs {
    values << (2 * doc)
}

/// The value of a document.
pub fn value(docs: Docs, doc: usize) -> Values {
    docs >> (2 * doc) & ANY
}

/// Bits of all documents that have the value 0.
const ZEROS: Docs = 0b0101_0101;

fn lowest(docs: Docs) -> Docs {
    docs & docs.wrapping_neg()
}

/// Form of an answer, made from the documents that match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fold {
    /// The documents with their values.
    Documents,
    /// The ids of the documents only.
    Ids,
    /// Only the number of the documents.
    Count,
    /// Only the first document, in the order of values.
    First,
}

/// A read of documents, by their values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Query {
    /// The documents that match, each with the values for which it does.
    pub bits: Docs,
    /// Form of the query's answer.
    pub fold: Fold,
    /// True if the query pins one `_id`.
    pub point: bool,
    /// True if the query pins one key of a unique index, which at most one document has at every
    /// moment.
    pub key: bool,
}

impl Query {
    /// A query by `_id`, for these values of the document.
    pub fn by_id(doc: usize, values: Values, fold: Fold) -> Self {
        Self { bits: with(doc, values), fold, point: true, key: false }
    }

    /// The answer, if these are all the documents.
    pub fn answer(&self, docs: Docs) -> Docs {
        let found = docs & self.bits;
        match self.fold {
            Fold::Documents => found,
            Fold::Ids => (found | found >> 1) & ZEROS,
            Fold::Count => found.count_ones() as Docs,
            Fold::First if found & ZEROS != 0 => lowest(found & ZEROS),
            Fold::First => lowest(found),
        }
    }

    /// Documents that an answer depends on; for a key that was found, the one document that has it.
    pub fn depends_on(&self, result: Docs) -> Docs {
        let found = (result | result >> 1) & ZEROS;
        if self.has_found_key(result) { found | found << 1 } else { self.bits }
    }

    /// Returns true if an answer depends on one document alone.
    pub fn is_of_one(&self, result: Docs) -> bool {
        self.point || self.has_found_key(result)
    }

    /// Returns true if the result is one document with the key. Two documents cannot have had the
    /// key at one moment, so two are not the answer.
    fn has_found_key(&self, result: Docs) -> bool {
        self.key && result.count_ones() == 1
    }

    /// The query without these documents.
    pub fn without(self, docs: Docs) -> Self {
        Self { bits: self.bits & !docs, ..self }
    }
}

/// The writes of a transaction: these documents have other values for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Written {
    /// Both bits of each document that it has written.
    pub docs: Docs,
    /// New values of the documents.
    pub values: Docs,
}

impl Written {
    /// These documents, with the transaction's own writes in place of theirs.
    pub fn over(&self, docs: Docs) -> Docs {
        docs & !self.docs | self.values
    }

    /// Adds a write of document `doc`, after which it has one of these values.
    pub fn add(&mut self, doc: usize, values: Values) {
        self.docs |= with(doc, ANY);
        self.values = self.values & !with(doc, ANY) | with(doc, values);
    }

    /// Returns true if this document was written.
    pub fn has(&self, doc: usize) -> bool {
        value(self.docs, doc) != 0
    }
}
