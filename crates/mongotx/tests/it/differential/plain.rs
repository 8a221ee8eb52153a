//! The plain driver on a plain collection: how it should be.
//!
//! It reads raw documents: the driver's documents come from serde, which takes `{$numberLong: "5"}`
//! for a number.
//!
//! The driver has no bulk write for servers before 8.0: a bulk is its writes, one by one, up to the
//! first refused one if it is ordered.

use bson::{Bson, Document, RawDocumentBuf, doc};
use futures_util::TryStreamExt;
use mongodb::{
    Collection,
    error::{Error, ErrorKind, WriteFailure},
    options::{
        Collation, CountOptions, DeleteOptions, FindOneAndDeleteOptions, FindOneAndReplaceOptions,
        FindOneAndUpdateOptions, FindOneOptions, FindOptions, Hint, InsertManyOptions, ReplaceOptions, ReturnDocument,
        UpdateModifications, UpdateOptions,
    },
};

use crate::differential::{
    operation::{Change, Delete, FindAndModify, Modify, Operation, Query, QueryOptions, Update},
    subject::{Answer, Subject, Written},
};

pub(crate) struct Plain(pub(crate) Collection<Document>);

impl Subject for Plain {
    async fn run(&mut self, operation: &Operation) -> Answer {
        match operation {
            Operation::Bulk { writes, ordered } => self.bulk(writes, *ordered).await,
            other => self.one(other).await,
        }
    }
}

type Done = Result<Answer, Error>;

impl Plain {
    async fn one(&self, operation: &Operation) -> Answer {
        self.try_one(operation).await.unwrap_or_else(refused)
    }

    async fn try_one(&self, operation: &Operation) -> Done {
        match operation {
            Operation::InsertOne(document) => Ok(Answer::inserted([self.0.insert_one(document).await?.inserted_id])),
            Operation::InsertMany { documents, ordered } => self.insert_many(documents, *ordered).await,
            Operation::Find(query) => self.find(query).await,
            Operation::FindOne(query) => self.find_one(query).await,
            Operation::Count(query) => self.count(query).await,
            Operation::EstimatedCount => Ok(Answer::Count(self.0.estimated_document_count().await?)),
            Operation::Distinct { field, query } => self.distinct(field, query).await,
            Operation::Update(update) => self.update(update).await,
            Operation::Delete(delete) => self.delete(delete).await,
            Operation::FindAndModify(command) => self.find_and_modify(command).await,
            Operation::Bulk { .. } => unreachable!("a bulk in a bulk"),
        }
    }

    fn raw(&self) -> Collection<RawDocumentBuf> {
        self.0.clone_with_type()
    }

    /// Reads all documents that are stored.
    pub(crate) async fn all(&self) -> Vec<Document> {
        let found: Vec<RawDocumentBuf> =
            self.raw().find(doc! {}).sort(doc! {"_id": 1}).await.unwrap().try_collect().await.unwrap();
        found.into_iter().map(parsed).collect()
    }

    /// Sends `distinct` as a command: the driver's method reads values through serde.
    async fn distinct(&self, field: &str, query: &Query) -> Done {
        let mut distinct = doc! {"distinct": self.0.name(), "key": field, "query": query.filter.clone()};
        if let Some(collation) = &query.options.collation {
            distinct.insert("collation", collation.clone());
        }
        let namespace = self.0.namespace();
        let mut reply = self.0.client().database(&namespace.db).run_command(distinct).await?;
        match reply.remove("values") {
            Some(Bson::Array(values)) => Ok(Answer::Values(values)),
            other => panic!("distinct answered {other:?}"),
        }
    }

    async fn insert_many(&self, documents: &[Document], ordered: bool) -> Done {
        let options = InsertManyOptions::builder().ordered(ordered).build();
        let done = self.0.insert_many(documents).with_options(options).await?;
        Ok(Answer::inserted((0..documents.len()).filter_map(|at| done.inserted_ids.get(&at).cloned())))
    }

    async fn find(&self, query: &Query) -> Done {
        let options = FindOptions::builder()
            .sort(query.sort.clone())
            .skip(query.skip)
            .limit(query.limit.map(|limit| limit as i64))
            .projection(query.projection.clone())
            .batch_size(query.batch_size)
            .collation(collation(&query.options))
            .hint(hint(&query.options))
            .let_vars(query.options.variables.clone())
            .build();
        let cursor = self.raw().find(query.filter.clone()).with_options(options).await?;
        let found: Vec<RawDocumentBuf> = cursor.try_collect().await?;
        Ok(Answer::Documents(found.into_iter().map(parsed).collect()))
    }

