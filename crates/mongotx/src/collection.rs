//! The handle on a collection, with the official driver's methods and options.
//!
//! Each method answers an action: `.session(&mut session)` puts it into that session's transaction,
//! options are set by further methods, and `.await` runs it. Without a session an action is a
//! transaction of its own.
//!
//! Here are the methods whose arguments and answers are no documents of the collection, `typed` has
//! those with documents of the application's type, `raw` those with bytes, and `indexes` those
//! about indexes.

mod actions;
mod indexes;
mod raw;
mod typed;

use std::{borrow::Cow, marker::PhantomData, sync::Arc};

use bson::Document;

pub use self::{
    actions::{
        Aggregate, BulkWrite, Count, Delete, Distinct, EstimatedCount, Find, FindOne, FindOneAndDelete,
        FindOneAndUpdate, InsertMany, InsertOne, Modification, ReturnDocument, UpdateAction, WriteModel,
    },
    indexes::IndexModel,
};
use crate::{
    command::{
        bulk::direct_batch::{self, PartialBulkResult},
        collections::{drop::drop_collection, rename::rename_collection},
    },
    coordinator::Core,
    error::Result,
    options::Namespace,
};

/// A collection of a database. Of [`Document`] or `RawDocumentBuf` it stores and answers documents
/// to the byte. An application's own type goes through serde, as with the official driver: a field
/// of it that is a `Document` or a `Bson` takes an object that looks like Extended JSON for what it
/// looks like, one that is a `RawDocumentBuf` does not.
///
/// ```
/// # use bson::doc;
/// # #[tokio::main]
/// # async fn main() -> mongotx::Result<()> {
/// # local_mongod::example!(client);
/// let accounts: mongotx::Collection = client.database("bank").collection("accounts");
/// accounts.insert_one(&doc! {"_id": 1, "balance": 100}).await?; // a transaction of its own
///
/// let mut session = client.session();
/// session.begin()?;
/// accounts.delete_one(doc! {"_id": 1}).session(&mut session).await?; // in the session's transaction
/// session.commit().await?;
/// assert_eq!(accounts.count_documents(doc! {}).await?, 0);
/// # Ok(()) }
/// ```
pub struct Collection<T = Document> {
    core: Arc<Core>,
    namespace: Namespace,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Collection<T> {
    fn clone(&self) -> Self {
        Self { core: Arc::clone(&self.core), namespace: self.namespace.clone(), of: PhantomData }
    }
}

impl<T> Collection<T> {
    pub(crate) fn new(core: Arc<Core>, namespace: Namespace) -> Self {
        Self { core, namespace, of: PhantomData }
    }

    /// Namespace of the collection: the names of its database and of itself.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// assert_eq!(accounts.namespace().to_string(), "bank.accounts");
    /// # Ok(()) }
    /// ```
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Counts the documents that match, exactly.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// accounts.insert_many(&[doc! {"_id": 1, "balance": 100}, doc! {"_id": 2, "balance": -5}]).await?;
    /// let overdrawn: u64 = accounts.count_documents(doc! {"balance": {"$lt": 0}}).await?;
    /// assert_eq!(overdrawn, 1);
    /// # Ok(()) }
    /// ```
    pub fn count_documents(&self, filter: Document) -> Count<'_> {
        Count::new(&self.core, &self.namespace, filter)
    }

