//! A client: its updates are kept until it commits.

use std::sync::PoisonError;

use async_trait::async_trait;
use bson::{Bson, Document};
use mongodb::{
    Database,
    options::{Acknowledgment, WriteConcern},
};

use super::{
    Left,
    log::{Log, PENDING, Step},
};
use crate::{
    error::{OpError, OpResult},
    targets::{
        Change, Find, Session, TxOptions, Update,
        driver::{Concerns, is_unreachable, write_error},
        plain::PlainSession,
    },
};

pub(super) struct RecipeSession {
    db: Database,
    concerns: Concerns,
    concern: WriteConcern,
    /// The changes of the open transaction.
    steps: Option<Vec<Step>>,
    /// For what is done outside one, and for reading.
    plain: PlainSession,
    left: Left,
}

impl RecipeSession {
    pub(super) fn new(db: Database, concerns: Concerns, left: Left) -> Self {
        let plain = PlainSession::new(db.clone(), concerns);
        Self { db, concerns, concern: concerns.of(None), steps: None, plain, left }
    }

    async fn carry_out(&self, log: &Log) -> OpResult<()> {
        if let Err(error) = log.begin().await {
            let unreachable = is_unreachable(&error);
            return Err(if unreachable { OpError::Conflict("server not reached") } else { write_error(error) });
        }
        let not_durable = WriteConcern::builder().w(Acknowledgment::Nodes(1)).build();
        // From here on the transaction will be completed, if not by this client.
        let unknown = |error: OpError| match error {
            OpError::Fatal(error) => OpError::Unknown(error),
            other => other,
        };
        let pending = log.advance("initial", "pending", not_durable).await;
        if !pending.map_err(|error| OpError::Unknown(error.into()))? {
            return Err(OpError::Conflict("expired"));
        }
        log.go_through(self.concern.clone()).await.map_err(unknown)
    }
}

#[async_trait]
impl Session for RecipeSession {
    async fn begin(&mut self, options: &TxOptions) -> OpResult<()> {
        self.concern = self.concerns.of(options.durability);
        self.steps = Some(Vec::new());
        Ok(())
    }

    async fn commit(&mut self) -> OpResult<()> {
        let steps = self.steps.take().unwrap_or_default();
        if steps.is_empty() {
            return Ok(());
        }
        let log = Log::new(self.db.clone(), merged(steps)?);
        let done = self.carry_out(&log).await;
        if done.is_err() {
            self.left.lock().unwrap_or_else(PoisonError::into_inner).push(log.id);
        }
        done
    }

    async fn rollback(&mut self) -> OpResult<()> {
        self.steps = None;
        Ok(())
    }

    async fn find(&mut self, collection: &str, find: Find) -> OpResult<Vec<Document>> {
        let mut found = self.plain.find(collection, find).await?;
        found.iter_mut().for_each(|document| drop(document.remove(PENDING)));
        Ok(found)
    }

    async fn update(&mut self, collection: &str, Update { filter, update }: Update) -> OpResult<bool> {
        let id = match (filter.len(), filter.get("_id")) {
            (1, Some(id)) if id.as_document().is_none_or(|id| !id.keys().any(|key| key.starts_with('$'))) => id.clone(),
            _ => return Err(OpError::unsupported("recipe", format!("update by {filter}, but by _id only"))),
        };
        if let Some(operator) = update.keys().find(|operator| !["$inc", "$set"].contains(&operator.as_str())) {
            return Err(OpError::unsupported("recipe", format!("update with {operator}, but with $inc and $set only")));
        }
        match &mut self.steps {
            Some(steps) => {
                steps.push(Step { collection: collection.to_owned(), id, update });
                Ok(true)
            }
            // One document is changed at once.
            None => self.plain.update(collection, Update { filter, update }).await,
        }
    }

    async fn insert(&mut self, _collection: &str, _documents: Vec<Document>) -> OpResult<()> {
        Err(OpError::unsupported("recipe", "insert"))
    }

    async fn find_and_modify(&mut self, _collection: &str, _find: Find, _change: Change) -> OpResult<Option<Document>> {
        Err(OpError::unsupported("recipe", "find and modify"))
    }

    async fn delete(&mut self, _collection: &str, _filter: Document) -> OpResult<bool> {
        Err(OpError::unsupported("recipe", "delete"))
    }

    async fn aggregate(&mut self, _collection: &str, _pipeline: Vec<Document>) -> OpResult<Vec<Document>> {
        Err(OpError::unsupported("recipe", "aggregate"))
    }
}

/// One change for each document: a mark would keep a second one from being made.
///
/// # Errors
/// Two changes of a document of which one does not simply add to what the other does.
fn merged(steps: Vec<Step>) -> OpResult<Vec<Step>> {
    let mut merged: Vec<Step> = Vec::new();
    for step in steps {
        match merged.iter_mut().find(|other| other.collection == step.collection && other.id == step.id) {
            Some(other) => {
                for (operator, fields) in step.update {
                    join(&mut other.update, &operator, fields)?;
                }
            }
            None => merged.push(step),
        }
    }
    Ok(merged)
}

fn join(update: &mut Document, operator: &str, fields: Bson) -> OpResult<()> {
    let refused = || OpError::unsupported("recipe", "change a field of a document twice in one transaction");
    let Bson::Document(fields) = fields else { return Err(refused()) };
    for (field, value) in fields {
        if update.values().any(|fields| fields.as_document().is_some_and(|fields| fields.contains_key(&field))) {
            return Err(refused());
        }
        match update.get_document_mut(operator) {
            Ok(others) => drop(others.insert(field, value)),
            Err(_) => drop(update.insert(operator, bson::doc! {field: value})),
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::doc;

    use super::*;

    fn step(id: i32, update: Document) -> Step {
        Step { collection: "c".to_owned(), id: id.into(), update }
    }

    #[test]
    fn a_document_is_changed_once_by_a_transaction() {
        let steps = vec![
            step(1, doc! {"$inc": {"a": 1}}),
            step(2, doc! {"$inc": {"a": 1}}),
            step(1, doc! {"$inc": {"b": 2}, "$set": {"c": 3}}),
        ];
        let expected = [step(1, doc! {"$inc": {"a": 1, "b": 2}, "$set": {"c": 3}}), step(2, doc! {"$inc": {"a": 1}})];
        assert_eq!(merged(steps).unwrap(), expected);
        let twice = vec![step(1, doc! {"$inc": {"a": 1}}), step(1, doc! {"$set": {"a": 1}})];
        assert!(merged(twice).unwrap_err().to_string().contains("twice"));
    }
}
