//! `find`: a query of a collection, by the isolation level of its transaction, or of a view.

use super::aggregate;
use crate::{
    command::{
        isolation::{committed, repeatable, validated},
        query::{documents::Documents, plain_projection::is_plain_projection, query_stages::as_aggregate, views},
    },
    coordinator::{Core, read_set::seen_keys::Spotter, request::query::Query, transaction::Transaction},
    error::{Error, Result},
    options::Namespace,
};

#[tracing::instrument(name = "mongotx.find", level = "debug", skip_all, fields(%ns))]
pub(crate) async fn find_documents(
    core: &Core,
    tx: Option<&mut Transaction>,
    ns: &Namespace,
    query: &Query,
) -> Result<Documents> {
    query.check()?;
    let query = &*query.resolved(core, ns).await?;
    if views::is_view(core, ns).await? {
        check_view(query)?;
        return Box::pin(aggregate::read(core, tx, ns, &as_aggregate(query)?)).await;
    }
    let Some(tx) = tx else { return committed::find(core, None, ns, query).await };
    let spotter = spotter(core, tx, ns, query).await?;
    let found = match () {
        () if tx.is_repeatable() => Box::pin(repeatable::find(core, tx, ns, query)).await,
        () if tx.validates() => validated::find(core, tx, ns, query).await,
        () => committed::find(core, Some(tx), ns, query).await,
    };
    Ok(found?.spotted(spotter))
}

/// # Errors
/// 168, as the server, for what only a `find` can do.
fn check_view(query: &Query) -> Result<()> {
    let Some(find_only) = &query.options.find_only else { return Ok(()) };
    Err(Error::invalid(168, format!("Option {} not supported in aggregation.", find_only.name())))
}

/// A [`Spotter`] that notes the places of the documents in the answer, if the answer shows those
/// and their keys.
async fn spotter(core: &Core, tx: &Transaction, ns: &Namespace, query: &Query) -> Result<Option<Spotter>> {
    if !query.projection.as_ref().is_none_or(is_plain_projection) || !query.shows_ids() {
        return Ok(None);
    }
    Ok(tx.seen.spotter(ns, core.catalog.look_up(ns).await?.plain_keys()))
}
