//! `update`: one document or many, by operators, pipeline or replacement, with upsert.
//!
//! Inside a transaction a filter that names one `_id` goes straight to that document. Any other is
//! first tried on free documents, in one command (`coordinator::prepare_found`). Where that locks
//! nothing, and where several documents are meant, they are selected by the transaction's own view
//! and then locked and changed by `_id`, with the filter as a condition again: see
//! `coordinator::prepare`.

use std::{borrow::Cow, sync::Arc};

use bson::{Bson, Document, doc};
use sd2v::{
    filter::{check_filter, has_expression, has_script, has_special},
    guard::guarded,
    update::Update,
};

use super::{direct, find, implicit, insert, probe, rematch::Rematches, upsert, validated};
use crate::coordinator::{
    query::{self, Query},
    terms::Terms,
};
use crate::{
    coordinator::{
        Core,
        address::Address,
        found::Asked,
        prepare::{Change, Target},
        prepare_many::Targets,
        server::WriteAnswer,
        transaction::Transaction,
    },
    error::{Error, ErrorKind, Result},
    options::Namespace,
};

/// Times that a document is selected anew because it no longer matched when it was locked.
pub(crate) const SELECTIONS: usize = 64;

/// One statement of an update command.
#[derive(Clone, Debug)]
pub(crate) struct UpdateCommand {
    pub(crate) filter: Document,
    pub(crate) update: Update,
    pub(crate) multi: bool,
    pub(crate) upsert: bool,
    pub(crate) array_filters: Option<Vec<Document>>,
    pub(crate) terms: Terms,
}

/// The result of an update.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct UpdateResult {
    /// Number of documents that matched the filter.
    pub matched_count: u64,
    /// Number of documents that were changed.
    pub modified_count: u64,
    /// The `_id` of the document that was inserted because none matched.
    pub upserted_id: Option<Bson>,
}

impl UpdateCommand {
    /// Refuses names that no update may have, inside transactions and outside.
    pub(crate) fn check_names(&self) -> Result<()> {
        check_filter(&self.filter)?;
        Ok(self.update.check_reserved()?)
    }

    /// The same, and what none may name that is made in a transaction.
    pub(crate) fn check(&self) -> Result<()> {
        check_filter(&self.filter)?;
        Ok(self.update.check()?)
    }

    /// The command with a hint that the server knows.
    pub(crate) async fn resolved(&self, core: &Core, ns: &Namespace) -> Result<Cow<'_, Self>> {
        Ok(match self.terms.resolved(core, ns).await? {
            Cow::Borrowed(_) => Cow::Borrowed(self),
            Cow::Owned(terms) => Cow::Owned(Self { terms, ..self.clone() }),
        })
    }

    /// Refuses what the server refuses whether or not a document matches, and MongoTx would only
    /// notice when none does.
    pub(crate) fn check_upsert(&self) -> Result<()> {
        if self.upsert && has_expression(&self.filter) {
            return Err(Error::invalid(224, "$expr is not allowed in the query predicate for an upsert"));
        }
        Ok(())
    }

    /// Is it a transaction of its own outside one? The server knows no order beside a condition on
    /// locks, and takes no expression in an upsert.
    pub(crate) fn needs_selection(&self) -> bool {
        has_special(&self.filter) || self.upsert && has_script(&self.filter)
    }

    /// May it be sent together with others, if it names the one document that it can match?
    pub(crate) fn may_go_together(&self) -> bool {
        !self.upsert && self.terms.hint.is_none() && self.terms.is_plain()
    }

    /// Does it put a whole document in the place of another?
    pub(crate) fn replaces(&self) -> bool {
        matches!(self.update, Update::Replacement(_))
    }

    pub(crate) fn change(&self) -> Change<'_> {
        Change::Update { update: &self.update, array_filters: self.array_filters.as_deref() }
    }

    /// Update of the application, with the guard of a pipeline.
    pub(crate) fn guarded_update(&self) -> Bson {
        match &self.update {
            Update::Operators(fields) | Update::Replacement(fields) => Bson::Document(fields.clone()),
            Update::Pipeline(stages) => guarded(&Bson::Array(stages.iter().cloned().map(Bson::Document).collect())),
        }
    }

    pub(crate) fn statement(&self, filter: Document, upsert: bool) -> Document {
        let mut statement = doc! {"q": filter, "u": self.guarded_update(), "multi": false, "upsert": upsert};
        if let Some(filters) = &self.array_filters {
            statement.insert("arrayFilters", filters.clone());
        }
        if let Some(collation) = &self.terms.collation {
            statement.insert("collation", collation.clone());
        }
        if let Some(hint) = &self.terms.hint {
            statement.insert("hint", hint.clone());
        }
        statement
    }
}

#[tracing::instrument(name = "mongotx.update", level = "debug", skip_all, fields(%ns))]
pub(crate) async fn run(
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
        Some(tx) if command.multi => many(core, tx, ns, command).await,
        Some(tx) => one(core, tx, ns, command).await,
        None => {
            implicit::run!(core, |tx| async {
                match command.multi {
                    true => many(core, tx, ns, command).await,
                    false => one(core, tx, ns, command).await,
                }
            })
        }
    }
}

