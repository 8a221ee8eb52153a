//! Waiting for all writers that work by what was known of a collection before.
//!
//! 1. This client's commands, by their hold on the look-up that they work by; other clients, if a
//!    record names the collection, as long as a look-up is trusted. A record that is to name the
//!    collection from now on is followed by a new look-up.
//! 2. The documents that were pending then.

use std::{
    sync::Weak,
    time::{Duration, Instant},
};

use bson::{Bson, Document, doc};
use protocol::TxId;
use sd2v::names::{WRITER, tx_id_from_bson};

use super::Schema;
use crate::{
    coordinator::{
        catalog::{Collection, FRESH},
        finishing::lock_wait::LockWait,
        log::records::StoredRecord,
        request::query_options::QueryOptions,
    },
    error::{Error, ErrorKind, Result},
    options::Namespace,
};

impl Schema {
    /// Waits for writers by both steps. `all_clients`: also for clients that may write there
    /// outside transactions only, and have no record.
    pub(super) async fn wait_for_writers(&self, ns: &Namespace, all_clients: bool) -> Result<()> {
        let mut lock_wait = LockWait::new(self.options.write_wait.max(FRESH * 2));
        let old = self.catalog.forget(ns);
        self.wait_until_released(ns, &old, &mut lock_wait).await?;
        let records = self.records.read(&self.server, &[]).await?;
        let others =
            |record: &&StoredRecord| !record.closed && record.namespaces.contains(ns) && !self.log.owns(record.client);
        if all_clients || records.iter().any(|record| others(&record)) {
            tokio::time::sleep(FRESH + Duration::from_secs(1)).await;
        }
        let pending = self.pending_writers(ns).await?;
        loop {
            self.pending.settle_pending(ns, &Document::new(), &QueryOptions::default(), None).await?;
            let left = self.pending_writers(ns).await?;
            let Some(rival) = left.iter().find(|writer| pending.contains(writer)) else { return Ok(()) };
            lock_wait.wait_for(&self.server, ns, &Bson::Null, *rival).await?;
        }
    }

    /// Commands of this client that still work by what was known before.
    async fn wait_until_released(
        &self,
        ns: &Namespace,
        old: &[Weak<Collection>],
        lock_wait: &mut LockWait,
    ) -> Result<()> {
        let until = Instant::now() + FRESH;
        while old.iter().any(|one| one.strong_count() > 0) {
            if Instant::now() > until {
                let message = format!(
                    "writes to {ns} did not end within {FRESH:?}, so its writers could not be notified of the change"
                );
                return Err(Error::new(ErrorKind::Conflict, message));
            }
            lock_wait.pause().await;
        }
        Ok(())
    }

    async fn pending_writers(&self, ns: &Namespace) -> Result<Vec<TxId>> {
        let pipeline =
            vec![doc! {"$match": {WRITER: {"$exists": true}}}, doc! {"$group": {"_id": format!("${WRITER}")}}];
        let command = doc! {"aggregate": &ns.coll, "pipeline": pipeline, "cursor": {}};
        let groups = self.server.collect(&ns.db, command, 100_000).await?;
        Ok(groups.iter().filter_map(|group| tx_id_from_bson(group.get("_id")?)).collect())
    }
}
