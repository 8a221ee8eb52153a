//! Pending documents that a query could have to see.
//!
//! 1. Find the transactions whose unfinished documents match in the safe or the unsafe version. One
//!    command, answered from the index on `_xTxId`; empty when nothing is pending.
//! 2. Read the statuses of these transactions *after* 1, so that an active one's safe version is
//!    the latest committed.
//! 3. Committed ones are finished, dead ones undone; active ones stay.
//!
//! Afterwards the safe versions are what was committed when step 1 ran, or later (protocol property
//! P3), and a query on them needs no look at the pending ones. The unsafe query comes first,
//! because documents move from unsafe to safe. Reads that may be a little old are in [`freshness`].

mod freshness;

use std::sync::{Arc, Weak};

use bson::{Bson, Document, doc};
use protocol::{Decided, TxId, TxStatus};
use sd2v::{
    Visible,
    names::{WRITER, tx_id_from_bson},
    stored::lock_state,
    view,
};
use tokio::runtime::Handle;

use self::freshness::Freshness;
use crate::{
    coordinator::{
        catalog::Catalog,
        finishing::{
            documents,
            finisher::Finisher,
            repairs::{Repairs, is_refused},
        },
        log::txlog::TxLog,
        request::query_options::QueryOptions,
        server::Server,
    },
    error::{Error, ErrorKind, Result},
    options::Namespace,
    steps::Step,
};

/// Rounds before giving up: each round finds a transaction that finished between two of its
/// commands.
const ROUNDS: usize = 16;

/// Result of [`Pending::settle_pending`]: what was pending, and what stays so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    /// True if something was pending at first.
    pub(crate) was_pending: bool,
    /// Committed transactions with documents that the server refuses to finish: their unsafe
    /// versions are the latest.
    pub(crate) unfinished: Vec<TxId>,
}

impl Settled {
    /// Transactions whose unsafe versions are to be read, if `me` has written, too.
    pub(crate) fn visible(&self, me: Option<TxId>) -> Option<Visible> {
        Visible::of(me.into_iter().chain(self.unfinished.iter().copied()))
    }
}

/// Settles what is pending in collections, for the queries that would have to see it.
pub(crate) struct Pending {
    server: Arc<Server>,
    log: Arc<dyn TxLog>,
    finisher: Finisher,
    catalog: Arc<Catalog>,
    repairs: Arc<Repairs>,
    freshness: Freshness,
    /// Itself, for collections that are settled in the background, in the client's runtime.
    this: Weak<Self>,
    runtime: Handle,
}

