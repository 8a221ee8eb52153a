//! `findAndModify`: the first document in the requested order is changed, and shown as it was or as
//! it is.
//!
//! A sort is a promise about *which* document it is: a locked one is never passed over for one
//! behind it.

use std::sync::Arc;

use bson::{Bson, Document, doc};
use sd2v::{
    filter::has_special,
    projection::{as_stages, check_projection},
};

use super::{
    delete::is_watched,
    direct, dry_run, implicit,
    rematch::Rematches,
    update::{self, SELECTIONS},
    upsert,
    write_commands::{FindAndModify, Modify},
};
use crate::{
    command::{
        isolation::{committed, reads_of_writes, validated},
        query::{
            drawn,
            plain_projection::{ShownFields, is_plain_projection},
        },
    },
    coordinator::{
        Core,
        locking::{
            change::Change,
            found_document::{FoundDocument, NeededAnswer, SortRank},
            returning_write::DocumentImages,
            target::Target,
        },
        queries::nondeterminism,
        request::{
            address::Address,
            query::{self, Query, exactly},
            query_options::QueryOptions,
        },
        transaction::Transaction,
    },
    error::{Error, ErrorKind, Result},
    options::Namespace,
};

/// The result of a `findAndModify`: the document, and whether it was found or inserted.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct FindAndModifyResult {
    /// The document as it was or as it is, by the command's option.
    pub value: Option<Document>,
    /// True when a document matched, and was changed or removed.
    pub matched: bool,
    /// The `_id` of the document that was inserted because none matched.
    pub upserted_id: Option<Bson>,
}

impl FindAndModifyResult {
    fn found(value: Option<Document>) -> Self {
        Self { value, matched: true, upserted_id: None }
    }
}

impl FindAndModify {
    /// The version that is answered.
    fn shown(&self, fields_shown: ShownFields<'_>, shown: DocumentImages) -> Option<Document> {
        let version = if self.after { shown.after } else { Some(shown.before) };
        version.map(|document| fields_shown.picked(document))
    }
}

#[tracing::instrument(name = "mongotx.find_and_modify", level = "debug", skip_all, fields(%ns))]
pub(crate) async fn find_and_modify(
    core: &Arc<Core>,
    tx: Option<&mut Transaction>,
    ns: &Namespace,
    command: &FindAndModify,
) -> Result<FindAndModifyResult> {
    core.catalog.check_written(ns, tx.is_some())?;
    let command = &command.resolved(core, ns).await?;
    match &command.modify {
        Modify::Update(update) => update.check_names().and_then(|()| update.check_upsert())?,
        Modify::Delete(delete) => sd2v::filter::check_filter(&delete.filter)?,
    }
    if let Some(projection) = &command.projection {
        check_projection(projection)?;
    }
    if tx.is_none() && !needs_transaction(core, ns, command).await? {
        return Box::pin(outside(core, ns, command)).await;
    }
    if let Modify::Update(update) = &command.modify {
        update.check()?;
    }
    match tx {
        Some(tx) => inside(core, tx, ns, command).await,
        None => implicit::in_transaction!(core, |tx| inside(core, tx, ns, command)),
    }
}

async fn needs_transaction(core: &Core, ns: &Namespace, command: &FindAndModify) -> Result<bool> {
    match &command.modify {
        Modify::Update(update) => Ok(update.needs_selection() || update::needs_transaction(core, ns, update).await?),
        Modify::Delete(delete) => Ok(has_special(&delete.filter) || is_watched(core, ns).await?),
    }
}

