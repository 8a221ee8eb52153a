//! Reads a whole collection without having all of it in memory.

use bson::{Bson, Document, doc};

use crate::{
    error::OpResult,
    targets::{Find, Session},
};

/// Number of documents in a page.
pub(crate) const SIZE: u32 = 5_000;

/// The documents of a collection, page by page in the order of `_id`.
pub(crate) struct Pages {
    collection: &'static str,
    projection: Document,
    is_sorted: bool,
    after: Option<Bson>,
    is_at_end: bool,
}

impl Pages {
    pub(crate) fn new(collection: &'static str, projection: Document) -> Self {
        Self { collection, projection, is_sorted: true, after: None, is_at_end: false }
    }

    /// All of it in one page and in any order: for small collections, and for targets that cannot
    /// sort.
    pub(crate) fn single(collection: &'static str, projection: Document) -> Self {
        Self { is_sorted: false, ..Self::new(collection, projection) }
    }

    /// The next page; `None` after the last.
    pub(crate) async fn next(&mut self, session: &mut dyn Session) -> OpResult<Option<Vec<Document>>> {
        if self.is_at_end {
            return Ok(None);
        }
        let filter = self.after.as_ref().map_or(doc! {}, |id| doc! {"_id": {"$gt": id.clone()}});
        let mut find = Find::new(filter).project(self.projection.clone());
        if self.is_sorted {
            find = find.sort(doc! {"_id": 1}).limit(SIZE);
        }
        let page = session.find(self.collection, find).await?;
        self.is_at_end = !self.is_sorted || page.len() < SIZE as usize;
        self.after = page.last().and_then(|last| last.get("_id")).cloned();
        Ok(Some(page))
    }
}
