//! A query as a pipeline: as it was written, and in the view of a reader that sees unsafe versions.

use bson::{Document, doc};
use protocol::TxId;
use sd2v::{
    Visible,
    pipeline::{Sources, map_pipeline},
    projection, view,
};

use crate::{
    coordinator::request::{pipeline::AggregateCommand, query::Query},
    error::Result,
    options::Namespace,
};

/// The command in the view of a transaction with writes of its own: mapped first, then the rest of
/// the command.
pub(crate) fn own_command(own: Option<&Visible>, ns: &Namespace, query: &Query) -> Result<Document> {
    let command = as_aggregate(query)?;
    let stages = mapped_stages(own, ns, &command)?;
    Ok(command.to_command(ns, stages))
}

/// Stages of the pipeline of [`own_command`].
pub(crate) fn own_stages(me: TxId, ns: &Namespace, query: &Query) -> Result<Vec<Document>> {
    mapped_stages(Some(&me.into()), ns, &as_aggregate(query)?)
}

fn mapped_stages(own: Option<&Visible>, ns: &Namespace, command: &AggregateCommand) -> Result<Vec<Document>> {
    let visible = own.map(|own| (ns.coll.clone(), own.writers().to_vec())).into_iter().collect();
    let sources = Sources { visible, ..Sources::default() };
    Ok(map_pipeline(Some(&ns.coll), &command.pipeline, &sources, true)?.stages)
}

/// The query as a pipeline.
pub(crate) fn as_aggregate(query: &Query) -> Result<AggregateCommand> {
    let mut pipeline = Vec::new();
    if !query.filter.is_empty() {
        pipeline.push(doc! {"$match": query.filter.clone()});
    }
    if let Some(sort) = query.sort.as_ref().filter(|sort| !query.is_fetch() && !sort.is_empty()) {
        pipeline.push(doc! {"$sort": sort.clone()});
    }
    pipeline.extend(skip_and_limit(query));
    if let Some(projection) = &query.projection {
        pipeline.extend(projection::as_stages(projection)?);
    }
    let batch_size = query.batch_size;
    Ok(AggregateCommand { batch_size, ..AggregateCommand::of(pipeline, query.options.clone()) })
}

/// The stages that pass over documents and stop.
pub(crate) fn skip_and_limit(query: &Query) -> Vec<Document> {
    let skip = (query.skip > 0).then(|| doc! {"$skip": query.skip as i64});
    let limit = (query.limit > 0).then(|| doc! {"$limit": query.limit as i64});
    skip.into_iter().chain(limit).collect()
}

/// The stages after which the documents are those that match in the view of a transaction that sees
/// `own` unsafe versions, exactly as the application wrote them.
pub(crate) fn visible_pipeline(own: Option<&Visible>, filter: &Document) -> Vec<Document> {
    let visible = own.map_or(&[][..], Visible::writers);
    let mut pipeline = vec![view::select(filter, visible)];
    pipeline.extend(view::map(visible));
    if !filter.is_empty() {
        pipeline.push(doc! {"$match": filter.clone()});
    }
    pipeline
}

/// The command that answers a query by this pipeline.
pub(crate) fn aggregation(ns: &Namespace, pipeline: Vec<Document>, query: &Query) -> Document {
    let mut command = doc! {"aggregate": &ns.coll, "pipeline": pipeline, "cursor": {}, "allowDiskUse": true};
    query.options.add_to(&mut command);
    query.options.add_hint(&mut command);
    command
}

#[cfg(test)]
mod tests {
    use sd2v::names::READERS;

    use super::*;

    #[test]
    fn visible_pipeline_without_filter_has_no_second_match() {
        let pipeline = visible_pipeline(None, &Document::new());
        assert_eq!(pipeline.iter().filter(|stage| stage.contains_key("$match")).count(), 1);
        assert!(pipeline.iter().any(|stage| format!("{stage}").contains(READERS)));
    }
}