/// Outside a transaction: one command, if it has no order or names one `_id`; otherwise the first
/// in order is read and then changed, if it is still free and still matches.
async fn outside(core: &Core, ns: &Namespace, command: &FindAndModify) -> Result<FindAndModifyResult> {
    let query = command.query();
    let pinned = query.pinned_id(core, ns).await?.is_some();
    let mut rematches = Rematches::default();
    loop {
        let done = match query.sort.is_none() || pinned {
            true => until_matched(core, ns, command, &query.filter, &query, pinned && command.upserts()).await?,
            false => first_in_order(core, ns, command, &query).await?,
        };
        if let Some(done) = done {
            return Ok(done);
        }
        if !command.upserts() {
            break;
        }
        rematches.may_insert(&query.filter)?;
        if let Some(done) = rematches.judge(send(core, ns, command, direct::unlocked(&query.filter), true).await)? {
            return Ok(done.unwrap_or_default());
        }
    }
    // Looked for by a query of our own: the server has not seen the command yet.
    if query.sort.is_some() && !pinned {
        dry_run::find_and_modify(core, ns, command).await?;
    }
    Ok(FindAndModifyResult::default())
}

async fn first_in_order(
    core: &Core,
    ns: &Namespace,
    command: &FindAndModify,
    query: &Query,
) -> Result<Option<FindAndModifyResult>> {
    let first = Query { limit: 1, ..query.clone() };
    for _ in 0..SELECTIONS {
        let Some(at) = committed::addresses(core, None, ns, &first, 1).await?.pop() else { return Ok(None) };
        let filter = doc! {"$and": [exactly(&[at], &query.options), query.filter.clone()]};
        if let Some(value) = until_matched(core, ns, command, &filter, query, false).await? {
            return Ok(Some(value));
        }
    }
    Err(Error::new(
        ErrorKind::Conflict,
        format!("documents of {ns} changed {SELECTIONS} times while the first of them was to be changed"),
    ))
}

async fn until_matched(
    core: &Core,
    ns: &Namespace,
    command: &FindAndModify,
    filter: &Document,
    query: &Query,
    upsert: bool,
) -> Result<Option<FindAndModifyResult>> {
    let mut attempts = direct::DirectAttempts::new(core, ns, filter, &query.options).upserting(upsert);
    loop {
        match send(core, ns, command, direct::unlocked(filter), upsert).await {
            // The `_id` is there, locked: look into it.
            Err(error) if upsert && error.is_duplicate_key() => {}
            Ok(None) => {}
            other => return other,
        }
        if !attempts.again().await? {
            return Ok(None);
        }
    }
}

/// `Some` when a document was changed, removed or inserted.
async fn send(
    core: &Core,
    ns: &Namespace,
    command: &FindAndModify,
    filter: Document,
    upsert: bool,
) -> Result<Option<FindAndModifyResult>> {
    let ask = command.to_command(ns, filter, upsert);
    let mut answer = core.server.run_directly(&ns.db, ask).await?;
    let last = answer.get_document("lastErrorObject").cloned().unwrap_or_default();
    let done = last.get("n").is_some_and(|n| crate::numbers::as_i64(n) > 0);
    let upserted_id = last.get("upserted").cloned();
    let value = match answer.remove("value") {
        Some(Bson::Document(document)) => Some(document),
        _ => None,
    };
    Ok(done.then_some(FindAndModifyResult { value, matched: upserted_id.is_none(), upserted_id }))
}