    /// Returns how many documents the collection has according to its metadata: quick, and not
    /// exact beside transactions under way.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// accounts.insert_many(&[doc! {"_id": 1}, doc! {"_id": 2}]).await?;
    /// let about: u64 = accounts.estimated_document_count().await?;
    /// assert_eq!(about, 2); // no transaction is under way
    /// # Ok(()) }
    /// ```
    pub fn estimated_document_count(&self) -> EstimatedCount<'_> {
        EstimatedCount::new(&self.core, &self.namespace)
    }

    /// Runs an aggregation pipeline on the collection. `$out` and `$merge` write outside
    /// transactions only; `$changeStream` is refused. Where the transaction has written to a
    /// collection that the pipeline reads, it reads these writes, too, and `$graphLookup` and
    /// `$text` are refused there.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # let (a, b) = (doc! {"branch": "a", "balance": 5}, doc! {"branch": "a", "balance": 7});
    /// # accounts.insert_many(&[a, b]).await?;
    /// let by_branch = [doc! {"$group": {"_id": "$branch", "total": {"$sum": "$balance"}}}];
    /// let totals = accounts.aggregate(by_branch).await?.try_collect().await?;
    /// assert_eq!(totals, [doc! {"_id": "a", "total": 12}]);
    /// # Ok(()) }
    /// ```
    pub fn aggregate(&self, pipeline: impl IntoIterator<Item = Document>) -> Aggregate<'_> {
        Aggregate::new(&self.core, Cow::Borrowed(&self.namespace), pipeline.into_iter().collect())
    }

    /// Returns the distinct values of a field in the documents that match.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// accounts.insert_many(&[doc! {"branch": "a"}, doc! {"branch": "b"}, doc! {"branch": "a"}]).await?;
    /// let mut branches = accounts.distinct("branch", doc! {}).await?;
    /// branches.sort_by_key(|branch| branch.to_string());
    /// assert_eq!(branches, ["a".into(), "b".into()]);
    /// # Ok(()) }
    /// ```
    pub fn distinct(&self, field: &str, filter: Document) -> Distinct<'_> {
        Distinct::new(&self.core, &self.namespace, field, filter)
    }

    /// Updates the first document that matches, by operators or a pipeline.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.insert_many(&[doc! {"_id": 1, "balance": 100}, doc! {"_id": 2, "balance": 1.239}]).await?;
    /// let by_operators = doc! {"$inc": {"balance": 5}, "$currentDate": {"changed": true}};
    /// let done = accounts.update_one(doc! {"_id": 1}, by_operators).await?;
    /// assert_eq!((done.matched_count, done.modified_count), (1, 1));
    ///
    /// let by_pipeline = vec![doc! {"$set": {"balance": {"$round": ["$balance", 2]}}}];
    /// accounts.update_one(doc! {"_id": 2}, by_pipeline).await?;
    /// assert_eq!(accounts.find_one(doc! {"_id": 2}).await?, Some(doc! {"_id": 2, "balance": 1.24}));
    /// # Ok(()) }
    /// ```
    pub fn update_one(&self, filter: Document, update: impl Into<Modification>) -> UpdateAction<'_> {
        UpdateAction::new(&self.core, &self.namespace, filter, update.into().parse(), false)
    }

    /// Updates every document that matches, by operators or a pipeline.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # let savings = |id: i32| doc! {"_id": id, "kind": "savings", "balance": 100.0};
    /// # accounts.insert_many(&[savings(1), savings(2)]).await?;
    /// let interest = doc! {"$mul": {"balance": 1.5}};
    /// let done = accounts.update_many(doc! {"kind": "savings"}, interest).await?;
    /// assert_eq!(done.modified_count, 2);
    /// # Ok(()) }
    /// ```
    pub fn update_many(&self, filter: Document, update: impl Into<Modification>) -> UpdateAction<'_> {
        UpdateAction::new(&self.core, &self.namespace, filter, update.into().parse(), true)
    }

    /// Deletes the first document that matches.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// accounts.insert_many(&[doc! {"_id": 1}, doc! {"_id": 2}]).await?;
    /// let deleted: u64 = accounts.delete_one(doc! {"_id": 1}).await?;
    /// assert_eq!(deleted, 1);
    /// # Ok(()) }
    /// ```
    pub fn delete_one(&self, filter: Document) -> Delete<'_> {
        Delete::new(&self.core, &self.namespace, filter, false)
    }

    /// Deletes every document that matches.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// accounts.insert_many(&[doc! {"_id": 1, "closed": true}, doc! {"_id": 2, "closed": true}]).await?;
    /// let deleted: u64 = accounts.delete_many(doc! {"closed": true}).await?;
    /// assert_eq!(deleted, 2);
    /// # Ok(()) }
    /// ```
    pub fn delete_many(&self, filter: Document) -> Delete<'_> {
        Delete::new(&self.core, &self.namespace, filter, true)
    }

    /// Drops the collection with its indexes; a collection that does not exist is no error. Takes
    /// effect at once, also while the caller has a transaction open, and stays when that is rolled
    /// back.
    ///
    /// Waits until no document is locked by a living transaction, the caller's own included, up to
    /// the client's `write_wait`. A document that is locked between the last check and the drop is
    /// dropped with the collection: its transaction gets no error and may commit, as if it had done
    /// so right before the drop; its later writes create the collection again.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// accounts.insert_one(&doc! {"_id": 1}).await?;
    /// accounts.drop().await?;
    /// assert!(client.database("bank").list_collection_names().await?.is_empty());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`crate::ErrorKind::Conflict`] when documents are still locked then, with one of the
    /// holders; [`crate::ErrorKind::Unsupported`] for the records of clients and the storage of
    /// time series.
    pub async fn drop(&self) -> Result<()> {
        drop_collection(&self.core, &self.namespace).await
    }

    /// Renames the collection, with its indexes and its validator, perhaps into another database.
    /// With `drops_target` it takes the place of a collection that has the name; otherwise there
    /// must be none. It takes effect at once, also while the caller has a transaction open, and
    /// stays when that is rolled back. This handle goes on being one on the old name.
    ///
    /// Waits until no document of either collection is locked by a living transaction, the caller's
    /// own included, up to the client's `write_wait`. While the server renames, which looks at
    /// every document, transactions cannot lock documents there: they fail with
    /// [`crate::ErrorKind::Conflict`]. It is not interrupted when the future is dropped.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client);
    /// # let shop = client.database("shop");
    /// let prices = shop.collection::<bson::Document>("prices");
    /// let staged = shop.collection::<bson::Document>("prices_new");
    /// prices.insert_one(&doc! {"_id": "book", "price": 20}).await?;
    /// staged.insert_one(&doc! {"_id": "book", "price": 25}).await?;
    /// staged.rename(prices.namespace(), true).await?;
    /// assert_eq!(prices.find_one(doc! {}).await?, Some(doc! {"_id": "book", "price": 25}));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`crate::ErrorKind::Conflict`] when documents are still locked then, with one of the
    /// holders, or when one of the two is being renamed already; [`crate::ErrorKind::Unsupported`]
    /// for the records of clients, the storage of time series, and behind a router;
    /// [`crate::ErrorKind::Indeterminate`] when the answer is lost; the server's: 20, 26
    /// (NamespaceNotFound), 48 (NamespaceExists), 166.
    pub async fn rename(&self, to: &Namespace, drops_target: bool) -> Result<()> {
        rename_collection(&self.core, &self.namespace, to, drops_target).await
    }

    /// Runs several writes of several kinds. Outside a transaction they are a transaction of their
    /// own: all take effect, or none.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.insert_many(&[doc! {"_id": 1, "balance": 100}, doc! {"_id": 2, "closed": true}]).await?;
    /// use mongotx::WriteModel;
    ///
    /// let done = accounts
    ///     .bulk_write([
    ///         WriteModel::InsertOne { document: doc! {"_id": 3, "balance": 0} },
    ///         WriteModel::UpdateOne { filter: doc! {"_id": 1}, update: doc! {"$inc": {"balance": -5}}.into(), upsert: false },
    ///         WriteModel::DeleteMany { filter: doc! {"closed": true} },
    ///     ])
    ///     .await?;
    /// assert_eq!((done.inserted_count, done.modified_count, done.deleted_count), (1, 1, 1));
    /// # Ok(()) }
    /// ```
    pub fn bulk_write(&self, models: impl IntoIterator<Item = WriteModel>) -> BulkWrite<'_> {
        BulkWrite::new(&self.core, &self.namespace, models.into_iter().collect())
    }

    /// Carries out as many of the first writes as one command can, outside transactions. Each takes
    /// effect by itself, as if it were sent alone: [`Collection::bulk_write`] makes one transaction
    /// of them. (Updates that may change values of a unique index are transactions alone, too: the
    /// first ones are one transaction together. If a rival is in its way, none is taken.) With
    /// `ordered`, nothing behind one that is not done is done. For a proxy, which goes on with the
    /// others, and carries out alone what is to be:
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// use mongotx::WriteModel;
    ///
    /// let models = [1, 2, 3].map(|id| WriteModel::InsertOne { document: doc! {"_id": id} });
    /// let first = accounts.write_first(&models, true).await?;
    /// if let Some(error) = first.failed {
    ///     return Err(error); // any of the first `first.taken` may be done
    /// }
    /// let rest = &models[first.taken..]; // begin here the next time; the one in front of it may be in `first.not_done`
    /// assert_eq!(first.result.inserted_count as usize + first.not_done.len() + rest.len(), 3);
    /// # Ok(()) }
    /// ```
    ///
    /// After a dropped future each of the writes may be done.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Unavailable`] when the server cannot be reached, or the kind of the
    /// collection cannot be looked up: nothing was done. All other errors are in the result.
    pub async fn write_first(&self, models: &[WriteModel], ordered: bool) -> Result<PartialBulkResult> {
        direct_batch::write_first(&self.core, &self.namespace, &WriteModel::to_operations(models), ordered).await
    }
}

/// A document of the application's type as BSON, or the error that says why it is none.
type EncodedDocument = Result<Document>;
