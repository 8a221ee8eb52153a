//! `delete`: one document or many. Inside a transaction a document is marked, and goes when the
//! transaction commits.

use std::sync::Arc;

use bson::doc;
use sd2v::filter::{check_filter, has_special};

use super::{direct, implicit, update::write_first, write_commands::DeleteCommand};
use crate::{
    command::{
        isolation::{reads_of_writes, validated},
        query::drawn,
    },
    coordinator::{
        Core,
        locking::{change::Change, multi_write::Targets},
        request::query::Query,
        transaction::Transaction,
    },
    error::Result,
    options::Namespace,
};

/// Returns how many were deleted.
#[tracing::instrument(name = "mongotx.delete", level = "debug", skip_all, fields(%ns))]
pub(crate) async fn delete_documents(
    core: &Arc<Core>,
    tx: Option<&mut Transaction>,
    ns: &Namespace,
    command: &DeleteCommand,
) -> Result<u64> {
    core.catalog.check_written(ns, tx.is_some() || command.multi)?;
    check_filter(&command.filter)?;
    let options = command.options.resolved(core, ns).await?.into_owned();
    let command = &DeleteCommand { options, ..command.clone() };
    match tx {
        Some(tx) if command.multi => Box::pin(many(core, tx, ns, command)).await,
        Some(tx) => one(core, tx, ns, command).await,
        None if command.multi || has_special(&command.filter) || is_watched(core, ns).await? => {
            implicit::in_transaction!(core, |tx| async {
                match command.multi {
                    true => many(core, tx, ns, command).await,
                    false => one(core, tx, ns, command).await,
                }
            })
        }
        None => one_directly(core, ns, command).await,
    }
}

/// Returns true if each deletion leaves an event.
pub(super) async fn is_watched(core: &Core, ns: &Namespace) -> Result<bool> {
    Ok(core.catalog.look_up(ns).await?.watch.is_some())
}

async fn one_directly(core: &Core, ns: &Namespace, command: &DeleteCommand) -> Result<u64> {
    let mut attempts = direct::DirectAttempts::new(core, ns, &command.filter, &command.options);
    loop {
        let mut statement = doc! {"q": direct::unlocked(&command.filter), "limit": 1};
        if let Some(collation) = &command.options.collation {
            statement.insert("collation", collation.clone());
        }
        if let Some(hint) = &command.options.hint {
            statement.insert("hint", hint.clone());
        }
        let mut delete = doc! {"delete": &ns.coll, "deletes": [statement]};
        if let Some(variables) = &command.options.variables {
            delete.insert("let", variables.clone());
        }
        let answer = core.server.write_directly(&ns.db, delete).await?.ok()?;
        if answer.n > 0 {
            return Ok(1);
        }
        if !attempts.again().await? {
            return Ok(0);
        }
    }
}

/// Deletes one document inside a transaction.
async fn one(core: &Core, tx: &mut Transaction, ns: &Namespace, command: &DeleteCommand) -> Result<u64> {
    let query = Query::of(command.filter.clone(), command.options.clone());
    Ok(write_first(core, tx, ns, &query, &Change::Remove).await?.map_or(0, |_| 1))
}

async fn many(core: &Core, tx: &mut Transaction, ns: &Namespace, command: &DeleteCommand) -> Result<u64> {
    let all = Query::of(command.filter.clone(), command.options.clone());
    let found = validated::addresses(core, tx, ns, &all, core.options.max_documents).await?;
    let lasting = drawn::lasting(&command.filter)?;
    let filter = lasting.as_ref().unwrap_or(&command.filter);
    let targets = Targets { ns, at: &found, filter, options: &command.options };
    let matched = core.locking.prepare_multi(tx, &targets, &Change::Remove).await?.matched;
    reads_of_writes::check_all_matched(tx, ns, found.len(), matched)?;
    Ok(matched)
}
