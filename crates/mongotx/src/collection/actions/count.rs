//! The actions `count_documents`, which counts exactly, and `estimated_document_count`, which asks
//! the collection's metadata. They are carried out by `crate::command::reads::count`.

use std::{future::IntoFuture, sync::Arc, time::Duration};

use bson::{Bson, Document};
use futures_util::future::BoxFuture;

use crate::{
    command::reads::count,
    coordinator::{
        Core,
        request::{query::Query, query_options::QueryOptions},
    },
    error::Result,
    options::Namespace,
    session::Session,
};

/// An exact count, made by [`crate::Collection::count_documents`].
///
/// ```
/// # use bson::doc;
/// # #[tokio::main]
/// # async fn main() -> mongotx::Result<()> {
/// # local_mongod::example!(client, accounts);
/// accounts.create_index(doc! {"branch": 1}).await?;
/// accounts.insert_many(&[doc! {"branch": 1}, doc! {"branch": 2}]).await?;
/// let at_most_1000 = accounts.count_documents(doc! {"branch": 1}).limit(1_000).hint("branch_1").await?;
/// assert_eq!(at_most_1000, 1);
/// # Ok(()) }
/// ```
#[must_use = "nothing happens before it is awaited"]
pub struct Count<'a> {
    core: &'a Arc<Core>,
    ns: &'a Namespace,
    query: Query,
    session: Option<&'a mut Session>,
}

impl<'a> Count<'a> {
    pub(in crate::collection) fn new(core: &'a Arc<Core>, ns: &'a Namespace, filter: Document) -> Self {
        Self { core, ns, query: Query::of(filter, QueryOptions::default()), session: None }
    }

    setters! {
        /// Sets how many documents are skipped, in the order of the query. Default: none.
        skip(skip: u64) => query.skip = skip;
        /// Sets how many documents are counted at most; 0 is no limit.
        limit(limit: u64) => query.limit = limit;
        /// Sets the collation by which strings compare, as in MongoDB. Default: the collection's.
        collation(collation: Document) => query.options.collation = Some(collation);
        /// Sets the index to use, by its name or its key pattern. Default: the server chooses.
        hint(hint: impl Into<Bson>) => query.options.hint = Some(hint.into());
        /// Allows an answer that is this old: the read then takes no lock, waits for no transaction
        /// and, as a rule, costs one command.
        max_staleness(age: Duration) => query.options.staleness = Some(age);
    }
}

impl<'a> IntoFuture for Count<'a> {
    type Output = Result<u64>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { core, ns, query, session } = self;
        Box::pin(async move { in_session!(session, |tx| count::documents(core, tx, ns, &query)) })
    }
}

/// A count by metadata, made by [`crate::Collection::estimated_document_count`].
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> mongotx::Result<()> {
/// # local_mongod::example!(client, accounts);
/// assert_eq!(accounts.estimated_document_count().await?, 0); // where there is no collection
/// # Ok(()) }
/// ```
#[must_use = "nothing happens before it is awaited"]
pub struct EstimatedCount<'a> {
    core: &'a Arc<Core>,
    ns: &'a Namespace,
    session: Option<&'a mut Session>,
}

impl<'a> EstimatedCount<'a> {
    pub(in crate::collection) fn new(core: &'a Arc<Core>, ns: &'a Namespace) -> Self {
        Self { core, ns, session: None }
    }

    setters! {}
}

impl<'a> IntoFuture for EstimatedCount<'a> {
    type Output = Result<u64>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { core, ns, session } = self;
        Box::pin(async move { in_session!(session, |tx| count::estimated(core, tx, ns)) })
    }
}
