//! Several writes of a bulk that one command carries out: which of the leading operations can go
//! together, which documents they are about, and how many were carried out. The statements are
//! those of `crate::coordinator::locking::batch`; what goes one by one, and why, is the matter of
//! `bulk`.

use bson::{Bson, Document, doc};

use super::upserts::{self, Presence};
use crate::{
    command::{
        access_paths::fetch_key::{has_all_values, is_values},
        writes::{
            insert,
            write_commands::{DeleteCommand, Operation, UpdateCommand},
        },
    },
    coordinator::{
        Core,
        locking::{
            batch::{BatchedAction, BatchedChange, BatchedInsert, BatchedWrite, StatementForm},
            change::Change,
            target::Target,
        },
        request::{address::Address, query, query_options::QueryOptions},
        transaction::Transaction,
    },
    error::Result,
    options::Namespace,
};

/// Updates and removals that are tried together at a time.
pub(super) const MOST_COMBINED: usize = 500;

/// A change of one document that may be sent together with others.
struct Statement<'a> {
    filter: &'a Document,
    options: &'a QueryOptions,
    change: Change<'a>,
    /// True if the application means all documents that match.
    is_multi: bool,
}

/// The filter and the change of an update or removal that can go with others, or of an upsert whose
/// document is there. It may be a statement for many documents: one that names one document changes
/// no more.
fn statement_of(operation: &Operation, is_there: bool) -> Option<Statement<'_>> {
    if operation.is_by_chance() {
        return None;
    }
    match operation {
        Operation::Update(command) if command.may_go_together() || is_there => {
            let UpdateCommand { filter, options, multi, .. } = &**command;
            Some(Statement { filter, options, change: command.change(), is_multi: *multi })
        }
        Operation::Delete(command) if command.options.is_plain() && command.options.hint.is_none() => {
            let DeleteCommand { filter, multi, options } = &**command;
            Some(Statement { filter, options, change: Change::Remove, is_multi: *multi })
        }
        _ => None,
    }
}

/// Options of sending operations together.
pub(super) struct CombineOptions {
    /// True if the `_id`s of documents that are named by other keys may be read before.
    pub(crate) by_key: bool,
    pub(super) form: StatementForm,
}

/// The first operations that one command can carry out.
#[derive(Default)]
pub(super) struct CombinedWrites {
    /// Number of operations that were carried out: each has matched its document, or inserted it.
    pub(crate) done: usize,
    /// Number of documents that they have modified or removed.
    pub(crate) modified: usize,
    /// The `_id`s of the documents that they have inserted, each with the place of its operation.
    pub(crate) inserted: Vec<(usize, Bson)>,
    /// True if these operations are not to be sent together again.
    pub(super) is_unclear: bool,
    /// True if none was carried out because the server has refused the one statement of all.
    pub(super) is_refused_as_one: bool,
    /// There was no room for the next one, which needs no read before.
    pub(crate) is_full: bool,
    /// Number of operations that one command could have carried out, as far as was to be seen.
    pub(crate) named: usize,
}

