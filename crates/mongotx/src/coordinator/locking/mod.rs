//! The locking of documents: prepared writes, read locks, and unique values between them.
//!
//! | file | content |
//! | --- | --- |
//! | this one | [`Locking`], and what all ways of locking share |
//! | [`change`], [`target`] | the change that a write makes, the document that it is to be made to, and the statements for both |
//! | [`one`] | locks and changes one document, however many attempts that takes |
//! | [`shown`] | the same by one `findAndModify`, which shows the document |
//! | [`find`], [`found`] | finds the document, too, by any of its fields |
//! | [`by_key`] | documents that several want by another key than their `_id` |
//! | [`each`], [`answered_each`] | several documents, each with a change of its own; what the answer shows |
//! | [`one_shape`] | the same by one statement, if the changes differ in nothing but constants |
//! | [`many`] | many documents, with the same change |
//! | [`consequences`] | what has to be examined once a change is made |
//! | [`locate`] | which address the document with an `_id` has |
//! | [`read_locks`], [`unique`] | read locks; unique indexes between pending and committed values |
//!
//! Nothing here decides anything: a lock is what the server stores.

pub(crate) mod answered_each;
pub(crate) mod by_key;
pub(crate) mod change;
pub(crate) mod consequences;
pub(crate) mod each;
pub(crate) mod find;
pub(crate) mod found;
pub(crate) mod locate;
pub(crate) mod many;
pub(crate) mod one;
mod one_shape;
pub(crate) mod read_locks;
pub(crate) mod shown;
pub(crate) mod target;
pub(crate) mod unique;

use std::sync::Arc;

use protocol::TxId;

use self::{by_key::WantedKeys, read_locks::ReadLocks, target::Target, unique::Uniqueness};
use super::{
    catalog::Catalog,
    finishing::{finisher::Finisher, lock_wait::LockWait, repairs::Repairs},
    lifecycle::{Lifecycle, standing::Standings},
    queries::read_lease::Unprobed,
    request::own_key::id_key,
    server::Server,
    siblings::{Claim, Claimed, Claims},
};
use crate::{
    error::Result,
    options::{ClientOptions, Namespace},
};

/// Locks documents for transactions and changes them, in as few commands as the change allows.
pub(crate) struct Locking {
    pub(super) server: Arc<Server>,
    pub(super) finisher: Finisher,
    pub(super) catalog: Arc<Catalog>,
    pub(super) repairs: Arc<Repairs>,
    pub(super) unprobed: Arc<Unprobed>,
    pub(super) lifecycle: Arc<Lifecycle>,
    pub(super) standings: Arc<Standings>,
    pub(super) read_locks: Arc<ReadLocks>,
    pub(super) uniqueness: Arc<Uniqueness>,
    pub(super) wanted: WantedKeys,
    pub(super) options: Arc<ClientOptions>,
}

impl Locking {
    /// Claims the document among this client's transactions. `None`: the server decides.
    async fn claim<'c>(
        &self,
        claims: &'c Claims,
        target: &Target<'_>,
        lock_wait: &LockWait,
    ) -> Result<Option<Claim<'c>>> {
        let Target { ns, at, .. } = target;
        let hurry = |holder| self.finisher.ask(holder);
        match claims.claim(ns, id_key(&at.id), lock_wait.deadline().into(), hurry).await {
            Claimed::Alone(claim, waited) => {
                self.server.counters.add(&self.server.counters.waits, waited.into());
                Ok(Some(claim))
            }
            Claimed::Rival(rival) => Err(lock_wait.conflict(ns, &at.id, rival)),
            Claimed::Ask => Ok(None),
        }
    }

    /// Waits a moment for documents that a committed transaction of this client has left in a
    /// collection. Documents that are not finished by then are repaired by transactions that meet
    /// them.
    async fn finished(&self, ns: &Namespace, left: Option<TxId>) {
        if let Some(left) = left {
            self.finisher.unfinished(ns, vec![left]).await;
        }
    }
}
