//! `aggregate`: pipelines that read, in the view of a transaction or of none
//! ([`crate::command::access_paths::plan`]), and those that write ([`output`]).
//!
//! At repeatable read, what it reads is read-locked first, and it runs on the locked documents
//! only.

use std::{collections::BTreeMap, sync::Arc};

use sd2v::pipeline::split_output;

use super::output;
use crate::{
    command::{
        access_paths::plan::Plan,
        isolation::{repeatable, validated},
        query::documents::Documents,
    },
    coordinator::{
        Core,
        request::{pipeline::AggregateCommand, query::exactly},
        transaction::Transaction,
    },
    error::{Error, Result},
    options::Namespace,
};

#[tracing::instrument(name = "mongotx.aggregate", level = "debug", skip_all, fields(%ns))]
pub(crate) async fn aggregate_documents(
    core: &Arc<Core>,
    tx: Option<&mut Transaction>,
    ns: &Namespace,
    command: &AggregateCommand,
) -> Result<Documents> {
    match (split_output(&command.pipeline)?, tx) {
        ((_, None), tx) => read(core, tx, ns, command).await,
        ((_, Some(_)), Some(_)) => Err(Error::unsupported("$out and $merge are not supported in a transaction")),
        ((before, Some(output)), None) => {
            let before = AggregateCommand { pipeline: before.to_vec(), ..command.clone() };
            output::write_output(core, ns, &before, output).await?;
            Ok(Documents::default())
        }
    }
}

/// A pipeline that writes nothing.
pub(crate) async fn read(
    core: &Core,
    mut tx: Option<&mut Transaction>,
    ns: &Namespace,
    command: &AggregateCommand,
) -> Result<Documents> {
    let options = command.options.resolved(core, ns).await?.into_owned();
    let command = &AggregateCommand { options, ..command.clone() };
    if let Some(tx) = tx.as_deref_mut().filter(|tx| tx.validates()) {
        tx.check_alive()?;
        return validated::aggregate(core, tx, ns, command).await;
    }
    let mut plan = Plan::of(core, tx.as_deref(), ns, command).await?;
    let Some(tx) = tx else { return plan.run(core).await };
    tx.check_alive()?;
    if tx.is_repeatable() {
        lock(core, tx, &mut plan).await?;
    }
    plan.run(core).await
}

/// Read-locks everything that the pipeline reads, and bounds it to that.
async fn lock(core: &Core, tx: &mut Transaction, plan: &mut Plan) -> Result<()> {
    let mut only = BTreeMap::new();
    for (ns, query) in plan.queries() {
        let ids = repeatable::lock_all(core, tx, &ns, &query).await?;
        only.insert(ns.coll, exactly(&ids, &query.options));
    }
    plan.bind(tx.id(), only)
}
