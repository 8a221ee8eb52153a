//! The actions `find` and `find_one`, with their options. How a query is answered, with pending
//! documents and without, is in `crate::command::reads::find`.

use std::{future::IntoFuture, marker::PhantomData, sync::Arc, time::Duration};

use bson::{Bson, Document};
use futures_util::future::BoxFuture;
use sd2v::filter::with_scripts_as_expressions;
use serde::de::DeserializeOwned;

use crate::{
    command::reads::{explain, find},
    coordinator::{
        Core,
        request::{
            query::Query,
            query_options::{FindOnly, QueryOptions},
        },
        transaction::Transaction,
    },
    cursor::Cursor,
    error::Result,
    options::{Namespace, Verbosity},
    session::Session,
};

/// A query, made by [`crate::Collection::find`].
///
/// ```
/// # use bson::doc;
/// # #[tokio::main]
/// # async fn main() -> mongotx::Result<()> {
/// # local_mongod::example!(client, accounts);
/// # let mut session = client.session();
/// # accounts.insert_many(&[doc! {"_id": 1, "owner": "ann", "balance": -3}, doc! {"_id": 2, "balance": 7}]).await?;
/// session.begin()?;
/// let overdrawn = accounts
///     .find(doc! {"balance": {"$lt": 0}})
///     .sort(doc! {"balance": 1})
///     .projection(doc! {"owner": 1})
///     .limit(100)
///     .session(&mut session)
///     .await?
///     .try_collect()
///     .await?;
/// session.commit().await?;
/// assert_eq!(overdrawn, [doc! {"_id": 1, "owner": "ann"}]);
/// # Ok(()) }
/// ```
#[must_use = "nothing happens before it is awaited"]
pub struct Find<'a, T> {
    core: &'a Arc<Core>,
    ns: &'a Namespace,
    query: Query,
    session: Option<&'a mut Session>,
    of: PhantomData<fn() -> T>,
}

impl<'a, T> Find<'a, T> {
    pub(in crate::collection) fn new(core: &'a Arc<Core>, ns: &'a Namespace, filter: Document) -> Self {
        Self {
            core,
            ns,
            query: Query::of(with_scripts_as_expressions(filter), QueryOptions::default()),
            session: None,
            of: PhantomData,
        }
    }

    setters! {
        /// Sets the order of the answer: `{field: 1}` ascending, `{field: -1}` descending.
        sort(sort: Document) => query.sort = Some(sort);
        /// Sets how many documents are skipped, in the order of the query. Default: none.
        skip(skip: u64) => query.skip = skip;
        /// Sets how many documents are answered at most; 0 is no limit.
        limit(limit: u64) => query.limit = limit;
        /// Sets the projection: which fields are answered, as `{field: 1}` or `{field: 0}`.
        /// Default: all.
        projection(projection: Document) => query.projection = Some(projection);
        /// Sets how many documents the server sends at a time. Default: the server's own.
        batch_size(size: u32) => query.batch_size = Some(size);
        /// Sets the collation by which strings compare, as in MongoDB. Default: the collection's.
        collation(collation: Document) => query.options.collation = Some(collation);
        /// Sets the index to use, by its name or its key pattern. Default: the server chooses.
        hint(hint: impl Into<Bson>) => query.options.hint = Some(hint.into());
        /// Sets variables that `$expr` can use as `$$name`, as `{name: value}`. Default: none.
        let_vars(variables: Document) => query.options.variables = Some(variables);
        /// Allows an answer that is this old: the read then takes no lock, waits for no transaction
        /// and, as a rule, costs one command.
        max_staleness(age: Duration) => query.options.staleness = Some(age);
    }

    /// Sets the key of the hinted index at which reading begins. This option and the next three are
    /// refused after an own write in the collection, beside documents that cannot be finished, and
    /// on views.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.create_index(doc! {"branch": 1}).await?;
    /// # accounts.insert_many(&[doc! {"branch": 5}, doc! {"branch": 15}, doc! {"branch": 25}]).await?;
    /// let range = accounts.find(doc! {}).hint("branch_1").min(doc! {"branch": 10}).max(doc! {"branch": 20}).await?;
    /// assert_eq!(range.try_collect().await?.len(), 1);
    /// # Ok(()) }
    /// ```
    pub fn min(mut self, key: Document) -> Self {
        self.find_only().min = Some(key);
        self
    }

