//! Plan of what a pipeline reads: every collection is mapped to the versions that the transaction
//! may see.
//!
//! | pipeline | way | commands |
//! | --- | --- | --- |
//! | reads no documents (`$currentOp`, `$documents`, …) | as it is | 1 |
//! | nothing own pending in what it reads, by a client that is alone | the safe versions ([`unprobed`]) | 1 |
//! | nothing own pending in what it reads | pending documents and answer in one pipeline ([`probed`]) | 1 when nothing is pending |
//! | the same, with a hint or `let` | look for pending documents in all of it, then the safe versions | 2 when nothing is pending |
//! | own writes in a collection that it reads | the same, then the visible versions of that collection | 3 when no rival is pending, with the look at the own record |
//!
//! With something pending, each collection is settled by itself before the last command.

use std::collections::{BTreeMap, BTreeSet};

use bson::{Document, doc};
use protocol::TxId;
use sd2v::{
    geo::only_geo_field,
    guard,
    pipeline::{Mapped, Read, Sources, map_pipeline},
};

use super::{probed, unprobed, wide_probe};
use crate::{
    command::query::{documents::Documents, views::Resolved},
    coordinator::{
        Core,
        queries::one_process::OneProcessAttempts,
        request::{pipeline::AggregateCommand, query::Query, query_options::QueryOptions},
        transaction::Transaction,
    },
    error::Result,
    options::Namespace,
    steps::Step,
};

/// Documents of a first batch of no given size.
const FIRST_BATCH: usize = 101;

/// A pipeline on collections, views replaced, and which versions it sees.
pub(crate) struct Plan {
    ns: Namespace,
    command: AggregateCommand,
    sources: Sources,
    mapped: Mapped,
    /// Collections whose strings compare otherwise when they are read by themselves: they have a
    /// default collation, and the pipeline none.
    collated: BTreeSet<String>,
}

impl Plan {
    pub(crate) async fn of(
        core: &Core,
        tx: Option<&Transaction>,
        ns: &Namespace,
        command: &AggregateCommand,
    ) -> Result<Self> {
        let Resolved { ns, pipeline, collation, collated } = Resolved::of(core, ns, command).await?;
        let options = QueryOptions { collation, ..command.options.clone() };
        let command = AggregateCommand { pipeline, options, ..command.clone() };
        let sources = Sources {
            me: tx.and_then(Transaction::id),
            collated,
            bare_inserts: core.catalog.shards.none(),
            ..Sources::default()
        };
        let mapped = map_pipeline(main(&ns), &command.pipeline, &sources, true)?;
        let mut plan = Self { ns, command, sources, mapped, collated: BTreeSet::new() };
        plan.find_collated(core).await?;
        plan.find_geo_fields(core).await?;
        let has_written = |read: &&Read| tx.is_some_and(|tx| tx.has_written(&plan.namespace(&read.collection)));
        let written: BTreeSet<String> =
            plan.mapped.reads.iter().filter(has_written).map(|read| read.collection.clone()).collect();
        if !written.is_empty() {
            tx.into_iter().for_each(Transaction::note_own_view);
            plan.sources.written = written;
            plan.map_again(true)?;
        }
        Ok(plan)
    }

    async fn find_collated(&mut self, core: &Core) -> Result<()> {
        for read in self.mapped.reads.iter().filter(|read| read.collection != self.ns.coll) {
            if core.catalog.look_up(&self.namespace(&read.collection)).await?.has_collation {
                self.collated.insert(read.collection.clone());
            }
        }
        Ok(())
    }

    /// Finds the field of each `$geoNear` without `key`, and maps the pipeline again: the server
    /// could not decide between the index of the application and the one on unsafe versions.
    async fn find_geo_fields(&mut self, core: &Core) -> Result<()> {
        let asked = std::mem::take(&mut self.mapped.without_geo_field);
        for collection in &asked {
            let known = core.catalog.look_up(&self.namespace(collection)).await?;
            let specs: Vec<Document> = known.indexes.iter().map(|index| index.spec.clone()).collect();
            self.sources.geo_fields.insert(collection.clone(), only_geo_field(&specs)?);
        }
        if asked.is_empty() { Ok(()) } else { self.map_again(true) }
    }

