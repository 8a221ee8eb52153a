//! `explain`: the server's plan for the command that a read would send now.
//!
//! What is pending is settled first, as the read itself would do. Nothing is locked: at repeatable read the plan is that
//! of the read as it would be at read committed.

use bson::{Document, doc};
use sd2v::pipeline::{Output, split_output};

use super::{
    aggregate::{AggregateCommand, Plan},
    fetch, find, one_command, own_view,
    query::Query,
    views,
};
use crate::{
    coordinator::{Core, transaction::Transaction},
    error::Result,
    options::{Namespace, Verbosity},
};

pub(crate) async fn find(
    core: &Core,
    tx: Option<&Transaction>,
    ns: &Namespace,
    query: &Query,
    verbosity: Verbosity,
) -> Result<Document> {
    query.check()?;
    let query = &*query.resolved(core, ns).await?;
    if views::is_view(core, ns).await? {
        return aggregate(core, tx, ns, &find::as_aggregate(query)?, verbosity).await;
    }
    let command = find_command(core, tx, ns, query).await?;
    ask(core, ns, command, verbosity).await
}

async fn find_command(core: &Core, tx: Option<&Transaction>, ns: &Namespace, query: &Query) -> Result<Document> {
    if let Some(filter) = fetch::by_id_filter(core, tx, ns, query).await? {
        return Ok(query.to_find(ns, filter));
    }
    let me = tx.and_then(Transaction::id);
    let own = me.filter(|_| tx.is_some_and(|tx| tx.has_written(ns)));
    if own.is_none()
        && let Some(filter) = fetch::by_ids_filter(core, ns, query).await?
    {
        return Ok(query.to_find(ns, filter));
    }
    let visible = core.settle_pending(ns, &query.filter, &query.terms, me).await?.visible(own);
    if visible.is_some() || query.sees_lock_fields() {
        return own_view::command(visible.as_ref(), ns, query);
    }
    // What is left is active, and not in the way.
    if let Some(command) = one_command::find_command(core, ns, query, me).await? {
        return Ok(command);
    }
    Ok(query.to_find(ns, sd2v::view::safe_filter(&query.filter, core.catalog.shards.none())))
}

pub(crate) async fn aggregate(
    core: &Core,
    tx: Option<&Transaction>,
    ns: &Namespace,
    command: &AggregateCommand,
    verbosity: Verbosity,
) -> Result<Document> {
    let (before, output) = split_output(&command.pipeline)?;
    let before = AggregateCommand { pipeline: before.to_vec(), ..command.clone() };
    let mut plan = Plan::of(core, tx, ns, &before).await?;
    plan.settle(core).await?;
    let command = match output {
        Some(Output::Out { stage, .. }) => plan.writing_command(stage)?,
        Some(Output::Merge(merge)) => plan.writing_command(merge.stage)?,
        None => plan.one_command(core).await?.unwrap_or_else(|| plan.plain_command()),
    };
    ask(core, ns, command, verbosity).await
}

async fn ask(core: &Core, ns: &Namespace, command: Document, verbosity: Verbosity) -> Result<Document> {
    core.server.run(&ns.db, doc! {"explain": command, "verbosity": verbosity.as_str()}).await
}
