//! A probe for collections with many pending documents: it finds the writers of all of them, before
//! another probe looks for those that matter (decision 0065). Among many documents that match, or
//! many that are pending, the server has to look at each; the index on pending documents finds each
//! writer in one step.

use std::sync::Arc;

use bson::{Document, doc};
use protocol::TxId;

use super::probed::{MAX_WRITERS, probe};
use crate::{
    coordinator::{
        Core,
        catalog::WideProbes,
        request::{query::Query, query_options::QueryOptions},
    },
    error::Result,
    options::Namespace,
};

/// Returns true if it is a query for the first few of an order, or a count. The pending documents
/// that matter to it would have to be found document by document, among many that match: that takes
/// far longer than the answer.
pub(super) fn wants_all_writers(query: &Query, answer: &[Document]) -> bool {
    let is_first_few = query.limit > 0 && query.sort.as_ref().is_some_and(|sort| !sort.is_empty());
    is_first_few || is_counted(answer)
}

/// Returns true if the pipeline ends with a sum.
pub(crate) fn is_counted(answer: &[Document]) -> bool {
    answer.last().is_some_and(|stage| stage.contains_key("$group") || stage.contains_key("$count"))
}

/// Returns true if this is the condition for everything that is pending in a crowded collection.
/// Then its documents are probably those of a few writers, each of which is found in one step.
pub(super) async fn is_for_everything_in_crowd(
    core: &Core,
    ns: &Namespace,
    pending: &Document,
    me: Option<TxId>,
    options: &QueryOptions,
) -> Result<bool> {
    if options.collation.is_some() {
        return Ok(false);
    }
    let is_crowded = core.catalog.look_up(ns).await?.wide_probes().is_some();
    Ok(is_crowded && core.pending.pending_filter(ns, &Document::new(), me).await? == *pending)
}

/// The condition for everything that is pending, if its writers are to be looked for, and the
/// counters of what came of that (decision 0065). The index on pending documents finds each writer
/// in one step.
pub(crate) async fn wide_probe(
    core: &Core,
    ns: &Namespace,
    filter: &Document,
    me: Option<TxId>,
    batch_size: Option<u32>,
    options: &QueryOptions,
) -> Result<Option<(Document, Arc<WideProbes>)>> {
    let is_special = options.collation.is_some() || batch_size.is_some_and(|size| size as usize <= MAX_WRITERS);
    // Documents that this client has left are decided: they are looked for only where they matter.
    if is_special || core.finisher.has_left(ns) {
        return Ok(None);
    }
    let collection = core.catalog.look_up(ns).await?;
    // Few documents match: they are looked at.
    let (false, Some(looks)) =
        (filter.contains_key("_id") || collection.is_pinned_by(filter), collection.wide_probes())
    else {
        return Ok(None);
    };
    let all = core.pending.pending_filter(ns, &Document::new(), me).await?;
    let is_wider = core.pending.pending_filter(ns, filter, me).await? != all;
    Ok((is_wider && looks.is_next_wide()).then_some((all, looks)))
}

/// The aggregation that answers the writers of all pending documents, one step of an index for
/// each.
pub(super) fn who_has_anything(ns: &Namespace, all: &Document) -> Document {
    let batch = doc! {"batchSize": MAX_WRITERS as i64 + 1};
    doc! {"aggregate": &ns.coll, "pipeline": probe(all.clone()), "cursor": batch}
}
