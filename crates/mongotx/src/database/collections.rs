//! Creating, changing and listing collections.

use std::future::IntoFuture;

use bson::{Bson, Document};
use futures_util::future::BoxFuture;

use super::Database;
use crate::{error::Result, options::Namespace};

/// A collection as its application made it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CollectionInfo {
    /// Its name.
    pub name: String,
    /// `collection`, `view` or `timeseries`.
    pub kind: String,
    /// The options that it was made with: `validator`, `capped`, `viewOn`, …
    pub options: Document,
}

/// A collection to be made.
#[must_use = "nothing happens before it is awaited"]
pub struct CreateCollection<'a> {
    database: &'a Database,
    ns: Namespace,
    options: Document,
}

impl CreateCollection<'_> {
    /// An option of MongoDB's `create`, by its name: `validator`, `validationLevel`, `capped`, `size`, `collation`,
    /// `clusteredIndex`, `timeseries`, `viewOn`, `pipeline`, …
    pub fn option(mut self, name: &str, value: impl Into<Bson>) -> Self {
        self.options.insert(name, value.into());
        self
    }
}

impl<'a> IntoFuture for CreateCollection<'a> {
    type Output = Result<()>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { database, ns, options } = self;
        Box::pin(async move { database.core.create_collection(&ns, &options).await })
    }
}

/// Options of a collection to be changed.
#[must_use = "nothing happens before it is awaited"]
pub struct ModifyCollection<'a> {
    database: &'a Database,
    ns: Namespace,
    options: Document,
}

impl ModifyCollection<'_> {
    /// An option of MongoDB's `collMod`, by its name: `validator`, `validationLevel`, `viewOn`, `pipeline`, …
    pub fn option(mut self, name: &str, value: impl Into<Bson>) -> Self {
        self.options.insert(name, value.into());
        self
    }
}

impl<'a> IntoFuture for ModifyCollection<'a> {
    type Output = Result<Document>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { database, ns, options } = self;
        Box::pin(async move { database.core.modify_collection(&ns, &options).await })
    }
}

impl Database {
    /// Creates a collection, a time series or a view. Takes effect at once, also while the caller has a transaction open,
    /// and stays when that is rolled back. (An ordinary collection need not be created: the first insert does.)
    ///
    /// # Errors
    /// The server's: 48 (NamespaceExists), 73 (InvalidNamespace), 72 (InvalidOptions);
    /// [`crate::ErrorKind::Unsupported`] for a validator that could not be asked of uncommitted versions.
    pub fn create_collection(&self, name: &str) -> CreateCollection<'_> {
        CreateCollection { database: self, ns: Namespace::new(&self.name, name), options: Document::new() }
    }

    /// Changes options of a collection or a view, or with the option `index` those of an index: `hidden`, `expireAfterSeconds`.
    /// Takes effect at once, as in [`Database::create_collection`]; what transactions have written before is not judged by a new
    /// validator. Answers what was changed of the index: `hidden_old`, `hidden_new`, `expireAfterSeconds_old`, …
    ///
    /// # Errors
    /// The server's: 26 (NamespaceNotFound), 27 (IndexNotFound), 72 (InvalidOptions); [`crate::ErrorKind::Unsupported`] for an
    /// index that is to become unique, and for a validator that could not be asked of uncommitted versions.
    pub fn modify_collection(&self, name: &str) -> ModifyCollection<'_> {
        ModifyCollection { database: self, ns: Namespace::new(&self.name, name), options: Document::new() }
    }

    /// The collections and views, as they were made. What MongoTx stores for itself is not listed: neither what it made of
    /// validators nor its scratch collections.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Unavailable`].
    pub async fn list_collections(&self) -> Result<Vec<CollectionInfo>> {
        let listed = self.core.list_collections(&self.name, None).await?;
        let text = |info: &Document, field| info.get_str(field).unwrap_or_default().to_owned();
        Ok(listed
            .into_iter()
            .map(|info| CollectionInfo {
                name: text(&info, "name"),
                kind: text(&info, "type"),
                options: info.get_document("options").cloned().unwrap_or_default(),
            })
            .collect())
    }

    /// The same, each with all that the server tells of it, of those that match a filter on that. (A validator is
    /// matched in its stored form.)
    ///
    /// # Errors
    /// As [`Database::list_collections`]; the server's for a malformed filter.
    pub async fn describe_collections(&self, filter: Document) -> Result<Vec<Document>> {
        self.core.list_collections(&self.name, Some(filter)).await
    }

    /// Their names.
    ///
    /// # Errors
    /// As [`Database::list_collections`].
    pub async fn list_collection_names(&self) -> Result<Vec<String>> {
        self.core.list_collection_names(&self.name).await
    }

    /// Drops the database with all that is in it, as [`crate::Collection::drop`] drops each collection.
    ///
    /// # Errors
    /// As there; [`crate::ErrorKind::Unsupported`] for the database with the records of clients.
    pub async fn drop(&self) -> Result<()> {
        self.core.drop_database(&self.name).await
    }
}
