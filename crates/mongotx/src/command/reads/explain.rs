//! `explain`: the server's plan for the command that a read would send now, or for a command as the
//! application wrote it.
//!
//! What is pending is settled first, as the read itself would do. Nothing is locked: at repeatable
//! read the plan is that of the read as it would be at read committed.

use bson::{Bson, Document, doc};
use sd2v::{
    filter::{check_filter, with_scripts_as_expressions},
    index::{has_slot, show_plan},
    names::SLOT,
    pipeline::{Output, merge_on_slot, split_output},
};

use crate::{
    command::{
        access_paths::{fetch, one_command, own_view, plan::Plan},
        query::{query_stages::as_aggregate, views},
    },
    coordinator::{
        Core,
        request::{pipeline::AggregateCommand, query::Query, query_options::QueryOptions},
        transaction::Transaction,
    },
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
        return aggregate(core, tx, ns, &as_aggregate(query)?, verbosity).await;
    }
    let command = find_command(core, tx, ns, query).await?;
    ask_for_plan(core, ns, command, verbosity).await
}

async fn find_command(core: &Core, tx: Option<&Transaction>, ns: &Namespace, query: &Query) -> Result<Document> {
    if query.options.find_only.is_some() {
        core.pending.settle_pending(ns, &query.filter, &query.options, None).await?;
        return Ok(query.to_find(ns, sd2v::view::safe_filter(&query.filter, core.catalog.shards.none())));
    }
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
    let visible = core.pending.settle_pending(ns, &query.filter, &query.options, me).await?.visible(own);
    if visible.is_some() || query.sees_lock_fields() {
        return own_view::command(visible.as_ref(), ns, query);
    }
    // Documents that are still pending belong to active transactions, and are not in the way.
    if let Some(command) = one_command::find_command(core, ns, query, me).await? {
        return Ok(command.into_pipeline());
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
    let options = command.options.resolved(core, ns).await?.into_owned();
    let before = AggregateCommand { pipeline: before.to_vec(), options, ..command.clone() };
    let mut plan = Plan::of(core, tx, ns, &before).await?;
    plan.settle(core).await?;
    let command = match output {
        Some(Output::Out { stage, .. }) => plan.writing_command(stage)?,
        Some(Output::Merge(merge)) => plan.writing_command(merge.stage)?,
        None => plan.one_command(core).await?.unwrap_or_else(|| plan.plain_command()),
    };
    ask_for_plan(core, ns, command, verbosity).await
}

/// The server's plan for a command as it is sent.
pub(super) async fn ask_for_plan(
    core: &Core,
    ns: &Namespace,
    command: Document,
    verbosity: Verbosity,
) -> Result<Document> {
    let explain = |command| doc! {"explain": command, "verbosity": verbosity.as_str()};
    run_on_stored_index(core, ns, command, explain).await
}

/// Runs what `explain` makes of the command. A `$merge` by fields of a unique index is refused at
/// first, because the index is stored with one field more: then it is run with that field.
async fn run_on_stored_index(
    core: &Core,
    ns: &Namespace,
    command: Document,
    explain: impl Fn(Document) -> Document,
) -> Result<Document> {
    let refused = match core.server.run_command(&ns.db, explain(command.clone())).await {
        Err(error) if error.code() == Some(NO_UNIQUE_INDEX) => error,
        plan => return plan,
    };
    let Some(slotted) = merging_on_slot(command) else { return Err(refused) };
    match core.server.run_command(&ns.db, explain(slotted)).await {
        Err(error) if error.code() == Some(NO_UNIQUE_INDEX) => Err(refused),
        plan => plan,
    }
}

/// The command with the slot among the fields by which its `$merge` finds documents.
fn merging_on_slot(mut command: Document) -> Option<Document> {
    let last = command.get_array_mut(MERGING).ok()?.last_mut()?;
    *last = merge_on_slot(last.as_document()?)?.into();
    Some(command)
}

/// Number of MongoDB's error that no unique index has the fields `on` of a `$merge`.
const NO_UNIQUE_INDEX: i32 = 51_183;
/// Fields of a command that are a hint, hold some, or are about the index that is hinted at.
const HINTED: [&str; 5] = ["hint", "updates", "deletes", "min", "max"];
/// Fields of a command that may be sent otherwise than they were written.
const CHANGED: [&str; 7] = ["hint", "updates", "deletes", "min", "max", "filter", "query"];
/// The field of a command that may have a `$merge`.
const MERGING: &str = "pipeline";

/// The plan for a command as the application wrote it, on the safe versions, in the application's
/// own terms: indexes have their names, and MongoTx's own are not in it. `verbosity`: none for a
/// command whose own option requests the plan.
pub(crate) async fn as_written(
    core: &Core,
    ns: &Namespace,
    command: Document,
    verbosity: Option<Verbosity>,
) -> Result<Document> {
    let mut sent = command.clone();
    let runs = verbosity.is_some_and(|verbosity| verbosity != Verbosity::QueryPlanner);
    for filter in conditions(&mut sent) {
        let mapped = with_scripts_as_expressions(filter.clone());
        check_filter(&mapped)?;
        if runs {
            // A script that runs must not see what is stored beside the documents.
            *filter = mapped;
        }
    }
    let is_collection = !ns.coll.is_empty() && !views::is_view(core, ns).await?;
    if !ns.coll.is_empty() {
        let mut is_slotted = false;
        for hint in hints(&mut sent) {
            let options = QueryOptions { hint: Some(hint.clone()), ..QueryOptions::default() };
            if let Some(stored) = &options.resolved(core, ns).await?.hint {
                is_slotted |= stored.as_str().is_some_and(has_slot);
                hint.clone_from(stored);
            }
        }
        for bound in ["min", "max"].into_iter().filter(|_| is_slotted) {
            sent.get_document_mut(bound).into_iter().for_each(|bound| drop(bound.insert(SLOT, Bson::MinKey)));
        }
    }
    if runs && is_collection {
        core.pending.settle_pending(ns, &Document::new(), &QueryOptions::default(), None).await?;
    }
    let mut plan = match verbosity {
        Some(verbosity) => ask_for_plan(core, ns, sent, verbosity).await?,
        None => run_on_stored_index(core, ns, sent, |command| command).await?,
    };
    show_plan(&mut plan);
    if let Ok(shown) = plan.get_document_mut("command") {
        for (field, value) in shown.iter_mut() {
            if let Some(written) = command.get(field).filter(|_| CHANGED.contains(&field.as_str())) {
                value.clone_from(written);
            }
        }
        let stages = shown.get_array_mut(MERGING).ok().and_then(|stages| stages.last_mut());
        if let (Some(last), Some(merge)) = (stages, written_merge(&command)) {
            *last = merge;
        }
    }
    Ok(plan)
}

/// The last stage of a pipeline, if it is a `$merge`.
fn written_merge(command: &Document) -> Option<Bson> {
    let last = command.get_array(MERGING).ok()?.last()?;
    last.as_document()?.contains_key("$merge").then(|| last.clone())
}

/// The conditions in a command that reads or writes documents of one collection.
fn conditions(command: &mut Document) -> Vec<&mut Document> {
    let mut conditions = Vec::new();
    for (field, value) in command.iter_mut() {
        match (field.as_str(), value) {
            ("filter" | "query", Bson::Document(filter)) => conditions.push(filter),
            ("updates" | "deletes", Bson::Array(statements)) => {
                let statements = statements.iter_mut().filter_map(Bson::as_document_mut);
                conditions.extend(statements.filter_map(|statement| statement.get_document_mut("q").ok()));
            }
            _ => {}
        }
    }
    conditions
}

/// The hints in a command.
fn hints(command: &mut Document) -> Vec<&mut Bson> {
    let mut hints = Vec::new();
    for (field, value) in command.iter_mut().filter(|(field, _)| HINTED.contains(&field.as_str())) {
        if field == "hint" {
            hints.push(value);
        } else if let Bson::Array(statements) = value {
            let statements = statements.iter_mut().filter_map(Bson::as_document_mut);
            hints.extend(statements.filter_map(|statement| statement.get_mut("hint")));
        }
    }
    hints
}
