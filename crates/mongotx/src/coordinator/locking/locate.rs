//! Addresses of documents: the `_id`, and on a sharded collection the values of the shard key
//! besides. Commands about single documents name them. An address is likely only; statements carry
//! their own conditions.

use std::sync::Arc;

use bson::{Bson, Document};

use crate::{
    coordinator::{
        catalog::Catalog,
        request::{address::Address, query_options::QueryOptions},
        server::Server,
        transaction::Transaction,
    },
    error::Result,
    options::Namespace,
};

/// Finds the address of the document with an `_id`.
pub(crate) struct Locator {
    server: Arc<Server>,
    catalog: Arc<Catalog>,
}

impl Locator {
    pub(crate) fn new(server: Arc<Server>, catalog: Arc<Catalog>) -> Self {
        Self { server, catalog }
    }

    /// Address of the document with this `_id`: from what the transaction holds, from the filter,
    /// or else by asking. Without such a document it is the `_id` alone: a command for it finds
    /// nothing, on whatever shards.
    pub(crate) async fn locate(
        &self,
        tx: Option<&Transaction>,
        ns: &Namespace,
        id: Bson,
        filter: &Document,
        options: &QueryOptions,
    ) -> Result<Address> {
        let key = self.catalog.shard_key(ns).await?;
        if key.is_empty() {
            return Ok(Address::bare(id));
        }
        if let Some(held) = tx.and_then(|tx| tx.address_of(ns, &id)).filter(|held| !held.key().is_empty()) {
            return Ok(held.clone());
        }
        let named = Address::named(id, filter, options, &key);
        if !named.key().is_empty() {
            return Ok(named);
        }
        Box::pin(self.server.ask_where(ns, named, &key)).await
    }
}
