//! The task that takes the lease, renews it, and lets it go. It runs as long as queries use the
//! lease and no other client comes.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use bson::oid::ObjectId;

use super::{Unprobed, state::ReadLease};
use crate::{
    backoff::Backoff,
    coordinator::{
        log::{record_databases::noted_databases, records::Records, txlog::TxLog},
        stamps::moment::Moment,
    },
    error::Result,
    options::Namespace,
};

/// Pause between two renewals: a lease outlives one that fails.
const RENEWAL: Duration = Duration::from_millis(400);
/// Time for which renewals may fail.
const RENEWAL_LIMIT: Duration = Duration::from_secs(10);
/// Pauses between attempts to let the record say it no more, and how often that is tried.
const UNFLAG_PAUSES: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(10));
const UNFLAG_TRIED: usize = 12;
/// Number of renewals between two looks for records in other databases.
const ELSEWHERE: u32 = 25;

/// Takes the lease and keeps it, in the background. `ns`: a collection for the record of a client
/// that has none.
pub(super) fn start(client: &Arc<Unprobed>, ns: &Namespace) {
    let keeper = Keeper {
        client: Arc::downgrade(client),
        log: Arc::clone(&client.log),
        lease: Arc::clone(&client.read_lease),
        by: ObjectId::new(),
        ns: ns.clone(),
        has_flagged: AtomicBool::new(false),
    };
    // Also when the task is stopped, or cannot begin, because the runtime ends.
    let ended = TaskEnd(Arc::clone(&client.read_lease));
    client.runtime.spawn(async move {
        keeper.run().await;
        drop(ended);
    });
}

/// Notes the end of the task that keeps the lease, however it ends.
struct TaskEnd(Arc<ReadLease>);

impl Drop for TaskEnd {
    fn drop(&mut self) {
        self.0.ended();
    }
}

/// The task that takes the lease, renews it, and gives it up.
struct Keeper {
    client: Weak<Unprobed>,
    /// The log, which outlives a client that is dropped until the record is as it should be.
    log: Arc<dyn TxLog>,
    lease: Arc<ReadLease>,
    /// Name of this lease in the record: what is sent late about an earlier one changes nothing.
    by: ObjectId,
    ns: Namespace,
    /// A record may say it.
    has_flagged: AtomicBool,
}

impl Keeper {
    async fn run(&self) {
        tokio::select! {
            () = self.take_and_keep() => {}
            () = self.lease.until_closed() => {}
        }
        self.lease.lose();
        if self.has_flagged.load(Relaxed) {
            self.unflag().await;
        }
    }

    async fn take_and_keep(&self) {
        match self.take().await {
            Ok(Some(lease)) => self.keep(lease).await,
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "no read lease could be taken"),
        }
    }

    /// Step 1: the record says it. `None`: the client was dropped or shut down, or another one is
    /// there, and would only be made to wait.
    async fn take(&self) -> Result<Option<u64>> {
        let Some(client) = self.client.upgrade() else { return Ok(None) };
        if client.log.others_are_there().await? || has_others_elsewhere(&client).await? {
            return Ok(None);
        }
        let Some(lease) = client.read_lease.begin() else { return Ok(None) };
        Ok(self.flag(&client).await?.then_some(lease))
    }

    /// Says it in the record that takes new transactions.
    async fn flag(&self, client: &Unprobed) -> Result<bool> {
        self.has_flagged.store(true, Relaxed);
        let lease_ms = u64::try_from(client.options.lease.as_millis()).unwrap_or(u64::MAX);
        client.log.flag_reader(self.by, lease_ms, &self.ns).await
    }

    /// Step 2, again and again.
    async fn keep(&self, mut lease: u64) {
        let mut answered = Instant::now();
        for renewal in 1_u32.. {
            let Some(client) = self.client.upgrade() else { return };
            if !self.lease.is_current(lease) || self.lease.is_idle() {
                return;
            }
            let asked = Moment::now();
            match tokio::time::timeout(RENEWAL_LIMIT, self.is_alone(&client, renewal)).await.unwrap_or(Ok(false)) {
                Ok(true) => match self.lease.renew(lease, asked) {
                    Some(renewed) => (lease, answered) = (renewed, Instant::now()),
                    None => return,
                },
                Ok(false) => return,
                Err(error) if answered.elapsed() < RENEWAL_LIMIT => {
                    tracing::debug!(%error, "a read lease could not be renewed");
                }
                Err(_) => return,
            }
            drop(client);
            self.lease.pause(lease, RENEWAL).await;
        }
    }

    async fn is_alone(&self, client: &Unprobed, renewal: u32) -> Result<bool> {
        let elsewhere = renewal.is_multiple_of(ELSEWHERE) && has_others_elsewhere(client).await?;
        Ok(!elsewhere && self.flag(client).await? && client.log.is_sole_reader(self.by).await?)
    }

    /// Newcomers wait for nothing as long as a record goes on saying it.
    async fn unflag(&self) {
        let mut backoff = UNFLAG_PAUSES;
        for _ in 0..UNFLAG_TRIED {
            match self.log.unflag_reader(self.by).await {
                Ok(()) => return,
                Err(error) => tracing::debug!(%error, "a record says still that its client may hold a read lease"),
            }
            if self.lease.is_closed() {
                return;
            }
            backoff.wait().await;
        }
    }
}

/// Returns true if other clients of this deployment keep their records in another database, and are
/// there now. They must not, and get an error when a transaction meets their locks.
async fn has_others_elsewhere(client: &Unprobed) -> Result<bool> {
    for database in noted_databases(&client.server).await? {
        let is_elsewhere = database != client.options.tx_database;
        if is_elsewhere && Records::new(&database).others_are_there(&client.server, &[]).await? {
            return Ok(true);
        }
    }
    Ok(false)
}
