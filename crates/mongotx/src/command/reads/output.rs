//! `$out` and `$merge`, outside transactions.
//!
//! `$out` replaces the whole target, so it waits until nothing there is locked, and is then the
//! server's own. Locks that come after that are lost with the collection, as when it is dropped.
//!
//! `$merge` must not write over locked documents: the pipeline is run without it, and each result
//! is applied as an update or an insert outside a transaction is, waiting for locks. The server
//! checks the stage first, by an `explain` of it.

use std::sync::Arc;

use bson::{Bson, Document, doc};
use sd2v::{
    pipeline::{Merge, Output, WhenMatched, WhenNotMatched},
    update::Update,
};

use super::explain::ask_for_plan;
use crate::{
    command::{
        access_paths::plan::Plan,
        writes::{insert, update, write_commands::UpdateCommand},
    },
    coordinator::{
        Core,
        finishing::lock_wait::LockWait,
        request::{pipeline::AggregateCommand, query_options::QueryOptions},
        stored::own_collections::holds_records,
    },
    document,
    error::{Error, ErrorKind, Result},
    options::{Namespace, Verbosity},
    steps::Step,
};

/// Times that a result is applied again because its document came or went meanwhile.
const ATTEMPTS: usize = 64;

pub(crate) async fn write_output(
    core: &Arc<Core>,
    ns: &Namespace,
    before: &AggregateCommand,
    output: Output,
) -> Result<()> {
    match output {
        Output::Out { db, collection, stage } => {
            let target = target(core, ns, db.as_deref(), &collection)?;
            out(core, ns, before, &target, stage).await
        }
        Output::Merge(merge) => {
            let target = target(core, ns, merge.db.as_deref(), &merge.collection)?;
            merge_into(core, ns, before, &target, &merge).await
        }
    }
}

/// The collection that the results go to.
fn target(core: &Core, input: &Namespace, db: Option<&str>, collection: &str) -> Result<Namespace> {
    let target = Namespace::new(db.unwrap_or(&input.db), collection);
    // Records are written one by one, by what knows their form.
    if holds_records(&target, &core.options.tx_database) {
        let message = format!("a pipeline cannot write to {target}: it holds the records of clients or gateways");
        return Err(Error::unsupported(message));
    }
    Ok(target)
}

async fn out(
    core: &Core,
    ns: &Namespace,
    before: &AggregateCommand,
    target: &Namespace,
    stage: Document,
) -> Result<()> {
    core.catalog.check_written(target, false)?;
    if core.catalog.look_up(target).await?.watch.is_some() {
        let message = format!(
            "$out cannot replace {target}: its changes leave events for change streams, which $out could not write; use $merge"
        );
        return Err(Error::unsupported(message));
    }
    let mut plan = Plan::of(core, None, ns, before).await?;
    core.schema.until_unlocked(target, "replaced", &mut LockWait::new(core.options.write_wait)).await?;
    let process = core.server.nodes.process();
    plan.settle(core).await?;
    core.server.at(Step::BeforeSettledQuery).await;
    let command = plan.writing_command(stage)?;
    core.server.run_directly_in(process, &ns.db, command).await.map(drop)
}

async fn merge_into(
    core: &Arc<Core>,
    ns: &Namespace,
    before: &AggregateCommand,
    target: &Namespace,
    merge: &Merge,
) -> Result<()> {
    let plan = Plan::of(core, None, ns, before).await?;
    let command = plan.writing_command(merge.stage.clone())?;
    ask_for_plan(core, ns, command, Verbosity::QueryPlanner).await?;
    let variables = merge.variables.clone().unwrap_or_default();
    let with_variables = doc! {"$replaceWith": {"new": "$$ROOT", "variables": variables}};
    let pipeline = before.pipeline.iter().cloned().chain([with_variables]).collect();
    let options = QueryOptions { is_always_probed: true, ..before.options.resolved(core, ns).await?.into_owned() };
    let results = AggregateCommand { pipeline, options, ..before.clone() };
    let mut results = Plan::of(core, None, ns, &results).await?.run(core).await?;
    while let Some(result) = results.next().await {
        let mut result = document::exact(&result?)?;
        let Some(Bson::Document(new)) = result.remove("new") else { continue };
        let variables = result.get_document("variables").cloned().unwrap_or_default();
        // Where other fields tell which document is meant, that keeps its `_id`.
        let new = if merge.on.iter().any(|field| field == "_id") { insert::with_id(new).1 } else { new };
        ResultWrite { core, target, merge, new, variables }.apply().await?;
    }
    Ok(())
}