    /// Sets the key of the hinted index before which reading ends.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.create_index(doc! {"branch": 1}).await?;
    /// # accounts.insert_many(&[doc! {"branch": 15}, doc! {"branch": 20}]).await?;
    /// let range = accounts.find(doc! {}).hint("branch_1").max(doc! {"branch": 20}).await?;
    /// assert_eq!(range.try_collect().await?.len(), 1); // 20 itself is not in it
    /// # Ok(()) }
    /// ```
    pub fn max(mut self, key: Document) -> Self {
        self.find_only().max = Some(key);
        self
    }

    /// Returns the keys of the index that is used, in place of the documents.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.create_index(doc! {"branch": 1}).await?;
    /// # accounts.insert_one(&doc! {"_id": 7, "branch": 1}).await?;
    /// let keys = accounts.find(doc! {"branch": 1}).hint("branch_1").return_key().await?.try_collect().await?;
    /// assert_eq!(keys, [doc! {"branch": 1}]);
    /// # Ok(()) }
    /// ```
    pub fn return_key(mut self) -> Self {
        self.find_only().return_key = true;
        self
    }

    /// Returns each document with `$recordId`, the number under which the server stores it.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.insert_one(&doc! {"_id": 7}).await?;
    /// let numbered = accounts.find(doc! {}).show_record_id().await?.try_collect().await?;
    /// assert!(numbered[0].contains_key("$recordId"));
    /// # Ok(()) }
    /// ```
    pub fn show_record_id(mut self) -> Self {
        self.find_only().show_record_id = true;
        self
    }

    fn find_only(&mut self) -> &mut FindOnly {
        self.query.options.find_only.get_or_insert_default()
    }

    /// The server's plan for the command that this would send now. What is pending is settled
    /// first, as it would be; nothing is locked.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// use mongotx::Verbosity;
    ///
    /// let plan = accounts.find(doc! {"branch": 1}).explain(Verbosity::ExecutionStats).await?;
    /// assert!(plan.to_string().contains("executionStats"));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The errors of the action itself.
    pub async fn explain(self, verbosity: Verbosity) -> Result<Document> {
        let Self { core, ns, query, session, .. } = self;
        in_session!(session, |tx| {
            let tx: Option<&mut Transaction> = tx;
            async move { explain::find(core, tx.as_deref(), ns, &query, verbosity).await }
        })
    }
}

impl<'a, T: DeserializeOwned + 'static> IntoFuture for Find<'a, T> {
    type Output = Result<Cursor<T>>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { core, ns, query, session, .. } = self;
        Box::pin(async move { Ok(Cursor::new(in_session!(session, |tx| find::find_documents(core, tx, ns, &query))?)) })
    }
}

/// A query for one document, made by [`crate::Collection::find_one`].
///
/// ```
/// # use bson::doc;
/// # #[tokio::main]
/// # async fn main() -> mongotx::Result<()> {
/// # local_mongod::example!(client, accounts);
/// # accounts.insert_one(&doc! {"_id": 7, "branch": 1, "opened": 2020, "owner": "ann"}).await?;
/// let oldest = accounts.find_one(doc! {"branch": 1}).sort(doc! {"opened": 1}).projection(doc! {"owner": 1}).await?;
/// assert_eq!(oldest, Some(doc! {"_id": 7, "owner": "ann"}));
/// # Ok(()) }
/// ```
#[must_use = "nothing happens before it is awaited"]
pub struct FindOne<'a, T>(Find<'a, T>);

impl<'a, T> FindOne<'a, T> {
    pub(in crate::collection) fn new(core: &'a Arc<Core>, ns: &'a Namespace, filter: Document) -> Self {
        Self(Find::new(core, ns, filter).limit(1))
    }

    /// Sets the order of the answer: `{field: 1}` ascending, `{field: -1}` descending.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.insert_many(&[doc! {"_id": 1, "balance": 5}, doc! {"_id": 2, "balance": 9}]).await?;
    /// let richest = accounts.find_one(doc! {}).sort(doc! {"balance": -1}).await?;
    /// assert_eq!(richest, Some(doc! {"_id": 2, "balance": 9}));
    /// # Ok(()) }
    /// ```
    pub fn sort(self, sort: Document) -> Self {
        Self(self.0.sort(sort))
    }