    fn namespace(&self, collection: &str) -> Namespace {
        Namespace::new(&self.ns.db, collection)
    }

    fn map_again(&mut self, stripped: bool) -> Result<()> {
        self.mapped = map_pipeline(main(&self.ns), &self.command.pipeline, &self.sources, stripped)?;
        Ok(())
    }

    /// The collections that the pipeline reads, and the condition on what it reads there.
    pub(crate) fn reads(&self) -> Vec<(Namespace, Document)> {
        self.mapped.reads.iter().map(|read| (self.namespace(&read.collection), self.condition(read))).collect()
    }

    /// Returns true if it shows what the transaction has written.
    pub(crate) fn sees_own(&self) -> bool {
        !self.sources.written.is_empty()
    }

    /// The queries that find everything that the pipeline reads, one for each collection.
    pub(crate) fn queries(&self) -> Vec<(Namespace, Query)> {
        let options = || QueryOptions { hint: None, ..self.command.options.clone() };
        self.reads().into_iter().map(|(ns, condition)| (ns, Query::of(condition, options()))).collect()
    }

    /// Bounds the pipeline, as `me` sees it, to these documents of each collection.
    pub(crate) fn bind(&mut self, me: Option<TxId>, only: BTreeMap<String, Document>) -> Result<()> {
        self.sources.only.extend(only);
        self.sources.me = me;
        self.map_again(true)
    }

    /// Condition on the documents that matter of a collection. Another collection's strings may
    /// compare otherwise when it is read by itself.
    fn condition(&self, read: &Read) -> Document {
        let is_other = read.collection != self.ns.coll;
        let compares_otherwise = is_other && (self.sources.collated || self.collated.contains(&read.collection));
        if compares_otherwise { Document::new() } else { read.filter.clone() }
    }

    pub(crate) async fn run(mut self, core: &Core) -> Result<Documents> {
        if let Some(answer) = self.unprobed(core).await? {
            return Ok(answer);
        }
        if let Some(piped) = self.one_command(core).await? {
            let command = self.with_wide_probe(core, piped).await?;
            if let Some(answer) = probed::ask_with_probe(core, &self.ns, command, self.sources.me).await? {
                return Ok(answer);
            }
        }
        let mut attempts = OneProcessAttempts::begin(&core.server);
        loop {
            if self.command.options.staleness.is_some() || !self.nothing_is_pending(core).await? {
                self.settle(core).await?;
            }
            core.server.at(Step::BeforeSettledQuery).await;
            let answer = Documents::streaming(core.server.cursor(&self.ns.db, self.plain_command()).await?);
            if attempts.is_answered_by_one(&self.ns)? {
                return Ok(answer);
            }
        }
    }

    async fn unprobed(&self, core: &Core) -> Result<Option<Documents>> {
        let nothing_own = self.sources.written.is_empty() && self.sources.visible.is_empty();
        if !nothing_own || !core.unprobed.may_be_unprobed(&self.ns, &self.command.options) {
            return Ok(None);
        }
        let reads: Vec<Namespace> = self.mapped.reads.iter().map(|read| self.namespace(&read.collection)).collect();
        for ns in &reads {
            if !core.catalog.ensure_pending_index(ns).await? {
                return Ok(None);
            }
        }
        unprobed::ask_without_probe(core, &reads.iter().collect::<Vec<_>>(), || self.plain_command()).await
    }

    /// The command that is right when nothing is pending; `None` when there is no such one.
    pub(crate) async fn one_command(&self, core: &Core) -> Result<Option<Document>> {
        let stale = self.command.options.staleness.is_some();
        let nothing_own = self.sources.written.is_empty() && self.sources.visible.is_empty();
        if stale || !nothing_own || !self.mapped.stands_in_union || self.mapped.reads.is_empty() {
            return Ok(None);
        }
        let probes = self.probes(core).await?;
        let answer = self.mapped.stages.clone();
        let mut command = probed::command(&self.ns.coll, &probes, answer, &self.command.options);
        if let Some(command) = command.as_mut() {
            self.command.add_options(command);
        }
        Ok(command)
    }

