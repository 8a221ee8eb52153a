//! The handle on a database: its collections, pipelines that begin without one, plans of commands.
//! Creating, changing and listing collections is in `collections`.

mod collections;

use std::{borrow::Cow, sync::Arc};

use bson::{Bson, Document};

pub use self::collections::{CollectionInfo, CreateCollection, ModifyCollection};
use crate::{
    collection::{Aggregate, Collection},
    command::reads::explain,
    coordinator::Core,
    error::Result,
    options::{Namespace, Verbosity},
};

/// A handle on a database, made by [`crate::Client::database`]. It is cheap to clone.
#[derive(Clone)]
pub struct Database {
    core: Arc<Core>,
    name: String,
}

impl Database {
    pub(crate) fn new(core: Arc<Core>, name: &str) -> Self {
        Self { core, name: name.to_owned() }
    }

    /// Name of the database, as it was passed to [`crate::Client::database`].
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client);
    /// assert_eq!(client.database("shop").name(), "shop");
    /// # Ok(()) }
    /// ```
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A handle on the collection with this name, whose documents are of type `T`: `Document`,
    /// `RawDocumentBuf`, or a type with serde's traits. Sends nothing; the first insert creates the
    /// collection.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client);
    /// # let shop = client.database("shop");
    /// #[derive(serde::Deserialize, serde::Serialize)]
    /// struct Product {
    ///     #[serde(rename = "_id")]
    ///     number: i64,
    ///     title: String,
    /// }
    ///
    /// let products = shop.collection::<Product>("products");
    /// products.insert_one(&Product { number: 1, title: "book".to_owned() }).await?;
    /// let found = products.find_one(doc! {"title": "book"}).await?.expect("it was inserted");
    /// assert_eq!(found.number, 1);
    /// # Ok(()) }
    /// ```
    pub fn collection<T>(&self, name: &str) -> Collection<T> {
        Collection::new(Arc::clone(&self.core), Namespace::new(&self.name, name))
    }

    /// A pipeline that begins without a collection: `$documents`, `$currentOp` and their like. The
    /// collections that it reads on its way are read as by [`Collection::aggregate`].
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client);
    /// # let shop = client.database("shop");
    /// let made = shop.aggregate([doc! {"$documents": [{"n": 1}, {"n": 2}]}, doc! {"$match": {"n": {"$gt": 1}}}]);
    /// assert_eq!(made.await?.try_collect().await?, [doc! {"n": 2}]);
    /// # Ok(()) }
    /// ```
    pub fn aggregate(&self, pipeline: impl IntoIterator<Item = Document>) -> Aggregate<'_> {
        let ns = Cow::Owned(Namespace::new(&self.name, ""));
        Aggregate::new(&self.core, ns, pipeline.into_iter().collect())
    }

    /// The server's plan for a MongoDB command (`find`, `aggregate`, `count`, `distinct`, `update`,
    /// `delete`, `findAndModify`) as it is written, in its own terms. It is the plan on the
    /// documents that are committed; what MongoTx sends for such a command may be more: see
    /// [`crate::collection::Find::explain`] and [`Aggregate::explain`].
    ///
    /// `verbosity`: none for an `aggregate` with the option `explain`.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client);
    /// # let shop = client.database("shop");
    /// use mongotx::Verbosity;
    ///
    /// let find = doc! {"find": "products", "filter": {"title": "book"}};
    /// let plan = shop.explain(find, Some(Verbosity::QueryPlanner)).await?;
    /// assert!(plan.get_document("queryPlanner").is_ok());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The server's; [`crate::ErrorKind::Invalid`] for a condition on a reserved field.
    pub async fn explain(&self, command: Document, verbosity: Option<Verbosity>) -> Result<Document> {
        let collection = command.values().next().and_then(Bson::as_str).unwrap_or_default();
        let ns = Namespace::new(&self.name, collection);
        explain::as_written(&self.core, &ns, command, verbosity).await
    }
}
