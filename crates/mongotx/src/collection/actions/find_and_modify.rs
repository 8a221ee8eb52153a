//! The actions `find_one_and_update`, `find_one_and_replace` and `find_one_and_delete`. They are
//! carried out by `crate::command::writes::find_and_modify`.

use std::{future::IntoFuture, marker::PhantomData, sync::Arc};

use bson::{Bson, Document};
use futures_util::future::BoxFuture;
use sd2v::update::Update;
use serde::de::DeserializeOwned;

use super::{ReturnDocument, delete::delete_command, update::update_command};
use crate::{
    command::writes::{
        find_and_modify::{self, FindAndModifyResult},
        write_commands::{DeleteCommand, FindAndModify, Modify, UpdateCommand},
    },
    coordinator::Core,
    document,
    error::Result,
    options::Namespace,
    session::Session,
};

/// `findAndModify` with an update or a replacement, made by
/// [`crate::Collection::find_one_and_update`] and [`crate::Collection::find_one_and_replace`].
///
/// ```
/// # use bson::doc;
/// # #[tokio::main]
/// # async fn main() -> mongotx::Result<()> {
/// # local_mongod::example!(client, counters);
/// use mongotx::ReturnDocument;
///
/// let next = counters
///     .find_one_and_update(doc! {"_id": "orders"}, doc! {"$inc": {"n": 1}})
///     .upsert(true)
///     .return_document(ReturnDocument::After)
///     .await?;
/// assert_eq!(next, Some(doc! {"_id": "orders", "n": 1}));
/// # Ok(()) }
/// ```
#[must_use = "nothing happens before it is awaited"]
pub struct FindOneAndUpdate<'a, T> {
    core: &'a Arc<Core>,
    ns: &'a Namespace,
    update: Result<Update>,
    command: Box<UpdateCommand>,
    sort: Option<Document>,
    projection: Option<Document>,
    shown: ReturnDocument,
    session: Option<&'a mut Session>,
    of: PhantomData<fn() -> T>,
}

impl<'a, T> FindOneAndUpdate<'a, T> {
    pub(in crate::collection) fn new(
        core: &'a Arc<Core>,
        ns: &'a Namespace,
        filter: Document,
        update: Result<Update>,
    ) -> Self {
        let command = Box::new(update_command(filter, false));
        Self {
            core,
            ns,
            update,
            command,
            sort: None,
            projection: None,
            shown: ReturnDocument::Before,
            session: None,
            of: PhantomData,
        }
    }

    setters! {
        /// Sets the order that decides which of the matching documents is the first.
        sort(sort: Document) => sort = Some(sort);
        /// Sets the projection: which fields are answered, as `{field: 1}` or `{field: 0}`.
        /// Default: all.
        projection(projection: Document) => projection = Some(projection);
        /// Sets whether the document is answered as it was before or as it is afterwards. Default:
        /// before.
        return_document(shown: ReturnDocument) => shown = shown;
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

impl<T> FindOneAndUpdate<'_, T> {
    /// Runs the action, and answers with the document whether one was found or inserted, as
    /// `lastErrorObject` does in MongoDB.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, counters);
    /// let done = counters.find_one_and_update(doc! {"_id": "orders"}, doc! {"$inc": {"n": 1}}).upsert(true).in_full().await?;
    /// assert_eq!(done.upserted_id, Some("orders".into()));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The errors of the action itself.
    pub async fn in_full(self) -> Result<FindAndModifyResult> {
        let Self { core, ns, update, mut command, sort, projection, shown, session, .. } = self;
        command.update = update?;
        let command =
            FindAndModify { modify: Modify::Update(command), sort, projection, after: shown == ReturnDocument::After };
        in_session!(session, |tx| find_and_modify::find_and_modify(core, tx, ns, &command))
    }
}

impl<'a, T: DeserializeOwned + 'static> IntoFuture for FindOneAndUpdate<'a, T> {
    type Output = Result<Option<T>>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { decode(self.in_full().await?) })
    }
}

fn decode<T: DeserializeOwned + 'static>(done: FindAndModifyResult) -> Result<Option<T>> {
    done.value.map(document::of_document).transpose()
}

/// `findAndModify` that deletes, made by [`crate::Collection::find_one_and_delete`].
///
/// ```
/// # use bson::doc;
/// # #[tokio::main]
/// # async fn main() -> mongotx::Result<()> {
/// # local_mongod::example!(client, tickets);
/// # tickets.insert_one(&doc! {"_id": 1, "opened": 2020, "state": "done"}).await?;
/// let oldest = tickets.find_one_and_delete(doc! {"state": "done"}).sort(doc! {"opened": 1}).await?;
/// assert_eq!(oldest, Some(doc! {"_id": 1, "opened": 2020, "state": "done"}));
/// # Ok(()) }
/// ```
#[must_use = "nothing happens before it is awaited"]
pub struct FindOneAndDelete<'a, T> {
    core: &'a Arc<Core>,
    ns: &'a Namespace,
    command: DeleteCommand,
    sort: Option<Document>,
    projection: Option<Document>,
    session: Option<&'a mut Session>,
    of: PhantomData<fn() -> T>,
}

impl<'a, T> FindOneAndDelete<'a, T> {
    pub(in crate::collection) fn new(core: &'a Arc<Core>, ns: &'a Namespace, filter: Document) -> Self {
        let command = delete_command(filter, false);
        Self { core, ns, command, sort: None, projection: None, session: None, of: PhantomData }
    }

    setters! {
        /// Sets the order that decides which of the matching documents is the first.
        sort(sort: Document) => sort = Some(sort);
        /// Sets the projection: which fields are answered, as `{field: 1}` or `{field: 0}`.
        /// Default: all.
        projection(projection: Document) => projection = Some(projection);
        /// Sets the collation by which strings compare, as in MongoDB. Default: the collection's.
        collation(collation: Document) => command.options.collation = Some(collation);
        /// Sets the index to use, by its name or its key pattern. Default: the server chooses.
        hint(hint: impl Into<Bson>) => command.options.hint = Some(hint.into());
        /// Sets variables that `$expr` can use as `$$name`, as `{name: value}`. Default: none.
        let_vars(variables: Document) => command.options.variables = Some(variables);
    }
}

impl<T> FindOneAndDelete<'_, T> {
    /// Runs the action, and answers with the document whether one was found or inserted, as
    /// `lastErrorObject` does in MongoDB.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, tickets);
    /// let done = tickets.find_one_and_delete(doc! {"state": "done"}).in_full().await?;
    /// assert!(!done.matched); // there is none
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The errors of the action itself.
    pub async fn in_full(self) -> Result<FindAndModifyResult> {
        let Self { core, ns, command, sort, projection, session, .. } = self;
        let command = FindAndModify { modify: Modify::Delete(Box::new(command)), sort, projection, after: false };
        in_session!(session, |tx| find_and_modify::find_and_modify(core, tx, ns, &command))
    }
}

impl<'a, T: DeserializeOwned + 'static> IntoFuture for FindOneAndDelete<'a, T> {
    type Output = Result<Option<T>>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { decode(self.in_full().await?) })
    }
}
