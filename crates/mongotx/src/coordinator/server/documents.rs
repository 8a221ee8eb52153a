//! Reads about single documents as they are stored: their place, their holder, and their unsafe
//! version.

use std::collections::HashSet;

use bson::{Bson, Document, doc};
use protocol::{LockState, TxId};
use sd2v::{
    names::{UNSAFE, WRITER, tx_id_to_bson},
    shard::{self, ShardKey},
    stored::lock_state,
};

use super::Server;
use crate::{
    coordinator::{
        request::{
            address::{Address, among},
            own_key::OwnKey,
        },
        stored::lock_fields::locks_only,
    },
    error::Result,
    options::Namespace,
};

impl Server {
    /// Completes an address by asking all shards.
    pub(crate) async fn ask_where(&self, ns: &Namespace, at: Address, key: &ShardKey) -> Result<Address> {
        let mut projection = doc! {"_id": 1};
        key.show_in(&mut projection);
        let find = doc! {"find": &ns.coll, "filter": {"_id": at.id.clone()}, "projection": projection};
        Ok(match self.find_first(ns, find).await? {
            Some(found) => at.with_key(key.of(&found)?),
            None => at,
        })
    }

    /// Returns an inner error if this transaction has given the document another shard key than
    /// that by which it is stored.
    pub(crate) async fn refuse_changed_key(
        &self,
        ns: &Namespace,
        at: &Address,
        key: &ShardKey,
        me: TxId,
    ) -> Result<Result<()>> {
        let mut projection = doc! {"_id": 1};
        key.show_in(&mut projection);
        projection.extend(key.fields().map(|field| (format!("{UNSAFE}.{field}"), Bson::Int32(1))));
        let mine = doc! {"$and": [at.filter(), {WRITER: tx_id_to_bson(me)}]};
        let find = doc! {"find": &ns.coll, "filter": mine, "projection": projection};
        let Some(mut stored) = self.find_first(ns, find).await? else { return Ok(Ok(())) };
        let Some(Bson::Document(changed)) = stored.remove(UNSAFE) else { return Ok(Ok(())) };
        let before = key.of(&stored)?;
        Ok(match key.of(&changed) {
            Ok(after) if shard::same(&before, &after) => Ok(()),
            Ok(after) => Err(shard::refused_change(&before, &after).into()),
            Err(refused) => Err(refused.into()),
        })
    }

    /// The documents among these that this transaction has locked.
    pub(crate) async fn held_among(&self, ns: &Namespace, at: &[Address], me: TxId) -> Result<HashSet<OwnKey>> {
        self.keys_of(ns, doc! {"$and": [among(at), {WRITER: tx_id_to_bson(me)}]}, at.len()).await
    }

    /// The documents among these that are stored, whether or not they are locked.
    pub(crate) async fn stored_among(&self, ns: &Namespace, at: &[Address]) -> Result<HashSet<OwnKey>> {
        self.keys_of(ns, among(at), at.len()).await
    }

    async fn keys_of(&self, ns: &Namespace, filter: Document, limit: usize) -> Result<HashSet<OwnKey>> {
        let find = doc! {"find": &ns.coll, "filter": filter, "projection": {"_id": 1}};
        let found = self.collect(&ns.db, find, limit).await?;
        Ok(found.iter().filter_map(|document| document.get("_id").map(OwnKey::of)).collect())
    }

    /// The locks of a document, as they are stored now.
    pub(crate) async fn fetch_locks(&self, ns: &Namespace, at: &Address) -> Result<Option<LockState>> {
        let locks = locks_only(&ShardKey::default());
        let find = doc! {"find": &ns.coll, "filter": at.filter(), "projection": locks};
        Ok(self.find_first(ns, find).await?.map(|stored| lock_state(&stored)).transpose()?)
    }
}
