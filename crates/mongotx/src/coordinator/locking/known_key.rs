//! Writes of a document that a statement names by a key of a unique index, where this client knows
//! the `_id` that the key had ([`KnownKeys`](crate::coordinator::catalog::KnownKeys)): they are
//! sent as writes by the `_id`, and demand everything that the filter says of that document.
//!
//! A transaction that waits for a document stands in a queue by its `_id`
//! ([`crate::coordinator::siblings`]). A statement that does not know the `_id` would pass the
//! queue by, or be refused by the server again and again. So a document that was wanted in vain is
//! noted as that: the next statement with this key, and no other demand, waits in turn for it.
//!
//! Nothing is decided by what is known. A document that has another key by now is not matched by
//! the statement, is forgotten, and the caller goes on as if nothing had been known.

use bson::Document;
use sd2v::filter::{demands_only, plain_demands};

use super::{
    Locking,
    change::Change,
    found_document::{FoundDocument, NeededAnswer, SortRank},
    target::Target,
};
use crate::{
    coordinator::{
        catalog::{Collection, KnownDocument},
        request::{address::Address, own_key::id_key, query::Query},
        transaction::Transaction,
    },
    error::{ErrorKind, Result},
    options::Namespace,
};

/// The result of a write that names a document by a key.
pub(super) enum KnownKeyResult {
    /// No document is known by the key, or the change takes more than naming it.
    Unknown,
    /// The document was locked and changed.
    Done(Box<FoundDocument>),
    /// The document was not locked: another transaction has it, another document has the key, or
    /// the change takes more than one statement.
    NotThis,
}

impl Locking {
    /// Locks and changes the document that is known by the key of the query, if it still matches.
    /// Waits for it before, if others wanted it by the same key. For what
    /// [`Locking::find_and_prepare`] could do as well.
    pub(super) async fn prepare_known(
        &self,
        tx: &mut Transaction,
        ns: &Namespace,
        collection: &Collection,
        query: &Query,
        change: &Change<'_>,
        asked: NeededAnswer<'_>,
    ) -> Result<KnownKeyResult> {
        // Several documents match if the index is gone by now, and the first of them is asked for.
        let Some(key) = key_of(tx, ns, collection, query).filter(|_| query.sort.is_none()) else {
            return Ok(KnownKeyResult::Unknown);
        };
        let Some(KnownDocument { id, is_wanted }) = self.known_by(tx, ns, &key) else {
            return Ok(KnownKeyResult::Unknown);
        };
        // Treated as a document that was selected just now: a lock on it is a conflict. A filter
        // that demands more may not be about the document at all, and waits for nothing.
        let chosen = is_wanted && demands_only(&query.filter, &key);
        if !chosen && plain_demands(&query.filter).is_none() {
            return Ok(KnownKeyResult::Unknown);
        }
        if !chosen && tx.claims.as_ref().is_some_and(|claims| claims.is_taken_by_another(ns, id_key(&id))) {
            return Ok(KnownKeyResult::NotThis);
        }
        let at = Address::bare(id);
        let target = Target { ns, at: &at, filter: &query.filter, options: &query.options, chosen };
        match self.prepare_returning(tx, &target, change, asked.stored_fields()).await {
            Ok(Some(shown)) => {
                // Another transaction may have waited for the document in vain meanwhile, and
                // forgotten its key.
                match chosen {
                    true => self.catalog.known_keys.wanted(ns, &key, &at.id),
                    false => self.catalog.known_keys.saw(ns, &key, &at.id),
                }
                let shown = asked.is_shown.then_some(shown);
                Ok(KnownKeyResult::Done(Box::new(FoundDocument { at, shown, rank: SortRank::Any })))
            }
            Ok(None) => {
                self.forget_known(tx, ns, &key, &at);
                Ok(KnownKeyResult::NotThis)
            }
            Err(error) => {
                // The document may have another key by now: the next attempt finds out.
                if error.kind() == ErrorKind::Conflict {
                    self.forget_known(tx, ns, &key, &at);
                }
                Err(error)
            }
        }
    }

    /// The document that is known by the key, unless the transaction has written to it.
    fn known_by(&self, tx: &Transaction, ns: &Namespace, key: &Document) -> Option<KnownDocument> {
        let known = self.catalog.known_keys.get(ns, key);
        let known = known.or_else(|| tx.seen.get(ns, key).map(KnownDocument::seen));
        known.filter(|known| tx.is_untouched(ns, &known.id))
    }

    fn forget_known(&self, tx: &Transaction, ns: &Namespace, key: &Document, at: &Address) {
        self.catalog.known_keys.forget(ns, key, &at.id);
        tx.seen.forget(ns, key);
    }

    /// This document has the key that the query names, and could not be locked at once.
    pub(crate) async fn note_wanted(
        &self,
        tx: &Transaction,
        ns: &Namespace,
        query: &Query,
        change: &Change<'_>,
        at: &Address,
    ) -> Result<()> {
        // A change that takes more than one statement is not tried by the key.
        if !change.is_one_statement() || !tx.is_untouched(ns, &at.id) {
            return Ok(());
        }
        let collection = self.catalog.look_up(ns).await?;
        if let Some(key) = key_of(tx, ns, &collection, query).filter(|key| demands_only(&query.filter, key)) {
            self.catalog.known_keys.wanted(ns, &key, &at.id);
        }
        Ok(())
    }
}

/// `None`: the query names no key, or the key may be that of a document of the transaction's own.
fn key_of(tx: &Transaction, ns: &Namespace, collection: &Collection, query: &Query) -> Option<Document> {
    if tx.has_new_keys(ns) { None } else { collection.pinned_key(&query.filter) }
}
