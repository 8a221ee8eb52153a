//! Changes of collections and indexes for the application that have to wait for transactions.
//!
//! None of it is part of a transaction: it takes effect at once, and stays when the caller's
//! transaction is rolled back.
//!
//! | file | content |
//! | --- | --- |
//! | this one | creating collections, and changing their options |
//! | [`indexes`] | creating indexes |
//! | [`comparison`] | whether an index that is to be made is one that is there |
//! | [`unlocked`] | waiting until nothing in a collection is locked |
//! | [`writers`] | waiting for all writers that work by an older look-up |
//!
//! [`super::catalog`] knows the collections, and makes the changes that need not wait for
//! transactions.

mod comparison;
mod indexes;
mod unlocked;
mod writers;

use std::sync::Arc;

use bson::Document;
use sd2v::text::SCRATCH;

pub(crate) use self::comparison::same_collation;
use super::{
    catalog::{Catalog, check_created, is_scratch, switches_on, with_options},
    finishing::repairs::Repairs,
    log::{records::Records, txlog::TxLog},
    queries::pending::Pending,
    server::Server,
};
use crate::{
    error::{Error, Result},
    options::{ChangeStreams, ClientOptions, Namespace},
};

/// Number of MongoDB's error code `InvalidNamespace`.
const INVALID_NAME: i32 = 73;

/// Changes of collections and indexes that have to wait for transactions.
pub(crate) struct Schema {
    server: Arc<Server>,
    log: Arc<dyn TxLog>,
    catalog: Arc<Catalog>,
    repairs: Arc<Repairs>,
    pending: Arc<Pending>,
    records: Records,
    options: Arc<ClientOptions>,
}

impl Schema {
    pub(crate) fn new(
        server: Arc<Server>,
        log: Arc<dyn TxLog>,
        catalog: Arc<Catalog>,
        repairs: Arc<Repairs>,
        pending: Arc<Pending>,
        options: Arc<ClientOptions>,
    ) -> Self {
        let records = Records::new(&options.tx_database);
        Self { server, log, catalog, repairs, pending, records, options }
    }

    /// Creates a collection, a time series or a view. A validator is stored as transactions need
    /// it.
    pub(crate) async fn create_collection(&self, ns: &Namespace, options: &Document) -> Result<()> {
        if is_scratch(&ns.coll) {
            let message = format!("the collection name {:?} is reserved: it begins with {SCRATCH:?}", ns.coll);
            return Err(Error::invalid(INVALID_NAME, message));
        }
        check_created(ns, options)?;
        self.server.run_directly(&ns.db, with_options("create", ns, options)?).await?;
        self.catalog.forget(ns);
        if switches_on(options) && self.options.change_streams != ChangeStreams::All {
            // Others may know another collection of this name.
            self.wait_for_writers(ns, false).await?;
        }
        if !["viewOn", "timeseries", "capped"].iter().any(|kind| options.contains_key(kind)) {
            // Now it costs nothing; the first query of a collection that has grown would wait for
            // it, or scan. Without it transactions work as well.
            self.catalog.index_new(ns).await;
        }
        Ok(())
    }

    /// Changes options of a collection or a view. A validator is stored as transactions need it.
    /// Returns what was changed of an index: `expireAfterSeconds_old`, `hidden_new` and so on.
    pub(crate) async fn modify_collection(&self, ns: &Namespace, options: &Document) -> Result<Document> {
        let will_be_watched = self.catalog.will_be_watched(ns, options).await?;
        // Until the catalog has forgotten what it knew, reads may rest on it.
        let change = self.server.own_changes().writing(ns);
        let modified = match options.get_document("index") {
            Ok(change) => self.catalog.modify_index(ns, options, change).await,
            Err(_) => self.catalog.modify(ns, options).await,
        };
        self.catalog.forget(ns);
        change.over();
        if will_be_watched && modified.is_ok() {
            self.wait_for_writers(ns, true).await?;
        }
        modified
    }
}
