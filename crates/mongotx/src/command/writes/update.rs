//! `update`: one document or many, by operators, pipeline or replacement, with upsert.
//!
//! Inside a transaction a filter that names one `_id` goes straight to that document. Any other is
//! first tried on free documents, in one command (`coordinator::locking::find_and_lock`), or on the
//! one that the client knows by a key (`coordinator::locking::known_key`). Where
//! that locks nothing, and where several documents are meant, they are selected by the
//! transaction's own view and then locked and changed by `_id`, with the filter as a condition
//! again: see `coordinator::locking::single_write`.

use std::sync::Arc;

use bson::{Bson, Document, doc};
use sd2v::names::WRITER;

use super::{direct, dry_run, implicit, rematch::Rematches, upsert, write_commands::UpdateCommand};
use crate::{
    command::{
        isolation::{committed, reads_of_writes, validated},
        query::drawn,
    },
    coordinator::{
        Core,
        locking::{change::Change, found_document::NeededAnswer, multi_write::Targets, target::Target},
        read_set::as_read::AsRead,
        request::{
            address::Address,
            query::{self, Query},
        },
        server::WriteAnswer,
        transaction::Transaction,
    },
    error::{Error, ErrorKind, Result},
    options::Namespace,
};

/// Times that a document is selected anew because it no longer matched when it was locked.
pub(crate) const SELECTIONS: usize = 64;

/// The result of an update or a replacement: how many documents it matched and changed.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct UpdateResult {
    /// Number of documents that matched the filter.
    pub matched_count: u64,
    /// Number of documents that are different now; one that had the new values already does not
    /// count.
    pub modified_count: u64,
    /// The `_id` of the document that was inserted because none matched.
    pub upserted_id: Option<Bson>,
}

#[tracing::instrument(name = "mongotx.update", level = "debug", skip_all, fields(%ns))]
pub(crate) async fn update_documents(
    core: &Arc<Core>,
    tx: Option<&mut Transaction>,
    ns: &Namespace,
    command: &UpdateCommand,
) -> Result<UpdateResult> {
    core.catalog.check_written(ns, tx.is_some() || command.multi)?;
    command.check_names()?;
    command.check_upsert()?;
    let command = &*command.resolved(core, ns).await?;
    let is_direct =
        tx.is_none() && !command.multi && !command.needs_selection() && !needs_transaction(core, ns, command).await?;
    if is_direct {
        return one_directly(core, ns, command).await;
    }
    command.check()?;
    match tx {
        Some(tx) if command.multi => Box::pin(many(core, tx, ns, command)).await,
        Some(tx) => one(core, tx, ns, command).await,
        None => {
            implicit::in_transaction!(core, |tx| async {
                match command.multi {
                    true => many(core, tx, ns, command).await,
                    false => one(core, tx, ns, command).await,
                }
            })
        }
    }
}

/// Returns true if the update, or the document that it may insert, touches a unique index.
pub(crate) async fn needs_transaction(core: &Core, ns: &Namespace, command: &UpdateCommand) -> Result<bool> {
    let update = (!command.upsert).then_some(&command.update);
    Ok(core.catalog.look_up(ns).await?.needs_transaction(update))
}

/// Updates one document outside a transaction.
async fn one_directly(core: &Arc<Core>, ns: &Namespace, command: &UpdateCommand) -> Result<UpdateResult> {
    let mut rematches = Rematches::default();
    loop {
        if let Some(done) = until_matched(core, ns, command).await? {
            return Ok(done);
        }
        if !command.upsert {
            return Ok(UpdateResult::default());
        }
        // No document matches, locked or not.
        rematches.may_insert(&command.filter)?;
        if let Some(answer) = rematches.judge(send(core, ns, command, true).await)? {
            return Ok(result_of(&answer));
        }
    }
}