impl Pending {
    pub(crate) fn new(
        server: Arc<Server>,
        log: Arc<dyn TxLog>,
        finisher: Finisher,
        catalog: Arc<Catalog>,
        repairs: Arc<Repairs>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            server,
            log,
            finisher,
            catalog,
            repairs,
            freshness: Freshness::default(),
            this: Weak::clone(this),
            runtime: Handle::current(),
        })
    }

    /// Steps 1 to 3 for the documents of `ns` that match `filter`, other than those of `me`; or
    /// what makes the collection as fresh as the options ask.
    #[tracing::instrument(name = "mongotx.settle_pending", level = "debug", skip_all, fields(%ns))]
    pub(crate) async fn settle_pending(
        &self,
        ns: &Namespace,
        filter: &Document,
        options: &QueryOptions,
        me: Option<TxId>,
    ) -> Result<Settled> {
        if let Some(limit) = options.staleness {
            // Documents that this client has committed, and may have shown, are not hidden from it
            // again.
            let by_now = self.finisher.by_now();
            self.finisher.clear(ns).await;
            if self.finisher.has_open(ns, by_now) {
                self.freshness.saw_unfinished(ns);
            }
            return self.freshen(ns, limit).await;
        }
        self.settle_now(ns, filter, options, me).await
    }

    /// Settles the pending documents, however fresh the collection is.
    pub(super) async fn settle_now(
        &self,
        ns: &Namespace,
        filter: &Document,
        options: &QueryOptions,
        me: Option<TxId>,
    ) -> Result<Settled> {
        if !self.catalog.ensure_pending_index(ns).await? {
            return Ok(Settled::default());
        }
        self.finisher.clear(ns).await;
        let mut finished_before: Vec<TxId> = Vec::new();
        for round in 0..ROUNDS {
            let writers = self.find_pending(ns, filter, options, me).await?;
            if writers.is_empty() {
                return Ok(Settled { was_pending: round > 0, unfinished: Vec::new() });
            }
            let statuses = self.log.statuses(&writers).await?;
            let of = |wanted: TxStatus| -> Vec<TxId> {
                writers
                    .iter()
                    .zip(&statuses)
                    .filter(|(_, status)| **status == wanted)
                    .map(|(writer, _)| *writer)
                    .collect()
            };
            // Commits of this client are being finished already, without a further command.
            let committed = self.finisher.unfinished(ns, of(TxStatus::Committed)).await;
            let unfinished = self.finish_pending(ns, &decided(&committed, TxStatus::Committed)).await?;
            self.clean_pending(ns, &decided(&of(TxStatus::RolledBack), TxStatus::RolledBack), false).await?;
            // Finished when its status was read: the lock is gone when looked for again, or an
            // orphan's.
            let finished = of(TxStatus::Finished);
            let orphans: Vec<TxId> =
                finished.iter().filter(|writer| finished_before.contains(writer)).copied().collect();
            self.repairs.undo_orphans(ns, &orphans).await?;
            if finished.is_empty() {
                if !unfinished.is_empty() {
                    self.freshness.saw_unfinished(ns);
                }
                return Ok(Settled { was_pending: true, unfinished });
            }
            finished_before = finished;
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            format!("{ns} could not be read: transactions finished faster than they could be looked at"),
        ))
    }

    /// The condition for pending documents that matter, as the collection's indexes answer it best.
    pub(crate) async fn pending_filter(&self, ns: &Namespace, filter: &Document, me: Option<TxId>) -> Result<Document> {
        let two_indexes = self.catalog.look_up(ns).await?.asks_mirrors(filter);
        Ok(view::pending_filter(filter, me, two_indexes)?)
    }

    /// Transactions other than `me` that have pending documents.
    async fn find_pending(
        &self,
        ns: &Namespace,
        filter: &Document,
        options: &QueryOptions,
        me: Option<TxId>,
    ) -> Result<Vec<TxId>> {
        let pipeline = view::writers(self.pending_filter(ns, filter, me).await?);
        let mut command = doc! {"aggregate": &ns.coll, "pipeline": pipeline, "cursor": {}};
        options.add_to(&mut command);
        // A document that only the primary has finished looks clean, and is pending again at the
        // next primary: a query there would show the version of before. So what is shown here is
        // on the majority when it is answered.
        self.server.nodes.only_from_primary(&mut command);
        let groups = self.server.collect(&ns.db, command, 100_000).await?;
        let mut writers = Vec::with_capacity(groups.len());
        for group in &groups {
            let id = group.get("_id").unwrap_or(&Bson::Null);
            match tx_id_from_bson(id) {
                Some(writer) => writers.push(writer),
                None => return Err(self.malformed_writer(ns, id).await?),
            }
        }
        Ok(writers.into_iter().filter(|writer| Some(*writer) != me).collect())
    }

    /// The transactions other than `me` that are not decided and hold a document for writing which
    /// may matter to the query.
    pub(crate) async fn active_writers(
        &self,
        ns: &Namespace,
        filter: &Document,
        options: &QueryOptions,
        me: Option<TxId>,
    ) -> Result<Vec<TxId>> {
        if !self.catalog.ensure_pending_index(ns).await? {
            return Ok(Vec::new());
        }
        let writers = self.find_pending(ns, filter, options, me).await?;
        let statuses = self.log.statuses(&writers).await?;
        let of_writer = writers.into_iter().zip(statuses);
        Ok(of_writer.filter(|(_, status)| *status == TxStatus::Active).map(|(writer, _)| writer).collect())
    }

    /// The error that names a document with this writer.
    async fn malformed_writer(&self, ns: &Namespace, writer: &Bson) -> Result<Error> {
        let find =
            doc! {"find": &ns.coll, "filter": {WRITER: {"$eq": writer, "$exists": true}}, "projection": {WRITER: 1}};
        let found = self.server.find_first(ns, find).await?;
        let refused = found.and_then(|stored| lock_state(&stored).err()).map(Error::from);
        Ok(refused.unwrap_or_else(|| {
            Error::new(ErrorKind::Corruption, format!("{ns} has documents with a malformed {WRITER:?}: {writer}"))
        }))
    }

    /// Finishes what these transactions have committed, and answers those of which the server
    /// refuses a document.
    async fn finish_pending(&self, ns: &Namespace, committed: &[Decided]) -> Result<Vec<TxId>> {
        match self.clean_pending(ns, committed, true).await {
            Ok(()) => return Ok(Vec::new()),
            Err(refused) if !is_refused(&refused) => return Err(refused),
            Err(_) if committed.len() == 1 => return Ok(committed.iter().map(|one| one.id()).collect()),
            Err(_) => {}
        }
        let mut unfinished = Vec::new();
        for one in committed {
            match self.clean_pending(ns, &[*one], true).await {
                Err(refused) if is_refused(&refused) => unfinished.push(one.id()),
                done => done?,
            }
        }
        Ok(unfinished)
    }

    async fn clean_pending(&self, ns: &Namespace, writers: &[Decided], finishes: bool) -> Result<()> {
        if writers.is_empty() {
            return Ok(());
        }
        self.server.at(Step::BeforeRepair).await;
        let (everything, server) = (Document::new(), &self.server);
        let done = match finishes {
            true => documents::finish(server, ns, &everything, writers, true).await?,
            false => documents::undo(server, ns, &everything, writers, true).await?,
        };
        let counters = &self.server.counters;
        counters.add(if finishes { &counters.finished_for_others } else { &counters.undone_for_others }, done as u64);
        self.server.at(Step::AfterRepair).await;
        Ok(())
    }
}

/// These transactions, as decided by this status.
fn decided(writers: &[TxId], status: TxStatus) -> Vec<Decided> {
    writers.iter().filter_map(|writer| Decided::by_status(*writer, status)).collect()
}
