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
    names::{INSERT, REMOVE, WRITER, tx_id_from_bson},
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

/// A transaction with unfinished documents in a collection.
struct Pending {
    writer: TxId,
    inserts: bool,
    removes: bool,
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
            let pending = self.find_pending(ns, filter, terms, me).await?;
            if pending.is_empty() {
                return Ok(if round == 0 { Settled::NothingPending } else { Settled::SomethingPending });
            }
            let writers: Vec<TxId> = pending.iter().map(|p| p.writer).collect();
            let statuses = self.log.statuses(&writers).await?;
            let of =
                |wanted: TxStatus| pending.iter().zip(&statuses).filter(move |(_, s)| **s == wanted).map(|(p, _)| p);
            self.roll_pending(ns, of(TxStatus::Committed).collect(), true).await?;
            self.roll_pending(ns, of(TxStatus::RolledBack).collect(), false).await?;
            // Finished when asked: gone when looked for again, or an orphan.
            let finished: Vec<TxId> = of(TxStatus::Finished).map(|p| p.writer).collect();
            let orphans = of(TxStatus::Finished).filter(|p| finished_before.contains(&p.writer)).collect();
            self.roll_pending(ns, orphans, false).await?;
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

    async fn find_pending(
        &self,
        ns: &Namespace,
        filter: &Document,
        terms: &Terms,
        me: Option<TxId>,
    ) -> Result<Vec<Pending>> {
        let group = doc! {"$group": {
            "_id": format!("${WRITER}"),
            "inserts": {"$max": format!("${INSERT}")},
            "removes": {"$max": format!("${REMOVE}")},
        }};
        let pipeline = vec![doc! {"$match": self.pending_filter(ns, filter, me).await?}, group];
        let mut command = doc! {"aggregate": &ns.coll, "pipeline": pipeline, "cursor": {}};
        terms.add_to(&mut command);
        let groups = self.server.collect(&ns.db, command, 100_000).await?;
        groups.iter().map(|group| parse_pending(ns, group)).collect()
    }

    async fn roll_pending(&self, ns: &Namespace, pending: Vec<&Pending>, forward: bool) -> Result<()> {
        if pending.is_empty() {
            return Ok(());
        }
        self.server.at(Step::BeforeRepair).await;
        let writers: Vec<TxId> = pending.iter().map(|p| p.writer).collect();
        let (everything, server) = (Document::new(), &self.server);
        let done = match forward {
            true => roll::forward(server, ns, &everything, &writers, pending.iter().any(|p| p.removes)).await?,
            false => roll::back(server, ns, &everything, &writers, pending.iter().any(|p| p.inserts)).await?,
        };
        let counters = &self.server.counters;
        counters.add(if forward { &counters.rolled_forward } else { &counters.rolled_back }, done as u64);
        self.server.at(Step::AfterRepair).await;
        Ok(())
    }
}

fn parse_pending(ns: &Namespace, group: &Document) -> Result<Pending> {
    let writer = group.get("_id").and_then(tx_id_from_bson).ok_or_else(|| {
        let found = group.get("_id").unwrap_or(&Bson::Null);
        Error::new(ErrorKind::Corruption, format!("{ns} has documents with a malformed {WRITER:?}: {found}"))
    })?;
    Ok(Pending {
        writer,
        inserts: group.get_bool("inserts").unwrap_or(false),
        removes: group.get_bool("removes").unwrap_or(false),
    })
}