/// Updates a document that matches, once it is free. `None`: no document matches.
async fn until_matched(core: &Core, ns: &Namespace, command: &UpdateCommand) -> Result<Option<UpdateResult>> {
    let pinned = query::pinned_id(core, ns, &command.filter, &command.options).await?.is_some();
    let upsert = command.upsert && pinned;
    let mut attempts = direct::DirectAttempts::new(core, ns, &command.filter, &command.options).upserting(upsert);
    loop {
        match send(core, ns, command, upsert).await {
            // The `_id` is there, locked: look into it.
            Err(error) if upsert && error.is_duplicate_key() => {}
            Ok(answer) if answer.n == 0 => {}
            Ok(answer) => return Ok(Some(result_of(&answer))),
            Err(error) => return Err(error),
        }
        if !attempts.again().await? {
            return Ok(None);
        }
    }
}

async fn send(core: &Core, ns: &Namespace, command: &UpdateCommand, upsert: bool) -> Result<WriteAnswer> {
    let mut update =
        doc! {"update": &ns.coll, "updates": [command.statement(direct::unlocked(&command.filter), upsert)]};
    if let Some(variables) = &command.options.variables {
        update.insert("let", variables.clone());
    }
    core.server.write_directly(&ns.db, update).await?.ok()
}

pub(super) fn result_of(answer: &WriteAnswer) -> UpdateResult {
    let n = answer.n as u64;
    match answer.upserted.first() {
        Some((_, id)) => UpdateResult { upserted_id: Some(id.clone()), ..UpdateResult::default() },
        None => UpdateResult { matched_count: n, modified_count: answer.modified as u64, upserted_id: None },
    }
}

/// Updates one document inside a transaction.
async fn one(core: &Core, tx: &mut Transaction, ns: &Namespace, command: &UpdateCommand) -> Result<UpdateResult> {
    let (query, mut rematches) = (Query::of(command.filter.clone(), command.options.clone()), Rematches::default());
    tx.note_replacing(command.replaces());
    let mark = tx.reads.mark();
    loop {
        tx.reads.forget_since(mark);
        if let Some((_, modified)) = write_first(core, tx, ns, &query, &command.change()).await? {
            return Ok(UpdateResult { matched_count: 1, modified_count: modified.into(), upserted_id: None });
        }
        if !command.upsert {
            break;
        }
        rematches.may_insert(&command.filter)?;
        if let Some(at) = rematches.judge(Box::pin(upsert::insert_upserted(core, tx, ns, command)).await)? {
            return Ok(UpdateResult { upserted_id: Some(at.id), ..UpdateResult::default() });
        }
    }
    // The statement for one `_id` was sent, and so was seen by the server.
    if query::named_id(core, ns, &command.filter, &command.options).await?.is_none() {
        Box::pin(dry_run::update(core, ns, command)).await?;
    }
    Ok(UpdateResult::default())
}

/// Changes the first document that the query finds in the transaction's view: where it is and
/// whether it was modified.
pub(crate) async fn write_first(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    query: &Query,
    change: &Change<'_>,
) -> Result<Option<(Address, bool)>> {
    let lasting = drawn::lasting(&query.filter)?;
    if lasting.is_none()
        && let Some(id) = query::named_id(core, ns, &query.filter, &query.options).await?
    {
        let at = core.locator.locate(Some(tx), ns, id, &query.filter, &query.options).await?;
        let target = Target { ns, at: &at, filter: &query.filter, options: &query.options, chosen: false };
        if has_read(tx, &target) && Box::pin(prepared_as_read(core, tx, &target, change)).await? {
            return Ok(Some((at, !change.is_lock())));
        }
        let applied = core.locking.prepare(tx, &target, change).await?;
        if !applied.matched {
            Box::pin(reads_of_writes::note_nothing(core, tx, ns, query)).await?;
        }
        return Ok(applied.matched.then_some((at, applied.modified)));
    }
    let first = Query { limit: 1, ..query.clone() };
    for _ in 0..SELECTIONS {
        let asked = NeededAnswer { is_shown: tx.reads.has_points(ns), ..NeededAnswer::default() };
        if lasting.is_none()
            && let Some(found) = core.locking.find_and_prepare(tx, ns, query, change, asked).await?
        {
            if let Some(shown) = &found.shown {
                reads_of_writes::settle_shown(core, tx, ns, &found.at.id, &shown.before).await?;
            }
            return Ok(Some((found.at, !change.is_lock())));
        }
        let found = match &lasting {
            None => Box::pin(committed::addresses(core, Some(tx), ns, &first, 1)).await?.pop(),
            // What it rests on is noted with it: to ask again whether nothing matches would draw
            // again.
            Some(_) => Box::pin(validated::addresses(core, tx, ns, &first, 1)).await?.pop(),
        };
        let Some(at) = found else {
            if lasting.is_none() {
                Box::pin(reads_of_writes::note_nothing(core, tx, ns, query)).await?;
            }
            return Ok(None);
        };
        core.locking.note_wanted(tx, ns, query, change, &at).await?;
        let filter = lasting.as_ref().unwrap_or(&query.filter);
        let target = Target { ns, at: &at, filter, options: &query.options, chosen: true };
        let applied = core.locking.prepare(tx, &target, change).await?;
        if applied.matched {
            return Ok(Some((at, applied.modified)));
        }
    }
    Err(changed_again_and_again(ns).for_transaction(tx.id()))
}

