//! Waiting for rivals: how long an action is patient, and with which error it gives up.

use std::time::{Duration, Instant};

use bson::Bson;
use protocol::TxId;

use crate::{
    backoff::Backoff,
    coordinator::server::Server,
    error::{Conflict, Error, Result},
    options::Namespace,
    waiting::{self, Shown},
};

/// Pauses before a rival is looked at again.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(2), Duration::from_millis(100));

/// The time that an action waits for rivals.
pub(crate) struct Patience {
    until: Instant,
    limit: Duration,
    backoff: Backoff,
    noticed: bool,
    /// The rival that was waited for last, shown to observers as long as this one waits.
    shown: Option<(TxId, Shown)>,
}

impl Patience {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { until: Instant::now() + limit, limit, backoff: PAUSES, noticed: false, shown: None }
    }

    /// Returns true if it is the first time that a rival was in the way.
    pub(crate) fn notice(&mut self) -> bool {
        !std::mem::replace(&mut self.noticed, true)
    }

    /// The moment at which the action stops waiting.
    pub(crate) fn deadline(&self) -> Instant {
        self.until
    }

    /// The document, the rival and the limit.
    pub(crate) fn conflict(&self, ns: &Namespace, id: &Bson, rival: TxId) -> Error {
        let conflict = Conflict { namespace: ns.clone(), id: id.clone(), rival };
        let why = match self.limit {
            _ if Instant::now() < self.until => "write conflict with a transaction that waits for this one".to_owned(),
            Duration::ZERO => "write conflict".to_owned(),
            limit => format!("write conflict that lasted longer than the {limit:?} this call waits"),
        };
        Error::conflict_with(conflict, &why)
    }

    /// Waits a little for `rival`, or fails with [`Patience::conflict`].
    pub(crate) async fn wait_for(&mut self, server: &Server, ns: &Namespace, id: &Bson, rival: TxId) -> Result<()> {
        if Instant::now() >= self.until {
            return Err(self.conflict(ns, id, rival));
        }
        server.counters.add(&server.counters.waits, 1);
        if self.shown.as_ref().is_none_or(|(shown, _)| *shown != rival) {
            // The old wait is dropped first; dropped later, it would hide the new one.
            self.shown = None;
            self.shown = Some((rival, waiting::show(ns, rival)));
        }
        self.breathe().await;
        Ok(())
    }

    /// A pause that grows, and never lasts longer than it has grown: half of it is left to chance.
    pub(crate) async fn breathe(&mut self) {
        let jitter = rand::random_range(0.5..1.0);
        tokio::time::sleep(self.backoff.next_pause().mul_f64(jitter)).await;
    }
}
