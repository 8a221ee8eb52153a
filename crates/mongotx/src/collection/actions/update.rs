//! The actions `update_one`, `update_many` and `replace_one`, with their options. They are carried
//! out by `crate::command::writes::update`.

use std::{future::IntoFuture, sync::Arc};

use bson::{Bson, Document};
use futures_util::future::BoxFuture;
use sd2v::{filter::with_scripts_as_expressions, update::Update};

use crate::{
    command::writes::{
        update::{self, UpdateResult},
        write_commands::UpdateCommand,
    },
    coordinator::{Core, request::query_options::QueryOptions},
    error::Result,
    options::Namespace,
    session::Session,
};

/// An update or a replacement, made by [`crate::Collection::update_one`],
/// [`crate::Collection::update_many`] and [`crate::Collection::replace_one`].
///
/// ```
/// # use bson::doc;
/// # #[tokio::main]
/// # async fn main() -> mongotx::Result<()> {
/// # local_mongod::example!(client, orders);
/// # let line = |due: i64| doc! {"due": bson::DateTime::from_millis(due)};
/// # orders.insert_one(&doc! {"_id": 1, "state": "open", "lines": [line(0), line(i64::MAX)]}).await?;
/// let late = doc! {"line.due": {"$lt": bson::DateTime::now()}};
/// orders
///     .update_many(doc! {"state": "open"}, doc! {"$set": {"lines.$[line].late": true}})
///     .array_filters([late])
///     .await?;
/// assert_eq!(orders.count_documents(doc! {"lines.0.late": true, "lines.1.late": null}).await?, 1);
/// # Ok(()) }
/// ```
#[must_use = "nothing happens before it is awaited"]
pub struct UpdateAction<'a> {
    core: &'a Arc<Core>,
    ns: &'a Namespace,
    update: Result<Update>,
    command: Box<UpdateCommand>,
    session: Option<&'a mut Session>,
}

/// The update is still to be put in.
pub(super) fn update_command(filter: Document, multi: bool) -> UpdateCommand {
    let update = Update::Operators(Document::new());
    let filter = with_scripts_as_expressions(filter);
    UpdateCommand { filter, update, multi, upsert: false, array_filters: None, options: QueryOptions::default() }
}

impl<'a> UpdateAction<'a> {
    pub(in crate::collection) fn new(
        core: &'a Arc<Core>,
        ns: &'a Namespace,
        filter: Document,
        update: Result<Update>,
        multi: bool,
    ) -> Self {
        Self { core, ns, update, command: Box::new(update_command(filter, multi)), session: None }
    }

    setters! {
        /// Sets whether a document is inserted when none matches (an upsert). Default: no.
        upsert(upsert: bool) => command.upsert = upsert;
        /// Sets the filters that say which array elements `$[name]` means.
        array_filters(filters: impl IntoIterator<Item = Document>) => command.array_filters = Some(filters.into_iter().collect());
        /// Sets the collation by which strings compare, as in MongoDB. Default: the collection's.
        collation(collation: Document) => command.options.collation = Some(collation);
        /// Sets the index to use, by its name or its key pattern. Default: the server chooses.
        hint(hint: impl Into<Bson>) => command.options.hint = Some(hint.into());
        /// Sets variables that `$expr` and pipelines can use as `$$name`, as `{name: value}`.
        /// Default: none.
        let_vars(variables: Document) => command.options.variables = Some(variables);
    }
}

impl<'a> IntoFuture for UpdateAction<'a> {
    type Output = Result<UpdateResult>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { core, ns, update, mut command, session } = self;
        Box::pin(async move {
            command.update = update?;
            in_session!(session, |tx| update::update_documents(core, tx, ns, &command))
        })
    }
}
