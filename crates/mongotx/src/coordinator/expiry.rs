//! TTL indexes and what a transaction holds: the last look before the decision.
//!
//! The server removes expired documents for an index that holds unlocked ones only. But when it
//! meets a conflict with the statement that locks one, it looks at the document again, and then at
//! its date alone: a document whose *safe* version had expired when it was locked may be removed
//! afterwards, however far the transaction has prolonged it.
//!
//! 1. Before the decision, the safe version of every such document is removed, in one step: it has
//!    expired, so no reader needs it, and without its date the server leaves the document alone.
//! 2. The same command counts what the transaction holds. A document that is gone was removed
//!    before that: nothing is decided.
//!
//! After it, nothing that the transaction changed can be removed. What had not expired by then, by
//! the server's clock and after every lock was acknowledged, had not when it was locked, and
//! whatever the server begins later does not find it. (The one exception are collections where the
//! date is part of the shard key, which must stay.)

use std::sync::Arc;

use bson::doc;
use protocol::TxId;
use sd2v::{index::Expiry, statement};

use super::{
    catalog::Catalog,
    finishing::finisher::IDS_PER_STATEMENT,
    request::{
        address::{Address, among},
        fields::Fields,
        own_key::OwnKey,
    },
    server::Server,
    transaction::Transaction,
};
use crate::{
    error::{Error, ErrorKind, Result},
    options::Namespace,
};

/// The last look at what a transaction holds under TTL indexes.
pub(crate) struct Expiries {
    server: Arc<Server>,
    catalog: Arc<Catalog>,
}

impl Expiries {
    pub(crate) fn new(server: Arc<Server>, catalog: Arc<Catalog>) -> Self {
        Self { server, catalog }
    }

    /// Both steps, in every collection with a TTL index. An error is certain: nothing is decided.
    pub(crate) async fn outlive(&self, tx: &mut Transaction) -> Result<()> {
        let Some(me) = tx.id() else { return Ok(()) };
        for ns in tx.namespaces_locked() {
            let collection = self.catalog.look_up(&ns).await?;
            let expiries: Vec<Expiry> = collection.indexes.iter().filter_map(|index| index.expiry()).collect();
            if expiries.is_empty() {
                continue;
            }
            tx.may_insert(&ns);
            for some in tx.locked(&ns).chunks(IDS_PER_STATEMENT) {
                Box::pin(self.outlive_some(tx, me, &ns, some, &expiries)).await?;
            }
        }
        Ok(())
    }

    async fn outlive_some(
        &self,
        tx: &mut Transaction,
        me: TxId,
        ns: &Namespace,
        some: &[Address],
        expiries: &[Expiry],
    ) -> Result<()> {
        let key = self.catalog.shard_key(ns).await?;
        let kept: Vec<&str> = key.fields().map(|field| field.split('.').next().unwrap_or(field)).collect();
        let over = expiries.iter().map(|expiry| statement::outlive(among(some), me, expiry.is_over(), &kept));
        let statements: Vec<_> = over.chain([statement::look(among(some), me)]).collect();
        let command = doc! {"update": &ns.coll, "updates": statements};
        let answer = self.server.send_prepared(tx, ns, command, &Fields::All).await?.ok()?;
        // The look changes nothing.
        if answer.n - answer.modified == some.len() as i64 {
            return Ok(());
        }
        let Some(gone) = self.first_gone(me, ns, some).await? else { return Ok(()) };
        let message = format!(
            "the document {{_id: {gone}}} of {ns} is gone: it had expired when the transaction locked it, and the server has removed it since, or a program that does not use MongoTx has"
        );
        Err(Error::new(ErrorKind::Conflict, message))
    }

    /// Fewer documents than addresses: two addresses may be the same document's, where their `_id`s
    /// are equal for the server and not the same (numbers of two types, strings of a collation).
    async fn first_gone<'a>(&self, me: TxId, ns: &Namespace, some: &'a [Address]) -> Result<Option<&'a Address>> {
        let there = self.server.held_among(ns, some, me).await?;
        for at in some.iter().filter(|at| !there.contains(&OwnKey::of(&at.id))) {
            if self.server.held_among(ns, std::slice::from_ref(at), me).await?.is_empty() {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }
}
