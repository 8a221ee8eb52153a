//! Sends rows to the target in batches, and reports its progress.

use bson::Document;

use super::Load;
use crate::{
    error::BenchError,
    targets::Target,
    workload::{Progress, tpcc::natural},
};

/// Number of documents in one batch.
const BATCH: usize = 2_000;

/// State of a load that is under way.
pub(super) struct Bulk<'a> {
    target: &'a dyn Target,
    progress: Progress<'a>,
    loaded: u64,
    about: u64,
    natural_keys: bool,
}

impl<'a> Bulk<'a> {
    pub(super) fn new(target: &'a dyn Target, progress: Progress<'a>, load: &Load) -> Self {
        Self { target, progress, loaded: 0, about: load.documents_about(), natural_keys: load.natural_keys }
    }

    /// Loads these rows into a collection.
    pub(super) async fn put(&mut self, collection: &str, mut rows: Vec<Document>) -> Result<(), BenchError> {
        while !rows.is_empty() {
            let rest = rows.split_off(rows.len().min(BATCH));
            self.loaded += rows.len() as u64;
            if self.natural_keys {
                rows = rows.into_iter().map(natural::row).collect();
            }
            self.target.load(collection, rows).await?;
            (self.progress)(self.loaded.min(self.about), self.about);
            rows = rest;
        }
        Ok(())
    }

    /// Reports that everything is loaded.
    pub(super) fn end(self) {
        (self.progress)(self.about, self.about);
    }
}
