//! The transactions whose unsafe versions a reader sees, and conditions on the write lock for them.
//! What they see is mapped in `view`.

use bson::{Bson, Document, doc};
use protocol::TxId;

use crate::names::tx_id_to_bson;

/// The transactions whose unsafe versions a reader sees in a collection: its own, and committed
/// ones whose documents cannot be finished. Not empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Visible(Vec<TxId>);

impl Visible {
    /// `None` when there are none: then safe versions alone are read.
    pub fn of(writers: impl IntoIterator<Item = TxId>) -> Option<Self> {
        let writers: Vec<TxId> = writers.into_iter().collect();
        (!writers.is_empty()).then_some(Self(writers))
    }

    /// The transactions whose unsafe versions are visible.
    pub fn writers(&self) -> &[TxId] {
        &self.0
    }

    /// The condition on the write lock that one of them holds it.
    pub fn holds(&self) -> Bson {
        match self.0.as_slice() {
            [one] => tx_id_to_bson(*one),
            several => doc! {"$in": list(several)}.into(),
        }
    }

    /// The condition on the write lock that none of them holds it.
    pub fn holds_not(&self) -> Document {
        match self.0.as_slice() {
            [one] => doc! {"$ne": tx_id_to_bson(*one)},
            several => doc! {"$nin": list(several)},
        }
    }
}

impl From<TxId> for Visible {
    fn from(one: TxId) -> Self {
        Self(vec![one])
    }
}

fn list(writers: &[TxId]) -> Vec<Bson> {
    writers.iter().copied().map(tx_id_to_bson).collect()
}
