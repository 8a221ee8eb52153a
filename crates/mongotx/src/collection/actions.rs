//! The builders behind a collection's methods.

use std::{future::IntoFuture, marker::PhantomData, sync::Arc};

use bson::{Bson, Document};
use futures_util::future::BoxFuture;
use sd2v::update::Update;
use serde::de::DeserializeOwned;

use super::Encoded;
use crate::{
    command::{
        Terms,
        bulk::{self, BulkWriteResult, Operation},
        count,
        delete::{self, DeleteCommand},
        distinct, find,
        find_and_modify::{self, FindAndModify, Modify},
        implicit, insert,
        query::Query,
        update::{self, UpdateCommand, UpdateResult},
    },
    coordinator::Core,
    cursor::Cursor,
    error::{Error, Result},
    options::Namespace,
    session::Session,
};

/// An update: operators, or a pipeline.
#[derive(Clone, Debug)]
pub enum Modification {
    /// `{$set: …}` and its like.
    Operators(Document),
    /// `[{$set: …}, …]`.
    Pipeline(Vec<Document>),
}

impl From<Document> for Modification {
    fn from(operators: Document) -> Self {
        Self::Operators(operators)
    }
}

impl From<Vec<Document>> for Modification {
    fn from(pipeline: Vec<Document>) -> Self {
        Self::Pipeline(pipeline)
    }
}

impl Modification {
    pub(super) fn parse(self) -> (Result<Update>, Bson) {
        let raw = match self {
            Self::Operators(operators) => Bson::Document(operators),
            Self::Pipeline(stages) => Bson::Array(stages.into_iter().map(Bson::Document).collect()),
        };
        (Update::parse_update(raw.clone()).map_err(Into::into), raw)
    }
}

/// Which state of a document to answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReturnDocument {
    /// As it was found.
    #[default]
    Before,
    /// As it is afterwards.
    After,
}

/// Runs a command in the session's transaction, or outside one.
macro_rules! in_session {
    ($session:expr, |$tx:ident| $run:expr) => {
        match $session {
            None => {
                let $tx = None;
                $run.await
            }
            Some(session) => {
                let session: &mut Session = session;
                let done = match session.transaction() {
                    Ok($tx) => $run.await,
                    Err(error) => Err(error),
                };
                match done {
                    Ok(done) => Ok(done),
                    Err(error) => Err(session.note_error(error).await),
                }
            }
        }
    };
}

/// Setters of a builder, each named as the option is in MongoDB.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident ( $argument:ident : $type:ty ) => $($field:ident).+ = $value:expr;)*) => {
        $($(#[$doc])*
        pub fn $name(mut self, $argument: $type) -> Self {
            self.$($field).+ = $value;
            self
        })*

        /// In this session's transaction.
        pub fn session(mut self, session: &'a mut Session) -> Self {
            self.session = Some(session);
            self
        }
    };
}

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
    pub(super) fn new(core: &'a Arc<Core>, ns: &'a Namespace, filter: Document) -> Self {
        Self { core, ns, query: Query::of(filter, Terms::default()), session: None, of: PhantomData }
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
    }
}

impl<'a, T: DeserializeOwned + 'a> IntoFuture for Find<'a, T> {
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
    pub(super) fn new(core: &'a Arc<Core>, ns: &'a Namespace, filter: Document) -> Self {
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

    /// In this session's transaction.
    pub fn session(self, session: &'a mut Session) -> Self {
        Self(self.0.session(session))
    }
}

impl<'a, T: DeserializeOwned + 'a> IntoFuture for FindOne<'a, T> {
    type Output = Result<Option<T>>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.0.await?.next().await })
    }
}

/// `insert` of one document.
#[must_use = "nothing happens before it is awaited"]
pub struct InsertOne<'a> {
    core: &'a Arc<Core>,
    ns: &'a Namespace,
    document: Encoded,
    session: Option<&'a mut Session>,
}

impl<'a> InsertOne<'a> {
    pub(super) fn new(core: &'a Arc<Core>, ns: &'a Namespace, document: Encoded) -> Self {
        Self { core, ns, document, session: None }
    }

    setters! {}
}

async fn insert_one(
    core: &Core,
    tx: Option<&mut crate::coordinator::transaction::Transaction>,
    ns: &Namespace,
    document: Document,
) -> Result<Bson> {
    match tx {
        Some(tx) => insert::one(core, tx, ns, document).await,
        None => insert::one_directly(core, ns, document).await,
    }
}

impl<'a> IntoFuture for InsertOne<'a> {
    type Output = Result<Bson>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { core, ns, document, session } = self;
        Box::pin(async move {
            let document = document?;
            in_session!(session, |tx| insert_one(core, tx, ns, document))
        })
    }
}

/// `insert` of several documents.
#[must_use = "nothing happens before it is awaited"]
pub struct InsertMany<'a> {
    core: &'a Arc<Core>,
    ns: &'a Namespace,
    documents: Vec<Encoded>,
    ordered: bool,
    session: Option<&'a mut Session>,
}