fn changed_again_and_again(ns: &Namespace) -> Error {
    let message = format!("documents of {ns} changed {SELECTIONS} times while one of them was to be written");
    Error::new(ErrorKind::Conflict, message)
}

/// Returns true if the transaction has read the document.
fn has_read(tx: &Transaction, target: &Target<'_>) -> bool {
    let (ns, id) = (target.ns, &target.at.id);
    tx.reads.point(ns, id).is_some() || tx.reads.as_read(ns, id).is_some()
}

/// Locks and changes a document that the transaction has read before, by a statement that shows how
/// it was. False: it is not known whether the document matches.
async fn prepared_as_read(core: &Core, tx: &mut Transaction, target: &Target<'_>, change: &Change<'_>) -> Result<bool> {
    let (ns, id) = (target.ns, &target.at.id);
    let (is_whole, as_read) = (tx.reads.point(ns, id).is_some(), tx.reads.as_read(ns, id));
    let fields = as_read.as_ref().filter(|_| !is_whole).map(shown_fields);
    let Some(shown) = core.locking.prepare_returning(tx, target, change, fields).await? else { return Ok(false) };
    if is_whole {
        reads_of_writes::settle_shown(core, tx, ns, id, &shown.before).await?;
    }
    if let Some(as_read) = as_read {
        reads_of_writes::settle_as_read(core, tx, ns, &as_read, &shown.before).await?;
    }
    Ok(true)
}

/// The fields of a stored document that show whether it is as it was read, and its write lock.
fn shown_fields(as_read: &AsRead) -> Document {
    let names = as_read.fields().into_iter().chain([WRITER.to_owned()]);
    names.map(|name| (name, Bson::Int32(1))).collect()
}

async fn many(core: &Core, tx: &mut Transaction, ns: &Namespace, command: &UpdateCommand) -> Result<UpdateResult> {
    tx.note_replacing(false);
    let (all, mut rematches) = (Query::of(command.filter.clone(), command.options.clone()), Rematches::default());
    let lasting = drawn::lasting(&command.filter)?;
    let filter = lasting.as_ref().unwrap_or(&command.filter);
    let (mark, mut selections) = (tx.reads.mark(), 0);
    loop {
        tx.reads.forget_since(mark);
        let found = validated::addresses(core, tx, ns, &all, core.options.max_documents).await?;
        let targets = Targets { ns, at: &found, filter, options: &command.options };
        let done = core.locking.prepare_multi(tx, &targets, &command.change()).await?;
        reads_of_writes::check_all_matched(tx, ns, found.len(), done.matched)?;
        if done.matched > 0 {
            let (matched_count, modified_count) = (done.matched, done.modified);
            return Ok(UpdateResult { matched_count, modified_count, upserted_id: None });
        }
        if !command.upsert {
            break;
        }
        if !found.is_empty() {
            // They have changed meanwhile, and others may match instead.
            selections += 1;
            if selections < SELECTIONS {
                continue;
            }
            return Err(changed_again_and_again(ns).for_transaction(tx.id()));
        }
        rematches.may_insert(&command.filter)?;
        if let Some(at) = rematches.judge(Box::pin(upsert::insert_upserted(core, tx, ns, command)).await)? {
            return Ok(UpdateResult { upserted_id: Some(at.id), ..UpdateResult::default() });
        }
    }
    Box::pin(dry_run::update(core, ns, command)).await?;
    Ok(UpdateResult::default())
}
