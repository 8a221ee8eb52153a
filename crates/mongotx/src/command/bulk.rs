//! `bulk_write`: several writes of one collection, in order or not.

use std::sync::Arc;

use bson::{Bson, Document, doc};
use sd2v::filter::{has_special, sees_lock_fields};

use super::{delete, delete::DeleteCommand, implicit, insert, query, update, update::UpdateCommand};
use crate::{
    coordinator::{
        Core, address::Address, own_key::OwnKey, prepare::Target, prepare_each::Each, transaction::Transaction,
    },
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
/// document and modified it. Where some name their documents by other keys than `_id`, these are asked for before, by one
/// command.
async fn first_updates(core: &Core, tx: &mut Transaction, ns: &Namespace, operations: &[Operation]) -> Result<usize> {
    if operations.len() < 2 || !core.shard_key(ns).await?.is_empty() || tx.has_read_locks(ns) {
        return Ok(0);
    }
    let mut run = Vec::new();
    for operation in operations.iter().take(TOGETHER) {
        let Operation::Update(command) = operation else { break };
        if !command.may_be_fused() {
            break;
        }
        match named(core, tx, ns, command).await? {
            Some(named) => run.push((named, &**command)),
            None => break,
        }
    }
    if run.len() < 2 {
        return Ok(0);
    }
    core.catalog.check_written(ns, true)?;
    let run = addresses(core, ns, run).await?;
    if run.len() < 2 {
        return Ok(0);
    }
    let all: Vec<Each<'_>> = run
        .iter()
        .map(|(at, command)| {
            let target = Target { ns, at, filter: &command.filter, terms: &command.terms, chosen: false };
            Each { target, change: command.change() }
        })
        .collect();
    core.prepare_each(tx, ns, &all).await
}

/// How an update names the one document that it can match.
enum Named {
    Id(Bson),
    /// By a value of each field of a unique index.
    Key,
}

async fn named(core: &Core, tx: &Transaction, ns: &Namespace, command: &UpdateCommand) -> Result<Option<Named>> {
    if let Some(id) = query::named_id(core, ns, &command.filter, &command.terms).await? {
        return Ok(Some(Named::Id(id)));
    }
    // Its own documents may have other keys than those that everybody sees.
    let plain = !has_special(&command.filter) && !sees_lock_fields(&command.filter) && !tx.has_new_keys(ns);
    let is_key = plain && core.catalog.look_up(&core.server, ns).await?.is_pinned_by(&command.filter);
    Ok(is_key.then_some(Named::Key))
}

/// Where the documents of the first of these are. What is told of others than `_id`s is no more than likely: the statements that
/// follow demand what the filters say.
async fn addresses<'a>(
    core: &Core,
    ns: &Namespace,
    run: Vec<(Named, &'a UpdateCommand)>,
) -> Result<Vec<(Address, &'a UpdateCommand)>> {
    let by_key = || run.iter().filter(|(named, _)| matches!(named, Named::Key)).map(|(_, command)| &command.filter);
    let mut found = match by_key().count() {
        0 => Vec::new(),
        // By itself it has a shorter way.
        1 => return Ok(Vec::new()),
        count => {
            let filters: Vec<&Document> = by_key().collect();
            let fields = filters.iter().flat_map(|filter| filter.keys()).filter(|field| !field.starts_with('$'));
            let shown = fields.map(|field| top_level(field)).chain(["_id"]);
            let projection: Document = shown.map(|field| (field.to_owned(), Bson::Int32(1))).collect();
            let find = doc! {"find": &ns.coll, "filter": {"$or": filters}, "projection": projection};
            core.server.collect(&ns.db, find, count).await?
        }
    };
    let mut addresses = Vec::new();
    for (named, command) in run {
        let id = match named {
            Named::Id(id) => Some(id),
            Named::Key => {
                let place = found.iter().position(|document| has_values(document, &command.filter));
                place.and_then(|place| found.swap_remove(place).remove("_id"))
            }
        };
        match id {
            Some(id) => addresses.push((Address::bare(id), command)),
            None => break,
        }
    }
    Ok(addresses)
}

fn top_level(path: &str) -> &str {
    path.split('.').next().unwrap_or(path)
}

/// Does the document have the values that the filter demands of fields at its top?
fn has_values(document: &Document, filter: &Document) -> bool {
    filter.iter().all(|(field, wanted)| {
        let is_value = !field.starts_with('$') && !field.contains('.') && !matches!(wanted, Bson::Document(_));
        !is_value || document.get(field).is_some_and(|value| OwnKey::of(value) == OwnKey::of(wanted))
    })
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