impl<'a> InsertMany<'a> {
    pub(super) fn new(core: &'a Arc<Core>, ns: &'a Namespace, documents: Vec<Encoded>) -> Self {
        Self { core, ns, documents, ordered: true, session: None }
    }

    setters! {
        /// Stop at the first document that is refused (the default), or go on.
        ordered(ordered: bool) => ordered = ordered;
    }
}

impl<'a> IntoFuture for InsertMany<'a> {
    type Output = Result<Vec<Bson>>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { core, ns, documents, ordered, session } = self;
        Box::pin(async move {
            let documents = documents.into_iter().collect::<Result<Vec<Document>>>()?;
            if documents.is_empty() {
                return Err(Error::invalid(9, "insert_many needs at least one document"));
            }
            in_session!(session, |tx| insert_many(core, tx, ns, documents, ordered))
        })
    }
}

async fn insert_many(
    core: &Arc<Core>,
    tx: Option<&mut crate::coordinator::transaction::Transaction>,
    ns: &Namespace,
    documents: Vec<Document>,
    ordered: bool,
) -> Result<Vec<Bson>> {
    match tx {
        Some(tx) => insert::many(core, tx, ns, documents, ordered).await,
        None => {
            let mut call = implicit::Call::new(core);
            loop {
                let result = insert::many(core, call.begin(), ns, documents.clone(), ordered).await;
                if let Some(done) = call.end(result).await? {
                    return Ok(done);
                }
            }
        }
    }
}

/// `update` and `replace`.
#[must_use = "nothing happens before it is awaited"]
pub struct UpdateAction<'a> {
    core: &'a Arc<Core>,
    ns: &'a Namespace,
    update: Result<Update>,
    command: Box<UpdateCommand>,
    session: Option<&'a mut Session>,
}

fn update_command(filter: Document, raw: Bson, multi: bool) -> UpdateCommand {
    let update = Update::Operators(Document::new());
    UpdateCommand { filter, update, raw, multi, upsert: false, array_filters: None, terms: Terms::default() }
}

impl<'a> UpdateAction<'a> {
    pub(super) fn new(
        core: &'a Arc<Core>,
        ns: &'a Namespace,
        filter: Document,
        update: Result<Update>,
        raw: Bson,
        multi: bool,
    ) -> Self {
        Self { core, ns, update, command: Box::new(update_command(filter, raw, multi)), session: None }
    }

    setters! {
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

impl<'a> IntoFuture for UpdateAction<'a> {
    type Output = Result<UpdateResult>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { core, ns, update, mut command, session } = self;
        Box::pin(async move {
            command.update = update?;
            in_session!(session, |tx| update::run(core, tx, ns, &command))
        })
    }
}

/// `delete`.
#[must_use = "nothing happens before it is awaited"]
pub struct Delete<'a> {
    core: &'a Arc<Core>,
    ns: &'a Namespace,
    command: DeleteCommand,
    session: Option<&'a mut Session>,
}

impl<'a> Delete<'a> {
    pub(super) fn new(core: &'a Arc<Core>, ns: &'a Namespace, filter: Document, multi: bool) -> Self {
        Self { core, ns, command: DeleteCommand { filter, multi, terms: Terms::default() }, session: None }
    }

    setters! {
        /// How strings compare.
        collation(collation: Document) => command.terms.collation = Some(collation);
        /// The index to use: a name or a key pattern.
        hint(hint: impl Into<Bson>) => command.terms.hint = Some(hint.into());
        /// Constants for `$$name` in `$expr`.
        let_vars(variables: Document) => command.terms.variables = Some(variables);
    }
}

impl<'a> IntoFuture for Delete<'a> {
    /// How many were deleted.
    type Output = Result<u64>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { core, ns, command, session } = self;
        Box::pin(async move { in_session!(session, |tx| delete::run(core, tx, ns, &command)) })
    }
}

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
    pub(super) fn new(
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

impl<'a, T: DeserializeOwned + 'a> IntoFuture for FindOneAndUpdate<'a, T> {
    type Output = Result<Option<T>>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { core, ns, update, mut command, sort, projection, shown, session, .. } = self;
        Box::pin(async move {
            command.update = update?;
            let command = FindAndModify {
                modify: Modify::Update(command),
                sort,
                projection,
                after: shown == ReturnDocument::After,
            };
            decode(in_session!(session, |tx| find_and_modify::run(core, tx, ns, &command))?)
        })
    }
}

fn decode<T: DeserializeOwned>(document: Option<Document>) -> Result<Option<T>> {
    Ok(document.map(bson::deserialize_from_document).transpose()?)
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
    pub(super) fn new(core: &'a Arc<Core>, ns: &'a Namespace, filter: Document) -> Self {
        let command = DeleteCommand { filter, multi: false, terms: Terms::default() };
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

impl<'a, T: DeserializeOwned + 'a> IntoFuture for FindOneAndDelete<'a, T> {
    type Output = Result<Option<T>>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { core, ns, command, sort, projection, session, .. } = self;
        let command = FindAndModify { modify: Modify::Delete(Box::new(command)), sort, projection, after: false };
        Box::pin(async move { decode(in_session!(session, |tx| find_and_modify::run(core, tx, ns, &command))?) })
    }
}

