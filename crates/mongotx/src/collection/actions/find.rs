//! `find`, of several documents or one.

use std::{future::IntoFuture, marker::PhantomData, sync::Arc, time::Duration};

use bson::{Bson, Document};
use futures_util::future::BoxFuture;
use sd2v::filter::with_scripts_as_expressions;
use serde::de::DeserializeOwned;

use crate::{
    command::{FindOnly, Terms, explain, find, query::Query},
    coordinator::{Core, transaction::Transaction},
    cursor::Cursor,
    error::Result,
    options::{Namespace, Verbosity},
    session::Session,
};

/// `find`.
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
            query: Query::of(with_scripts_as_expressions(filter), Terms::default()),
            session: None,
            of: PhantomData,
        }
    }

    setters! {
        /// The order.
        sort(sort: Document) => query.sort = Some(sort);
        /// Documents passed over first.
        skip(skip: u64) => query.skip = skip;
        /// The most documents to answer; 0 is no limit.
        limit(limit: u64) => query.limit = limit;
        /// Which fields to answer.
        projection(projection: Document) => query.projection = Some(projection);
        /// Documents per batch.
        batch_size(size: u32) => query.batch_size = Some(size);
        /// How strings compare.
        collation(collation: Document) => query.terms.collation = Some(collation);
        /// The index to use: a name or a key pattern.
        hint(hint: impl Into<Bson>) => query.terms.hint = Some(hint.into());
        /// Constants for `$$name` in `$expr`.
        let_vars(variables: Document) => query.terms.variables = Some(variables);
        /// The answer may be this old: then the read takes no lock, waits for nobody and, as a rule, costs one command.
        max_staleness(age: Duration) => query.terms.staleness = Some(age);
    }

    /// The key of the hinted index at which reading begins. This option and the next three are refused after an own write in the
    /// collection, beside documents that cannot be finished, and on views.
    pub fn min(mut self, key: Document) -> Self {
        self.find_only().min = Some(key);
        self
    }

    /// The key of the hinted index before which reading ends.
    pub fn max(mut self, key: Document) -> Self {
        self.find_only().max = Some(key);
        self
    }

    /// Answers the keys of the index that is used, in place of the documents.
    pub fn return_key(mut self) -> Self {
        self.find_only().return_key = true;
        self
    }

    /// Answers each document with `$recordId`: where the server stores it.
    pub fn show_record_id(mut self) -> Self {
        self.find_only().show_record_id = true;
        self
    }

    fn find_only(&mut self) -> &mut FindOnly {
        self.query.terms.find_only.get_or_insert_default()
    }

    /// The server's plan for the command that this would send now. What is pending is settled first, as it would be;
    /// nothing is locked.
    ///
    /// # Errors
    /// As awaiting it.
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
        Box::pin(async move { Ok(Cursor::new(in_session!(session, |tx| find::run(core, tx, ns, &query))?)) })
    }
}

/// `find` of one document.
#[must_use = "nothing happens before it is awaited"]
pub struct FindOne<'a, T>(Find<'a, T>);

impl<'a, T> FindOne<'a, T> {
    pub(in crate::collection) fn new(core: &'a Arc<Core>, ns: &'a Namespace, filter: Document) -> Self {
        Self(Find::new(core, ns, filter).limit(1))
    }

    /// The order.
    pub fn sort(self, sort: Document) -> Self {
        Self(self.0.sort(sort))
    }

    /// Documents passed over first.
    pub fn skip(self, skip: u64) -> Self {
        Self(self.0.skip(skip))
    }

    /// Which fields to answer.
    pub fn projection(self, projection: Document) -> Self {
        Self(self.0.projection(projection))
    }

    /// How strings compare.
    pub fn collation(self, collation: Document) -> Self {
        Self(self.0.collation(collation))
    }

    /// The index to use: a name or a key pattern.
    pub fn hint(self, hint: impl Into<Bson>) -> Self {
        Self(self.0.hint(hint))
    }

    /// Constants for `$$name` in `$expr`.
    pub fn let_vars(self, variables: Document) -> Self {
        Self(self.0.let_vars(variables))
    }

    /// The answer may be this old: then the read takes no lock, waits for nobody and, as a rule, costs one command.
    pub fn max_staleness(self, age: Duration) -> Self {
        Self(self.0.max_staleness(age))
    }

    /// In this session's transaction.
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
