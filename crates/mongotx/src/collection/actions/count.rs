//! Counts, exact or by metadata.

use std::{future::IntoFuture, sync::Arc, time::Duration};

use bson::{Bson, Document};
use futures_util::future::BoxFuture;

use crate::{
    command::{Terms, count, query::Query},
    coordinator::Core,
    error::Result,
    options::Namespace,
    session::Session,
};

/// An exact count.
#[must_use = "nothing happens before it is awaited"]
pub struct Count<'a> {
    core: &'a Arc<Core>,
    ns: &'a Namespace,
    query: Query,
    session: Option<&'a mut Session>,
}

impl<'a> Count<'a> {
    pub(in crate::collection) fn new(core: &'a Arc<Core>, ns: &'a Namespace, filter: Document) -> Self {
        Self { core, ns, query: Query::of(filter, Terms::default()), session: None }
    }

    setters! {
        /// Documents passed over first.
        skip(skip: u64) => query.skip = skip;
        /// The most documents to count; 0 is no limit.
        limit(limit: u64) => query.limit = limit;
        /// How strings compare.
        collation(collation: Document) => query.terms.collation = Some(collation);
        /// The index to use: a name or a key pattern.
        hint(hint: impl Into<Bson>) => query.terms.hint = Some(hint.into());
        /// The answer may be this old: then the read takes no lock, waits for nobody and, as a rule, costs one command.
        max_staleness(age: Duration) => query.terms.staleness = Some(age);
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

/// A count by metadata.
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