/// Inside a transaction: lock the document, so that what is shown is what was changed.
async fn inside(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    command: &FindAndModify,
) -> Result<FindAndModifyResult> {
    let query = command.query();
    if let Some(projection) = &command.projection {
        as_stages(projection)?;
    }
    let mut projection = Unprobed::of(command);
    tx.note_replacing(matches!(&command.modify, Modify::Update(update) if update.replaces()));
    let change = match &command.modify {
        Modify::Update(update) => update.change(),
        Modify::Delete(_) => Change::Remove,
    };
    let lasting = drawn::lasting(&query.filter)?;
    let filter = lasting.as_ref().unwrap_or(&query.filter);
    let named = match &lasting {
        None => query::named_id(core, ns, &query.filter, &query.options).await?,
        Some(_) => None,
    };
    let (mut rematches, mark) = (Rematches::default(), tx.reads.mark());
    for _ in 0..SELECTIONS {
        // A document that was selected and not changed was of no consequence.
        tx.reads.forget_since(mark);
        if named.is_none()
            && lasting.is_none()
            && let Some(shown) = free_one(core, tx, ns, command, &query, &change).await?
        {
            return Ok(FindAndModifyResult::found(shown));
        }
        let at = match &named {
            Some(id) => Some(core.locator.locate(Some(tx), ns, id.clone(), &query.filter, &query.options).await?),
            None => Box::pin(selected(core, tx, ns, &query)).await?,
        };
        if let Some(at) = &at {
            if named.is_none() {
                core.locking.note_wanted(tx, ns, &query, &change, at).await?;
            }
            let target = Target { ns, at, filter, options: &query.options, chosen: named.is_none() };
            if let Some(shown) = one(core, tx, &target, command, &change, &mut projection).await? {
                return Ok(FindAndModifyResult::found(shown));
            }
        }
        if (at.is_none() || named.is_some()) && lasting.is_none() {
            reads_of_writes::note_nothing(core, tx, ns, &query).await?;
        }
        if (at.is_none() || named.is_some())
            && let Some(done) = Box::pin(upserted(core, tx, ns, command, &mut rematches, &mut projection)).await?
        {
            return Ok(done);
        }
    }
    Err(Error::new(
        ErrorKind::Conflict,
        format!("documents of {ns} changed {SELECTIONS} times while one of them was to be changed"),
    )
    .for_transaction(tx.id()))
}

/// The document that is to be changed, in the transaction's own view.
async fn selected(core: &Core, tx: &mut Transaction, ns: &Namespace, query: &Query) -> Result<Option<Address>> {
    let first = Query { limit: 1, ..query.clone() };
    let is_vouched_for = tx.only_removed(ns) && !tx.has_own_view();
    // With an order, the choice of the first document is a read, and is validated; and by chance,
    // what the draw rests on.
    let is_read = query.sort.is_some() || nondeterminism::is_by_chance(&query.filter);
    let found = match is_read {
        true => validated::addresses(core, tx, ns, &first, 1).await?,
        false => committed::addresses(core, Some(tx), ns, &first, 1).await?,
    };
    if is_vouched_for {
        // If a rival had rolled the transaction back, the documents that it has removed would be
        // found again, and would be free when they are locked.
        tx.take_own_view();
    }
    Ok(found.into_iter().next())
}

/// Finds a free document that matches, changes it and shows it, if one command can do so.
async fn free_one(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    command: &FindAndModify,
    query: &Query,
    change: &Change<'_>,
) -> Result<Option<Option<Document>>> {
    // An earlier read of the document is compared with the whole document, so all of it is needed.
    let was_read = tx.reads.has_points(ns);
    let fields_shown = ShownFields::of(command.projection.as_ref())
        .filter(|fields_shown| !(was_read && matches!(fields_shown, ShownFields::Server(_))));
    let Some(fields_shown) = fields_shown else { return Ok(None) };
    let fields = fields_shown.stored_fields(command.after);
    let first = match query.sort {
        Some(_) => reads_of_writes::first_of_others(core, tx, ns, query).await?,
        None => None,
    };
    let asked = NeededAnswer { is_shown: true, fields: fields.as_ref(), can_check_first: first.is_some() };
    let found = core.locking.find_and_prepare(tx, ns, query, change, asked).await?;
    let Some(FoundDocument { at, shown: Some(shown), rank }) = found else { return Ok(None) };
    let is_certain = rank == SortRank::First;
    if let Some(first) = first.filter(|_| rank != SortRank::Any && (tx.validates() || !is_certain)) {
        let read = reads_of_writes::read_of_first(ns, first, &at.id, &shown.before)?;
        match tx.validates() {
            true => reads_of_writes::note_first(core, tx, read, is_certain)?,
            false => Box::pin(reads_of_writes::check_first(core, tx, &read)).await?,
        }
    }
    reads_of_writes::settle_shown(core, tx, ns, &at.id, &shown.before).await?;
    Ok(Some(command.shown(fields_shown, shown)))
}

