//! The actions `delete_one` and `delete_many`, with their options. They are carried out by
//! `crate::command::writes::delete`.

use std::{future::IntoFuture, sync::Arc};

use bson::{Bson, Document};
use futures_util::future::BoxFuture;
use sd2v::filter::with_scripts_as_expressions;

use crate::{
    command::writes::{delete, write_commands::DeleteCommand},
    coordinator::{Core, request::query_options::QueryOptions},
    error::Result,
    options::Namespace,
    session::Session,
};

/// A deletion, made by [`crate::Collection::delete_one`] and [`crate::Collection::delete_many`].
///
/// ```
/// # use bson::doc;
/// # #[tokio::main]
/// # async fn main() -> mongotx::Result<()> {
/// # local_mongod::example!(client, accounts);
/// # let mut session = client.session();
/// # accounts.create_index(doc! {"closed": 1}).await?;
/// # accounts.insert_one(&doc! {"_id": 1, "closed": true}).await?;
/// session.begin()?;
/// let deleted = accounts.delete_many(doc! {"closed": true}).hint("closed_1").session(&mut session).await?;
/// session.commit().await?;
/// assert_eq!(deleted, 1);
/// # Ok(()) }
/// ```
#[must_use = "nothing happens before it is awaited"]
pub struct Delete<'a> {
    core: &'a Arc<Core>,
    ns: &'a Namespace,
    command: DeleteCommand,
    session: Option<&'a mut Session>,
}

impl<'a> Delete<'a> {
    pub(in crate::collection) fn new(core: &'a Arc<Core>, ns: &'a Namespace, filter: Document, multi: bool) -> Self {
        Self { core, ns, command: delete_command(filter, multi), session: None }
    }

    setters! {
        /// Sets the collation by which strings compare, as in MongoDB. Default: the collection's.
        collation(collation: Document) => command.options.collation = Some(collation);
        /// Sets the index to use, by its name or its key pattern. Default: the server chooses.
        hint(hint: impl Into<Bson>) => command.options.hint = Some(hint.into());
        /// Sets variables that `$expr` can use as `$$name`, as `{name: value}`. Default: none.
        let_vars(variables: Document) => command.options.variables = Some(variables);
    }
}

impl<'a> IntoFuture for Delete<'a> {
    /// Number of documents that were deleted.
    type Output = Result<u64>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { core, ns, command, session } = self;
        Box::pin(async move { in_session!(session, |tx| delete::delete_documents(core, tx, ns, &command)) })
    }
}

pub(super) fn delete_command(filter: Document, multi: bool) -> DeleteCommand {
    DeleteCommand { filter: with_scripts_as_expressions(filter), multi, options: QueryOptions::default() }
}
