//! The wait of an action for rivals that hold locks: its limit, its pauses, and the conflict in
//! which it ends.

use std::time::{Duration, Instant};

use bson::Bson;
use protocol::TxId;

use crate::{
    backoff::Backoff,
    coordinator::server::Server,
    error::{Conflict, Error, Result},
    options::Namespace,
    waiting::{self, ShownWait},
};

/// Pauses before a rival is looked at again.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(2), Duration::from_millis(100));

/// The time that an action waits for rivals.
pub(crate) struct LockWait {
    until: Instant,
    limit: Duration,
    backoff: Backoff,
    has_met_rival: bool,
    /// Number of waits so far.
    waits: usize,
    /// The rival that was waited for last, shown to observers as long as this one waits.
    shown: Option<(TxId, ShownWait)>,
}

impl LockWait {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { until: Instant::now() + limit, limit, backoff: PAUSES, has_met_rival: false, waits: 0, shown: None }
    }

    /// Returns true if it is the first time that a rival was in the way.
    pub(crate) fn note_rival(&mut self) -> bool {
        !std::mem::replace(&mut self.has_met_rival, true)
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

    /// Waits a little for `rival`, or fails with [`LockWait::conflict`].
    pub(crate) async fn wait_for(&mut self, server: &Server, ns: &Namespace, id: &Bson, rival: TxId) -> Result<()> {
        if Instant::now() >= self.until {
            return Err(self.conflict(ns, id, rival));
        }
        server.counters.add(&server.counters.waits, 1);
        self.waits += 1;
        if self.shown.as_ref().is_none_or(|(shown, _)| *shown != rival) {
            // The old wait is dropped first; dropped later, it would hide the new one.
            self.shown = None;
            self.shown = Some((rival, waiting::show(ns, rival)));
        }
        self.pause().await;
        Ok(())
    }

    /// A pause that grows, and never lasts longer than it has grown: half of it is left to chance.
    pub(crate) async fn pause(&mut self) {
        let jitter = rand::random_range(0.5..1.0);
        tokio::time::sleep(self.backoff.next_pause().mul_f64(jitter)).await;
    }
}

/// Attempts at a statement that others may frustrate. Those that end in a wait for a rival are not
/// counted: [`LockWait`] limits them.
pub(crate) struct Attempts {
    left: usize,
    /// Number of waits before the attempt that runs.
    waits: usize,
}

impl Attempts {
    /// As many attempts as `most`, the first one included.
    pub(crate) fn new(most: usize) -> Self {
        Self { left: most, waits: 0 }
    }

    /// Returns true if there may be one more attempt.
    pub(crate) fn go_on(&mut self, lock_wait: &LockWait) -> bool {
        let has_waited = std::mem::replace(&mut self.waits, lock_wait.waits) != lock_wait.waits;
        if has_waited {
            return true;
        }
        let is_left = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_that_waited_are_not_counted() {
        let (mut attempts, mut lock_wait) = (Attempts::new(2), LockWait::new(Duration::ZERO));
        assert!(attempts.go_on(&lock_wait));
        for _ in 0..10 {
            lock_wait.waits += 1;
            assert!(attempts.go_on(&lock_wait));
        }
        assert!(attempts.go_on(&lock_wait));
        assert!(!attempts.go_on(&lock_wait));
        lock_wait.waits += 2;
        assert!(attempts.go_on(&lock_wait));
        assert!(!attempts.go_on(&lock_wait));
    }
}