/// Does the update, or the document that it may insert, touch a unique index?
pub(crate) async fn needs_transaction(core: &Core, ns: &Namespace, command: &UpdateCommand) -> Result<bool> {
    let update = (!command.upsert).then_some(&command.update);
    Ok(core.catalog.look_up(&core.server, ns).await?.needs_transaction(update))
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
    let pinned = query::pinned_id(core, ns, &command.filter, &command.terms).await?.is_some();
    let upsert = command.upsert && pinned;
    let mut attempts = direct::Attempts::new(core, ns, &command.filter, &command.terms).upserting(upsert);
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
    if let Some(variables) = &command.terms.variables {
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
    let (query, mut rematches) = (Query::of(command.filter.clone(), command.terms.clone()), Rematches::default());
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
        if let Some(at) = rematches.judge(upsert::run(core, tx, ns, command).await)? {
            return Ok(UpdateResult { upserted_id: Some(at.id), ..UpdateResult::default() });
        }
    }
    // The statement for one `_id` was sent, and so was seen by the server.
    if query::named_id(core, ns, &command.filter, &command.terms).await?.is_none() {
        probe::update(core, ns, command).await?;
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
    if let Some(id) = query::named_id(core, ns, &query.filter, &query.terms).await? {
        let at = core.locate(Some(tx), ns, id, &query.filter, &query.terms).await?;
        let target = Target { ns, at: &at, filter: &query.filter, terms: &query.terms, chosen: false };
        if tx.reads.point(ns, &at.id).is_some()
            && let Some(shown) = core.prepare_shown(tx, &target, change, None).await?
        {
            validated::settle_shown(core, tx, ns, &at.id, &shown.before).await?;
            return Ok(Some((at, !change.is_lock())));
        }
        let applied = core.prepare(tx, &target, change).await?;
        if !applied.matched {
            validated::note_nothing(core, tx, ns, query).await?;
        }
        return Ok(applied.matched.then_some((at, applied.modified)));
    }
    let first = Query { limit: 1, ..query.clone() };
    for _ in 0..SELECTIONS {
        let asked = Asked { is_shown: tx.reads.has_points(ns), ..Asked::default() };
        if let Some(found) = core.prepare_found(tx, ns, query, change, asked).await? {
            if let Some(shown) = &found.shown {
                validated::settle_shown(core, tx, ns, &found.at.id, &shown.before).await?;
            }
            return Ok(Some((found.at, !change.is_lock())));
        }
        let Some(at) = find::addresses(core, Some(tx), ns, &first, 1).await?.pop() else {
            validated::note_nothing(core, tx, ns, query).await?;
            return Ok(None);
        };
        core.note_wanted(tx, ns, query, change, &at).await?;
        let target = Target { ns, at: &at, filter: &query.filter, terms: &query.terms, chosen: true };
        let applied = core.prepare(tx, &target, change).await?;
        if applied.matched {
            return Ok(Some((at, applied.modified)));
        }
    }
    Err(Error::new(
        ErrorKind::Conflict,
        format!("documents of {ns} changed {SELECTIONS} times while one of them was to be written"),
    )
    .for_transaction(tx.id()))
}

async fn many(core: &Core, tx: &mut Transaction, ns: &Namespace, command: &UpdateCommand) -> Result<UpdateResult> {
    tx.note_replacing(false);
    let (all, mut rematches) = (Query::of(command.filter.clone(), command.terms.clone()), Rematches::default());
    let mark = tx.reads.mark();
    loop {
        tx.reads.forget_since(mark);
        let found = validated::addresses(core, tx, ns, &all, core.options.max_documents).await?;
        let targets = Targets { ns, at: &found, filter: &command.filter, terms: &command.terms };
        let done = core.prepare_many(tx, &targets, &command.change()).await?;
        validated::check_all_matched(tx, ns, found.len(), done.matched)?;
        if done.matched > 0 {
            let (matched_count, modified_count) = (done.matched, done.modified);
            return Ok(UpdateResult { matched_count, modified_count, upserted_id: None });
        }
        if !command.upsert {
            break;
        }
        rematches.may_insert(&command.filter)?;
        if let Some(at) = rematches.judge(upsert::run(core, tx, ns, command).await)? {
            return Ok(UpdateResult { upserted_id: Some(at.id), ..UpdateResult::default() });
        }
    }
    probe::update(core, ns, command).await?;
    Ok(UpdateResult::default())
}

/// The document that a replacement's upsert inserts.
pub(crate) fn replacement_to_insert(id: Option<Bson>, replacement: &Document) -> (Bson, Document) {
    // Its own `_id` can only be another type of the same number.
    let Some(id) = replacement.get("_id").cloned().or(id) else { return insert::with_id(replacement.clone()) };
    let mut document = doc! {"_id": id};
    document.extend(
        replacement.iter().filter(|(field, _)| *field != "_id").map(|(field, value)| (field.clone(), value.clone())),
    );
    insert::with_id(document)
}
