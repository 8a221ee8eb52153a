//! The sides of the comparison: each carries out operations, and gives answers.

use std::future::Future;

use bson::{Bson, Document};

use crate::differential::operation::Operation;

/// The answer of a write.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Written {
    pub(crate) inserted: Vec<(usize, Bson)>,
    pub(crate) matched: u64,
    pub(crate) modified: u64,
    pub(crate) deleted: u64,
    pub(crate) upserted: Vec<(usize, Bson)>,
}

#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Documents(Vec<Document>),
    Values(Vec<Bson>),
    Count(u64),
    Written(Written),
    /// `code`: `None` when the driver itself refused to send it. `writes`: index and code of each
    /// refused write.
    Refused {
        code: Option<i32>,
        writes: Vec<(usize, i32)>,
        message: String,
        /// Index of a duplicate key, and the key where it is one simple value.
        duplicate: Option<(String, Option<String>)>,
    },
    /// MongoTx says by name that it cannot do this: no difference, and nothing was done.
    Unsupported(String),
    /// Anything else: equal to nothing.
    Failed(String),
}

impl Answer {
    pub(crate) fn inserted(ids: impl IntoIterator<Item = Bson>) -> Self {
        Self::Written(Written { inserted: ids.into_iter().enumerate().collect(), ..Written::default() })
    }

    pub(crate) fn updated(matched: u64, modified: u64, upserted: Option<Bson>) -> Self {
        let upserted = upserted.into_iter().map(|id| (0, id)).collect();
        Self::Written(Written { matched, modified, upserted, ..Written::default() })
    }

    pub(crate) fn deleted(deleted: u64) -> Self {
        Self::Written(Written { deleted, ..Written::default() })
    }

    pub(crate) fn document(found: Option<Document>) -> Self {
        Self::Documents(found.into_iter().collect())
    }
}

pub(crate) trait Subject {
    fn run(&mut self, operation: &Operation) -> impl Future<Output = Answer>;
}
