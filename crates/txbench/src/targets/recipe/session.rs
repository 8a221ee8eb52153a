//! A client of the two-phase recipe: its updates are kept until it commits, and then applied step
//! by step, as the module above explains.

use std::sync::PoisonError;

use bson::{Bson, Document};
use futures_util::future::BoxFuture;
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
    /// Session for reads, and for writes outside a transaction.
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

impl Session for RecipeSession {
    fn begin<'a>(&'a mut self, options: &'a TxOptions) -> BoxFuture<'a, OpResult<()>> {
        Box::pin(async move {
            self.concern = self.concerns.of(options.durability);
            self.steps = Some(Vec::new());
            Ok(())
        })
    }

    fn commit(&mut self) -> BoxFuture<'_, OpResult<()>> {
        Box::pin(async move {
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
        })
    }

    fn rollback(&mut self) -> BoxFuture<'_, OpResult<()>> {
        Box::pin(async move {
            self.steps = None;
            Ok(())
        })
    }

    fn find<'a>(&'a mut self, collection: &'a str, find: Find) -> BoxFuture<'a, OpResult<Vec<Document>>> {
        Box::pin(async move {
            let mut found = self.plain.find(collection, find).await?;
            found.iter_mut().for_each(|document| drop(document.remove(PENDING)));
            Ok(found)
        })
    }

    fn update<'a>(
        &'a mut self,
        collection: &'a str,
        Update { filter, update }: Update,
    ) -> BoxFuture<'a, OpResult<bool>> {
        Box::pin(async move {
            let id = match (filter.len(), filter.get("_id")) {
                (1, Some(id)) if id.as_document().is_none_or(|id| !id.keys().any(|key| key.starts_with('$'))) => {
                    id.clone()
                }
                _ => return Err(OpError::unsupported("recipe", format!("update by {filter}, but by _id only"))),
            };
            if let Some(operator) = update.keys().find(|operator| !["$inc", "$set"].contains(&operator.as_str())) {
                return Err(OpError::unsupported(
                    "recipe",
                    format!("update with {operator}, but with $inc and $set only"),
                ));
            }
            match &mut self.steps {
                Some(steps) => {
                    steps.push(Step { collection: collection.to_owned(), id, update });
                    Ok(true)
                }
                // One document is changed at once.
                None => self.plain.update(collection, Update { filter, update }).await,
            }
        })
    }

    fn insert<'a>(&'a mut self, _collection: &'a str, _documents: Vec<Document>) -> BoxFuture<'a, OpResult<()>> {
        Box::pin(async move { Err(OpError::unsupported("recipe", "insert")) })
    }

    fn find_and_modify<'a>(
        &'a mut self,
        _collection: &'a str,
        _find: Find,
        _change: Change,
    ) -> BoxFuture<'a, OpResult<Option<Document>>> {
        Box::pin(async move { Err(OpError::unsupported("recipe", "find and modify")) })
    }

    fn delete<'a>(&'a mut self, _collection: &'a str, _filter: Document) -> BoxFuture<'a, OpResult<bool>> {
        Box::pin(async move { Err(OpError::unsupported("recipe", "delete")) })
    }

    fn aggregate<'a>(
        &'a mut self,
        _collection: &'a str,
        _pipeline: Vec<Document>,
    ) -> BoxFuture<'a, OpResult<Vec<Document>>> {
        Box::pin(async move { Err(OpError::unsupported("recipe", "aggregate")) })
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
