//! A transaction at work: reads and writes of rows by their `_id`, in the chosen way.

use bson::{Bson, Document, doc};

use crate::{
    error::{BenchError, OpError, OpResult},
    targets::{Change, Find, Session, Update},
    workload::tpcc::how::How,
};

/// Reason of a conflict in which an update's condition did not hold.
const CHANGED: &str = "changed since it was read";

/// A session in a transaction, and the choices about the way in which it is written.
pub struct Work<'a> {
    /// Session in which it runs.
    pub session: &'a mut dyn Session,
    /// Layout and options of the queries.
    pub how: How,
}

impl Work<'_> {
    /// The row with this `_id`, with these fields.
    ///
    /// # Errors
    /// [`OpError::Fatal`] if there is none; the target's errors.
    pub async fn row(&mut self, collection: &str, id: i64, fields: &[&str]) -> OpResult<Document> {
        self.row_if_there(collection, id, fields).await?.ok_or_else(|| missing(collection, id))
    }

    /// The row with this `_id`, if there is one.
    ///
    /// # Errors
    /// The target's errors.
    pub async fn row_if_there(&mut self, collection: &str, id: i64, fields: &[&str]) -> OpResult<Option<Document>> {
        let find = Find::new(doc! {"_id": id}).project(self.projection(fields));
        self.session.find_one(collection, find).await
    }

    /// The rows with these `_id`s that are there, in any order; one operation or one for each.
    ///
    /// # Errors
    /// The target's errors.
    pub async fn rows(&mut self, collection: &str, ids: &[i64], fields: &[&str]) -> OpResult<Vec<Document>> {
        if self.how.batch {
            return self.find(collection, doc! {"_id": {"$in": ids}}, fields).await;
        }
        let mut rows = Vec::new();
        for id in ids {
            rows.extend(self.row_if_there(collection, *id, fields).await?);
        }
        Ok(rows)
    }

    /// Reads these fields of the rows that match.
    ///
    /// # Errors
    /// The target's errors.
    pub async fn find(&mut self, collection: &str, filter: Document, fields: &[&str]) -> OpResult<Vec<Document>> {
        let find = Find::new(filter).project(self.projection(fields));
        self.session.find(collection, find).await
    }

    /// Changes the row with this `_id` and returns it as it is then; `None` if there is none.
    ///
    /// # Errors
    /// The target's errors.
    pub async fn change(
        &mut self,
        collection: &str,
        id: i64,
        update: Document,
        fields: &[&str],
    ) -> OpResult<Option<Document>> {
        let find = Find::new(doc! {"_id": id}).project(self.projection(fields));
        self.session.find_and_modify(collection, find, Change::Update(update)).await
    }

    /// Reads the row with this `_id` and changes it by an update that does not depend on it, in one
    /// operation or two; returns the fields that do not change.
    ///
    /// # Errors
    /// [`OpError::Fatal`] if there is none; the target's errors.
    pub async fn read_and_add(
        &mut self,
        collection: &str,
        id: i64,
        update: Document,
        fields: &[&str],
    ) -> OpResult<Document> {
        if self.how.find_and_modify {
            return self.change(collection, id, update, fields).await?.ok_or_else(|| missing(collection, id));
        }
        let row = self.row(collection, id, fields).await?;
        self.update(collection, Update { filter: doc! {"_id": id}, update }).await?;
        Ok(row)
    }

    /// Updates a row that must be there.
    ///
    /// # Errors
    /// [`OpError::Conflict`] if the filter matches nothing: a rival was faster. The target's
    /// errors.
    pub async fn update(&mut self, collection: &str, update: Update) -> OpResult<()> {
        match self.session.update(collection, update).await? {
            true => Ok(()),
            false => Err(OpError::Conflict(CHANGED)),
        }
    }

    /// Updates rows that must be there; one operation or one for each.
    ///
    /// # Errors
    /// As [`Self::update`].
    pub async fn update_each(&mut self, collection: &str, updates: Vec<Update>) -> OpResult<()> {
        if !self.how.batch {
            for update in updates {
                self.update(collection, update).await?;
            }
            return Ok(());
        }
        let count = updates.len() as u64;
        if count == 0 || self.session.update_each(collection, updates).await? == count {
            return Ok(());
        }
        Err(OpError::Conflict(CHANGED))
    }

    /// Inserts rows; one operation or one for each.
    ///
    /// # Errors
    /// The target's errors.
    pub async fn insert(&mut self, collection: &str, rows: Vec<Document>) -> OpResult<()> {
        if self.how.batch {
            return self.session.insert(collection, rows).await;
        }
        for row in rows {
            self.session.insert(collection, vec![row]).await?;
        }
        Ok(())
    }

    /// Projection to these fields, or to all where that choice is off.
    pub fn projection(&self, fields: &[&str]) -> Document {
        match self.how.needed_fields {
            true => fields.iter().map(|field| ((*field).to_owned(), Bson::Int32(1))).collect(),
            false => Document::new(),
        }
    }
}

/// A whole number in a row.
///
/// # Errors
/// [`OpError::Fatal`], naming the field, if there is none.
pub fn number(row: &Document, field: &str) -> OpResult<i64> {
    match row.get(field) {
        Some(Bson::Int64(number)) => Ok(*number),
        Some(Bson::Int32(number)) => Ok((*number).into()),
        other => Err(damaged(field, "a number", other)),
    }
}

/// A text in a row.
///
/// # Errors
/// As [`number`].
pub fn text<'a>(row: &'a Document, field: &str) -> OpResult<&'a str> {
    row.get_str(field).map_err(|_| damaged(field, "a text", row.get(field)))
}

/// The documents of an array in a row; none if there is no such array.
pub fn documents<'a>(row: &'a Document, field: &str) -> impl Iterator<Item = &'a Document> {
    row.get_array(field).map_or(&[][..], Vec::as_slice).iter().filter_map(Bson::as_document)
}

/// The error for a row that must be there.
pub fn missing(collection: &str, what: impl std::fmt::Display) -> OpError {
    BenchError::Failed(format!("{collection} {what} is not there")).into()
}

fn damaged(field: &str, expected: &str, found: Option<&Bson>) -> OpError {
    let found = found.map_or_else(|| "nothing".to_owned(), ToString::to_string);
    BenchError::Failed(format!("{field}: {expected} is expected, there is {found}")).into()
}
