//! Inserts of several documents in a transaction, batch by batch. The first of a batch that is
//! refused is inserted alone ([`super::insert`]), which finds out why; the rest is sent again.

use std::slice;

use bson::{Bson, Document};
use protocol::TxId;
use sd2v::{index::Unique, shard::ShardKey, stored::pending_insert};

use super::{
    insert::{BATCH, BATCH_BYTES, check_pending, one, send, with_id},
    unique_inserts::{PlacedInserts, place_compared},
};
use crate::{
    coordinator::{
        Core,
        finishing::lock_wait::LockWait,
        locking::unique::{PlacedDocument, PriorState},
        request::address::Address,
        transaction::{Hold, Transaction},
    },
    error::{Error, Progress, Result, WriteError},
    options::Namespace,
};

/// Inserts several documents in a transaction. Returns their `_id`s; an error carries what was
/// refused and how many were inserted.
pub(crate) async fn insert_many(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    documents: Vec<Document>,
    ordered: bool,
) -> Result<Vec<Bson>> {
    let mut batch = Batch { ids: Vec::with_capacity(documents.len()), refused: Vec::new(), ordered };
    let mut waiting: Vec<(usize, Document)> = Vec::new();
    let mut bytes = 0;
    let last = documents.len().saturating_sub(1);
    for (index, document) in documents.into_iter().enumerate() {
        let (id, document) = with_id(document);
        bytes += document.to_vec().map_or(0, |bytes| bytes.len());
        batch.ids.push(id);
        waiting.push((index, document));
        if waiting.len() >= BATCH || bytes >= BATCH_BYTES || index == last {
            bytes = 0;
            if !batch.insert(core, tx, ns, std::mem::take(&mut waiting)).await? {
                break;
            }
        }
    }
    batch.finish(ns)
}

fn addresses(documents: &[(usize, Document)], key: &ShardKey) -> Result<Vec<Address>> {
    documents.iter().map(|(_, document)| Address::of(document, key)).collect()
}

/// Places documents, which are `stored` so: compared by the same command where that can be, else by
/// an `insert`.
async fn place_several(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    uniques: &[Unique],
    stored: Vec<Document>,
    documents: &[&Document],
    me: TxId,
) -> Result<PlacedInserts> {
    if let Some(placed) = place_compared(core, tx, ns, uniques, &stored, documents, me).await? {
        return Ok(placed);
    }
    let sent = stored.len();
    if sent == 0 {
        return Ok(PlacedInserts::default());
    }
    let answer = send(core, tx, ns, stored, true).await?;
    let done = answer.errors.first().map_or(sent, |(at, _)| *at);
    Ok(PlacedInserts { done, ..PlacedInserts::default() })
}

/// Result of the inserts of one command so far.
struct Batch {
    ids: Vec<Bson>,
    refused: Vec<WriteError>,
    ordered: bool,
}

