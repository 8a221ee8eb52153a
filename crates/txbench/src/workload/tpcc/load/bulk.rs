//! Sends rows to the target in batches, and tells how far it is.

use bson::Document;

use crate::{error::BenchError, target::Target, workload::Progress};

/// Documents in one batch.
const BATCH: usize = 2_000;

/// A load under way.
pub(super) struct Bulk<'a> {
    target: &'a dyn Target,
    progress: Progress<'a>,
    loaded: u64,
    about: u64,
}

impl<'a> Bulk<'a> {
    /// `about` is how many documents there will be.
    pub(super) fn new(target: &'a dyn Target, progress: Progress<'a>, about: u64) -> Self {
        Self { target, progress, loaded: 0, about }
    }

    /// Loads these rows.
    pub(super) async fn put(&mut self, collection: &str, mut rows: Vec<Document>) -> Result<(), BenchError> {
        while !rows.is_empty() {
            let rest = rows.split_off(rows.len().min(BATCH));
            self.loaded += rows.len() as u64;
            self.target.load(collection, rows).await?;
            (self.progress)(self.loaded.min(self.about), self.about);
            rows = rest;
        }
        Ok(())
    }

    /// All is loaded.
    pub(super) fn end(self) {
        (self.progress)(self.about, self.about);
    }
}
