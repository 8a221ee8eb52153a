//! Pending documents that a query could have to see.
//!
//! 1. Whose unfinished documents are there, of which the safe or the unsafe version matches? One command, answered from
//!    the index on `_xTxId`; empty when nothing is pending.
//! 2. What became of these transactions? Read *after* 1, so that an active one's safe version is the latest committed.
//! 3. Committed ones are finished, dead ones undone; active ones stay.
//!
//! Afterwards the safe versions are what was committed when step 1 ran, or later (protocol property P3), and a query on
//! them needs no look at the pending ones. The unsafe query comes first, because documents move from unsafe to safe.

use bson::{Bson, Document, doc};
use protocol::{TxId, TxStatus};
use sd2v::{
    names::{WRITER, tx_id_from_bson},
    stored::lock_state,
    view,
};

use super::{Core, roll};
use crate::{
    command::Terms,
    error::{Error, ErrorKind, Result},
    options::Namespace,
    steps::Step,
};

/// Rounds before giving up: each round finds a transaction that finished between two of its commands.
const ROUNDS: usize = 16;

/// What [`Core::settle_pending`] found at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    NothingPending,
    SomethingPending,
}

impl Core {
    /// Steps 1 to 3 for the documents of `ns` that match `filter`, other than those of `me`; or what makes the collection as
    /// fresh as the terms ask.
    #[tracing::instrument(name = "mongotx.settle_pending", level = "debug", skip_all, fields(%ns))]
    pub(crate) async fn settle_pending(
        &self,
        ns: &Namespace,
        filter: &Document,
        terms: &Terms,
        me: Option<TxId>,
    ) -> Result<Settled> {
        if let Some(limit) = terms.staleness {
            self.freshen(ns, limit).await?;
            return Ok(Settled::NothingPending);
        }
        self.settle_now(ns, filter, terms, me).await
    }

    /// The same, however fresh it is.
    pub(super) async fn settle_now(
        &self,
        ns: &Namespace,
        filter: &Document,
        terms: &Terms,
        me: Option<TxId>,
    ) -> Result<Settled> {
        if !self.catalog.ensure_pending_index(&self.server, ns).await? {
            return Ok(Settled::NothingPending);
        }
        let mut finished_before: Vec<TxId> = Vec::new();
        for round in 0..ROUNDS {
            let writers = self.find_pending(ns, filter, terms, me).await?;
            if writers.is_empty() {
                return Ok(if round == 0 { Settled::NothingPending } else { Settled::SomethingPending });
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
            // What this client has committed itself is being finished already, without a command more.
            let committed = self.finisher.unfinished(of(TxStatus::Committed)).await;
            self.roll_pending(ns, &committed, true).await?;
            self.roll_pending(ns, &of(TxStatus::RolledBack), false).await?;
            // Finished when asked: gone when looked for again, or an orphan.
            let finished = of(TxStatus::Finished);
            let orphans: Vec<TxId> =
                finished.iter().filter(|writer| finished_before.contains(writer)).copied().collect();
            self.roll_pending(ns, &orphans, false).await?;
            if finished.is_empty() {
                return Ok(Settled::SomethingPending);
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
        let two_indexes = self.catalog.look_up(&self.server, ns).await?.asks_mirrors(filter);
        Ok(view::pending_filter(filter, me, two_indexes)?)
    }

    /// Whose documents are pending, other than `me`'s.
    async fn find_pending(
        &self,
        ns: &Namespace,
        filter: &Document,
        terms: &Terms,
        me: Option<TxId>,
    ) -> Result<Vec<TxId>> {
        let pipeline = view::writers(self.pending_filter(ns, filter, me).await?);
        let mut command = doc! {"aggregate": &ns.coll, "pipeline": pipeline, "cursor": {}};
        terms.add_to(&mut command);
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

    async fn roll_pending(&self, ns: &Namespace, writers: &[TxId], forward: bool) -> Result<()> {
        if writers.is_empty() {
            return Ok(());
        }
        self.server.at(Step::BeforeRepair).await;
        let (everything, server) = (Document::new(), &self.server);
        let done = match forward {
            true => roll::forward(server, ns, &everything, writers, true).await?,
            false => roll::back(server, ns, &everything, writers, true).await?,
        };
        let counters = &self.server.counters;
        counters.add(if forward { &counters.rolled_forward } else { &counters.rolled_back }, done as u64);
        self.server.at(Step::AfterRepair).await;
        Ok(())
    }
}
