//! `findAndModify`: with an update, a replacement, or a removal.

use std::{future::IntoFuture, marker::PhantomData, sync::Arc};

use bson::{Bson, Document};
use futures_util::future::BoxFuture;
use sd2v::update::Update;
use serde::de::DeserializeOwned;

use super::{ReturnDocument, delete::delete_command, update::update_command};
use crate::{
    command::{
        delete::DeleteCommand,
        find_and_modify::{self, FindAndModify, Modified, Modify},
        update::UpdateCommand,
    },
    coordinator::Core,
    document,
    error::Result,
    options::Namespace,
    session::Session,
};

/// `findAndModify` with an update or a replacement.
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
        raw: Bson,
    ) -> Self {
        let command = Box::new(update_command(filter, raw, false));
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
        /// Which document is the first.
        sort(sort: Document) => sort = Some(sort);
        /// Which fields to answer.
        projection(projection: Document) => projection = Some(projection);
        /// Which state to answer.
        return_document(shown: ReturnDocument) => shown = shown;
        /// Insert a document when none matches.
        upsert(upsert: bool) => command.upsert = upsert;
        /// Which array elements `$[name]` means.
        array_filters(filters: impl IntoIterator<Item = Document>) => command.array_filters = Some(filters.into_iter().collect());
        /// How strings compare.
        collation(collation: Document) => command.terms.collation = Some(collation);
        /// The index to use: a name or a key pattern.
        hint(hint: impl Into<Bson>) => command.terms.hint = Some(hint.into());
        /// Constants for `$$name` in `$expr` and pipelines.
        let_vars(variables: Document) => command.terms.variables = Some(variables);
    }
}

impl<T> FindOneAndUpdate<'_, T> {
    /// Runs it, and answers besides the document whether there was one, as `lastErrorObject` does in MongoDB.
    ///
    /// # Errors
    /// As awaiting it.
    pub async fn in_full(self) -> Result<Modified> {
        let Self { core, ns, update, mut command, sort, projection, shown, session, .. } = self;
        command.update = update?;
        let command =
            FindAndModify { modify: Modify::Update(command), sort, projection, after: shown == ReturnDocument::After };
        in_session!(session, |tx| find_and_modify::run(core, tx, ns, &command))
    }
}

impl<'a, T: DeserializeOwned + 'static> IntoFuture for FindOneAndUpdate<'a, T> {
    type Output = Result<Option<T>>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { decode(self.in_full().await?) })
    }
}

fn decode<T: DeserializeOwned + 'static>(done: Modified) -> Result<Option<T>> {
    done.value.map(document::of_document).transpose()
}

/// `findAndModify` that deletes.
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
        /// Which document is the first.
        sort(sort: Document) => sort = Some(sort);
        /// Which fields to answer.
        projection(projection: Document) => projection = Some(projection);
        /// How strings compare.
        collation(collation: Document) => command.terms.collation = Some(collation);
        /// The index to use: a name or a key pattern.
        hint(hint: impl Into<Bson>) => command.terms.hint = Some(hint.into());
        /// Constants for `$$name` in `$expr`.
        let_vars(variables: Document) => command.terms.variables = Some(variables);
    }
}

impl<T> FindOneAndDelete<'_, T> {
    /// Runs it, and answers besides the document whether there was one, as `lastErrorObject` does in MongoDB.
    ///
    /// # Errors
    /// As awaiting it.
    pub async fn in_full(self) -> Result<Modified> {
        let Self { core, ns, command, sort, projection, session, .. } = self;
        let command = FindAndModify { modify: Modify::Delete(Box::new(command)), sort, projection, after: false };
        in_session!(session, |tx| find_and_modify::run(core, tx, ns, &command))
    }
}

impl<'a, T: DeserializeOwned + 'static> IntoFuture for FindOneAndDelete<'a, T> {
    type Output = Result<Option<T>>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { decode(self.in_full().await?) })
    }
}