/// The write of one result of the pipeline into the target collection.
struct ResultWrite<'a> {
    core: &'a Arc<Core>,
    target: &'a Namespace,
    merge: &'a Merge,
    new: Document,
    variables: Document,
}

impl ResultWrite<'_> {
    async fn apply(&self) -> Result<()> {
        match &self.merge.when_matched {
            WhenMatched::Fail => insert::one_directly(self.core, self.target, self.new.clone()).await.map(drop),
            WhenMatched::Replace => self.update(Bson::Document(self.new.clone())).await,
            WhenMatched::Merge => self.update(doc! {"$set": self.new.clone()}.into()).await,
            WhenMatched::KeepExisting => self.update(doc! {"$setOnInsert": self.new.clone()}.into()).await,
            WhenMatched::Pipeline(stages) => self.change_or_insert(stages).await,
        }
    }

    /// The document that is meant.
    fn filter(&self) -> Result<Document> {
        let condition = self.merge.on.iter().map(|path| match value_at(&self.new, path) {
            None | Some(Bson::Null | Bson::Undefined | Bson::Array(_)) => Err(Error::invalid(
                51132,
                format!(
                    "$merge: the 'on' field {path:?} is missing, null, undefined or an array in {{_id: {}}}",
                    self.new.get("_id").unwrap_or(&Bson::Null)
                ),
            )),
            Some(value) => Ok((path.clone(), doc! {"$eq": value.clone()}.into())),
        });
        condition.collect()
    }

    fn command(&self, update: Bson, upsert: bool, variables: Option<Document>) -> Result<UpdateCommand> {
        let update = match update {
            Bson::Document(new) if self.merge.when_matched == WhenMatched::Replace => Update::replacement(new)?,
            update => Update::parse_update(update)?,
        };
        let options = QueryOptions { variables, ..QueryOptions::default() };
        Ok(UpdateCommand { filter: self.filter()?, update, multi: false, upsert, array_filters: None, options })
    }

    async fn update(&self, update: Bson) -> Result<()> {
        let upsert = self.merge.when_not_matched == WhenNotMatched::Insert;
        let command = self.command(update, upsert, None)?;
        let done = update::update_documents(self.core, None, self.target, &command).await?;
        if done.matched_count == 0 && done.upserted_id.is_none() { self.not_matched() } else { Ok(()) }
    }

    fn not_matched(&self) -> Result<()> {
        if self.merge.when_not_matched == WhenNotMatched::Discard {
            return Ok(());
        }
        let message = format!("$merge found no matching document in {} for {}", self.target, self.filter()?);
        Err(Error::invalid(13113, message))
    }

    /// The update's pipeline reads the result as `$$new`; where no document is, the result itself
    /// is inserted.
    async fn change_or_insert(&self, stages: &[Document]) -> Result<()> {
        let update = Bson::Array(stages.iter().cloned().map(Bson::Document).collect());
        let command = self.command(update, false, Some(self.constants()))?;
        for _ in 0..ATTEMPTS {
            if update::update_documents(self.core, None, self.target, &command).await?.matched_count > 0 {
                return Ok(());
            }
            if self.merge.when_not_matched != WhenNotMatched::Insert {
                return self.not_matched();
            }
            match insert::one_directly(self.core, self.target, self.new.clone()).await {
                // A rival has inserted the document meanwhile.
                Err(error) if error.is_duplicate_key() && self.is_there(&command).await? => {}
                done => return done.map(drop),
            }
        }
        let message = format!("the document {} of {} came and went {ATTEMPTS} times", self.filter()?, self.target);
        Err(Error::new(ErrorKind::Conflict, message))
    }

    async fn is_there(&self, command: &UpdateCommand) -> Result<bool> {
        let find = doc! {"find": &self.target.coll, "filter": command.filter.clone(), "projection": {"_id": 1}};
        Ok(self.core.server.find_first(self.target, find).await?.is_some())
    }

    fn constants(&self) -> Document {
        // The server knows no variable that is missing, either.
        let given = self.variables.iter().map(|(name, value)| (name.clone(), literal(value)));
        let new = ("new".to_owned(), literal(&Bson::Document(self.new.clone())));
        given.chain([new]).collect()
    }
}

fn literal(value: &Bson) -> Bson {
    doc! {"$literal": value.clone()}.into()
}

fn value_at<'d>(document: &'d Document, path: &str) -> Option<&'d Bson> {
    match path.split_once('.') {
        None => document.get(path),
        Some((head, rest)) => value_at(document.get_document(head).ok()?, rest),
    }
}
