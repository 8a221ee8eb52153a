//! `mongotx doctor`: finds every locked or damaged document of all databases, and with `--repair`
//! repairs them.
//!
//! 1. Look: the locked documents first, then the records of their clients, then those that are
//!    stuck or committed once more, because documents move on while one looks. A committed document
//!    whose client is alive and that is still not finished is finished, as a read of it would do:
//!    the error says which index of the collection stands in the way.
//! 2. With `--repair`: sweep, repair the collections that hold something stuck, strip what is
//!    damaged, drop what is left over, look again.
//! 3. Exit status 1 when something stuck, damaged or left over is left.
//!
//! Damaged metadata cannot be restored: `--repair` removes it, and prints it.

use std::collections::{BTreeMap, BTreeSet};

use bson::{Document, doc, oid::ObjectId};
use clap::Args;
use futures_util::TryStreamExt;
use mongotx::{Client, ClientId, ErrorKind, Namespace, TxId};
use sd2v::index::holds_while_renamed;

use crate::{
    connect::ServerOptions,
    damage,
    failure::{Context, Failure, Status, WELL, WRONG},
    leftovers::{LonelyIndex, Scratch, drop_indexes, lonely_indexes, split_scratch},
    say,
    survey::{Clients, Decision, Holding, Standing, Survey, all_collections},
    table::Table,
};

/// Stuck documents named per transaction.
const NAMED: usize = 5;
/// Committed documents of living clients that are finished, to see why they are not.
const TRIED: usize = 100;
const FINISHING: Standing = Standing::Finishing(Decision::Committed);

/// Options of the command `mongotx doctor`.
#[derive(Args)]
pub(crate) struct DoctorOptions {
    /// Finish or undo what dead clients left; remove reserved fields that belong to no transaction,
    /// and print them
    #[arg(long)]
    repair: bool,
    /// Age from which on a part of an index without its index counts as left over: a younger one
    /// may belong to an index that is being made
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    index_age: u32,
    #[command(flatten)]
    server: ServerOptions,
}

/// Runs the command `mongotx doctor`.
pub(crate) async fn run_doctor(options: DoctorOptions) -> Result<Status, Failure> {
    let doctor = Doctor {
        client: options.server.connect().await?,
        driver: options.server.connect_driver().await?,
        tx_database: options.server.tx_database,
        index_age_ms: i64::from(options.index_age) * 1_000,
    };
    let mut found = doctor.look().await?;
    found.tell();
    if options.repair && found.is_mendable() {
        doctor.repair(&found).await?;
        say::line("\nAfter the repair:");
        found = doctor.look().await?;
        found.tell();
    }
    found.tell_verdict(options.repair);
    Ok(if found.is_healthy() { WELL } else { WRONG })
}

struct Doctor {
    client: Client,
    driver: mongodb::Client,
    tx_database: String,
    index_age_ms: i64,
}

/// Findings of one look.
struct Finding {
    collections: usize,
    survey: Survey,
    clients: Clients,
    stuck: BTreeSet<TxId>,
    /// Client records that are unreadable, with or without documents.
    malformed_records: Vec<String>,
    /// Reasons why committed documents of living clients cannot be finished.
    unfinishable: Vec<String>,
    /// The databases in which clients of the deployment have registered, as far as they could note
    /// it.
    databases: Vec<String>,
    /// Records in another layout than this tool knows.
    other_records: u64,
    /// Clients whose records are in other databases than the one that is examined.
    elsewhere: BTreeMap<ClientId, String>,
    /// Dead clients whose records no sweep has closed.
    unswept: usize,
    lonely: Vec<LonelyIndex>,
    /// Scratch collections of clients that are gone.
    scratch: Vec<Namespace>,
    /// Documents that were undone for want of a record, and kept.
    orphans: u64,
    tx_database: String,
}

