//! Indexes of a collection. What MongoTx adds to them is not listed.

use std::time::Duration;

use bson::{Bson, Document, doc};

use super::Collection;
use crate::error::{Error, Result};

/// An index: a key pattern and options, as in MongoDB's `createIndexes`.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexModel {
    spec: Document,
    mirrored: bool,
}

impl From<Document> for IndexModel {
    fn from(keys: Document) -> Self {
        Self::new(keys)
    }
}

impl IndexModel {
    /// An index with this key pattern: `{field: 1}`, `{field: "2dsphere"}`, …
    pub fn new(keys: Document) -> Self {
        Self { spec: doc! {"key": keys}, mirrored: false }
    }

    /// Its name; the server's usual one if none is given.
    pub fn name(self, name: &str) -> Self {
        self.option("name", name)
    }

    /// No two documents may have the same key.
    pub fn unique(self, unique: bool) -> Self {
        self.option("unique", unique)
    }

    /// Documents without any of its fields are not in it.
    pub fn sparse(self, sparse: bool) -> Self {
        self.option("sparse", sparse)
    }

    /// The server removes documents so long after the time in the field.
    pub fn expire_after(self, time: Duration) -> Self {
        self.option("expireAfterSeconds", i64::try_from(time.as_secs()).unwrap_or(i64::MAX))
    }

    /// Only documents that match are in it.
    pub fn partial_filter(self, filter: Document) -> Self {
        self.option("partialFilterExpression", filter)
    }

    /// How its strings compare.
    pub fn collation(self, collation: Document) -> Self {
        self.option("collation", collation)
    }

    /// Any other option, by MongoDB's name.
    pub fn option(mut self, name: &str, value: impl Into<Bson>) -> Self {
        self.spec.insert(name, value.into());
        self
    }

    /// Index unsafe versions, too, so that queries find pending documents through it: pays where many documents are
    /// pending at a time. Unique, geospatial and hashed indexes, and those of several fields, always do.
    pub fn mirrored(mut self, mirrored: bool) -> Self {
        self.mirrored = mirrored;
        self
    }

    /// Its key pattern.
    pub fn keys(&self) -> Document {
        self.spec.get_document("key").cloned().unwrap_or_default()
    }

    /// Everything the server knows of it: `{v, key, name, …}`.
    pub fn spec(&self) -> &Document {
        &self.spec
    }
}

impl<T> Collection<T> {
    /// Creates an index, and the collection if there is none; an equal one is no error. Answers its name. Takes effect at
    /// once, also while the caller has a transaction open.
    ///
    /// A unique index waits for transactions under way in the collection, up to the client's `write_wait`, and about ten
    /// seconds if other clients work on it.
    ///
    /// # Errors
    /// The server's; 85 and 86 for an index that is there under another name or with other options; 67 for a name that is
    /// MongoTx's own; [`crate::ErrorKind::Conflict`] when transactions under way do not end.
    pub async fn create_index(&self, index: impl Into<IndexModel>) -> Result<String> {
        let mut names = self.create_indexes([index.into()]).await?;
        names.pop().ok_or_else(|| Error::invalid(67, "no index was created"))
    }

    /// Creates indexes, one after the other. Answers their names.
    ///
    /// # Errors
    /// As [`Collection::create_index`]; those created before stay.
    pub async fn create_indexes(&self, indexes: impl IntoIterator<Item = IndexModel>) -> Result<Vec<String>> {
        let specs: Vec<(Document, bool)> = indexes.into_iter().map(|index| (index.spec, index.mirrored)).collect();
        self.core.create_indexes(&self.namespace, &specs).await
    }

    /// Drops an index by its name or its key pattern.
    ///
    /// # Errors
    /// 27 (IndexNotFound); 72 for the index on `_id`.
    pub async fn drop_index(&self, index: impl Into<Bson>) -> Result<()> {
        self.core.drop_index(&self.namespace, &index.into()).await
    }

    /// Drops every index but that on `_id`.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Unavailable`].
    pub async fn drop_indexes(&self) -> Result<()> {
        self.core.drop_indexes(&self.namespace).await
    }

    /// The indexes, as they were created. None where there is no collection.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Unavailable`].
    pub async fn list_indexes(&self) -> Result<Vec<IndexModel>> {
        let listed = self.core.list_indexes(&self.namespace).await?;
        Ok(listed.into_iter().map(|(spec, mirrored)| IndexModel { spec, mirrored }).collect())
    }

    /// Their names.
    ///
    /// # Errors
    /// As [`Collection::list_indexes`].
    pub async fn list_index_names(&self) -> Result<Vec<String>> {
        let listed = self.core.list_indexes(&self.namespace).await?;
        Ok(listed.into_iter().filter_map(|(spec, _)| spec.get_str("name").ok().map(str::to_owned)).collect())
    }
}
