//! The life of a transaction: it begins, is able to lock documents from its first write on, and
//! ends.
//!
//! `begin` writes nothing. `ensure_started` allocates the number before the first prepared write.
//! `finish` hands what is held to the finisher, once the transaction is committed
//! (`crate::command::commit`). `roll_back` records the outcome in the log, then undoes what is
//! held.
//!
//! [`standing`] checks whether a transaction still stands when a statement has its answer,
//! [`idle_limit`] keeps transactions between two statements and ends those that are left idle.

pub(crate) mod idle_limit;
pub(crate) mod standing;

use std::{collections::HashSet, sync::Arc};

use protocol::{Concern, Decided, TxId};

use super::{
    Core,
    catalog::Catalog,
    finishing::finisher::{Finisher, HeldDocuments, Job},
    log::txlog::TxLog,
    server::Server,
    siblings::{Claims, KeptDocuments, Siblings},
    stamps::retry_history::RetryHistory,
    transaction::Transaction,
    validating::{quiet_reader::QuietReader, unchanged::Unchanged},
};
use crate::{
    error::{Error, ErrorKind, Result},
    options::{ClientOptions, Isolation, Namespace, TransactionOptions},
};

/// Begins transactions and ends them.
pub(crate) struct Lifecycle {
    server: Arc<Server>,
    log: Arc<dyn TxLog>,
    catalog: Arc<Catalog>,
    finisher: Finisher,
    unchanged: Arc<Unchanged>,
    quiet: Arc<QuietReader>,
    siblings: Arc<Siblings>,
    options: Arc<ClientOptions>,
}

impl Lifecycle {
    /// The parts in the order in which they stand on each other.
    pub(crate) fn new(
        server: Arc<Server>,
        log: Arc<dyn TxLog>,
        finisher: Finisher,
        catalog: Arc<Catalog>,
        unchanged: Arc<Unchanged>,
        quiet: Arc<QuietReader>,
        options: Arc<ClientOptions>,
    ) -> Self {
        Self { server, log, catalog, finisher, unchanged, quiet, siblings: Arc::default(), options }
    }

    /// A transaction that begins now.
    pub(crate) fn begin(&self, options: TransactionOptions, attempts: RetryHistory) -> Transaction {
        let isolation = self.isolation(&options);
        let begin_point = if isolation == Isolation::Snapshot { self.unchanged.begin_point() } else { None };
        Transaction::new(isolation, begin_point, options, attempts)
    }

    /// The transaction's id, able to lock documents of `ns`.
    pub(crate) async fn ensure_started(&self, tx: &mut Transaction, ns: &Namespace) -> Result<TxId> {
        tx.check_alive()?;
        // The transaction may have to wait for others that are kept from deciding.
        self.quiet.end_quiet(tx).await;
        match tx.started {
            Some(started) => {
                if !tx.has_held_in(ns) {
                    self.log.enlist(started.id, ns).await?;
                }
                Ok(started.id)
            }
            None => {
                let lease = tx.options.lease.unwrap_or(self.options.lease);
                let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX).max(100);
                let connections = self.server.connections();
                let started = self.log.start(lease_ms, ns).await?;
                tx.connections = connections;
                tracing::trace!(transaction = %started.id, "started");
                tx.started = Some(started);
                tx.claims = Some(Claims::new(&self.siblings, started.id));
                Ok(started.id)
            }
        }
    }

    /// Isolation level of a transaction with these options.
    fn isolation(&self, options: &TransactionOptions) -> Isolation {
        options.isolation.unwrap_or(self.options.isolation)
    }

    /// Options that this server can honour.
    pub(crate) fn check_options(&self, options: &TransactionOptions) -> Result<()> {
        options.check()?;
        let level = self.isolation(options);
        if level.validates() && self.options.is_published() {
            return Err(Error::unsupported(format!(
                "isolation {level:?} validates what was read by change stamps, which the published layout does not keep"
            )));
        }
        if level.validates() && self.catalog.shards.are_routed() {
            return Err(Error::unsupported(format!(
                "isolation {level:?} is not supported behind a router (mongos): what its shards answer is of no one moment that could \
                 be validated. Read committed and repeatable read are"
            )));
        }
        match options.concern {
            // Documents are finished on the strength of a decision: it must not get lost.
            Concern::Acknowledged => Err(Error::invalid(
                2,
                "a commit waits for the journal at least: write concern j: false is not supported",
            )),
            Concern::Nodes(n) if n == 0 || (n > 1 && !self.server.nodes.are_several()) => {
                Err(Error::invalid(2, format!("write concern w: {n} cannot be satisfied by this deployment")))
            }
            _ => Ok(()),
        }
    }

    /// Finishes the transaction. As long as the read locks of a transaction that only read are
    /// there, other clients cannot know that it has ended: the answer waits for that.
    pub(crate) async fn finish(&self, tx: Transaction, decided: Decided) {
        let wrote = tx.has_written_anything();
        let job = tx.into_job(decided, true);
        if !wrote {
            return self.finisher.run_now(job, false).await;
        }
        if self.options.is_published() {
            // As published: each document by itself, before the answer.
            self.finisher.run_now(job, true).await;
        } else {
            self.hand_over(job);
        }
    }

    /// From now on others may take over what the transaction holds, unless it is to go.
    fn hand_over(&self, job: Job) {
        let claims = job.claims.clone();
        let removes = |(ns, held): &(Namespace, HeldDocuments)| held.removes.then(|| ns.clone());
        let kept: HashSet<Namespace> = job.held.iter().filter_map(removes).collect();
        let id = job.id.id();
        self.finisher.hand_over(job);
        if let Some(claims) = claims
            && claims.leave(|ns| kept.contains(ns)) == KeptDocuments::Awaited
        {
            self.finisher.hurry(id);
        }
    }

    /// Step 4, waiting until the documents are free again (or handed to the finisher when the
    /// server is away).
    #[tracing::instrument(name = "mongotx.rollback", level = "debug", skip_all, fields(transaction = tx.id().map(tracing::field::display)))]
    pub(crate) async fn roll_back(&self, tx: Transaction) {
        if let Some(id) = tx.id() {
            tx.ending();
            let decided = self.log.rolled_back(id).await;
            self.finisher.run_now(tx.into_job(decided, false), false).await;
        }
    }

    async fn hand_over_undone(&self, tx: Transaction) {
        if let Some(id) = tx.id() {
            tx.ending();
            let decided = self.log.rolled_back(id).await;
            self.finisher.hand_over(tx.into_job(decided, false));
        }
    }

    pub(crate) fn count_abort(&self, error: &Error) {
        let counters = &self.server.counters;
        let counter = match error.kind() {
            ErrorKind::Conflict => &counters.aborts_conflict,
            ErrorKind::Expired => &counters.aborts_expired,
            _ => &counters.aborts_unavailable,
        };
        counters.add(counter, 1);
    }
}

/// Rolls back, in the background, a transaction that was dropped without commit. It runs on the
/// client's own runtime: the caller may be where none runs.
pub(crate) fn abandon(core: &Arc<Core>, tx: Transaction) {
    if tx.id().is_some() {
        let this = Arc::clone(core);
        core.runtime.spawn(async move { this.lifecycle.hand_over_undone(tx).await });
    }
}