impl Doctor {
    /// Step 1: looks at all collections.
    async fn look(&self) -> Result<Finding, Failure> {
        let all = all_collections(&self.driver, &self.tx_database).await.context("cannot list collections")?;
        let (collections, scratch) = split_scratch(all);
        let mut survey = Survey::of(&self.driver, &collections).await?;
        let clients = self.clients_of(&survey).await?;
        let mut stuck: BTreeSet<TxId> =
            survey.holdings.keys().copied().filter(|id| clients.judge(*id).is_stuck()).collect();
        let unfinished: BTreeSet<TxId> =
            survey.holdings.keys().copied().filter(|id| clients.judge(*id) == FINISHING).collect();
        if !stuck.is_empty() || !unfinished.is_empty() || survey.damaged_count > 0 {
            let again = Survey::of(&self.driver, &collections).await?;
            stuck.retain(|id| again.holdings.contains_key(id));
            survey = Survey { holdings: without_ended(survey.holdings, &again), ..again };
        }
        let unfinishable = self.finish(&survey, &unfinished).await?;
        let databases = self.client.record_databases().await.unwrap_or_default();
        let elsewhere = self.records_elsewhere(&stuck.iter().map(|id| id.client).collect(), &clients).await?;
        let lonely = lonely_indexes(&self.driver, &collections, self.index_age_ms).await?;
        let scratch = self.left_scratch(scratch).await?;
        let (malformed_records, other_records, unswept) = self.look_at_records().await?;
        let orphans = self.driver.database(&self.tx_database).collection::<Document>("orphans");
        let orphans = orphans.count_documents(doc! {}).await?;
        Ok(Finding {
            collections: collections.len(),
            survey,
            clients,
            stuck,
            malformed_records,
            unfinishable,
            databases,
            other_records,
            elsewhere,
            unswept,
            lonely,
            scratch,
            orphans,
            tx_database: self.tx_database.clone(),
        })
    }

