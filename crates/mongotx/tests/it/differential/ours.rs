//! The same operations through MongoTx, in a session's transaction or outside one.

use bson::{Bson, Document};
use mongotx::{Collection, Error, ErrorKind, Modification, Result, ReturnDocument, Session, WriteModel};

use crate::differential::{
    compare,
    generate::indexes,
    operation::{Change, Delete, FindAndModify, Modify, Operation, Query, Update},
    subject::{Answer, Subject, Written},
};

pub(crate) struct Ours {
    pub(crate) collection: Collection<Document>,
    /// `None`: operations run outside transactions.
    pub(crate) session: Option<Session>,
}

impl Subject for Ours {
    async fn run(&mut self, operation: &Operation) -> Answer {
        self.try_run(operation).await.unwrap_or_else(refused)
    }
}

/// Sets the options that are there.
macro_rules! with {
    ($action:expr, $($option:ident: $value:expr),* $(,)?) => {{
        let mut action = $action;
        $(if let Some(value) = $value { action = action.$option(value.clone()); })*
        action
    }};
}

/// Awaits an action, in the transaction if there is one.
macro_rules! go {
    ($self:ident, $action:expr) => {{
        let action = $action;
        match $self.session.as_mut() {
            Some(session) => action.session(session).await,
            None => action.await,
        }
    }};
}

impl Ours {
    async fn try_run(&mut self, operation: &Operation) -> Result<Answer> {
        match operation {
            Operation::InsertOne(document) => Ok(Answer::inserted([go!(self, self.collection.insert_one(document))?])),
            Operation::InsertMany { documents, ordered } => {
                Ok(Answer::inserted(go!(self, self.collection.insert_many(documents).ordered(*ordered))?))
            }
            Operation::Find(query) => self.find(query).await,
            Operation::FindOne(query) => self.find_one(query).await,
            Operation::Count(query) => self.count(query).await,
            Operation::EstimatedCount => Ok(Answer::Count(go!(self, self.collection.estimated_document_count())?)),
            Operation::Distinct { field, query } => {
                let action = self.collection.distinct(field, query.filter.clone());
                Ok(Answer::Values(go!(self, with!(action, collation: &query.options.collation))?))
            }
            Operation::Update(update) => self.update(update).await,
            Operation::Delete(delete) => self.delete(delete).await,
            Operation::FindAndModify(command) => self.find_and_modify(command).await,
            Operation::Bulk { writes, ordered } => self.bulk(writes, *ordered).await,
        }
    }

    async fn find(&mut self, query: &Query) -> Result<Answer> {
        let action = with!(
            self.collection.find(query.filter.clone()),
            sort: &query.sort,
            skip: &query.skip,
            limit: &query.limit,
            projection: &query.projection,
            batch_size: &query.batch_size,
            collation: &query.options.collation,
            hint: &query.options.hint,
            let_vars: &query.options.variables,
        );
        Ok(Answer::Documents(go!(self, action)?.try_collect().await?))
    }

    async fn find_one(&mut self, query: &Query) -> Result<Answer> {
        let action = with!(
            self.collection.find_one(query.filter.clone()),
            sort: &query.sort,
            skip: &query.skip,
            projection: &query.projection,
            collation: &query.options.collation,
            hint: &query.options.hint,
            let_vars: &query.options.variables,
        );
        Ok(Answer::document(go!(self, action)?))
    }

    async fn count(&mut self, query: &Query) -> Result<Answer> {
        let action = with!(
            self.collection.count_documents(query.filter.clone()),
            skip: &query.skip,
            limit: &query.limit,
            collation: &query.options.collation,
            hint: &query.options.hint,
        );
        Ok(Answer::Count(go!(self, action)?))
    }

    async fn update(&mut self, update: &Update) -> Result<Answer> {
        let filter = update.filter.clone();
        let action = match &update.change {
            Change::Replacement(replacement) => self.collection.replace_one(filter, replacement),
            change if update.many => self.collection.update_many(filter, modification(change)),
            change => self.collection.update_one(filter, modification(change)),
        };
        let action = with!(
            action.upsert(update.upsert),
            array_filters: &update.array_filters,
            collation: &update.options.collation,
            hint: &update.options.hint,
            let_vars: &update.options.variables,
        );
        let done = go!(self, action)?;
        Ok(Answer::updated(done.matched_count, done.modified_count, done.upserted_id))
    }