/// Carries out as many of the first operations as one command can; `place` is that of the first.
/// Where some name their documents by other keys than `_id`, the `_id`s are read before, by one
/// command, if they may be, unless the transaction has read the documents.
pub(super) async fn send_together(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    operations: &[Operation],
    place: usize,
    how: CombineOptions,
    there: &Presence,
) -> Result<CombinedWrites> {
    if operations.len() < 2 || !core.catalog.shard_key(ns).await?.is_empty() || tx.has_read_locks(ns) {
        return Ok(CombinedWrites::default());
    }
    let run = leading_writes(core, tx, ns, operations, place, how.by_key, there).await?;
    let (named, by_keys) = (run.len(), run.iter().any(Write::is_by_key));
    let run = if named < 2 { Vec::new() } else { addresses(core, tx, ns, run).await };
    if run.len() < 2 {
        return Ok(CombinedWrites { named, ..CombinedWrites::default() });
    }
    core.catalog.check_written(ns, true)?;
    tx.note_replacing(false);
    // By an expression, strings would be compared as the collation says.
    let is_by_bytes = !core.catalog.look_up(ns).await?.has_collation;
    let as_read = |at: &Address| tx.reads.as_read(ns, &at.id).filter(|_| is_by_bytes)?.demanded();
    let (at, writes): (Vec<Address>, Vec<AddressedWrite<'_>>) = run.into_iter().unzip();
    let each = |(at, write)| {
        let action = match write {
            AddressedWrite::Insert(inserting) => BatchedAction::Insert(inserting),
            AddressedWrite::Change(Statement { filter, options, change, .. }) => {
                let target = Target { ns, at, filter, options, chosen: false };
                BatchedAction::Change(BatchedChange { target, change, as_read: as_read(at) })
            }
        };
        BatchedWrite { at, action }
    };
    let all: Vec<BatchedWrite<'_>> = at.iter().zip(writes).map(each).collect();
    let done = core.locking.prepare_batch(tx, ns, &all, how.form).await?;
    let is_insert = |(_, each): &(usize, &BatchedWrite<'_>)| matches!(each.action, BatchedAction::Insert(_));
    let inserted =
        all[..done.count].iter().enumerate().filter(is_insert).map(|(place, each)| (place, each.at.id.clone()));
    let inserted = inserted.collect();
    Ok(CombinedWrites {
        done: done.count,
        modified: done.modified,
        inserted,
        is_unclear: done.is_unclear,
        is_refused_as_one: done.is_refused_as_one,
        is_full: done.is_full && !by_keys,
        named,
    })
}

/// The first of these operations that one command may be able to carry out.
async fn leading_writes<'a>(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    operations: &'a [Operation],
    place: usize,
    by_key: bool,
    there: &Presence,
) -> Result<Vec<Write<'a>>> {
    let (mut run, mut inserted_bytes) = (Vec::new(), 0);
    for (place, operation) in (place..).zip(operations).take(MOST_COMBINED) {
        if operation.check().is_err() {
            break;
        }
        let is_there = there.is_there(place);
        if is_there == Some(false) || matches!(operation, Operation::Insert(_)) {
            let Some((id, inserting)) = upserts::inserting(core, tx, ns, operation).await? else { break };
            // Documents that the command has no room for are not kept in memory meanwhile.
            inserted_bytes += inserting.statement.as_bytes().len();
            if inserted_bytes > insert::BATCH_BYTES {
                break;
            }
            run.push(Write::Insert(id, inserting));
            continue;
        }
        let Some(statement) = statement_of(operation, is_there == Some(true)) else { break };
        match named(core, tx, ns, &statement).await? {
            Some(NamedBy::Key(None)) if !by_key => break,
            Some(named) => run.push(Write::Change(named, statement)),
            None => break,
        }
    }
    // A single write by key has a shorter way, unless it is known which document it is.
    if run.iter().filter(|write| write.is_by_key()).count() == 1 {
        let place = run.iter().position(Write::is_to_be_located);
        run.truncate(place.unwrap_or(run.len()));
    }
    Ok(run)
}

/// A write that may be sent together with others.
enum Write<'a> {
    Change(NamedBy, Statement<'a>),
    /// The insert of the document with this `_id`.
    Insert(Bson, BatchedInsert),
}

impl Write<'_> {
    fn is_by_key(&self) -> bool {
        matches!(self, Self::Change(NamedBy::Key(_), _))
    }

    fn is_to_be_located(&self) -> bool {
        matches!(self, Self::Change(NamedBy::Key(None), _))
    }
}

/// The same, when it is known where the document is.
enum AddressedWrite<'a> {
    Change(Statement<'a>),
    Insert(BatchedInsert),
}

/// The way in which an update or removal names the one document that it can match.
enum NamedBy {
    Id(Bson),
    /// Named by a value for each field of a unique index, and perhaps for other fields. The `_id`
    /// is there if the transaction has read the document, or the client knows it.
    Key(Option<Bson>),
}

async fn named(core: &Core, tx: &Transaction, ns: &Namespace, command: &Statement<'_>) -> Result<Option<NamedBy>> {
    if let Some(id) = query::named_id(core, ns, command.filter, command.options).await? {
        return Ok(Some(NamedBy::Id(id)));
    }
    // Several documents match if the unique index is gone by now.
    if command.is_multi {
        return Ok(None);
    }
    // The transaction's own documents may have other keys than those that all clients see.
    if !is_values(command.filter) || tx.has_new_keys(ns) {
        return Ok(None);
    }
    let key = core.catalog.look_up(ns).await?.pinned_key(command.filter);
    let known = |key: &Document| core.catalog.known_keys.get(ns, key).map(|known| known.id);
    Ok(key.map(|key| NamedBy::Key(tx.seen.get(ns, &key).or_else(|| known(&key)))))
}

/// Addresses of the documents of the leading writes, as long as the transaction has not written to
/// them. An address that was found by a key is only likely: the statements that follow demand what
/// the filters say. The list ends before the first write whose document was not found.
async fn addresses<'a>(
    core: &Core,
    tx: &Transaction,
    ns: &Namespace,
    run: Vec<Write<'a>>,
) -> Vec<(Address, AddressedWrite<'a>)> {
    let unseen = run.iter().filter_map(|write| match write {
        Write::Change(NamedBy::Key(None), statement) => Some(statement.filter),
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
            Write::Insert(id, inserting) => (Some(id), AddressedWrite::Insert(inserting)),
            Write::Change(NamedBy::Id(id) | NamedBy::Key(Some(id)), statement) => {
                (Some(id), AddressedWrite::Change(statement))
            }
            Write::Change(NamedBy::Key(None), statement) => {
                let place = found.iter().position(|document| has_all_values(document, statement.filter));
                let id = place.and_then(|place| found.swap_remove(place).remove("_id"));
                (id, AddressedWrite::Change(statement))
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