    /// Sets how many documents are skipped, in the order of the query. Default: none.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.insert_many(&[doc! {"_id": 1, "balance": 5}, doc! {"_id": 2, "balance": 9}]).await?;
    /// let second = accounts.find_one(doc! {}).sort(doc! {"balance": -1}).skip(1).await?;
    /// assert_eq!(second, Some(doc! {"_id": 1, "balance": 5}));
    /// # Ok(()) }
    /// ```
    pub fn skip(self, skip: u64) -> Self {
        Self(self.0.skip(skip))
    }

    /// Sets the projection: which fields are answered, as `{field: 1}` or `{field: 0}`. Default:
    /// all.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.insert_many(&[doc! {"_id": 1, "balance": 5}, doc! {"_id": 2, "balance": 9}]).await?;
    /// let found = accounts.find_one(doc! {"_id": 1}).projection(doc! {"_id": 0, "balance": 1}).await?;
    /// assert_eq!(found, Some(doc! {"balance": 5}));
    /// # Ok(()) }
    /// ```
    pub fn projection(self, projection: Document) -> Self {
        Self(self.0.projection(projection))
    }

    /// Sets the collation by which strings compare, as in MongoDB. Default: the collection's.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.insert_one(&doc! {"_id": 1, "owner": "Ann"}).await?;
    /// let any_case = doc! {"locale": "en", "strength": 2};
    /// assert_eq!(accounts.find_one(doc! {"owner": "ann"}).await?, None);
    /// assert!(accounts.find_one(doc! {"owner": "ann"}).collation(any_case).await?.is_some());
    /// # Ok(()) }
    /// ```
    pub fn collation(self, collation: Document) -> Self {
        Self(self.0.collation(collation))
    }

    /// Sets the index to use, by its name or its key pattern. Default: the server chooses.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.insert_many(&[doc! {"_id": 1, "balance": 5}, doc! {"_id": 2, "balance": 9}]).await?;
    /// # accounts.create_index(doc! {"balance": 1}).await?;
    /// let found = accounts.find_one(doc! {"balance": {"$gt": 5}}).hint("balance_1").await?;
    /// assert_eq!(found, Some(doc! {"_id": 2, "balance": 9}));
    /// # Ok(()) }
    /// ```
    pub fn hint(self, hint: impl Into<Bson>) -> Self {
        Self(self.0.hint(hint))
    }

    /// Sets variables that `$expr` can use as `$$name`, as `{name: value}`. Default: none.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.insert_many(&[doc! {"_id": 1, "balance": 5}, doc! {"_id": 2, "balance": 9}]).await?;
    /// let above = doc! {"$expr": {"$gt": ["$balance", "$$least"]}};
    /// let found = accounts.find_one(above).let_vars(doc! {"least": 5}).await?;
    /// assert_eq!(found, Some(doc! {"_id": 2, "balance": 9}));
    /// # Ok(()) }
    /// ```
    pub fn let_vars(self, variables: Document) -> Self {
        Self(self.0.let_vars(variables))
    }

    /// Allows an answer that is this old: the read then takes no lock, waits for no transaction
    /// and, as a rule, costs one command.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.insert_many(&[doc! {"_id": 1, "balance": 5}, doc! {"_id": 2, "balance": 9}]).await?;
    /// # use std::time::Duration;
    /// let found = accounts.find_one(doc! {"_id": 1}).max_staleness(Duration::from_secs(1)).await?;
    /// assert_eq!(found, Some(doc! {"_id": 1, "balance": 5})); // or as it was up to a second ago
    /// # Ok(()) }
    /// ```
    pub fn max_staleness(self, age: Duration) -> Self {
        Self(self.0.max_staleness(age))
    }

    /// Runs the action in this session's open transaction. If none is open, the action is a
    /// transaction of its own.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.insert_many(&[doc! {"_id": 1, "balance": 5}, doc! {"_id": 2, "balance": 9}]).await?;
    /// # let mut session = client.session();
    /// session.begin()?;
    /// accounts.update_one(doc! {"_id": 1}, doc! {"$inc": {"balance": 1}}).session(&mut session).await?;
    /// let own = accounts.find_one(doc! {"_id": 1}).session(&mut session).await?;
    /// assert_eq!(own, Some(doc! {"_id": 1, "balance": 6})); // others see 5 until the commit
    /// session.commit().await?;
    /// # Ok(()) }
    /// ```
    pub fn session(self, session: &'a mut Session) -> Self {
        Self(self.0.session(session))
    }
}

impl<'a, T: DeserializeOwned + 'static> IntoFuture for FindOne<'a, T> {
    type Output = Result<Option<T>>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.0.await?.next().await })
    }
}