    async fn delete(&mut self, delete: &Delete) -> Result<Answer> {
        let filter = delete.filter.clone();
        let action = if delete.many { self.collection.delete_many(filter) } else { self.collection.delete_one(filter) };
        let action = with!(
            action,
            collation: &delete.options.collation,
            hint: &delete.options.hint,
            let_vars: &delete.options.variables,
        );
        Ok(Answer::deleted(go!(self, action)?))
    }

    async fn find_and_modify(&mut self, command: &FindAndModify) -> Result<Answer> {
        let update = match &command.modify {
            Modify::Delete(delete) => return self.find_and_delete(command, delete).await,
            Modify::Update(update) => update,
        };
        let filter = update.filter.clone();
        let action = match &update.change {
            Change::Replacement(replacement) => self.collection.find_one_and_replace(filter, replacement),
            change => self.collection.find_one_and_update(filter, modification(change)),
        };
        let shown = if command.after { ReturnDocument::After } else { ReturnDocument::Before };
        let action = with!(
            action.upsert(update.upsert).return_document(shown),
            sort: &command.sort,
            projection: &command.projection,
            array_filters: &update.array_filters,
            collation: &update.options.collation,
            hint: &update.options.hint,
            let_vars: &update.options.variables,
        );
        Ok(Answer::document(go!(self, action)?))
    }

    async fn find_and_delete(&mut self, command: &FindAndModify, delete: &Delete) -> Result<Answer> {
        let action = with!(
            self.collection.find_one_and_delete(delete.filter.clone()),
            sort: &command.sort,
            projection: &command.projection,
            collation: &delete.options.collation,
            hint: &delete.options.hint,
            let_vars: &delete.options.variables,
        );
        Ok(Answer::document(go!(self, action)?))
    }

    async fn bulk(&mut self, writes: &[Operation], ordered: bool) -> Result<Answer> {
        let models: Vec<WriteModel> = writes.iter().map(model).collect();
        let done = go!(self, self.collection.bulk_write(models).ordered(ordered))?;
        Ok(Answer::Written(Written {
            inserted: done.inserted_ids,
            matched: done.matched_count,
            modified: done.modified_count,
            deleted: done.deleted_count,
            upserted: done.upserted_ids,
        }))
    }
}

fn modification(change: &Change) -> Modification {
    match change {
        Change::Operators(operators) => operators.clone().into(),
        Change::Pipeline(stages) => stages.clone().into(),
        Change::Replacement(_) => unreachable!("a replacement is no update"),
    }
}

fn model(write: &Operation) -> WriteModel {
    match write {
        Operation::InsertOne(document) => WriteModel::InsertOne { document: document.clone() },
        Operation::Delete(Delete { filter, many: false, .. }) => WriteModel::DeleteOne { filter: filter.clone() },
        Operation::Delete(Delete { filter, .. }) => WriteModel::DeleteMany { filter: filter.clone() },
        Operation::Update(update) => update_model(update),
        other => unreachable!("no write of a bulk: {other:?}"),
    }
}

fn update_model(write: &Update) -> WriteModel {
    let (filter, upsert) = (write.filter.clone(), write.upsert);
    match &write.change {
        Change::Replacement(replacement) => WriteModel::ReplaceOne { filter, replacement: replacement.clone(), upsert },
        change if write.many => WriteModel::UpdateMany { filter, update: modification(change), upsert },
        change => WriteModel::UpdateOne { filter, update: modification(change), upsert },
    }
}

pub(crate) fn refused(error: Error) -> Answer {
    let message = error.to_string();
    let writes: Vec<(usize, i32)> = error.write_errors().iter().map(|error| (error.index, error.code)).collect();
    match error.kind() {
        ErrorKind::Invalid => Answer::Refused { code: error.code(), writes, message, duplicate: key_of(&error) },
        ErrorKind::Unsupported => Answer::Unsupported(message),
        _ => Answer::Failed(format!("{error:?}")),
    }
}

fn key_of(error: &Error) -> Option<(String, Option<String>)> {
    let key = error.duplicate_key().filter(|_| error.code() == Some(11000))?;
    // Of several values in an array: difference D18.
    let several = key.pattern.contains_key("l.v") || key.pattern.contains_key("ключ");
    let value = (key.value.len() == 1 && !several).then(|| key.value.values().next().and_then(compare::shown_value));
    Some((indexes::name_of(&key.pattern), value.flatten()))
}

/// The `_id` of a document, for messages and sorting.
pub(crate) fn id_of(document: &Document) -> Bson {
    document.get("_id").cloned().unwrap_or(Bson::Null)
}
