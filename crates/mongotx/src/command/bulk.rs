//! `bulk_write`: several writes of one collection, in order or not. Here they are cut into groups
//! that one command can carry out; single writes are those of `insert`, `update`, `delete` and
//! `each`, upserts those of `upserts`.

use std::sync::Arc;

use bson::{Bson, Document, doc};

use super::{
    delete,
    fetch_key::{has_all_values, is_values},
    implicit, insert, update,
    upserts::{self, Inserted, Presence},
    write_commands::Operation,
};
use crate::{
    coordinator::{
        Core,
        asked::{address::Address, query, terms::Terms},
        locking::{
            change::Change,
            each::{Act, Changing, Each, Form, Inserting},
            target::Target,
        },
        transaction::Transaction,
    },
    error::{Error, Progress, Result, WriteError},
    options::Namespace,
};

/// Updates and removals that are tried together at a time.
const TOGETHER: usize = 500;
/// Commands of several that may end early before the next writes are sent one by one: what such a
/// command has locked behind its end is given back, and is locked again.
const MOST_STOPS: usize = 4;

/// A change of one document that may be sent together with others.
struct Statement<'a> {
    filter: &'a Document,
    terms: &'a Terms,
    change: Change<'a>,
}

/// The filter and the change of an update or removal that can go with others, or of an upsert whose
/// document is there. It may be a statement for many documents: one that names one document changes
/// no more.
fn statement_of(operation: &Operation, is_there: bool) -> Option<Statement<'_>> {
    match operation {
        Operation::Update(command) if command.may_go_together() || is_there => {
            Some(Statement { filter: &command.filter, terms: &command.terms, change: command.change() })
        }
        Operation::Delete(command) if command.terms.is_plain() && command.terms.hint.is_none() => {
            Some(Statement { filter: &command.filter, terms: &command.terms, change: Change::Remove })
        }
        _ => None,
    }
}

/// The result of a bulk write: counts by kind, and the `_id`s of new documents.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct BulkWriteResult {
    /// Number of documents inserted by insert models.
    pub inserted_count: u64,
    /// Number of documents matched by update and replace models.
    pub matched_count: u64,
    /// Number of documents modified by update and replace models.
    pub modified_count: u64,
    /// Number of documents deleted by delete models.
    pub deleted_count: u64,
    /// `_id`s of inserted documents, each with the position of its model.
    pub inserted_ids: Vec<(usize, Bson)>,
    /// `_id`s of upserted documents, each with the position of its model.
    pub upserted_ids: Vec<(usize, Bson)>,
}

impl BulkWriteResult {
    /// Notes that these operations, the first of which is at `place`, are done. Those that are not
    /// among the `inserted` have matched one document each, and removed it or perhaps changed it:
    /// `modified` of all these documents are not as before.
    fn note_done(&mut self, place: usize, operations: &[Operation], modified: usize, inserted: Vec<(usize, Bson)>) {
        let removed = operations.iter().filter(|operation| matches!(operation, Operation::Delete(_))).count() as u64;
        self.matched_count += operations.len() as u64 - removed - inserted.len() as u64;
        self.modified_count += (modified as u64).saturating_sub(removed);
        self.deleted_count += removed;
        for (offset, id) in inserted {
            match operations.get(offset) {
                Some(Operation::Insert(_)) => {
                    self.inserted_count += 1;
                    self.inserted_ids.push((place + offset, id));
                }
                _ => self.upserted_ids.push((place + offset, id)),
            }
        }
    }
}