impl Batch {
    /// Inserts the documents. `false`: an error stops an ordered command here.
    async fn insert(
        &mut self,
        core: &Core,
        tx: &mut Transaction,
        ns: &Namespace,
        documents: Vec<(usize, Document)>,
    ) -> Result<bool> {
        let me = core.lifecycle.ensure_started(tx, ns).await?;
        let collection = core.catalog.admit_writes(ns, me).await?;
        let key = core.catalog.shard_key(ns).await?;
        let mut rest = &documents[..];
        while !rest.is_empty() {
            // Up to the first that cannot even be sent.
            let stored = rest.iter().map_while(|(_, document)| {
                let checked = check_pending(document).and_then(|()| collection.check_words(document));
                checked.and_then(|()| Ok(pending_insert(me, document, &key)?)).ok()
            });
            let stored: Vec<Document> = stored.collect();
            let sent = stored.len();
            let at = addresses(&rest[..sent], &key)?;
            let owned: Vec<bool> = at.iter().map(|at| tx.may_hold(ns, &at.id)).collect();
            tx.hold(&core.options, ns, &at, Hold::Insert)?;
            let documents: Vec<&Document> = rest[..sent].iter().map(|(_, document)| document).collect();
            let PlacedInserts { done, are_compared, .. } =
                place_several(core, tx, ns, &collection.uniques, stored, &documents, me).await?;
            if owned[..done].contains(&true) {
                core.standings.vouch_for_lock(tx).await?;
            }
            let uniques = if are_compared { &[] } else { &collection.uniques[..] };
            let is_stopped = !self.check_batch(core, tx, ns, uniques, &rest[..done]).await?;
            tx.set_half_done(false);
            if is_stopped {
                return Ok(false);
            }
            // The one that was refused goes the slow way, which finds out why.
            if let Some((index, document)) = rest.get(done) {
                let inserted = one(core, tx, ns, document.clone()).await;
                if let Err(error) = tx.end_write(inserted)
                    && !self.note(*index, error)?
                {
                    return Ok(false);
                }
            }
            rest = rest.get(done + 1..).unwrap_or_default();
        }
        Ok(true)
    }

    /// A document was refused. False: stop here.
    fn note(&mut self, index: usize, error: Error) -> Result<bool> {
        if error.ends_transaction() {
            return Err(error);
        }
        self.refused.push(WriteError::new(index, error));
        if self.ordered {
            self.ids.truncate(index);
        }
        Ok(!self.ordered)
    }

    /// Returns true if the documents that were just inserted are unique. False: stop here; what was
    /// inserted behind a duplicate, where the order counts, is taken back.
    async fn check_batch(
        &mut self,
        core: &Core,
        tx: &mut Transaction,
        ns: &Namespace,
        uniques: &[Unique],
        placed: &[(usize, Document)],
    ) -> Result<bool> {
        let documents: Vec<&Document> = placed.iter().map(|(_, document)| document).collect();
        let own = |tx: &mut Transaction, these: &[(usize, Document)]| {
            tx.note_own(ns, these.iter().filter_map(|(_, document)| document.get("_id")));
        };
        let asked = match tx.id().filter(|_| !uniques.is_empty()) {
            Some(me) => core.uniqueness.first_duplicate(tx, ns, uniques, &documents, me).await?.map(|from| (me, from)),
            None => None,
        };
        let Some((me, from)) = asked else {
            own(tx, placed);
            return Ok(true);
        };
        own(tx, &placed[..from]);
        let key = core.catalog.shard_key(ns).await?;
        let mut lock_wait = LockWait::new(tx.lock_wait());
        for (place, (index, document)) in placed.iter().enumerate().skip(from) {
            let at = &Address::of(document, &key)?;
            let one = PlacedDocument { ns, at, uniques, before: &PriorState::Absent, inserted: Some(document) };
            if let Err(error) = core.uniqueness.check_placed(tx, &one, me, &mut lock_wait).await {
                // Those behind it are placed as well, and not checked.
                let error = if error.is_clean() { error } else { error.ending() };
                let behind = addresses(&placed[place + 1..], &key)?;
                if !self.note(*index, error)? {
                    core.server.take_back_inserts(tx, ns, &behind).await?;
                    return Ok(false);
                }
            } else {
                own(tx, slice::from_ref(&placed[place]));
            }
        }
        Ok(true)
    }

    fn finish(self, ns: &Namespace) -> Result<Vec<Bson>> {
        let Some(first) = self.refused.first() else { return Ok(self.ids) };
        let refused_here = if self.ordered { 0 } else { self.refused.len() };
        let progress = Progress { inserted: (self.ids.len() - refused_here) as u64, ..Progress::default() };
        let message =
            format!("{} of the documents inserted into {ns} refused; the first: {}", self.refused.len(), first.message);
        Err(Error::invalid(first.code, message).with_write_errors(self.refused).with_progress(progress))
    }
}
