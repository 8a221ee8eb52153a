//! `bulk_write`: several writes of one collection, in order or not.

use std::sync::Arc;

use bson::{Bson, Document};

use super::{delete, delete::DeleteCommand, implicit, insert, query, update, update::UpdateCommand};
use crate::{
    coordinator::{Core, address::Address, prepare::Target, prepare_each::Each, transaction::Transaction},
    error::{Error, Progress, Result, WriteError},
    options::Namespace,
};

/// Updates that are tried together at a time.
const TOGETHER: usize = 500;

#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Insert(Document),
    Update(Box<UpdateCommand>),
    Delete(Box<DeleteCommand>),
}

/// What a bulk write did.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct BulkWriteResult {
    /// Documents inserted by insert models.
    pub inserted_count: u64,
    /// Documents matched by update and replace models.
    pub matched_count: u64,
    /// Documents modified by them.
    pub modified_count: u64,
    /// Documents deleted by delete models.
    pub deleted_count: u64,
    /// `_id`s of inserted documents, by the model's place.
    pub inserted_ids: Vec<(usize, Bson)>,
    /// `_id`s of upserted documents, by the model's place.
    pub upserted_ids: Vec<(usize, Bson)>,
}

#[tracing::instrument(name = "mongotx.bulk_write", level = "debug", skip_all, fields(%ns))]
pub(crate) async fn run(
    core: &Arc<Core>,
    tx: Option<&mut Transaction>,
    ns: &Namespace,
    operations: &[Operation],
    ordered: bool,
) -> Result<BulkWriteResult> {
    for operation in operations {
        match operation {
            Operation::Insert(document) => sd2v::stored::check_document(document)?,
            Operation::Update(update) => update.check()?,
            Operation::Delete(delete) => sd2v::filter::check_filter(&delete.filter)?,
        }
    }
    match tx {
        Some(tx) => inside(core, tx, ns, operations, ordered).await,
        None => {
            implicit::run!(core, |tx| inside(core, tx, ns, operations, ordered))
        }
    }
}

async fn inside(
    core: &Arc<Core>,
    tx: &mut Transaction,
    ns: &Namespace,
    operations: &[Operation],
    ordered: bool,
) -> Result<BulkWriteResult> {
    let mut result = BulkWriteResult::default();
    let mut refused = Vec::new();
    let mut index = 0;
    while let Some(operation) = operations.get(index) {
        let together = first_updates(core, tx, ns, &operations[index..]).await?;
        if together > 0 {
            index += together;
            result.matched_count += together as u64;
            result.modified_count += together as u64;
            continue;
        }
        match one(core, tx, ns, operation, index, &mut result).await {
            Ok(()) => {}
            Err(error) if error.ends_transaction() => return Err(error),
            Err(error) => {
                refused.push(WriteError::new(index, error));
                if ordered {
                    break;
                }
            }
        }
        index += 1;
    }
    let Some(first) = refused.first() else { return Ok(result) };
    let message =
        format!("{} of {} writes to {ns} refused; the first: {}", refused.len(), operations.len(), first.message);
    let progress = Progress {
        inserted: result.inserted_count,
        matched: result.matched_count,
        modified: result.modified_count,
        deleted: result.deleted_count,
        upserted: result.upserted_ids.len() as u64,
    };
    Err(Error::invalid(first.code, message).with_write_errors(refused).with_progress(progress))
}

/// Carries out as many of the first operations as one command can, and answers how many: each of these has matched its
/// document and modified it.
async fn first_updates(core: &Core, tx: &mut Transaction, ns: &Namespace, operations: &[Operation]) -> Result<usize> {
    if operations.len() < 2 || !core.shard_key(ns).await?.is_empty() {
        return Ok(0);
    }
    let mut run = Vec::new();
    for operation in operations.iter().take(TOGETHER) {
        let Operation::Update(command) = operation else { break };
        if !command.may_be_fused() {
            break;
        }
        let Some(id) = query::named_id(core, ns, &command.filter, &command.terms).await? else { break };
        run.push((Address::bare(id), command));
    }
    if run.len() < 2 {
        return Ok(0);
    }
    core.catalog.check_written(ns, true)?;
    let all: Vec<Each<'_>> = run
        .iter()
        .map(|(at, command)| {
            let target = Target { ns, at, filter: &command.filter, terms: &command.terms, chosen: false };
            Each { target, change: command.change() }
        })
        .collect();
    core.prepare_each(tx, ns, &all).await
}

async fn one(
    core: &Arc<Core>,
    tx: &mut Transaction,
    ns: &Namespace,
    operation: &Operation,
    index: usize,
    result: &mut BulkWriteResult,
) -> Result<()> {
    match operation {
        Operation::Insert(document) => {
            result.inserted_ids.push((index, insert::one(core, tx, ns, document.clone()).await?));
            result.inserted_count += 1;
        }
        Operation::Update(command) => {
            let done = update::run(core, Some(tx), ns, command).await?;
            result.matched_count += done.matched_count;
            result.modified_count += done.modified_count;
            result.upserted_ids.extend(done.upserted_id.map(|id| (index, id)));
        }
        Operation::Delete(command) => result.deleted_count += delete::run(core, Some(tx), ns, command).await?,
    }
    Ok(())
}
