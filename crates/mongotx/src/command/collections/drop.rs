//! Dropping collections and databases for the application.
//!
//! None of it is part of a transaction: it takes effect at once, and stays when the caller's
//! transaction is rolled back. Once nothing is locked, it goes on when the caller's future is
//! dropped: the lock on the sequence of events would stay.

use std::sync::Arc;

use bson::{Document, doc};
use futures_util::FutureExt;

use super::{collection_events::with_events, to_its_end::to_its_end};
use crate::{
    coordinator::{
        Core,
        catalog::{MAX_COLLECTIONS, NO_SUCH_COLLECTION, is_scratch},
        finishing::lock_wait::LockWait,
    },
    error::{Error, Result},
    options::Namespace,
};

/// Drops a collection when nothing in it is locked any more; one that is not there is no error.
pub(crate) async fn drop_collection(core: &Arc<Core>, ns: &Namespace) -> Result<()> {
    if let Some(reason) = core.catalog.never_written(ns) {
        return Err(Error::unsupported(format!("{ns} cannot be dropped: {reason}")));
    }
    if core.catalog.look_up(ns).await?.unlockable.is_none() {
        core.schema.until_unlocked(ns, "dropped", &mut LockWait::new(core.options.write_wait)).await?;
    }
    let dropping = drop_unlocked(Arc::clone(core), ns.clone());
    to_its_end(core, &format!("dropping {ns}"), dropping).await
}

async fn drop_unlocked(core: Arc<Core>, ns: Namespace) -> Result<()> {
    let event = core.catalog.dropped_event(&ns).await?;
    // Until the catalog has forgotten what it knew, reads may rest on it.
    let change = core.server.own_changes().writing(&ns);
    let command = core.server.run_directly(&ns.db, doc! {"drop": &ns.coll}).boxed();
    let dropped = match event {
        Some(event) => with_events(&core, vec![event], command).await,
        None => command.await,
    };
    let dropped = match dropped {
        Err(error) if error.code() == Some(NO_SUCH_COLLECTION) => Ok(()),
        other => other.map(drop),
    };
    core.catalog.forget(&ns);
    change.over();
    dropped
}

/// Drops a database when nothing in it is locked any more.
pub(crate) async fn drop_database(core: &Arc<Core>, db: &str) -> Result<()> {
    if db == core.options.tx_database {
        let message = format!("the database {db:?} cannot be dropped: it holds the records of all clients");
        return Err(Error::unsupported(message));
    }
    let mut lock_wait = LockWait::new(core.options.write_wait);
    let mut events = Vec::new();
    let list = doc! {"listCollections": 1, "nameOnly": true, "filter": {"type": "collection"}, "cursor": {}};
    for info in core.server.collect(db, list, MAX_COLLECTIONS).await? {
        let name = info.get_str("name").unwrap_or_default();
        let ns = Namespace::new(db, name);
        if !is_scratch(name) && core.catalog.look_up(&ns).await?.unlockable.is_none() {
            core.schema.until_unlocked(&ns, "dropped", &mut lock_wait).await?;
            events.extend(core.catalog.dropped_event(&ns).await?);
        }
    }
    let dropping = drop_unlocked_database(Arc::clone(core), db.to_owned(), events);
    to_its_end(core, &format!("dropping the database {db:?}"), dropping).await
}

async fn drop_unlocked_database(core: Arc<Core>, db: String, mut events: Vec<Document>) -> Result<()> {
    // Until the catalog has forgotten what it knew of the database, reads may rest on it.
    let change = core.server.own_changes().changing_any();
    let command = core.server.run_directly(&db, doc! {"dropDatabase": 1}).boxed();
    let dropped = if events.is_empty() {
        command.await.map(drop)
    } else {
        events.push(doc! {"operationType": "dropDatabase", "ns": {"db": &db}});
        with_events(&core, events, command).await.map(drop)
    };
    core.catalog.forget_database(&db);
    change.over();
    dropped
}
