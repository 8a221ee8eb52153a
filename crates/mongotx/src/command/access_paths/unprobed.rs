//! Queries without a probe: of a client that is alone, and whose own transactions have left nothing
//! in the collections that they read (decision 0066). The server gets the user's query of safe
//! versions, and nothing before it. A query that selects documents to be written always has a
//! probe; a statement that finds and locks the first in an order is sent elsewhere
//! ([`crate::coordinator::locking::find_and_lock`]).
//!
//! Every function here returns `None` if the query has to be sent with a probe: there is no permit,
//! or it was over when the answer came, or the server refuses the query, whose longer form reports
//! that in the user's terms.

use bson::{Bson, Document, doc};
use sd2v::view;

use crate::{
    command::query::{documents::Documents, query_stages::aggregation, reads_in_order::as_find},
    coordinator::{Core, request::query::Query},
    error::{ErrorKind, Result},
    options::Namespace,
};

/// Returns true if a query can be sent without a probe, apart from the state of its collection. To
/// be called first: it sends nothing. Where it returns false because there is no lease, the query
/// counts as demand for one.
pub(crate) fn may(core: &Core, ns: &Namespace, query: &Query) -> bool {
    !query.is_for_locks && !query.sees_lock_fields() && core.unprobed.may_be_unprobed(ns, &query.options)
}

/// The documents that these stages answer, of what the query selects.
pub(super) async fn aggregate_unprobed(
    core: &Core,
    ns: &Namespace,
    query: &Query,
    tail: &[Document],
) -> Result<Option<Documents>> {
    ask_without_probe(core, &[ns], || {
        let mut stages = vec![doc! {"$match": safe(core, query)}];
        stages.extend_from_slice(tail);
        let Some(mut find) = as_find(&ns.coll, &stages) else {
            let mut command = aggregation(ns, stages, query);
            if let Some(size) = query.batch_size {
                command.insert("cursor", doc! {"batchSize": i64::from(size)});
            }
            return command;
        };
        query.options.add_to(&mut find);
        query.options.add_hint(&mut find);
        find.insert("allowDiskUse", true);
        find.extend(query.batch_size.map(|size| ("batchSize".to_owned(), i64::from(size).into())));
        find
    })
    .await
}

/// The answer to a query in the user's own words.
pub(crate) async fn find(core: &Core, ns: &Namespace, query: &Query) -> Result<Option<Documents>> {
    ask_without_probe(core, &[ns], || query.to_find(ns, safe(core, query))).await
}

/// The answer to the command of `distinct`.
pub(crate) async fn distinct(core: &Core, ns: &Namespace, command: &Document) -> Result<Option<Vec<Bson>>> {
    let Some(permit) = core.unprobed.permit(&[ns]).await else { return Ok(None) };
    let mut answer = match core.server.run_command(&ns.db, command.clone()).await {
        Err(refused) if refused.kind() == ErrorKind::Invalid => return Ok(None),
        answer => answer?,
    };
    Ok(core.unprobed.is_believed(permit, &[ns]).then(|| match answer.remove("values") {
        Some(Bson::Array(values)) => values,
        _ => Vec::new(),
    }))
}

/// The answer to a command that reads safe versions of these collections of one database.
pub(crate) async fn ask_without_probe(
    core: &Core,
    reads: &[&Namespace],
    command: impl FnOnce() -> Document,
) -> Result<Option<Documents>> {
    let (Some(permit), Some(first)) = (core.unprobed.permit(reads).await, reads.first()) else { return Ok(None) };
    let answer = match core.server.cursor(&first.db, command()).await {
        Err(refused) if refused.kind() == ErrorKind::Invalid => return Ok(None),
        answer => answer?,
    };
    let mut answer = Documents::streaming(answer);
    answer.peek().await?;
    Ok(core.unprobed.is_believed(permit, reads).then_some(answer))
}

fn safe(core: &Core, query: &Query) -> Document {
    view::safe_filter(&query.filter, core.catalog.shards.none())
}
