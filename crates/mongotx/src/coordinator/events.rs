//! This client's change streams: the sequence that numbers their events, the readers that wait for
//! them, and which of them are removed. The content of events, and how they are written and read,
//! is in `crate::command::events`.

use std::{
    ops::RangeInclusive,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use bson::{doc, oid::ObjectId};
use sd2v::statement;
use tokio::{runtime::Handle, sync::watch};

use super::server::{Server, WriteAnswer};

use crate::{
    clock::{Clock, LogicalClock},
    coordinator::stored::own_collections::EVENTS,
    error::{Error, ErrorKind, Result},
    options::{ClientOptions, Namespace},
};

/// The `_id` of the document that gives events their numbers.
pub(crate) const SEQUENCE: &str = "sequence";
/// Number of new events after which old ones are removed.
const TRIM_EVERY: i64 = 1_000;

/// Positions, limits and waiters of this client's change streams.
pub(crate) struct Events {
    server: Arc<Server>,
    pub(crate) ns: Namespace,
    /// The largest number that this client has committed. Callers that wait for events watch it.
    pub(crate) latest: watch::Sender<i64>,
    /// True if the sequence is known to be there.
    pub(crate) has_sequence: AtomicBool,
    pub(crate) clock: Arc<dyn Clock>,
    /// Events that are kept: older ones are removed.
    kept: u64,
    /// The client's runtime, in which old events are removed.
    runtime: Handle,
    /// Reference to itself, for the task that removes old events.
    this: Weak<Self>,
}

impl Events {
    pub(crate) fn new(server: Arc<Server>, options: &ClientOptions) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            server,
            kept: options.change_events,
            runtime: Handle::current(),
            this: Weak::clone(this),
            ns: Namespace::new(&options.tx_database, EVENTS),
            latest: watch::Sender::new(0),
            has_sequence: AtomicBool::new(false),
            clock: options.clock.clone().unwrap_or_else(|| Arc::new(LogicalClock::default())),
        })
    }

    /// The sequence is there from now on.
    pub(crate) async fn ensure_sequence(&self) -> Result<()> {
        if self.has_sequence.load(SeqCst) {
            return Ok(());
        }
        let ns = &self.ns;
        let find = doc! {"find": &ns.coll, "filter": {"_id": SEQUENCE}, "projection": {"_id": 1}};
        if self.server.find_first(ns, find).await?.is_none() {
            let first = doc! {"_id": SEQUENCE, "n": 0_i64, "era": ObjectId::new()};
            let insert = doc! {"insert": &ns.coll, "documents": [first]};
            match self.server.write_directly(&ns.db, insert).await?.ok() {
                // Another client has made it.
                Err(error) if error.is_duplicate_id() => {}
                made => drop(made?),
            }
        }
        self.has_sequence.store(true, SeqCst);
        Ok(())
    }

    /// The error for a sequence that is gone. It is made again with the next commit.
    pub(crate) fn no_sequence(&self) -> Error {
        self.has_sequence.store(false, SeqCst);
        let message = format!("the document {SEQUENCE:?} of {} is gone, which numbers change events", self.ns);
        Error::new(ErrorKind::Conflict, message)
    }

    /// Notes that a transaction with these numbers is committed: callers that wait for events go
    /// on, and old events are removed.
    pub(crate) fn are_committed(&self, numbers: &RangeInclusive<i64>) {
        let (first, last) = (*numbers.start(), *numbers.end());
        self.latest.send_if_modified(|latest| {
            let is_later = *latest < last;
            *latest = (*latest).max(last);
            is_later
        });
        if (first - 1) / TRIM_EVERY != last / TRIM_EVERY
            && let Some(this) = self.this.upgrade()
        {
            self.runtime.spawn(async move { this.trim(last).await });
        }
    }

    /// Removes the oldest events. Those that a transaction holds are decided, and are removed the
    /// next time.
    async fn trim(&self, last: i64) {
        let kept = i64::try_from(self.kept).unwrap_or(i64::MAX);
        let mut old = doc! {"_id": {"$lte": last - kept}};
        old.extend(statement::unlocked());
        let ns = &self.ns;
        let delete = doc! {"delete": &ns.coll, "deletes": [{"q": old, "limit": 0}]};
        let removed = self.server.write_directly(&ns.db, delete).await.and_then(WriteAnswer::ok);
        if let Err(error) = removed {
            tracing::warn!(%error, "old change events could not be removed; the next thousand will try again");
        }
    }
}
