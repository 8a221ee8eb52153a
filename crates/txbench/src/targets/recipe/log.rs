//! The log of one transaction, and its way from one state to the next.
//!
//! 1. initial: what is to be done is written down. Interrupted here, nothing has happened.
//! 2. pending: from here on it is gone through with.
//! 3. The changes are made, in one command for each collection; each marks its document.
//! 4. applied: as durable as demanded, and with it all before.
//! 5. The marks are removed, likewise.
//! 6. done.

use std::collections::BTreeMap;

use bson::{Bson, Document, doc, oid::ObjectId};
use mongodb::{
    Collection, Database,
    error::Error,
    options::{Acknowledgment, WriteConcern},
};

use crate::{
    error::{BenchError, OpError, OpResult},
    targets::driver::{matched, write_error},
};

/// The collection of the logs, in the measurement's database.
pub(super) const LOGS: &str = "recipe_transactions";
/// The marks in a document.
pub(super) const PENDING: &str = "pendingTransactions";

/// One change of a transaction.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    pub(super) collection: String,
    pub(super) id: Bson,
    pub(super) update: Document,
}

impl Step {
    fn bson(&self) -> Bson {
        // A field name with a dollar sign is none that a document should have.
        let update: Vec<Bson> = self.update.iter().map(|(op, fields)| pair(&op.replace('$', ""), fields)).collect();
        Bson::from(doc! {"in": &self.collection, "id": self.id.clone(), "update": update})
    }

    fn read(step: &Document) -> Option<Self> {
        let update = step.get_array("update").ok()?.iter().map(|pair| {
            let pair = pair.as_document()?;
            Some((format!("${}", pair.get_str("op").ok()?), pair.get("fields")?.clone()))
        });
        let update = update.collect::<Option<Document>>()?;
        Some(Self { collection: step.get_str("in").ok()?.to_owned(), id: step.get("id")?.clone(), update })
    }
}

fn pair(op: &str, fields: &Bson) -> Bson {
    Bson::from(doc! {"op": op, "fields": fields.clone()})
}

/// A transaction on its way.
pub(super) struct Log {
    pub(super) id: ObjectId,
    pub(super) steps: Vec<Step>,
    db: Database,
}

/// A write that becomes durable with a later one.
fn not_durable() -> WriteConcern {
    WriteConcern::builder().w(Acknowledgment::Nodes(1)).build()
}

impl Log {
    pub(super) fn new(db: Database, steps: Vec<Step>) -> Self {
        Self { id: ObjectId::new(), steps, db }
    }

    /// Reads a log that a client has left.
    pub(super) fn read(db: Database, log: &Document) -> Result<Self, BenchError> {
        let steps = log.get_array("steps").into_iter().flatten().map(|step| Step::read(step.as_document()?));
        let id = log.get_object_id("_id").ok();
        let read = id.zip(steps.collect::<Option<Vec<Step>>>()).map(|(id, steps)| Self { id, steps, db });
        read.ok_or_else(|| BenchError::Failed(format!("recipe: a log that cannot be read: {log}")))
    }

    pub(super) fn logs(&self) -> Collection<Document> {
        self.db.collection(LOGS)
    }

    // Step 1.
    pub(super) async fn begin(&self) -> Result<(), Error> {
        let steps: Vec<Bson> = self.steps.iter().map(Step::bson).collect();
        // An update, so that the time is the server's.
        let initial = vec![doc! {"$set": {"state": "initial", "steps": {"$literal": steps}, "lastModified": "$$NOW"}}];
        let logs = self.logs();
        let insert = logs.update_one(doc! {"_id": self.id}, initial).upsert(true);
        insert.write_concern(not_durable()).await.map(drop)
    }

    /// Changes the state, if it is still the one before; returns whether it was.
    pub(super) async fn advance(&self, from: &str, to: &str, concern: WriteConcern) -> Result<bool, Error> {
        let update = doc! {"$set": {"state": to}, "$currentDate": {"lastModified": true}};
        let logs = self.logs();
        let advanced = logs.update_one(doc! {"_id": self.id, "state": from}, update).write_concern(concern);
        Ok(advanced.await?.matched_count > 0)
    }

    // Step 3.
    pub(super) async fn apply(&self) -> OpResult<()> {
        let mut by_collection: BTreeMap<&str, Vec<Bson>> = BTreeMap::new();
        for Step { collection, id, update } in &self.steps {
            let mut update = update.clone();
            update.insert("$push", doc! {PENDING: self.id});
            let filter = doc! {"_id": id.clone(), PENDING: {"$ne": self.id}};
            by_collection.entry(collection).or_default().push(doc! {"q": filter, "u": update}.into());
        }
        self.send(by_collection).await
    }

    // Step 5.
    async fn unmark(&self) -> OpResult<()> {
        let mut by_collection: BTreeMap<&str, Vec<Bson>> = BTreeMap::new();
        for Step { collection, id, .. } in &self.steps {
            let update = doc! {"q": {"_id": id.clone()}, "u": {"$pull": {PENDING: self.id}}};
            by_collection.entry(collection).or_default().push(update.into());
        }
        self.send(by_collection).await
    }

    async fn send(&self, by_collection: BTreeMap<&str, Vec<Bson>>) -> OpResult<()> {
        for (collection, updates) in by_collection {
            let command = doc! {"update": collection, "updates": updates, "writeConcern": {"w": 1}};
            matched(&self.db.run_command(command).await.map_err(write_error)?)?;
        }
        Ok(())
    }

    /// Steps 3 to 6, which can be done again.
    pub(super) async fn go_through(&self, durable: WriteConcern) -> OpResult<()> {
        self.apply().await?;
        let applied = self.advance("pending", "applied", durable).await;
        let late = match applied.map_err(write_error) {
            // It is done here, and on too few other nodes: it is completed, and the answer says so.
            Err(unknown @ OpError::Unknown(_)) => Some(unknown),
            Err(error) => return Err(error),
            Ok(_) => None,
        };
        self.finish().await?;
        late.map_or(Ok(()), Err)
    }

    /// Finishes the log: steps 5 and 6.
    pub(super) async fn finish(&self) -> OpResult<()> {
        self.unmark().await?;
        self.advance("applied", "done", not_durable()).await.map_err(write_error)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_read_as_it_was_written() {
        let update = doc! {"$inc": {"a.b": 5_i64}, "$set": {"at": "x"}};
        let step = Step { collection: "c".to_owned(), id: 7.into(), update };
        assert_eq!(step.bson().as_document().and_then(Step::read), Some(step));
        assert_eq!(Step::read(&doc! {"in": "c"}), None);
    }
}