/// An exact count.
#[must_use = "nothing happens before it is awaited"]
pub struct Count<'a> {
    core: &'a Arc<Core>,
    ns: &'a Namespace,
    query: Query,
    session: Option<&'a mut Session>,
}

impl<'a> Count<'a> {
    pub(super) fn new(core: &'a Arc<Core>, ns: &'a Namespace, filter: Document) -> Self {
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
    pub(super) fn new(core: &'a Arc<Core>, ns: &'a Namespace) -> Self {
        Self { core, ns, session: None }
    }

    setters! {}
}

impl<'a> IntoFuture for EstimatedCount<'a> {
    type Output = Result<u64>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { core, ns, session } = self;
        Box::pin(async move {
            in_session!(session, |tx| {
                let tx: Option<&mut crate::coordinator::transaction::Transaction> = tx;
                async move { count::estimated(core, tx.as_deref(), ns).await }
            })
        })
    }
}

/// `distinct`.
#[must_use = "nothing happens before it is awaited"]
pub struct Distinct<'a> {
    core: &'a Arc<Core>,
    ns: &'a Namespace,
    field: String,
    query: Query,
    session: Option<&'a mut Session>,
}

impl<'a> Distinct<'a> {
    pub(super) fn new(core: &'a Arc<Core>, ns: &'a Namespace, field: &str, filter: Document) -> Self {
        Self { core, ns, field: field.to_owned(), query: Query::of(filter, Terms::default()), session: None }
    }

    setters! {
        /// How strings compare.
        collation(collation: Document) => query.terms.collation = Some(collation);
    }
}

impl<'a> IntoFuture for Distinct<'a> {
    type Output = Result<Vec<Bson>>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { core, ns, field, query, session } = self;
        Box::pin(async move { in_session!(session, |tx| distinct::run(core, tx, ns, &field, &query)) })
    }
}

/// One write of a bulk.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are those of the methods with the same names")]
pub enum WriteModel {
    /// As [`super::Collection::insert_one`].
    InsertOne { document: Document },
    /// As [`super::Collection::update_one`].
    UpdateOne { filter: Document, update: Modification, upsert: bool },
    /// As [`super::Collection::update_many`].
    UpdateMany { filter: Document, update: Modification, upsert: bool },
    /// As [`super::Collection::replace_one`].
    ReplaceOne { filter: Document, replacement: Document, upsert: bool },
    /// As [`super::Collection::delete_one`].
    DeleteOne { filter: Document },
    /// As [`super::Collection::delete_many`].
    DeleteMany { filter: Document },
}

impl WriteModel {
    fn to_operation(&self) -> Result<Operation> {
        let update = |filter: &Document, update: Modification, multi, upsert| -> Result<Operation> {
            let (update, raw) = update.parse();
            let command = UpdateCommand { update: update?, upsert, ..update_command(filter.clone(), raw, multi) };
            Ok(Operation::Update(Box::new(command)))
        };
        let delete = |filter: &Document, multi| {
            Operation::Delete(Box::new(DeleteCommand { filter: filter.clone(), multi, terms: Terms::default() }))
        };
        Ok(match self {
            Self::InsertOne { document } => Operation::Insert(document.clone()),
            Self::UpdateOne { filter, update: change, upsert } => update(filter, change.clone(), false, *upsert)?,
            Self::UpdateMany { filter, update: change, upsert } => update(filter, change.clone(), true, *upsert)?,
            Self::ReplaceOne { filter, replacement, upsert } => {
                let raw = Bson::Document(replacement.clone());
                let update = Update::replacement(replacement.clone())?;
                Operation::Update(Box::new(UpdateCommand {
                    update,
                    upsert: *upsert,
                    ..update_command(filter.clone(), raw, false)
                }))
            }
            Self::DeleteOne { filter } => delete(filter, false),
            Self::DeleteMany { filter } => delete(filter, true),
        })
    }
}

/// `bulk_write`.
#[must_use = "nothing happens before it is awaited"]
pub struct BulkWrite<'a> {
    core: &'a Arc<Core>,
    ns: &'a Namespace,
    models: Vec<WriteModel>,
    ordered: bool,
    session: Option<&'a mut Session>,
}

impl<'a> BulkWrite<'a> {
    pub(super) fn new(core: &'a Arc<Core>, ns: &'a Namespace, models: Vec<WriteModel>) -> Self {
        Self { core, ns, models, ordered: true, session: None }
    }

    setters! {
        /// Stop at the first write that is refused (the default), or go on.
        ordered(ordered: bool) => ordered = ordered;
    }
}

impl<'a> IntoFuture for BulkWrite<'a> {
    type Output = Result<BulkWriteResult>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { core, ns, models, ordered, session } = self;
        Box::pin(async move {
            let operations = models.iter().map(WriteModel::to_operation).collect::<Result<Vec<_>>>()?;
            if operations.is_empty() {
                return Err(Error::invalid(9, "bulk_write needs at least one write"));
            }
            in_session!(session, |tx| bulk::run(core, tx, ns, &operations, ordered))
        })
    }
}
