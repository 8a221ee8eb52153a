//! Sweeps: finding leftovers of dead clients through their records, before a transaction meets
//! them.
//!
//! 1. Fence every record whose lease has expired.
//! 2. Read the record again, durably: its owner may have listed further collections, and committed
//!    what it wrote there, until the fence. From the fence on the list stays as it is.
//! 3. In each collection that this record names, finish what it committed and undo the rest; give
//!    back its read locks, drop what its text searches have left. (A lock written by a zombie after
//!    this is dead all the same, and is repaired by the transaction that meets it.)
//! 4. Make sure that step 3 is durable: a server that is killed could come back with a lock of a
//!    committed transaction, and without the record that lock would be taken for an orphan. Between
//!    two equal epochs nothing was lost.
//! 5. Unless a document could not be finished ([`crate::coordinator::finishing::repairs`]), retire
//!    the record: the server removes it when its outcomes need not be kept any longer.
//!
//! Any number of sweeps may run at a time.

use std::{collections::BTreeSet, sync::Arc};

use bson::{Bson, Document, doc, oid::ObjectId};
use protocol::{ClientId, LockState, TxId};
use sd2v::{
    names::{READERS, WRITER},
    stored::lock_state,
    text::SCRATCH,
};

use crate::{
    coordinator::{
        catalog::Catalog,
        cleaning::scratch::drop_collection,
        finishing::repairs::Repairs,
        log::{records::Records, txlog::TxLog},
        request::address::Address,
        server::Server,
        stored::lock_fields::locks_only,
    },
    error::{Error, ErrorKind, Result},
    options::{ClientOptions, Namespace},
};

/// Documents repaired in one round.
const ROUND: usize = 1_000;
/// Passes over one client's collections.
const PASSES: usize = 4;

/// Results of a sweep: what was left behind by clients that have died.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SweepResult {
    /// Number of client records that were fenced: their clients were dead, and can decide nothing
    /// any more.
    pub fenced: usize,
    /// Number of client records whose documents are all clean now.
    pub retired: usize,
    /// Number of documents that were repaired: finished, or rolled back to their safe version.
    pub repaired: usize,
}

/// Results of cleaning up after one client.
#[derive(Debug, Default)]
pub(crate) struct Cleaned {
    /// Number of documents that were repaired.
    pub(crate) repaired: usize,
    /// Errors of the documents that could not be repaired: one for each.
    pub(crate) refused: Vec<Error>,
    /// The server was not replaced meanwhile. Otherwise another sweep will see to it.
    is_durable: bool,
    /// More documents may be left than one sweep repairs: another one goes on.
    is_partial: bool,
}

/// A document that carries one of these is locked.
pub(crate) fn any_lock() -> Vec<Document> {
    [WRITER, READERS].map(|lock| doc! {lock: {"$exists": true}}).to_vec()
}

/// Cleans up after clients, and finds the documents that are locked.
pub(crate) struct Sweeper {
    server: Arc<Server>,
    log: Arc<dyn TxLog>,
    catalog: Arc<Catalog>,
    repairs: Arc<Repairs>,
    records: Records,
    /// True in the published layout, which has no client records to sweep.
    is_published: bool,
    /// Rounds per collection and sweep.
    rounds: usize,
}

impl Sweeper {
    pub(crate) fn new(
        server: Arc<Server>,
        log: Arc<dyn TxLog>,
        catalog: Arc<Catalog>,
        repairs: Arc<Repairs>,
        options: &ClientOptions,
    ) -> Self {
        let (records, is_published) = (Records::new(&options.tx_database), options.is_published());
        Self { server, log, catalog, repairs, records, is_published, rounds: options.sweep_rounds() }
    }

    /// Runs steps 1 to 5 for all clients.
    #[tracing::instrument(name = "mongotx.sweep", level = "debug", skip_all)]
    pub(crate) async fn sweep(&self) -> Result<SweepResult> {
        let mut swept = SweepResult::default();
        if self.is_published {
            return Ok(swept);
        }
        let records = &self.records;
        let mut failed = None;
        let all = records.read(&self.server, &[]).await?;
        records.let_them_beat(all.iter().filter(|record| record.is_to_be_fenced())).await;
        for found in all {
            if found.closed || !(found.record.fenced || found.expired) {
                continue;
            }
            if !found.record.fenced {
                if !records.fence_expired(&self.server, found.client).await? {
                    continue;
                }
                swept.fenced += 1;
            }
            let cleaned = match self.clean_up_for_good(found.client).await {
                Err(error) if error.kind() != ErrorKind::Unavailable => {
                    tracing::warn!(client = %found.client, %error, "could not clean up after a client");
                    failed.get_or_insert(error);
                    continue;
                }
                cleaned => cleaned?,
            };
            swept.repaired += cleaned.repaired;
            if cleaned.is_durable && !cleaned.is_partial && cleaned.refused.is_empty() {
                swept.retired += usize::from(records.retire(&self.server, found.client, None).await?);
            }
        }
        failed.map_or(Ok(swept), Err)
    }

    /// Runs steps 2 to 4 for one client.
    async fn clean_up_for_good(&self, client: ClientId) -> Result<Cleaned> {
        let mut cleaned = Cleaned::default();
        for _ in 0..PASSES {
            // A fence that was read and not durable may be gone with the server that showed it.
            let before = self.log.barrier(client).await?;
            if !before.fenced {
                break;
            }
            let Cleaned { repaired, refused, is_partial, .. } = self.clean_up_after(client, &before.namespaces).await?;
            cleaned.repaired += repaired;
            cleaned.refused = refused;
            cleaned.is_partial = is_partial;
            if self.log.barrier(client).await?.follows(&before) {
                cleaned.is_durable = true;
                break;
            }
            // The server was replaced meanwhile.
        }
        Ok(cleaned)
    }

