//! A database: where collections are.

mod collections;

use std::{borrow::Cow, sync::Arc};

use bson::{Bson, Document};

pub use self::collections::{CollectionInfo, CreateCollection, ModifyCollection};
use crate::{
    collection::{Aggregate, Collection},
    command::explain,
    coordinator::Core,
    error::Result,
    options::{Namespace, Verbosity},
};

/// A database of a client.
#[derive(Clone)]
pub struct Database {
    core: Arc<Core>,
    name: String,
}

impl Database {
    pub(crate) fn new(core: Arc<Core>, name: &str) -> Self {
        Self { core, name: name.to_owned() }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A collection of documents of type `T` (`Document`, or anything with serde's traits).
    pub fn collection<T>(&self, name: &str) -> Collection<T> {
        Collection::new(Arc::clone(&self.core), Namespace::new(&self.name, name))
    }

    /// A pipeline that begins without a collection: `$documents`, `$currentOp` and their like. The collections that it reads
    /// on its way are read as by [`Collection::aggregate`].
    pub fn aggregate(&self, pipeline: impl IntoIterator<Item = Document>) -> Aggregate<'_> {
        let ns = Cow::Owned(Namespace::new(&self.name, ""));
        Aggregate::new(&self.core, ns, pipeline.into_iter().collect())
    }

    /// The server's plan for a MongoDB command (`find`, `aggregate`, `count`, `distinct`, `update`, `delete`,
    /// `findAndModify`) as it is written, in its own terms. It is the plan on the documents that are committed; what MongoTx sends
    /// for such a command may be more: [`crate::collection::Find::explain`] and [`Aggregate::explain`] tell.
    ///
    /// `verbosity`: none for an `aggregate` with the option `explain`.
    ///
    /// # Errors
    /// The server's; [`crate::ErrorKind::Invalid`] for a condition on a reserved field.
    pub async fn explain(&self, command: Document, verbosity: Option<Verbosity>) -> Result<Document> {
        let collection = command.values().next().and_then(Bson::as_str).unwrap_or_default();
        let ns = Namespace::new(&self.name, collection);
        explain::as_written(&self.core, &ns, command, verbosity).await
    }
}
