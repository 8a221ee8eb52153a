//! The action `aggregate`, of a collection or a database: its options, and its answer as a cursor.
//! How a pipeline is mapped and sent is in `crate::command::reads::aggregate`.

use std::{borrow::Cow, future::IntoFuture, marker::PhantomData, sync::Arc, time::Duration};

use bson::{Bson, Document};
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;

use crate::{
    command::reads::{aggregate, explain},
    coordinator::{
        Core,
        request::{pipeline::AggregateCommand, query_options::QueryOptions},
        transaction::Transaction,
    },
    cursor::Cursor,
    error::Result,
    options::{Namespace, Verbosity},
    session::Session,
};

/// An aggregation pipeline, made by [`crate::Collection::aggregate`] and
/// [`crate::Database::aggregate`].
///
/// ```
/// # use bson::doc;
/// # #[tokio::main]
/// # async fn main() -> mongotx::Result<()> {
/// # local_mongod::example!(client, accounts);
/// # accounts.insert_many(&[doc! {"branch": "a", "balance": 5_i64}, doc! {"branch": "a", "balance": 7_i64}]).await?;
/// #[derive(Debug, PartialEq, serde::Deserialize)]
/// struct Total {
///     #[serde(rename = "_id")]
///     branch: String,
///     total: i64,
/// }
///
/// let group = doc! {"$group": {"_id": "$branch", "total": {"$sum": "$balance"}}};
/// let totals = accounts.aggregate([group]).with_type::<Total>().batch_size(100).await?.try_collect().await?;
/// assert_eq!(totals, [Total { branch: "a".to_owned(), total: 12 }]);
/// # Ok(()) }
/// ```
#[must_use = "nothing happens before it is awaited"]
pub struct Aggregate<'a, T = Document> {
    core: &'a Arc<Core>,
    ns: Cow<'a, Namespace>,
    command: AggregateCommand,
    session: Option<&'a mut Session>,
    of: PhantomData<fn() -> T>,
}

impl<'a> Aggregate<'a> {
    pub(crate) fn new(core: &'a Arc<Core>, ns: Cow<'a, Namespace>, pipeline: Vec<Document>) -> Self {
        let command = AggregateCommand::of(pipeline, QueryOptions::default());
        Self { core, ns, command, session: None, of: PhantomData }
    }
}

impl<'a, T> Aggregate<'a, T> {
    setters! {
        /// Sets how many documents the server sends at a time. Default: the server's own.
        batch_size(size: u32) => command.batch_size = Some(size);
        /// Sets the collation by which strings compare, as in MongoDB. Default: the collection's.
        collation(collation: Document) => command.options.collation = Some(collation);
        /// Sets the index to use, by its name or its key pattern. Default: the server chooses.
        hint(hint: impl Into<Bson>) => command.options.hint = Some(hint.into());
        /// Sets variables that expressions can use as `$$name`, as `{name: value}`. Default: none.
        let_vars(variables: Document) => command.options.variables = Some(variables);
        /// Sets whether the server may use temporary files when its memory is short. Default: yes.
        allow_disk_use(allowed: bool) => command.allow_disk_use = allowed;
        /// Allows an answer that is this old: the read then takes no lock, waits for no transaction
        /// and, as a rule, costs one command.
        max_staleness(age: Duration) => command.options.staleness = Some(age);
        /// Sets a comment, which the server shows in its log, its profiler and `currentOp`.
        comment(comment: impl Into<Bson>) => command.comment = Some(comment.into());
    }

    /// The server's plan for the command that this would send now. What is pending is settled
    /// first, as it would be; nothing is locked.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.insert_one(&doc! {"_id": 1, "branch": 1}).await?;
    /// use mongotx::Verbosity;
    ///
    /// let plan = accounts.aggregate([doc! {"$match": {"branch": 1}}]).explain(Verbosity::QueryPlanner).await?;
    /// println!("{plan}");
    /// assert!(plan.to_string().contains("COLLSCAN")); // no index is used
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The errors of the action itself.
    pub async fn explain(self, verbosity: Verbosity) -> Result<Document> {
        let Self { core, ns, command, session, .. } = self;
        in_session!(session, |tx| {
            let tx: Option<&mut Transaction> = tx;
            async move { explain::aggregate(core, tx.as_deref(), &ns, &command, verbosity).await }
        })
    }

    /// Sets the type of the documents that are answered. Default: `Document`.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.insert_one(&doc! {"_id": 1}).await?;
    /// let mut bytes = accounts.aggregate([doc! {"$limit": 1}]).with_type::<bson::RawDocumentBuf>().await?;
    /// let first = bytes.next().await?.expect("there is a document");
    /// assert_eq!(first.get_i32("_id").unwrap(), 1);
    /// # Ok(()) }
    /// ```
    pub fn with_type<U>(self) -> Aggregate<'a, U> {
        let Self { core, ns, command, session, .. } = self;
        Aggregate { core, ns, command, session, of: PhantomData }
    }
}

impl<'a, T: DeserializeOwned + 'static> IntoFuture for Aggregate<'a, T> {
    type Output = Result<Cursor<T>>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { core, ns, command, session, .. } = self;
        Box::pin(async move {
            Ok(Cursor::new(in_session!(session, |tx| aggregate::aggregate_documents(core, tx, &ns, &command))?))
        })
    }
}