    async fn find_one(&self, query: &Query) -> Done {
        let options = FindOneOptions::builder()
            .sort(query.sort.clone())
            .skip(query.skip)
            .projection(query.projection.clone())
            .collation(collation(&query.options))
            .hint(hint(&query.options))
            .let_vars(query.options.variables.clone())
            .build();
        Ok(shown_raw(self.raw().find_one(query.filter.clone()).with_options(options).await?))
    }

    async fn count(&self, query: &Query) -> Done {
        let options = CountOptions::builder()
            .skip(query.skip)
            .limit(query.limit)
            .collation(collation(&query.options))
            .hint(hint(&query.options))
            .build();
        Ok(Answer::Count(self.0.count_documents(query.filter.clone()).with_options(options).await?))
    }

    async fn update(&self, update: &Update) -> Done {
        if let Change::Replacement(replacement) = &update.change {
            return self.replace(update, replacement).await;
        }
        let options = UpdateOptions::builder()
            .upsert(update.upsert)
            .array_filters(update.array_filters.clone())
            .collation(collation(&update.options))
            .hint(hint(&update.options))
            .let_vars(update.options.variables.clone())
            .build();
        let (filter, change) = (update.filter.clone(), modifications(&update.change));
        let done = if update.many {
            self.0.update_many(filter, change).with_options(options).await?
        } else {
            self.0.update_one(filter, change).with_options(options).await?
        };
        Ok(Answer::updated(done.matched_count, done.modified_count, done.upserted_id))
    }

    async fn replace(&self, update: &Update, replacement: &Document) -> Done {
        let options = ReplaceOptions::builder()
            .upsert(update.upsert)
            .collation(collation(&update.options))
            .hint(hint(&update.options))
            .let_vars(update.options.variables.clone())
            .build();
        let done = self.0.replace_one(update.filter.clone(), replacement).with_options(options).await?;
        Ok(Answer::updated(done.matched_count, done.modified_count, done.upserted_id))
    }

    async fn delete(&self, delete: &Delete) -> Done {
        let options = DeleteOptions::builder()
            .collation(collation(&delete.options))
            .hint(hint(&delete.options))
            .let_vars(delete.options.variables.clone())
            .build();
        let done = if delete.many {
            self.0.delete_many(delete.filter.clone()).with_options(options).await?
        } else {
            self.0.delete_one(delete.filter.clone()).with_options(options).await?
        };
        Ok(Answer::deleted(done.deleted_count))
    }

    async fn find_and_modify(&self, command: &FindAndModify) -> Done {
        match &command.modify {
            Modify::Delete(delete) => self.find_and_delete(command, delete).await,
            Modify::Update(update) => match &update.change {
                Change::Replacement(replacement) => self.find_and_replace(command, update, replacement).await,
                change => self.find_and_update(command, update, modifications(change)).await,
            },
        }
    }

    async fn find_and_delete(&self, command: &FindAndModify, delete: &Delete) -> Done {
        let options = FindOneAndDeleteOptions::builder()
            .sort(command.sort.clone())
            .projection(command.projection.clone())
            .collation(collation(&delete.options))
            .hint(hint(&delete.options))
            .let_vars(delete.options.variables.clone())
            .build();
        Ok(shown_raw(self.raw().find_one_and_delete(delete.filter.clone()).with_options(options).await?))
    }

    async fn find_and_replace(&self, command: &FindAndModify, update: &Update, replacement: &Document) -> Done {
        let options = FindOneAndReplaceOptions::builder()
            .upsert(update.upsert)
            .return_document(shown(command))
            .sort(command.sort.clone())
            .projection(command.projection.clone())
            .collation(collation(&update.options))
            .hint(hint(&update.options))
            .let_vars(update.options.variables.clone())
            .build();
        let replacement = RawDocumentBuf::try_from(replacement).unwrap();
        let collection = self.raw();
        let replace = collection.find_one_and_replace(update.filter.clone(), replacement);
        Ok(shown_raw(replace.with_options(options).await?))
    }