/// Changes and shows this document, if it still matches: by one command where that is possible;
/// otherwise it is changed and then read, or locked first, by a change that changes nothing, and
/// read before it is changed.
async fn one(
    core: &Core,
    tx: &mut Transaction,
    target: &Target<'_>,
    command: &FindAndModify,
    change: &Change<'_>,
    projection: &mut Unprobed,
) -> Result<Option<Option<Document>>> {
    let (ns, at) = (target.ns, target.at);
    // An earlier read of the document is compared with the whole document, so all of it is needed.
    let was_read = tx.reads.point(ns, &at.id).is_some();
    let fields_shown = ShownFields::of(command.projection.as_ref())
        .filter(|fields_shown| !(was_read && matches!(fields_shown, ShownFields::Server(_))));
    let fields = fields_shown.as_ref().and_then(|fields_shown| fields_shown.stored_fields(command.after));
    let as_read = tx.reads.as_read(ns, &at.id).filter(|_| fields.is_none());
    if let Some(fields_shown) = fields_shown
        && let Some(shown) = core.locking.prepare_returning(tx, target, change, fields).await?
    {
        reads_of_writes::settle_shown(core, tx, ns, &at.id, &shown.before).await?;
        if let Some(as_read) = as_read {
            Box::pin(reads_of_writes::settle_as_read(core, tx, ns, &as_read, &shown.before)).await?;
        }
        return Ok(Some(command.shown(fields_shown, shown)));
    }
    projection.check(core, ns, command).await?;
    if command.after {
        let applied = Box::pin(core.locking.prepare(tx, target, change)).await?;
        return Ok(if applied.matched { Some(Box::pin(show(core, tx, ns, at, command)).await?) } else { None });
    }
    if !Box::pin(core.locking.lock(tx, target)).await? {
        return Ok(None);
    }
    let before = Box::pin(show(core, tx, ns, at, command)).await?;
    Box::pin(core.locking.prepare(tx, target, change)).await?;
    Ok(Some(before))
}

/// True: a projection that the server may refuse and has not seen yet. A document that is shown by
/// a later command must not be refused then.
struct Unprobed(bool);

impl Unprobed {
    fn of(command: &FindAndModify) -> Self {
        let is_plain = command.projection.as_ref().is_none_or(is_plain_projection);
        Self(!is_plain && (command.after || command.upserts()))
    }

    /// Before anything is changed that is shown by another command.
    async fn check(&mut self, core: &Core, ns: &Namespace, command: &FindAndModify) -> Result<()> {
        match std::mem::take(&mut self.0) {
            true => Box::pin(dry_run::find_and_modify(core, ns, command)).await,
            false => Ok(()),
        }
    }
}

/// The document, as the command's projection shows it.
async fn show(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    at: &Address,
    command: &FindAndModify,
) -> Result<Option<Document>> {
    // Not the hint: this query has a condition of its own.
    let options = QueryOptions { hint: None, ..command.query().options };
    let filter = exactly(std::slice::from_ref(at), &options);
    let query = Query { projection: command.projection.clone(), limit: 1, ..Query::of(filter, options) };
    Ok(committed::find(core, Some(tx), ns, &query).await?.all(1).await?.pop())
}

/// The upsert, once no document matches. `None`: match again.
async fn upserted(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    command: &FindAndModify,
    rematches: &mut Rematches,
    projection: &mut Unprobed,
) -> Result<Option<FindAndModifyResult>> {
    let update = match &command.modify {
        Modify::Update(update) if update.upsert => update,
        _ => return dry_run::find_and_modify(core, ns, command).await.map(|()| Some(FindAndModifyResult::default())),
    };
    projection.check(core, ns, command).await?;
    rematches.may_insert(&update.filter)?;
    let Some(at) = rematches.judge(upsert::insert_upserted(core, tx, ns, update).await)? else { return Ok(None) };
    let value = if command.after { show(core, tx, ns, &at, command).await? } else { None };
    Ok(Some(FindAndModifyResult { value, matched: false, upserted_id: Some(at.id) }))
}
