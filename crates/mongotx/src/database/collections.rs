//! Creating, changing, listing and dropping collections, time series and views. None of it is part
//! of a transaction. What transactions need of validators is in `crate::coordinator::schema`.

use std::future::IntoFuture;

use bson::{Bson, Document};
use futures_util::future::BoxFuture;

use super::Database;
use crate::{
    command::collections::{drop::drop_database, indexes::modify_collection},
    error::Result,
    options::Namespace,
};

/// A collection or a view, as the application made it: see [`Database::list_collections`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CollectionInfo {
    /// Name of the collection or view.
    pub name: String,
    /// Kind of the collection: `collection`, `view` or `timeseries`.
    pub kind: String,
    /// Options that the collection was made with: `validator`, `capped`, `viewOn`, …
    pub options: Document,
}

/// A collection that is to be created: see [`Database::create_collection`].
#[must_use = "nothing happens before it is awaited"]
pub struct CreateCollection<'a> {
    database: &'a Database,
    ns: Namespace,
    options: Document,
}

impl CreateCollection<'_> {
    /// Sets an option of MongoDB's `create`, by its name: `validator`, `validationLevel`, `capped`,
    /// `size`, `collation`, `clusteredIndex`, `timeseries`, `viewOn`, `pipeline`, …
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client);
    /// let shop = client.database("shop");
    /// let options = doc! {"validator": {"price": {"$gt": 0}}, "validationAction": "error"};
    /// let mut create = shop.create_collection("products");
    /// for (name, value) in options {
    ///     create = create.option(&name, value);
    /// }
    /// create.await?;
    /// assert_eq!(shop.list_collections().await?[0].options.get_str("validationAction").unwrap(), "error");
    /// # Ok(()) }
    /// ```
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
        Box::pin(async move { database.core.schema.create_collection(&ns, &options).await })
    }
}

/// Options of a collection that are to be changed: see [`Database::modify_collection`].
#[must_use = "nothing happens before it is awaited"]
pub struct ModifyCollection<'a> {
    database: &'a Database,
    ns: Namespace,
    options: Document,
}

impl ModifyCollection<'_> {
    /// Sets an option of MongoDB's `collMod`, by its name: `validator`, `validationLevel`,
    /// `viewOn`, `pipeline`, …
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client);
    /// let shop = client.database("shop");
    /// # shop.create_collection("products").await?;
    /// shop.collection::<bson::Document>("products").create_index(doc! {"price": 1}).await?;
    /// let hidden = doc! {"name": "price_1", "hidden": true};
    /// let changed = shop.modify_collection("products").option("index", hidden).await?;
    /// assert!(changed.get_bool("hidden_new").unwrap());
    /// # Ok(()) }
    /// ```
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
        Box::pin(async move { modify_collection(&database.core, &ns, options).await })
    }
}

impl Database {
    /// Creates a collection, a time series or a view. Takes effect at once, also while the caller
    /// has a transaction open, and stays when that is rolled back. (An ordinary collection need not
    /// be created: the first insert does.)
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client);
    /// # let shop = client.database("shop");
    /// let positive = doc! {"price": {"$gt": 0}};
    /// shop.create_collection("products").option("validator", positive).await?;
    ///
    /// let products = shop.collection("products");
    /// let refused = products.insert_one(&doc! {"price": -1}).await.expect_err("the price is not positive");
    /// assert_eq!(refused.code(), Some(121));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The server's: 48 (NamespaceExists), 73 (InvalidNamespace), 72 (InvalidOptions);
    /// [`crate::ErrorKind::Unsupported`] for a validator that cannot be evaluated on uncommitted
    /// versions.
    pub fn create_collection(&self, name: &str) -> CreateCollection<'_> {
        CreateCollection { database: self, ns: Namespace::new(&self.name, name), options: Document::new() }
    }

    /// Changes options of a collection or a view, or with the option `index` those of an index:
    /// `hidden`, `expireAfterSeconds`. Takes effect at once, as in [`Database::create_collection`];
    /// a new validator does not judge what transactions have written before. Returns what was
    /// changed of the index: `hidden_old`, `hidden_new`, `expireAfterSeconds_old`, …
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client);
    /// # let shop = client.database("shop");
    /// # shop.create_collection("products").await?;
    /// shop.modify_collection("products").option("validationLevel", "moderate").await?;
    /// # let options = &shop.list_collections().await?[0].options;
    /// # assert_eq!(options.get_str("validationLevel").unwrap(), "moderate");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The server's: 26 (NamespaceNotFound), 27 (IndexNotFound), 72 (InvalidOptions);
    /// [`crate::ErrorKind::Unsupported`] for an index that is to become unique, and for a validator
    /// that cannot be evaluated on uncommitted versions.
    pub fn modify_collection(&self, name: &str) -> ModifyCollection<'_> {
        ModifyCollection { database: self, ns: Namespace::new(&self.name, name), options: Document::new() }
    }

    /// The collections and views, as they were made. What MongoTx stores for itself is not listed:
    /// neither what it made of validators nor its scratch collections.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client);
    /// # let shop = client.database("shop");
    /// shop.create_collection("products").await?;
    /// shop.create_collection("cheap").option("viewOn", "products").option("pipeline", bson::bson!([])).await?;
    /// let mut listed = shop.list_collections().await?;
    /// listed.sort_by(|a, b| a.name.cmp(&b.name));
    /// assert_eq!((listed[0].name.as_str(), listed[0].kind.as_str()), ("cheap", "view"));
    /// assert_eq!((listed[1].name.as_str(), listed[1].kind.as_str()), ("products", "collection"));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`crate::ErrorKind::Unavailable`].
    pub async fn list_collections(&self) -> Result<Vec<CollectionInfo>> {
        let listed = self.core.catalog.list_collections(&self.name, None).await?;
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

    /// The collections and views whose descriptions match a filter, each with everything that the
    /// server says of it. (A validator is matched in its stored form.)
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client);
    /// # let shop = client.database("shop");
    /// shop.create_collection("cheap").option("viewOn", "products").option("pipeline", bson::bson!([])).await?;
    /// let views = shop.describe_collections(doc! {"type": "view"}).await?;
    /// assert_eq!(views[0].get_str("name").unwrap(), "cheap");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Database::list_collections`]; the server's for a malformed filter.
    pub async fn describe_collections(&self, filter: Document) -> Result<Vec<Document>> {
        self.core.catalog.list_collections(&self.name, Some(filter)).await
    }

    /// Names of the collections and views.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client);
    /// # let shop = client.database("shop");
    /// if !shop.list_collection_names().await?.contains(&"products".to_owned()) {
    ///     shop.create_collection("products").await?;
    /// }
    /// assert_eq!(shop.list_collection_names().await?, ["products"]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Database::list_collections`].
    pub async fn list_collection_names(&self) -> Result<Vec<String>> {
        self.core.catalog.list_collection_names(&self.name).await
    }

    /// Drops the database with all its collections, each as [`crate::Collection::drop`] does.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client);
    /// # let shop = client.database("shop");
    /// shop.create_collection("products").await?;
    /// shop.drop().await?;
    /// assert!(shop.list_collection_names().await?.is_empty());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`crate::Collection::drop`]; [`crate::ErrorKind::Unsupported`] for the database with the
    /// records of clients.
    pub async fn drop(&self) -> Result<()> {
        drop_database(&self.core, &self.name).await
    }
}
