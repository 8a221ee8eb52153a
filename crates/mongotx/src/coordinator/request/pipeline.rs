//! An aggregation pipeline with its options, as the application writes it.

use bson::{Bson, Document, doc};

use super::query_options::QueryOptions;
use crate::options::Namespace;

/// An `aggregate`, as the application writes it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AggregateCommand {
    pub(crate) pipeline: Vec<Document>,
    pub(crate) options: QueryOptions,
    pub(crate) batch_size: Option<u32>,
    pub(crate) allow_disk_use: bool,
    pub(crate) comment: Option<Bson>,
}

impl AggregateCommand {
    pub(crate) fn of(pipeline: Vec<Document>, options: QueryOptions) -> Self {
        Self { pipeline, options, batch_size: None, allow_disk_use: true, comment: None }
    }

    /// These stages with all other options of the command. A namespace without a collection is the
    /// database.
    pub(crate) fn to_command(&self, ns: &Namespace, pipeline: Vec<Document>) -> Document {
        let of: Bson = if ns.coll.is_empty() { 1.into() } else { ns.coll.as_str().into() };
        let mut command = doc! {"aggregate": of, "pipeline": pipeline};
        self.options.add_to(&mut command);
        self.options.add_hint(&mut command);
        self.add_options(&mut command);
        command
    }

    pub(crate) fn add_options(&self, command: &mut Document) {
        let cursor = self.batch_size.map_or_else(Document::new, |size| doc! {"batchSize": i64::from(size)});
        command.insert("cursor", cursor);
        command.insert("allowDiskUse", self.allow_disk_use);
        if let Some(comment) = &self.comment {
            command.insert("comment", comment.clone());
        }
    }
}
