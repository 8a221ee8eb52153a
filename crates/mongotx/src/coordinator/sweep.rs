//! Leftovers of dead clients: found through their records, without waiting until somebody meets them.
//!
//! 1. Fence every record whose lease has expired.
//! 2. In each collection that a fenced record names, finish what it committed and undo the rest; give back its read
//!    locks, drop what its text searches have left. (A lock written by a zombie after this is dead all the same, and is repaired by whoever meets it.)
//! 3. Make sure that step 2 is durable: a server that is killed could come back with a lock of a committed transaction, and
//!    without the record that lock would be taken for an orphan. Between two equal epochs nothing was lost.
//! 4. Retire the record: the server removes it when its outcomes need not be kept any longer.
//!
//! Any number of sweeps may run at a time.

use std::collections::BTreeSet;

use bson::{Bson, Document, doc, oid::ObjectId};
use protocol::{LockState, TxId};
use sd2v::{
    names::{READERS, WRITER},
    stored::lock_state,
    text::SCRATCH,
};

use super::{
    Core,
    address::Address,
    meet::locks_only,
    records::{Records, StoredRecord},
};
use crate::{
    command::text::drop_collection,
    error::Result,
    options::{Layout, Namespace},
};

/// Documents repaired in one round.
const ROUND: usize = 1_000;
/// Rounds per collection and sweep.
const ROUNDS: usize = 1_000;

/// Passes over one client's collections.
const PASSES: usize = 4;

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Swept {
    /// Records fenced.
    pub fenced: usize,
    /// Records whose documents are all clean now.
    pub retired: usize,
    /// Documents repaired.
    pub repaired: usize,
}

impl Core {
    pub(crate) fn records(&self) -> Records {
        Records::new(&self.options.tx_database)
    }

    /// Steps 1 to 4.
    #[tracing::instrument(name = "mongotx.sweep", level = "debug", skip_all)]
    pub(crate) async fn sweep(&self) -> Result<Swept> {
        let mut swept = Swept::default();
        if self.options.layout == Layout::Published {
            return Ok(swept);
        }
        let records = self.records();
        for found in records.read(&self.server, &[]).await? {
            if found.closed || !(found.record.fenced || found.expired) {
                continue;
            }
            if !found.record.fenced {
                if !records.fence_expired(&self.server, found.client).await? {
                    continue;
                }
                swept.fenced += 1;
            }
            if let Some(repaired) = self.clean_up_for_good(&found).await? {
                swept.repaired += repaired;
                swept.retired += usize::from(records.retire(&self.server, found.client, None).await?);
            }
        }
        Ok(swept)
    }

    /// Steps 2 and 3. `None`: the server was replaced again and again meanwhile; another sweep will see to it.
    async fn clean_up_for_good(&self, found: &StoredRecord) -> Result<Option<usize>> {
        let mut repaired = 0;
        for _ in 0..PASSES {
            // A fence that was read and not durable may be gone with the server that showed it.
            let before = self.log.barrier(found.client).await?;
            if !before.fenced {
                return Ok(None);
            }
            repaired += self.clean_up_after(found).await?;
            if self.log.barrier(found.client).await? == before {
                return Ok(Some(repaired));
            }
        }
        Ok(None)
    }

    async fn clean_up_after(&self, found: &StoredRecord) -> Result<usize> {
        let client = ObjectId::from_bytes(found.client.0);
        let from = doc! {"c": client, "n": Bson::MinKey};
        let to = doc! {"c": client, "n": Bson::MaxKey};
        let mut repaired = 0;
        for ns in &found.namespaces {
            repaired += self.repair_where(ns, doc! {WRITER: {"$gte": from.clone(), "$lte": to.clone()}}).await?;
            repaired += self.repair_where(ns, doc! {format!("{READERS}.c"): client}).await?;
        }
        self.drop_scratch(found).await?;
        Ok(repaired)
    }

    /// What a text search of the client has left.
    async fn drop_scratch(&self, found: &StoredRecord) -> Result<()> {
        let databases: BTreeSet<&str> = found.namespaces.iter().map(|ns| ns.db.as_str()).collect();
        let name = format!("^{}{}\\.", SCRATCH.replace('.', "\\."), found.client);
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

    /// Repairs every document that matches, as far as its rivals are decided.
    pub(crate) async fn repair_where(&self, ns: &Namespace, filter: Document) -> Result<usize> {
        let key = self.shard_key(ns).await?;
        let mut repaired = 0;
        for _ in 0..ROUNDS {
            let mut find = doc! {
                "find": &ns.coll, "filter": filter.clone(), "projection": locks_only(&key), "limit": ROUND as i64,
                "batchSize": ROUND as i64,
            };
            // That nothing is left here may let a record go: what is seen must not be lost, nor somebody else's past.
            self.server.nodes.from_primary(&mut find);
            let found = self.server.collect(&ns.db, find, ROUND).await?;
            let mut cleared = 0;
            for stored in &found {
                let lock = lock_state(stored)?;
                if self.clear_locks(ns, &Address::of(stored, &key)?, &lock, None).await?.is_none() {
                    cleared += 1;
                }
            }
            repaired += cleared;
            if found.len() < ROUND || cleared == 0 {
                break;
            }
        }
        Ok(repaired)
    }

    /// The locked documents of a collection, for people.
    pub(crate) async fn locked_documents(&self, ns: &Namespace, limit: usize) -> Result<Vec<(Address, LockState)>> {
        let key = self.shard_key(ns).await?;
        let filter = doc! {"$or": [{WRITER: {"$exists": true}}, {READERS: {"$exists": true}}]};
        let find = doc! {"find": &ns.coll, "filter": filter, "projection": locks_only(&key), "limit": limit as i64};
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
            let key = self.shard_key(ns).await?;
            let filter = doc! {"$or": [{WRITER: stored_id.clone()}, {READERS: stored_id.clone()}]};
            let find = doc! {"find": &ns.coll, "filter": filter, "projection": locks_only(&key), "limit": limit as i64};
            for stored in self.server.collect(&ns.db, find, limit).await? {
                held.push((ns.clone(), Address::of(&stored, &key)?, lock_state(&stored)?));
            }
        }
        Ok(held)
    }
}
