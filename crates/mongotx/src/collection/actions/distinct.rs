//! The action `distinct`: the different values of one field. It is carried out by
//! `crate::command::reads::distinct`.

use std::{future::IntoFuture, sync::Arc, time::Duration};

use bson::{Bson, Document};
use futures_util::future::BoxFuture;
use sd2v::filter::with_scripts_as_expressions;

use crate::{
    command::reads::distinct,
    coordinator::{
        Core,
        request::{query::Query, query_options::QueryOptions},
    },
    error::Result,
    options::Namespace,
    session::Session,
};

/// The distinct values of a field, made by [`crate::Collection::distinct`].
///
/// ```
/// # use bson::doc;
/// # #[tokio::main]
/// # async fn main() -> mongotx::Result<()> {
/// # local_mongod::example!(client, accounts);
/// # let account = |name: &str| doc! {"branch": 1, "owner": {"name": name}};
/// # accounts.insert_many(&[account("Ann"), account("ann"), account("Bob")]).await?;
/// let ignoring_case = doc! {"locale": "en", "strength": 2};
/// let names = accounts.distinct("owner.name", doc! {"branch": 1}).collation(ignoring_case).await?;
/// assert_eq!(names.len(), 2); // Ann and Bob
/// # Ok(()) }
/// ```
#[must_use = "nothing happens before it is awaited"]
pub struct Distinct<'a> {
    core: &'a Arc<Core>,
    ns: &'a Namespace,
    field: String,
    query: Query,
    session: Option<&'a mut Session>,
}

impl<'a> Distinct<'a> {
    pub(in crate::collection) fn new(core: &'a Arc<Core>, ns: &'a Namespace, field: &str, filter: Document) -> Self {
        Self {
            core,
            ns,
            field: field.to_owned(),
            query: Query::of(with_scripts_as_expressions(filter), QueryOptions::default()),
            session: None,
        }
    }

    setters! {
        /// Sets the collation by which strings compare, as in MongoDB. Default: the collection's.
        collation(collation: Document) => query.options.collation = Some(collation);
        /// Allows an answer that is this old: the read then takes no lock, waits for no transaction
        /// and, as a rule, costs one command.
        max_staleness(age: Duration) => query.options.staleness = Some(age);
    }
}

impl<'a> IntoFuture for Distinct<'a> {
    type Output = Result<Vec<Bson>>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { core, ns, field, query, session } = self;
        Box::pin(async move { in_session!(session, |tx| distinct::find_distinct_values(core, tx, ns, &field, &query)) })
    }
}