    async fn clean_up_after(&self, client: ClientId, namespaces: &[Namespace]) -> Result<Cleaned> {
        let owner = ObjectId::from_bytes(client.0);
        let from = doc! {"c": owner, "n": Bson::MinKey};
        let to = doc! {"c": owner, "n": Bson::MaxKey};
        let mut cleaned = Cleaned::default();
        for ns in namespaces {
            let written = doc! {WRITER: {"$gte": from.clone(), "$lte": to.clone()}};
            for filter in [written, doc! {format!("{READERS}.c"): owner}] {
                let Cleaned { repaired, refused, is_partial, .. } = self.repair_where(ns, filter).await?;
                cleaned.repaired += repaired;
                cleaned.refused.extend(refused);
                cleaned.is_partial |= is_partial;
            }
        }
        self.drop_scratch(client, namespaces).await?;
        Ok(cleaned)
    }

    /// Drops the collections that text searches of the client have left.
    async fn drop_scratch(&self, client: ClientId, namespaces: &[Namespace]) -> Result<()> {
        let databases: BTreeSet<&str> = namespaces.iter().map(|ns| ns.db.as_str()).collect();
        let name = format!("^{}{}\\.", SCRATCH.replace('.', "\\."), client);
        for db in databases {
            let list = doc! {
                "listCollections": 1, "filter": {"name": {"$regex": &name}}, "nameOnly": true, "cursor": {},
            };
            for left in self.server.collect(db, list, ROUND).await? {
                if let Ok(coll) = left.get_str("name") {
                    drop_collection(&self.server, &Namespace::new(db, coll)).await;
                }
            }
        }
        Ok(())
    }

    /// Repairs the documents that match, as far as their rivals are decided, up to the limit of one
    /// sweep. What cannot be repaired does not keep it from the others.
    pub(crate) async fn repair_where(&self, ns: &Namespace, filter: Document) -> Result<Cleaned> {
        let key = self.catalog.shard_key(ns).await?;
        let mut cleaned = Cleaned { is_partial: true, ..Cleaned::default() };
        let mut passed_over: Vec<Bson> = Vec::new();
        for _ in 0..self.rounds {
            let filter = doc! {"$and": [filter.clone(), {"_id": {"$nin": passed_over.clone()}}]};
            let mut find = doc! {
                "find": &ns.coll, "filter": filter, "projection": locks_only(&key), "limit": ROUND as i64,
                "batchSize": ROUND as i64,
            };
            // A record may be closed because nothing is left here: so the documents seen must not
            // be lost later, nor belong to another primary's past.
            self.server.nodes.only_from_primary(&mut find);
            let found = self.server.collect(&ns.db, find, ROUND).await?;
            let before = (cleaned.repaired, passed_over.len());
            for stored in &found {
                let (at, lock) = (Address::of(stored, &key)?, lock_state(stored)?);
                match self.repairs.clear_locks(ns, &at, &lock, None).await {
                    Ok(None) => cleaned.repaired += 1,
                    Ok(Some(_)) => {}
                    Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
                    Err(error) if passed_over.len() < ROUND => {
                        tracing::warn!(%ns, id = %at, %error, "a document could not be repaired");
                        passed_over.push(at.id);
                        cleaned.refused.push(error);
                    }
                    Err(error) => return Err(error),
                }
            }
            cleaned.is_partial = found.len() == ROUND;
            if !cleaned.is_partial || before == (cleaned.repaired, passed_over.len()) {
                break;
            }
        }
        Ok(cleaned)
    }

    /// The locked documents of a collection.
    pub(crate) async fn locked_documents(&self, ns: &Namespace, limit: usize) -> Result<Vec<(Address, LockState)>> {
        let key = self.catalog.shard_key(ns).await?;
        let filter = doc! {"$or": any_lock()};
        let mut find = doc! {"find": &ns.coll, "filter": filter, "projection": locks_only(&key), "limit": limit as i64};
        self.server.nodes.only_from_primary(&mut find);
        let found = self.server.collect(&ns.db, find, limit).await?;
        found.iter().map(|stored| Ok((Address::of(stored, &key)?, lock_state(stored)?))).collect()
    }

    /// The documents that one transaction holds, in the collections its client's record names.
    pub(crate) async fn held_by(
        &self,
        id: TxId,
        namespaces: &[Namespace],
        limit: usize,
    ) -> Result<Vec<(Namespace, Address, LockState)>> {
        let stored_id = sd2v::names::tx_id_to_bson(id);
        let mut held = Vec::new();
        for ns in namespaces {
            let key = self.catalog.shard_key(ns).await?;
            let filter = doc! {"$or": [{WRITER: stored_id.clone()}, {READERS: stored_id.clone()}]};
            let find = doc! {"find": &ns.coll, "filter": filter, "projection": locks_only(&key), "limit": limit as i64};
            for stored in self.server.collect(&ns.db, find, limit).await? {
                held.push((ns.clone(), Address::of(&stored, &key)?, lock_state(&stored)?));
            }
        }
        Ok(held)
    }
}
