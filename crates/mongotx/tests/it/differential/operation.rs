//! An operation, as data: both subjects carry out the same one.

use bson::{Bson, Document};

/// Options that change the meaning of the filter and the update.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueryOptions {
    pub(crate) collation: Option<Document>,
    pub(crate) hint: Option<Bson>,
    pub(crate) variables: Option<Document>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Query {
    pub(crate) filter: Document,
    pub(crate) sort: Option<Document>,
    pub(crate) skip: Option<u64>,
    pub(crate) limit: Option<u64>,
    pub(crate) projection: Option<Document>,
    pub(crate) batch_size: Option<u32>,
    pub(crate) options: QueryOptions,
}

#[derive(Clone, Debug)]
pub(crate) enum Change {
    Operators(Document),
    Pipeline(Vec<Document>),
    Replacement(Document),
}

#[derive(Clone, Debug)]
pub(crate) struct Update {
    pub(crate) filter: Document,
    pub(crate) change: Change,
    pub(crate) many: bool,
    pub(crate) upsert: bool,
    pub(crate) array_filters: Option<Vec<Document>>,
    pub(crate) options: QueryOptions,
}

#[derive(Clone, Debug)]
pub(crate) struct Delete {
    pub(crate) filter: Document,
    pub(crate) many: bool,
    pub(crate) options: QueryOptions,
}

#[derive(Clone, Debug)]
pub(crate) enum Modify {
    Update(Update),
    Delete(Delete),
}

#[derive(Clone, Debug)]
pub(crate) struct FindAndModify {
    pub(crate) modify: Modify,
    pub(crate) sort: Option<Document>,
    pub(crate) projection: Option<Document>,
    pub(crate) after: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Operation {
    InsertOne(Document),
    InsertMany {
        documents: Vec<Document>,
        ordered: bool,
    },
    Find(Query),
    FindOne(Query),
    Count(Query),
    EstimatedCount,
    Distinct {
        field: String,
        query: Query,
    },
    Update(Update),
    Delete(Delete),
    FindAndModify(FindAndModify),
    /// Inserts, updates without options and deletes without options only.
    Bulk {
        writes: Vec<Operation>,
        ordered: bool,
    },
}

impl Operation {
    /// Returns true if the order of the answer is promised.
    pub(crate) fn is_ordered(&self) -> bool {
        let loose = |collation: &Document| collation.get_i32("strength").is_ok_and(|strength| strength < 3);
        match self {
            Self::Find(query) => query.sort.is_some() && !query.options.collation.as_ref().is_some_and(loose),
            Self::Distinct { .. } => false,
            _ => true,
        }
    }

    /// Returns true if it changes several documents by one update. The place where that stops when
    /// one of them is refused is not promised.
    pub(crate) fn updates_many(&self) -> bool {
        match self {
            Self::Update(update) => update.many,
            Self::Bulk { writes, .. } => writes.iter().any(Self::updates_many),
            _ => false,
        }
    }

    pub(crate) fn is_write(&self) -> bool {
        !matches!(
            self,
            Self::Find(_) | Self::FindOne(_) | Self::Count(_) | Self::EstimatedCount | Self::Distinct { .. }
        )
    }
}