    /// The same, and before it the answer behind a look for all writers, where that is of use.
    async fn with_wide_probe(&self, core: &Core, piped: Document) -> Result<probed::Command> {
        let (stages, command) = (&self.mapped.stages, probed::Command::from(piped));
        let [read] = &self.mapped.reads[..] else { return Ok(command) };
        if read.collection != self.ns.coll || !wide_probe::is_counted(stages) {
            return Ok(command);
        }
        let (filter, options, size) = (self.condition(read), &self.command.options, self.command.batch_size);
        let wide = wide_probe::wide_probe(core, &self.ns, &filter, self.sources.me, size, options).await?;
        let Some((all, looks)) = wide else { return Ok(command) };
        let probes = [(self.ns.coll.as_str(), all)];
        let Some(mut wide) = probed::command(&self.ns.coll, &probes, stages.clone(), options) else {
            return Ok(command);
        };
        self.command.add_options(&mut wide);
        if size.is_none() {
            // The marks come in the first batch, too.
            wide.insert("cursor", doc! {"batchSize": (FIRST_BATCH + probed::MAX_WRITERS) as i64});
        }
        Ok(command.first_behind(wide, looks))
    }

    /// Conditions on pending documents that matter, for each collection that exists.
    async fn probes(&self, core: &Core) -> Result<Vec<(&str, Document)>> {
        let mut probes = Vec::new();
        for read in &self.mapped.reads {
            if core.catalog.ensure_pending_index(&self.namespace(&read.collection)).await? {
                // Variables are known to the user's own command only.
                let knows = self.command.options.variables.is_none();
                let condition = if knows { self.condition(read) } else { Document::new() };
                let ns = self.namespace(&read.collection);
                core.finisher.clear_before_query(&ns).await;
                probes.push((
                    read.collection.as_str(),
                    core.pending.pending_filter(&ns, &condition, self.sources.me).await?,
                ));
            }
        }
        Ok(probes)
    }

    /// Returns true if nothing is pending in the several collections of the pipeline, by one
    /// command.
    async fn nothing_is_pending(&self, core: &Core) -> Result<bool> {
        if self.mapped.reads.len() < 2 {
            return Ok(false);
        }
        let probes = self.probes(core).await?;
        let Some((coll, _)) = probes.first() else { return Ok(true) };
        let options = QueryOptions { collation: self.command.options.collation.clone(), ..QueryOptions::default() };
        let nothing = vec![doc! {"$match": {"_id": {"$in": []}}}];
        let Some(mut command) = probed::command(coll, &probes, nothing, &options) else { return Ok(false) };
        // As in a look by itself, what is shown has to be on the majority: another command follows.
        core.server.nodes.only_from_primary(&mut command);
        Ok(probed::ask_with_probe(core, &self.ns, command, self.sources.me).await?.is_some())
    }

    /// Afterwards the safe versions are the latest, or as fresh as the options ask; but for those
    /// that cannot be finished, which are mapped.
    pub(crate) async fn settle(&mut self, core: &Core) -> Result<()> {
        for read in &self.mapped.reads {
            let ns = self.namespace(&read.collection);
            let settled =
                core.pending.settle_pending(&ns, &self.condition(read), &self.command.options, self.sources.me).await?;
            if !settled.unfinished.is_empty() {
                self.sources.visible.insert(read.collection.clone(), settled.unfinished);
            }
        }
        if self.sources.visible.is_empty() { Ok(()) } else { self.map_again(true) }
    }

    /// The command that is right once everything is settled.
    pub(crate) fn plain_command(&self) -> Document {
        self.command.to_command(&self.ns, self.mapped.stages.clone())
    }

    /// The same pipeline, followed by a stage that writes its documents. Nothing removes reserved
    /// fields from those, so the pipeline is mapped to do it.
    pub(crate) fn writing_command(mut self, last: Document) -> Result<Document> {
        self.map_again(false)?;
        let mut stages = self.mapped.stages;
        stages.extend([guard::stage(), last]);
        Ok(self.command.to_command(&self.ns, stages))
    }
}

fn main(ns: &Namespace) -> Option<&str> {
    (!ns.coll.is_empty()).then_some(ns.coll.as_str())
}