    /// Finishes documents that their living clients have not finished, and says why it cannot.
    async fn finish(&self, survey: &Survey, unfinished: &BTreeSet<TxId>) -> Result<Vec<String>, Failure> {
        let mut reasons = Vec::new();
        let held = survey.holdings.iter().filter(|(id, _)| unfinished.contains(id));
        for (namespace, document) in held.flat_map(|(_, holding)| &holding.named).take(TRIED) {
            match self.client.repair_document(namespace, document).await {
                Ok(_) => {}
                Err(refused) if refused.kind() == ErrorKind::Invalid => reasons.push(say::plain(&refused.to_string())),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(reasons)
    }

    /// Scratch collections whose clients are gone, and known here or nowhere.
    async fn left_scratch(&self, scratch: Vec<Scratch>) -> Result<Vec<Namespace>, Failure> {
        let clients = Clients::read(&self.client, scratch.iter().map(|scratch| scratch.owner)).await?;
        let owners = scratch.iter().map(|scratch| scratch.owner).collect();
        let elsewhere = self.records_elsewhere(&owners, &clients).await?;
        let is_gone = |id: &ClientId| match clients.known.get(id) {
            Some(client) => client.expired || client.fenced || client.closed,
            None => !elsewhere.contains_key(id) && !clients.malformed.contains_key(id),
        };
        Ok(scratch.into_iter().filter(|one| is_gone(&one.owner)).map(|one| one.namespace).collect())
    }

    async fn clients_of(&self, survey: &Survey) -> Result<Clients, Failure> {
        Clients::read(&self.client, survey.holdings.keys().map(|id| id.client)).await
    }

    fn records(&self) -> mongodb::Collection<Document> {
        self.driver.database(&self.tx_database).collection("txs")
    }

    /// Reads every record by itself, so that a malformed one hides no other.
    async fn look_at_records(&self) -> Result<(Vec<String>, u64, usize), Failure> {
        let (mut malformed, mut other, mut unswept) = (Vec::new(), 0, 0);
        let open = doc! {"closedAt": {"$exists": false}};
        let mut found = self.records().find(open).projection(doc! {"_id": 1, "state": 1}).await?;
        while let Some(stored) = found.try_next().await? {
            let Ok(id) = stored.get_object_id("_id") else {
                if stored.contains_key("state") {
                    other += 1;
                } else {
                    malformed.push(format!("a record in txs has the _id {}", say::plain(&stored.to_string())));
                }
                continue;
            };
            match self.client.client_info(ClientId(id.bytes())).await {
                Ok(Some(info)) if info.expired || info.fenced => unswept += 1,
                Ok(Some(_)) => {}
                Ok(None) => malformed.push(format!("the record {id} in txs is not the record of a client")),
                Err(error) if error.kind() == mongotx::ErrorKind::Corruption => {
                    malformed.push(say::plain(&error.to_string()));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok((malformed, other, unswept))
    }

    /// A transaction without a record here may well be alive for clients that keep their records in
    /// another database: repairing it from here would destroy committed work.
    async fn records_elsewhere(
        &self,
        owners: &BTreeSet<ClientId>,
        clients: &Clients,
    ) -> Result<BTreeMap<ClientId, String>, Failure> {
        let unknown: BTreeSet<ClientId> = owners.iter().copied().filter(|id| !clients.known.contains_key(id)).collect();
        let mut elsewhere = BTreeMap::new();
        if unknown.is_empty() {
            return Ok(elsewhere);
        }
        let ids: Vec<ObjectId> = unknown.iter().map(|id| ObjectId::from_bytes(id.0)).collect();
        for db in self.driver.list_database_names().await? {
            let owners = doc! {"$or": [{"_id": {"$in": &ids}}, {"_id.c": {"$in": &ids}}]};
            let mut found = self.driver.database(&db).collection::<Document>("txs").find(owners).await?;
            while let Some(record) = found.try_next().await? {
                let owner = match record.get_document("_id") {
                    Ok(id) => id.get_object_id("c"),
                    Err(_) => record.get_object_id("_id"),
                };
                if let Ok(owner) = owner {
                    elsewhere.insert(ClientId(owner.bytes()), db.clone());
                }
            }
        }
        elsewhere.retain(|_, db| *db != self.tx_database);
        Ok(elsewhere)
    }

    /// Step 2: repairs the findings.
    async fn repair(&self, found: &Finding) -> Result<(), Failure> {
        match self.client.sweep().await {
            Ok(swept) => say::line(&format!(
                "\nSwept: {} ended, {} closed, {} repaired.",
                say::count(swept.fenced, "client"),
                say::count(swept.retired, "record"),
                say::count(swept.repaired, "document"),
            )),
            Err(error) => say::warn(&format!("the sweep stopped: {}", say::plain(&error.to_string()))),
        }
        for (namespace, safe) in found.to_repair() {
            if !safe {
                say::warn(&format!(
                    "{namespace} is left alone: it holds documents of clients whose records are elsewhere"
                ));
                continue;
            }
            match self.client.repair_collection(&namespace).await {
                Ok(0) => {}
                Ok(n) => say::line(&format!("Repaired {} of {namespace}.", say::count(n, "document"))),
                Err(error) => say::warn(&format!("{namespace}: {}", say::plain(&error.to_string()))),
            }
        }
        self.strip_damaged(found).await?;
        self.drop_leftovers(found).await
    }

    async fn strip_damaged(&self, found: &Finding) -> Result<(), Failure> {
        let mut owners: BTreeSet<ClientId> = found.survey.damaged.iter().filter_map(|one| one.owner).collect();
        owners.extend(found.clients.known.keys());
        let clients = Clients::read(&self.client, owners.iter().copied()).await?;
        let elsewhere = self.records_elsewhere(&owners, &clients).await?;
        let is_elsewhere = |id: ClientId| {
            elsewhere.contains_key(&id) || clients.malformed.contains_key(&id) || found.other_records > 0
        };
        for damaged in &found.survey.damaged {
            damage::strip(&self.driver, damaged, &clients, is_elsewhere).await?;
        }
        Ok(())
    }

    async fn drop_leftovers(&self, found: &Finding) -> Result<(), Failure> {
        for namespace in &found.scratch {
            self.driver.database(&namespace.db).collection::<Document>(&namespace.coll).drop().await?;
        }
        let dropped = drop_indexes(&self.driver, &found.lonely).await? + found.scratch.len();
        if dropped > 0 {
            say::line(&format!("Dropped {}.", say::count(dropped, "leftover")));
        }
        Ok(())
    }
}

/// The transactions of an earlier look that still hold documents, with their present holdings.
fn without_ended(before: BTreeMap<TxId, Holding>, now: &Survey) -> BTreeMap<TxId, Holding> {
    before.into_keys().filter_map(|id| Some((id, now.holdings.get(&id)?.clone()))).collect()
}

impl Finding {
    fn is_healthy(&self) -> bool {
        let damaged = self.survey.damaged_count > 0 || !self.malformed_records.is_empty();
        self.stuck.is_empty() && self.unfinishable.is_empty() && !damaged && self.leftovers() == 0
    }

    fn leftovers(&self) -> usize {
        self.scratch.len() + self.lonely.iter().filter(|index| !index.is_young).count()
    }

    fn is_mendable(&self) -> bool {
        !self.stuck.is_empty() || self.unswept > 0 || self.leftovers() > 0 || self.survey.damaged_count > 0
    }

    /// The collections with something stuck, and whether all that is stuck there is ours to judge.
    fn to_repair(&self) -> BTreeMap<Namespace, bool> {
        let mut collections = BTreeMap::new();
        for id in &self.stuck {
            let known = !self.elsewhere.contains_key(&id.client)
                && !self.clients.malformed.contains_key(&id.client)
                && self.other_records == 0;
            for namespace in self.survey.holdings.get(id).into_iter().flat_map(|holding| &holding.namespaces) {
                *collections.entry(namespace.clone()).or_insert(true) &= known;
            }
        }
        collections
    }

    fn tell(&self) {
        say::line(&format!("Looked at {}.", say::count(self.collections, "collection")));
        if self.survey.holdings.is_empty() {
            say::line("No document is locked.");
        } else {
            self.tell_transactions();
        }
        self.tell_damage();
        for reason in &self.unfinishable {
            say::line(&format!("Cannot be finished: {reason}"));
        }
        self.tell_leftovers();
        for record in &self.malformed_records {
            say::line(&format!("Damaged record: {record}"));
        }
        if self.other_records > 0 {
            say::line(&format!(
                "{} of the published layout (benchmarks only), which this tool does not judge.",
                say::count(usize::try_from(self.other_records).unwrap_or(usize::MAX), "record")
            ));
        }
        if self.databases.len() > 1 {
            say::line(&format!(
                "Clients of this deployment have registered in several databases, the last first: {}. Those that use the same \
                 documents need the same one.",
                self.databases.iter().map(|name| say::plain(name)).collect::<Vec<_>>().join(", ")
            ));
        }
        if self.orphans > 0 {
            say::line(&format!(
                "Rolled back: {}, because the transaction was over, or had no record: as after a late message, or when a backup is put back \
                 without the records of its time. What they were to become is kept in {}.orphans (ns, id, write, becomes); drop it \
                 when it is not needed.",
                say::count(usize::try_from(self.orphans).unwrap_or(usize::MAX), "document"),
                say::plain(&self.tx_database),
            ));
        }
        if self.unswept > 0 {
            say::line(&format!("{} not swept yet.", say::count(self.unswept, "dead client")));
        }
    }

    fn tell_transactions(&self) {
        let mut table = Table::new(["TRANSACTION", "STATUS", "DOCUMENTS", "COLLECTIONS"]);
        for (id, holding) in &self.survey.holdings {
            table.row([id.to_string(), self.status(*id), holding.words(), holding.collections()]);
        }
        say::line(&table.to_string());
        for id in &self.stuck {
            let Some(holding) = self.survey.holdings.get(id) else { continue };
            for (namespace, document) in holding.named.iter().take(NAMED) {
                let (namespace, document) = (say::plain(&namespace.to_string()), say::id(document));
                say::line(&format!("  {id} holds {namespace}, document {document}"));
            }
            let more = (holding.written + holding.read).saturating_sub(NAMED);
            if more > 0 {
                say::line(&format!("  {id} holds {more} more"));
            }
        }
    }

    fn status(&self, id: TxId) -> String {
        if let Some(db) = self.elsewhere.get(&id.client) {
            return format!("unknown here: its client's record is in {db}.txs; look with --tx-database {db}");
        }
        if self.clients.malformed.contains_key(&id.client) {
            return "unknown: its client's record is damaged".to_owned();
        }
        self.clients.judge(id).words().to_owned()
    }

    fn tell_damage(&self) {
        for damaged in &self.survey.damaged {
            let (namespace, id) = (say::plain(&damaged.namespace.to_string()), say::id(&damaged.id));
            say::line(&format!("Damaged: {namespace}, document {id}: {}", say::plain(&damaged.why)));
        }
        let more = self.survey.damaged_count - self.survey.damaged.len();
        if more > 0 {
            say::line(&format!("Damaged: {more} more"));
        }
    }

    fn tell_leftovers(&self) {
        for namespace in &self.scratch {
            let name = say::plain(&namespace.to_string());
            say::line(&format!("Left over: {name}, of a text search whose client is gone"));
        }
        for index in &self.lonely {
            let (namespace, name) = (say::plain(&index.namespace.to_string()), say::plain(&index.name));
            say::line(&match index.is_young {
                false if holds_while_renamed(&index.name) => format!(
                    "Left over: {namespace}, index {name}, of a renaming that was interrupted: no document there can be locked"
                ),
                true if holds_while_renamed(&index.name) => {
                    format!("{namespace}, index {name}: it is being renamed, or that was interrupted")
                }
                false => format!("Left over: {namespace}, index {name}, whose index is not there"),
                true => format!("{namespace}, index {name}: its index is being made, or it is left over"),
            });
        }
    }

    fn tell_verdict(&self, repaired: bool) {
        if self.is_healthy() {
            return say::line(match self.orphans {
                0 => "Healthy: nothing is stuck and nothing is damaged.",
                _ => "Nothing is stuck and nothing is damaged; look at what was undone for want of a record.",
            });
        }
        let damaged = self.survey.damaged_count + self.malformed_records.len();
        let mut verdict = Vec::new();
        if !self.stuck.is_empty() {
            verdict.push(format!("{} stuck", say::count(self.stuck.len(), "transaction")));
        }
        if !self.unfinishable.is_empty() {
            verdict.push(format!("{} that cannot be finished", say::count(self.unfinishable.len(), "document")));
        }
        if damaged > 0 {
            verdict.push(format!("{} damaged", say::count(damaged, "document")));
        }
        if self.leftovers() > 0 {
            verdict.push(say::count(self.leftovers(), "leftover"));
        }
        let advice = match (self.stuck.is_empty(), repaired) {
            (true, false) if self.leftovers() > 0 => "; `mongotx doctor --repair` drops what is left over",
            (false, false) => "; `mongotx doctor --repair` finishes or undoes what is stuck",
            (false, true) => "; run it again when the clients named above have ended",
            (true, false) if self.survey.damaged_count > 0 => {
                "; `mongotx doctor --repair` takes the reserved fields of damaged documents away, and prints them"
            }
            (true, true) if self.survey.damaged_count > 0 => "; run it again for more of what is damaged",
            (true, _) => "",
        };
        say::line(&format!("Not healthy: {}{advice}.", verdict.join(", ")));
    }
}
