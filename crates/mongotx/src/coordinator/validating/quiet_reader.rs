//! The reader's side of [`crate::coordinator::stamps::quiet`]: when its transaction requests quiet,
//! and when that ends (steps 1 and 3).

use std::{sync::Arc, time::Duration};

use bson::{Bson, oid::ObjectId};
use futures_util::FutureExt;

use crate::{
    coordinator::{
        log::txlog::TxLog,
        server::Server,
        stamps::{
            quiet::{Quiet, QuietEnd},
            tag::Tags,
        },
        transaction::Transaction,
    },
    steps::Step,
};

/// Requests quiet, and ends it, for transactions that read.
pub(crate) struct QuietReader {
    server: Arc<Server>,
    log: Arc<dyn TxLog>,
    ends: Arc<QuietEnd>,
    /// The client's lease, which limits how long quiet may last.
    lease: Duration,
}

impl QuietReader {
    pub(crate) fn new(server: Arc<Server>, log: Arc<dyn TxLog>, lease: Duration) -> Self {
        let records = Arc::clone(&log);
        let tell = move |by| {
            let records = Arc::clone(&records);
            async move { records.end_quiet(by).await }.boxed()
        };
        let ends = Arc::new(QuietEnd::new(tell));
        Self { server, log, ends, lease }
    }

    /// Called before a transaction reads: sets quiet if its session has lost its validation too
    /// often.
    pub(crate) async fn give_quiet(&self, tx: &mut Transaction) {
        if tx.quiet.is_none()
            && tx.id().is_none()
            && tx.reads.is_empty()
            && let Some(stamps) = tx.attempts.take_wanted()
        {
            self.ask_for_quiet(tx, &stamps).await;
        }
    }

    /// Sets quiet for the transaction. Where that fails, the transaction goes on without it.
    pub(crate) async fn ask_for_quiet(&self, tx: &mut Transaction, stamps: &Tags) {
        if tx.quiet.is_some() {
            return;
        }
        let (by, length) = (ObjectId::new(), tx.attempts.length());
        let longest = length.longest(self.lease);
        // Before the command is sent: a future that is dropped while it is under way ends it, too.
        tx.quiet = Some(Quiet::new(by, stamps.clone(), Arc::downgrade(&self.ends), longest));
        let tags: Vec<Bson> = stamps.iter().map(|stamp| Bson::from(stamp.to_string())).collect();
        self.server.at(Step::BeforeQuiet).await;
        match self.log.ask_for_quiet(by, tags, length).await {
            Ok(()) => {
                self.server.counters.add(&self.server.counters.quiets, 1);
                tx.quiet.iter_mut().for_each(Quiet::note_asked);
            }
            Err(error) => tracing::debug!(%error, "a reader could not ask for quiet"),
        }
        self.server.at(Step::AfterQuiet).await;
    }

    /// Ends the quiet, so that others may decide again. To be called before the transaction waits
    /// for a rival.
    pub(crate) async fn end_quiet(&self, tx: &mut Transaction) {
        if let Some(quiet) = &mut tx.quiet {
            quiet.end(&self.ends).await;
        }
    }

    /// Of what quiet the transaction has heard, before it is validated.
    pub(crate) fn heard_of(&self, tx: &Transaction) -> Option<ObjectId> {
        self.log.heard_of(tx.id()?)
    }
}