    async fn find_and_update(&self, command: &FindAndModify, update: &Update, change: UpdateModifications) -> Done {
        let options = FindOneAndUpdateOptions::builder()
            .upsert(update.upsert)
            .return_document(shown(command))
            .array_filters(update.array_filters.clone())
            .sort(command.sort.clone())
            .projection(command.projection.clone())
            .collation(collation(&update.options))
            .hint(hint(&update.options))
            .let_vars(update.options.variables.clone())
            .build();
        let collection = self.raw();
        let update = collection.find_one_and_update(update.filter.clone(), change);
        Ok(shown_raw(update.with_options(options).await?))
    }

    async fn bulk(&self, writes: &[Operation], ordered: bool) -> Answer {
        let (mut total, mut refused) = (Written::default(), Vec::new());
        let mut first = None;
        for (index, write) in writes.iter().enumerate() {
            match self.one(write).await {
                Answer::Written(done) => add(&mut total, index, done),
                Answer::Refused { code, message, .. } => {
                    refused.push((index, code.unwrap_or(0)));
                    first.get_or_insert((code, message));
                    if ordered {
                        break;
                    }
                }
                other => unreachable!("a write answered {other:?}"),
            }
        }
        match first {
            None => Answer::Written(total),
            Some((code, message)) => Answer::Refused { code, writes: refused, message, duplicate: None },
        }
    }
}

fn parsed(raw: RawDocumentBuf) -> Document {
    Document::try_from(raw).unwrap()
}

fn shown_raw(raw: Option<RawDocumentBuf>) -> Answer {
    Answer::document(raw.map(parsed))
}

fn add(total: &mut Written, index: usize, done: Written) {
    let at_index = |ids: Vec<(usize, Bson)>| ids.into_iter().map(move |(_, id)| (index, id));
    total.inserted.extend(at_index(done.inserted));
    total.upserted.extend(at_index(done.upserted));
    total.matched += done.matched;
    total.modified += done.modified;
    total.deleted += done.deleted;
}

fn collation(options: &QueryOptions) -> Option<Collation> {
    options.collation.clone().map(|collation| bson::deserialize_from_document(collation).unwrap())
}

fn hint(options: &QueryOptions) -> Option<Hint> {
    options.hint.clone().map(|hint| match hint {
        Bson::Document(keys) => Hint::Keys(keys),
        name => Hint::Name(name.as_str().unwrap_or_default().to_owned()),
    })
}

fn modifications(change: &Change) -> UpdateModifications {
    match change {
        Change::Operators(document) | Change::Replacement(document) => UpdateModifications::Document(document.clone()),
        Change::Pipeline(stages) => UpdateModifications::Pipeline(stages.clone()),
    }
}

fn shown(command: &FindAndModify) -> ReturnDocument {
    if command.after { ReturnDocument::After } else { ReturnDocument::Before }
}

pub(crate) fn refused(error: Error) -> Answer {
    let message = error.to_string();
    let (code, writes) = match *error.kind {
        ErrorKind::Command(refused) => (Some(refused.code), Vec::new()),
        ErrorKind::Write(WriteFailure::WriteError(refused)) => (Some(refused.code), Vec::new()),
        ErrorKind::InsertMany(failed) => {
            let errors = failed.write_errors.unwrap_or_default();
            let writes: Vec<_> = errors.iter().map(|error| (error.index, error.code)).collect();
            (writes.first().map(|(_, code)| *code), writes)
        }
        ErrorKind::InvalidArgument { .. } => (None, Vec::new()),
        other => panic!("the driver fails: {other:?}"),
    };
    let duplicate = if code == Some(11000) && writes.is_empty() { key_in(&message) } else { None };
    Answer::Refused { code, writes, message, duplicate }
}

/// `… index: NAME … dup key: { FIELD: VALUE } …`, where it has one field with a value of one line.
fn key_in(message: &str) -> Option<(String, Option<String>)> {
    let message = message.replace(r#"\""#, "\"");
    let name = message.split_once("index: ")?.1.split(" collation: ").next()?.split(" dup key: ").next()?;
    let key = message.split_once("dup key: { ").and_then(|(_, key)| key.split_once(" }")).map(|(key, _)| key);
    let value = key.filter(|key| key.matches(": ").count() == 1).and_then(|key| key.split_once(": "));
    let simple = |value: &&str| !value.contains(['{', '[', '(', '.']) || value.starts_with('"');
    Some((name.to_owned(), value.map(|(_, value)| value).filter(simple).map(str::to_owned)))
}
