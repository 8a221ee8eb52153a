//! `distinct`: the values of a field over the documents that a transaction sees.

use bson::{Bson, doc};
use sd2v::stored::check_path;

use super::aggregate;
use crate::{
    command::{
        isolation::{committed, repeatable, validated},
        query::{
            groups::{VIEW_TOO_BIG, unwind_and_group, values_of},
            query_stages::as_aggregate,
            views,
        },
    },
    coordinator::{
        Core,
        request::query::{Query, exactly},
        transaction::Transaction,
    },
    error::Result,
    options::Namespace,
};

#[tracing::instrument(name = "mongotx.distinct", level = "debug", skip_all, fields(%ns))]
pub(crate) async fn find_distinct_values(
    core: &Core,
    tx: Option<&mut Transaction>,
    ns: &Namespace,
    field: &str,
    query: &Query,
) -> Result<Vec<Bson>> {
    query.check()?;
    check_path(field)?;
    let query = &*query.resolved(core, ns).await?;
    if views::is_view(core, ns).await? {
        let mut command = as_aggregate(query)?;
        command.pipeline.extend(unwind_and_group(field)?);
        return values_of(aggregate::read(core, tx, ns, &command).await?, VIEW_TOO_BIG).await;
    }
    let Some(tx) = tx else { return committed::distinct(core, None, ns, field, query).await };
    if tx.is_repeatable() {
        let ids = repeatable::lock_all(core, tx, ns, query).await?;
        let locked =
            Query { filter: doc! {"$and": [query.filter.clone(), exactly(&ids, &query.options)]}, ..query.clone() };
        return committed::distinct(core, Some(tx), ns, field, &locked).await;
    }
    tx.check_alive()?;
    if tx.validates() {
        return validated::distinct(core, tx, ns, field, query).await;
    }
    committed::distinct(core, Some(tx), ns, field, query).await
}
