//! A database: where collections are.

mod collections;

use std::{borrow::Cow, sync::Arc};

use bson::Document;

pub use self::collections::{CollectionInfo, CreateCollection, ModifyCollection};
use crate::{
    collection::{Aggregate, Collection},
    coordinator::Core,
    options::Namespace,
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
}
