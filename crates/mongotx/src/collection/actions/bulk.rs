//! The action `bulk_write`: writes of several kinds to one collection, in one call. They are
//! carried out by `crate::command::bulk::bulk_write`.

use std::{future::IntoFuture, sync::Arc};

use bson::Document;
use futures_util::future::BoxFuture;
use sd2v::update::Update;

use super::{Modification, delete::delete_command, update::update_command};
use crate::{
    command::{
        bulk::bulk_write::{self, BulkWriteResult},
        writes::write_commands::{Operation, UpdateCommand},
    },
    coordinator::Core,
    error::{Error, Result},
    options::Namespace,
    session::Session,
};

/// One write of a [`crate::Collection::bulk_write`].
#[derive(Clone, Debug)]
pub enum WriteModel {
    /// Insert a document, as [`crate::Collection::insert_one`] does.
    InsertOne {
        /// The document to insert. If it has no `_id`, the library makes an `ObjectId`.
        document: Document,
    },
    /// Update one document, as [`crate::Collection::update_one`] does.
    UpdateOne {
        /// Condition that chooses the document: the first that matches it is updated.
        filter: Document,
        /// The change: a document of operators, or a pipeline, converted by `.into()`.
        update: Modification,
        /// True inserts a document when none matches the filter.
        upsert: bool,
    },
    /// Update all matching documents, as [`crate::Collection::update_many`] does.
    UpdateMany {
        /// Condition that chooses the documents: all that match it are updated.
        filter: Document,
        /// The change: a document of operators, or a pipeline, converted by `.into()`.
        update: Modification,
        /// True inserts a document when none matches the filter.
        upsert: bool,
    },
    /// Replace one document, as [`crate::Collection::replace_one`] does.
    ReplaceOne {
        /// Condition that chooses the document: the first that matches it is replaced.
        filter: Document,
        /// The new document, without update operators; the `_id` stays as it is.
        replacement: Document,
        /// True inserts the replacement when no document matches the filter.
        upsert: bool,
    },
    /// Delete one document, as [`crate::Collection::delete_one`] does.
    DeleteOne {
        /// Condition that chooses the document: the first that matches it is deleted.
        filter: Document,
    },
    /// Delete all matching documents, as [`crate::Collection::delete_many`] does.
    DeleteMany {
        /// Condition that chooses the documents: all that match it are deleted.
        filter: Document,
    },
}

impl WriteModel {
    pub(in crate::collection) fn to_operations(models: &[Self]) -> Vec<Operation> {
        models.iter().map(|model| model.to_operation().unwrap_or_else(Operation::Refused)).collect()
    }

    fn to_operation(&self) -> Result<Operation> {
        let update = |filter: &Document, update: Modification, multi, upsert| -> Result<Operation> {
            let update = update.parse()?;
            let command = UpdateCommand { update, upsert, ..update_command(filter.clone(), multi) };
            Ok(Operation::Update(Box::new(command)))
        };
        let delete = |filter: &Document, multi| Operation::Delete(Box::new(delete_command(filter.clone(), multi)));
        Ok(match self {
            Self::InsertOne { document } => Operation::Insert(document.clone()),
            Self::UpdateOne { filter, update: change, upsert } => update(filter, change.clone(), false, *upsert)?,
            Self::UpdateMany { filter, update: change, upsert } => update(filter, change.clone(), true, *upsert)?,
            Self::ReplaceOne { filter, replacement, upsert } => {
                let update = Update::replacement(replacement.clone())?;
                Operation::Update(Box::new(UpdateCommand {
                    update,
                    upsert: *upsert,
                    ..update_command(filter.clone(), false)
                }))
            }
            Self::DeleteOne { filter } => delete(filter, false),
            Self::DeleteMany { filter } => delete(filter, true),
        })
    }
}

/// Several writes, made by [`crate::Collection::bulk_write`].
///
/// ```
/// # use bson::doc;
/// # #[tokio::main]
/// # async fn main() -> mongotx::Result<()> {
/// # local_mongod::example!(client, accounts);
/// use mongotx::WriteModel;
///
/// let models = [1, 1, 2].map(|id| WriteModel::InsertOne { document: doc! {"_id": id} });
/// match accounts.bulk_write(models).ordered(false).await {
///     Ok(done) => println!("inserted {}", done.inserted_count),
///     Err(error) => {
///         let refused = &error.write_errors()[0];
///         assert_eq!((refused.index, refused.code), (1, 11_000)); // the second write: its `_id` is taken
///     }
/// }
/// # Ok(()) }
/// ```
#[must_use = "nothing happens before it is awaited"]
pub struct BulkWrite<'a> {
    core: &'a Arc<Core>,
    ns: &'a Namespace,
    models: Vec<WriteModel>,
    ordered: bool,
    session: Option<&'a mut Session>,
}

impl<'a> BulkWrite<'a> {
    pub(in crate::collection) fn new(core: &'a Arc<Core>, ns: &'a Namespace, models: Vec<WriteModel>) -> Self {
        Self { core, ns, models, ordered: true, session: None }
    }

    setters! {
        /// Sets whether to stop at the first write that is refused. Default: yes.
        ordered(ordered: bool) => ordered = ordered;
    }
}

impl<'a> IntoFuture for BulkWrite<'a> {
    type Output = Result<BulkWriteResult>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { core, ns, models, ordered, session } = self;
        Box::pin(async move {
            let operations = WriteModel::to_operations(&models);
            if operations.is_empty() {
                return Err(Error::invalid(9, "bulk_write needs at least one write"));
            }
            in_session!(session, |tx| bulk_write::write_bulk(core, tx, ns, &operations, ordered))
        })
    }
}
