//! The statements that are measured, and the documents that they are about.

use bson::{Document, doc};
use clap::ValueEnum;

/// A statement on many documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Statement {
    /// The first 20 in an index's order, of 900 documents, one of which the transaction has changed
    OwnView,
    /// An insert of 20,000 documents under two unique indexes
    Insert,
    /// An update of 5,000 documents by an indexed field
    UpdateMany,
    /// A removal of 5,000 documents by an indexed field
    DeleteMany,
}

/// Documents that [`Statement::OwnView`] answers.
pub(crate) const SHOWN: i64 = 20;

impl Statement {
    /// Description of the statement in a table.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::OwnView => "find, sort, limit 20 of 900, one of them changed",
            Self::Insert => "insert_many of 20,000, two unique indexes",
            Self::UpdateMany => "update_many of 5,000",
            Self::DeleteMany => "delete_many of 5,000",
        }
    }

    /// Documents that are there before.
    pub(crate) fn before(self) -> Vec<Document> {
        match self {
            Self::OwnView => documents(900),
            Self::Insert => Vec::new(),
            Self::UpdateMany | Self::DeleteMany => documents(5_000),
        }
    }

    /// Documents that it inserts.
    pub(crate) fn inserted(self) -> Vec<Document> {
        documents(20_000)
    }

    /// Indexes of the collection: the fields, and whether they are unique.
    pub(crate) fn indexes(self) -> Vec<(Document, bool)> {
        match self {
            Self::Insert => vec![(doc! {"code": 1}, true), (doc! {"group": 1, "place": 1}, true)],
            Self::OwnView | Self::UpdateMany | Self::DeleteMany => vec![(doc! {"group": 1, "place": -1}, false)],
        }
    }
}

/// Filter of all documents.
pub(crate) fn filter() -> Document {
    doc! {"group": 1}
}

/// Order of the documents that [`Statement::OwnView`] answers.
pub(crate) fn order() -> Document {
    doc! {"place": -1}
}

/// The change of each document.
pub(crate) fn change() -> Document {
    doc! {"$inc": {"n": 1}}
}

fn documents(count: i64) -> Vec<Document> {
    let note = "x".repeat(100);
    (0..count).map(|id| doc! {"_id": id, "code": id, "group": 1, "place": id, "n": 1, "note": &note}).collect()
}
