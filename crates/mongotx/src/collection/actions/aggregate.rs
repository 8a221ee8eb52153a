//! `aggregate`, of a collection or a database.

use std::{borrow::Cow, future::IntoFuture, marker::PhantomData, sync::Arc, time::Duration};

use bson::{Bson, Document};
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;

use crate::{
    command::{
        Terms,
        aggregate::{self, AggregateCommand},
        explain,
    },
    coordinator::{Core, transaction::Transaction},
    cursor::Cursor,
    error::Result,
    options::{Namespace, Verbosity},
    session::Session,
};

/// `aggregate`.
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
        let command = AggregateCommand::of(pipeline, Terms::default());
        Self { core, ns, command, session: None, of: PhantomData }
    }
}

impl<'a, T> Aggregate<'a, T> {
    setters! {
        /// Documents per batch.
        batch_size(size: u32) => command.batch_size = Some(size);
        /// How strings compare.
        collation(collation: Document) => command.terms.collation = Some(collation);
        /// The index to use: a name or a key pattern.
        hint(hint: impl Into<Bson>) => command.terms.hint = Some(hint.into());
        /// Constants for `$$name` in expressions.
        let_vars(variables: Document) => command.terms.variables = Some(variables);
        /// Whether the server may write to temporary files when memory is short; it may unless forbidden here.
        allow_disk_use(allowed: bool) => command.allow_disk_use = allowed;
        /// The answer may be this old: then the read takes no lock, waits for nobody and, as a rule, costs one command.
        max_staleness(age: Duration) => command.terms.staleness = Some(age);
        /// Words for the server's logs and profile.
        comment(comment: impl Into<Bson>) => command.comment = Some(comment.into());
    }

    /// The server's plan for the command that this would send now. What is pending is settled first, as it would be;
    /// nothing is locked.
    ///
    /// # Errors
    /// As awaiting it.
    pub async fn explain(self, verbosity: Verbosity) -> Result<Document> {
        let Self { core, ns, command, session, .. } = self;
        in_session!(session, |tx| {
            let tx: Option<&mut Transaction> = tx;
            async move { explain::aggregate(core, tx.as_deref(), &ns, &command, verbosity).await }
        })
    }

    /// The documents of the answer are of this type.
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
        Box::pin(async move { Ok(Cursor::new(in_session!(session, |tx| aggregate::run(core, tx, &ns, &command))?)) })
    }
}