#[tracing::instrument(name = "mongotx.bulk_write", level = "debug", skip_all, fields(%ns))]
pub(crate) async fn write_bulk(
    core: &Arc<Core>,
    tx: Option<&mut Transaction>,
    ns: &Namespace,
    operations: &[Operation],
    ordered: bool,
) -> Result<BulkWriteResult> {
    match tx {
        Some(tx) => inside(core, tx, ns, operations, ordered).await,
        None => {
            operations.iter().try_for_each(Operation::check)?;
            implicit::in_transaction!(core, |tx| inside(core, tx, ns, operations, ordered))
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
    let Written { result, refused } = write_all(core, tx, ns, operations, ordered).await?;
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

/// Results of the writes of a bulk.
pub(super) struct Written {
    /// Sum of the results of the writes that were carried out.
    pub(super) result: BulkWriteResult,
    /// Errors of the writes that were refused, in their order: of the first one alone, if it has
    /// stopped the bulk.
    pub(super) refused: Vec<WriteError>,
}

/// Carries out the writes inside a transaction.
///
/// # Errors
/// Any error that ends the transaction; refused writes are in the result.
pub(super) async fn write_all(
    core: &Arc<Core>,
    tx: &mut Transaction,
    ns: &Namespace,
    operations: &[Operation],
    ordered: bool,
) -> Result<Written> {
    let mut result = BulkWriteResult::default();
    let mut refused = Vec::new();
    let (mut index, mut keys_from, mut together_from) = (0, 0, 0);
    // The one before which a command of several has ended, and how many have ended early.
    let (mut alone, mut stops) = (None, 0);
    let (mut form, mut there) = (Form::Short, Presence::default());
    while let Some(operation) = operations.get(index) {
        let rest = if index < together_from || alone == Some(index) { &[] } else { &operations[index..] };
        if let Err(error) = there.ask(core, tx, ns, index, rest).await {
            tracing::debug!(%error, "it was not found out which documents are there");
        }
        let inserted = upserted_together(core, tx, ns, rest, index, &mut there).await?;
        if !inserted.is_empty() {
            let places = index..;
            index += inserted.len();
            result.upserted_ids.extend(places.zip(inserted));
            continue;
        }
        let how = Sending { by_key: index >= keys_from, form };
        let together = match first_statements(core, tx, ns, rest, index, how, &there).await {
            Ok(together) => together,
            Err(error) if error.ends_transaction() => return Err(error),
            // One by one they are refused where they stand.
            Err(error) => {
                tracing::debug!(%error, "the statements of a bulk could not be sent together");
                together_from = index + TOGETHER;
                Together::default()
            }
        };
        let is_stopped = together.done < together.named && !together.is_full;
        if is_stopped {
            stops += 1;
            if stops == MOST_STOPS || together.is_unclear {
                (stops, together_from) = (0, index + together.named);
            }
            // Asking again for the places of the others would cost a command for each of them.
            keys_from = index + together.named;
        }
        if together.done > 0 {
            let done = &operations[index..index + together.done];
            result.note_done(index, done, together.modified, together.inserted);
            index += together.done;
            alone = is_stopped.then_some(index);
            continue;
        }
        let before = result.matched_count - result.modified_count;
        match one(core, tx, ns, operation, index, &mut result).await {
            // It had what it was to be given, as others may have.
            Ok(()) if result.matched_count - result.modified_count > before => form = Form::InTwo,
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
    Ok(Written { result, refused })
}

/// Terms on which operations may be sent together.
struct Sending {
    /// True if the `_id`s of documents that are named by other keys may be read before.
    by_key: bool,
    form: Form,
}

/// The first operations that one command can carry out.
#[derive(Default)]
struct Together {
    /// Number of operations that were carried out: each has matched its document, or inserted it.
    done: usize,
    /// Number of documents that they have modified or removed.
    modified: usize,
    /// The `_id`s of the documents that they have inserted, each with the place of its operation.
    inserted: Vec<(usize, Bson)>,
    /// True if these operations are not to be sent together again.
    is_unclear: bool,
    /// There was no room for the next one, which needs no read before.
    is_full: bool,
    /// Number of operations that one command could have carried out, as far as was to be seen.
    named: usize,
}

/// Carries out as many of the first operations as one command can. Where some name their documents
/// by other keys than `_id`, the `_id`s are read before, by one command, if they may be, unless the
/// transaction has read the documents.
async fn first_statements(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    operations: &[Operation],
    place: usize,
    how: Sending,
    there: &Presence,
) -> Result<Together> {
    if operations.len() < 2 || !core.catalog.shard_key(ns).await?.is_empty() || tx.has_read_locks(ns) {
        return Ok(Together::default());
    }
    let (mut run, mut inserted_bytes) = (Vec::new(), 0);
    for (place, operation) in (place..).zip(operations).take(TOGETHER) {
        if operation.check().is_err() {
            break;
        }
        let is_there = there.is_there(place);
        if is_there == Some(false) || matches!(operation, Operation::Insert(_)) {
            let Some((id, inserting)) = upserts::inserting(core, tx, ns, operation).await? else { break };
            // What the command has no room for is not kept in memory until it is seen.
            inserted_bytes += inserting.statement.as_bytes().len();
            if inserted_bytes > insert::BATCH_BYTES {
                break;
            }
            run.push(Write::Insert(id, inserting));
            continue;
        }
        let Some(statement) = statement_of(operation, is_there == Some(true)) else { break };
        match named(core, tx, ns, &statement).await? {
            Some(Named::Key(None)) if !how.by_key => break,
            Some(named) => run.push(Write::Change(named, statement)),
            None => break,
        }
    }
    // A single write by key has a shorter way, unless it is known which document it is.
    if run.iter().filter(|write| write.is_by_key()).count() == 1 {
        let place = run.iter().position(Write::is_to_be_located);
        run.truncate(place.unwrap_or(run.len()));
    }
    let (named, by_keys) = (run.len(), run.iter().any(Write::is_by_key));
    let run = if named < 2 { Vec::new() } else { addresses(core, tx, ns, run).await };
    if run.len() < 2 {
        return Ok(Together { named, ..Together::default() });
    }
    core.catalog.check_written(ns, true)?;
    tx.note_replacing(false);
    // By an expression, strings would be compared as the collation says.
    let is_by_bytes = !core.catalog.look_up(ns).await?.has_collation;
    let as_read = |at: &Address| tx.reads.as_read(ns, &at.id).filter(|_| is_by_bytes)?.demanded();
    let (at, writes): (Vec<Address>, Vec<Addressed<'_>>) = run.into_iter().unzip();
    let each = |(at, write)| {
        let act = match write {
            Addressed::Insert(inserting) => Act::Insert(inserting),
            Addressed::Change(Statement { filter, terms, change }) => {
                let target = Target { ns, at, filter, terms, chosen: false };
                Act::Change(Changing { target, change, as_read: as_read(at) })
            }
        };
        Each { at, act }
    };
    let all: Vec<Each<'_>> = at.iter().zip(writes).map(each).collect();
    let done = core.locking.prepare_each(tx, ns, &all, how.form).await?;
    let is_insert = |(_, each): &(usize, &Each<'_>)| matches!(each.act, Act::Insert(_));
    let inserted =
        all[..done.count].iter().enumerate().filter(is_insert).map(|(place, each)| (place, each.at.id.clone()));
    let inserted = inserted.collect();
    let is_full = done.is_full && !by_keys;
    Ok(Together { done: done.count, modified: done.modified, inserted, is_unclear: done.is_unclear, is_full, named })
}

/// A write that may be sent together with others.
enum Write<'a> {
    Change(Named, Statement<'a>),
    /// The insert of the document with this `_id`.
    Insert(Bson, Inserting),
}

impl Write<'_> {
    fn is_by_key(&self) -> bool {
        matches!(self, Self::Change(Named::Key(_), _))
    }

    fn is_to_be_located(&self) -> bool {
        matches!(self, Self::Change(Named::Key(None), _))
    }
}

/// The same, when it is known where the document is.
enum Addressed<'a> {
    Change(Statement<'a>),
    Insert(Inserting),
}

/// Inserts the documents of the first upserts that are not there, as many as one command takes.
/// Returns their `_id`s; none, if the first goes another way.
async fn upserted_together(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    operations: &[Operation],
    place: usize,
    there: &mut Presence,
) -> Result<Vec<Bson>> {
    let absent = there.absent(place).min(operations.len());
    // Behind inserts alone a validation can go. Others go with the changes beside them.
    if absent < 2 || absent < operations.len() {
        return Ok(Vec::new());
    }
    let inserted = match upserts::insert_together(core, tx, ns, &operations[..absent]).await {
        Err(error) if !error.ends_transaction() => {
            // One by one they are refused where they stand.
            tracing::debug!(%error, "upserts could not be sent together");
            Inserted::default()
        }
        inserted => inserted?,
    };
    if inserted.is_next_refused || inserted.ids.is_empty() {
        there.leave(place + inserted.ids.len());
    }
    if inserted.is_next_refused {
        there.note_stop();
    }
    Ok(inserted.ids)
}

/// The way in which an update or removal names the one document that it can match.
enum Named {
    Id(Bson),
    /// Named by a value for each field of a unique index, and perhaps for other fields. The `_id`
    /// is there if the transaction has read the document.
    Key(Option<Bson>),
}

async fn named(core: &Core, tx: &Transaction, ns: &Namespace, command: &Statement<'_>) -> Result<Option<Named>> {
    if let Some(id) = query::named_id(core, ns, command.filter, command.terms).await? {
        return Ok(Some(Named::Id(id)));
    }
    // The transaction's own documents may have other keys than those that all clients see.
    if !is_values(command.filter) || tx.has_new_keys(ns) {
        return Ok(None);
    }
    let key = core.catalog.look_up(ns).await?.pinned_key(command.filter);
    Ok(key.map(|key| Named::Key(tx.seen.get(ns, &key))))
}

/// Addresses of the documents of the leading writes, as long as the transaction has not written to
/// them. An address that was found by a key is only likely: the statements that follow demand what
/// the filters say. The list ends before the first write whose document was not found.
async fn addresses<'a>(
    core: &Core,
    tx: &Transaction,
    ns: &Namespace,
    run: Vec<Write<'a>>,
) -> Vec<(Address, Addressed<'a>)> {
    let unseen = run.iter().filter_map(|write| match write {
        Write::Change(Named::Key(None), statement) => Some(statement.filter),
        _ => None,
    });
    let mut found = match located(core, ns, unseen.collect()).await {
        Ok(found) => found,
        Err(error) => {
            // Each by itself has a way to an answer, or to an error that names it.
            tracing::debug!(%error, "documents could not be located together");
            return Vec::new();
        }
    };
    let mut addresses = Vec::new();
    for write in run {
        let (id, addressed) = match write {
            Write::Insert(id, inserting) => (Some(id), Addressed::Insert(inserting)),
            Write::Change(Named::Id(id) | Named::Key(Some(id)), statement) => (Some(id), Addressed::Change(statement)),
            Write::Change(Named::Key(None), statement) => {
                let place = found.iter().position(|document| has_all_values(document, statement.filter));
                let id = place.and_then(|place| found.swap_remove(place).remove("_id"));
                (id, Addressed::Change(statement))
            }
        };
        match id.filter(|id| tx.is_untouched(ns, id)) {
            Some(id) => addresses.push((Address::bare(id), addressed)),
            None => break,
        }
    }
    addresses
}

/// The documents that match one of these filters, with the fields that are named there.
async fn located(core: &Core, ns: &Namespace, filters: Vec<&Document>) -> Result<Vec<Document>> {
    if filters.is_empty() {
        return Ok(Vec::new());
    }
    let count = filters.len();
    let shown = filters.iter().flat_map(|filter| filter.keys().map(String::as_str)).chain(["_id"]);
    let projection: Document = shown.map(|field| (field.to_owned(), Bson::Int32(1))).collect();
    let find = doc! {"find": &ns.coll, "filter": {"$or": filters}, "projection": projection};
    core.server.collect(&ns.db, find, count).await
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
            let done = update::update_documents(core, Some(tx), ns, command).await?;
            result.matched_count += done.matched_count;
            result.modified_count += done.modified_count;
            result.upserted_ids.extend(done.upserted_id.map(|id| (index, id)));
        }
        Operation::Delete(command) => {
            result.deleted_count += delete::delete_documents(core, Some(tx), ns, command).await?
        }
        Operation::Refused(error) => return Err(error.clone()),
    }
    Ok(())
}
