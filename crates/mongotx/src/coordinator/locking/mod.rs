//! The locking of documents: prepared writes, read locks, and unique values between them.
//!
//! | file | content |
//! | --- | --- |
//! | this one | [`Locking`], and what all ways of locking share |
//! | [`change`], [`target`] | the change that a write makes, the document that it is to be made to, and the statements for both |
//! | [`single_write`] | locks and changes one document, however many attempts that takes |
//! | [`returning_write`] | the same by one `findAndModify`, which returns the document |
//! | [`find_and_lock`], [`found_document`] | finds the document, too, by any of its fields |
//! | [`known_key`] | the same, where this client knows which document has the key of a unique index |
//! | [`batch`], [`batch_answer`] | several documents, each with a change of its own; what the answer shows |
//! | [`merged_statement`] | the same by one statement, if the changes differ in nothing but constants |
//! | [`multi_write`] | many documents, with the same change |
//! | [`consequences`] | what has to be examined once a change is made |
//! | [`locate`] | which address the document with an `_id` has |
//! | [`read_locks`], [`unique`] | read locks; unique indexes between pending and committed values |
//!
//! Nothing here decides anything: a lock is what the server stores.

pub(crate) mod batch;
pub(crate) mod batch_answer;
pub(crate) mod change;
pub(crate) mod consequences;
pub(crate) mod find_and_lock;
pub(crate) mod found_document;
mod known_key;
pub(crate) mod locate;
mod merged_statement;
pub(crate) mod multi_write;
pub(crate) mod read_locks;
pub(crate) mod returning_write;
pub(crate) mod single_write;
pub(crate) mod target;
pub(crate) mod unique;

use std::sync::Arc;

use protocol::TxId;

use self::{read_locks::ReadLocks, target::Target, unique::Uniqueness};
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
        let hurry = |holder| self.finisher.hurry(holder);
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
