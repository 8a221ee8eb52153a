//! Consequences that have to be examined once a change is made, and taken back where they do not
//! stand: values of unique indexes, the shard key, words of text indexes.

use bson::Document;
use protocol::TxId;
use sd2v::{index::Unique, shard::ShardKey, update::Update};

use super::{
    Locking,
    change::Change,
    target::Target,
    unique::{PlacedDocument, PriorState},
};
use crate::{
    coordinator::{catalog::Collection, finishing::lock_wait::LockWait, transaction::Transaction},
    error::{Error, Result},
    options::Namespace,
};

/// Effects that a change may have besides changing the document.
pub(crate) struct Consequences {
    /// Unique indexes whose values it may change.
    pub(super) touched: Vec<Unique>,
    /// True if it may change the shard key.
    pub(super) may_move: bool,
    /// True if it may change what a text index holds.
    pub(super) worded: bool,
    pub(super) key: ShardKey,
}

impl Consequences {
    pub(crate) fn are_none(&self) -> bool {
        self.touched.is_empty() && !self.may_move && !self.worded
    }
}

impl Locking {
    /// The effects that have to be examined once this change is made.
    pub(crate) async fn consequences(
        &self,
        collection: &Collection,
        target: &Target<'_>,
        change: &Change<'_>,
    ) -> Result<Consequences> {
        self.consequences_at(collection, target.ns, target.at.key(), change).await
    }

    /// The same, where no more than the shard key of the document is known. It is empty where there
    /// is none.
    pub(crate) async fn consequences_at(
        &self,
        collection: &Collection,
        ns: &Namespace,
        shard_key: &Document,
        change: &Change<'_>,
    ) -> Result<Consequences> {
        let key = self.catalog.shard_key(ns).await?;
        Ok(match change {
            Change::Update { update, .. } if !change.is_lock() => Consequences {
                touched: collection.uniques_touched(update),
                may_move: key.may_be_changed(update, shard_key),
                worded: !matches!(update, Update::Replacement(_)) && collection.words_touched(update),
                key,
            },
            _ => Consequences { touched: Vec::new(), may_move: false, worded: false, key },
        })
    }

    /// A change of the shard key is taken back.
    pub(super) async fn refuse_move(
        &self,
        tx: &mut Transaction,
        placed: &PlacedDocument<'_>,
        key: &ShardKey,
        me: TxId,
        lock_wait: &mut LockWait,
    ) -> Result<()> {
        let kept = self.server.refuse_changed_key(placed.ns, placed.at, key, me).await?;
        if kept.is_err() {
            self.uniqueness.put_back(tx, placed, me, lock_wait).await?;
        }
        kept.map_err(Error::clean)
    }

    /// Takes a change back that a text index could not hold: the server would refuse it when it is
    /// finished.
    pub(crate) async fn refuse_words(
        &self,
        tx: &mut Transaction,
        placed: &PlacedDocument<'_>,
        collection: &Collection,
        me: TxId,
        lock_wait: &mut LockWait,
    ) -> Result<()> {
        let PriorState::Unsafe(now) = self.uniqueness.before(tx, placed.ns, placed.at).await? else { return Ok(()) };
        let kept = collection.check_words(&now);
        if kept.is_err() {
            self.uniqueness.put_back(tx, placed, me, lock_wait).await?;
        }
        kept.map_err(Error::clean)
    }
}
