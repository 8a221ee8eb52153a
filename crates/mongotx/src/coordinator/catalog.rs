//! What a client knows of the collections it writes to, asked once a minute and collection.

use std::{
    collections::HashMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use bson::{Document, doc};

use super::server::Server;
use crate::{
    error::{Error, Result},
    options::Namespace,
};

/// The index that finds pending documents, in proportion to what is in flight.
pub(crate) const PENDING_INDEX: &str = "_mongotx_pending";

const FRESH: Duration = Duration::from_secs(60);
const MAX_CACHED: usize = 10_000;
/// NamespaceNotFound.
const NO_SUCH_COLLECTION: i32 = 26;

/// What matters about a collection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Collection {
    /// Why no transaction may write to it.
    refused: Option<String>,
    /// Strings compare by its default collation, not by their bytes.
    pub(crate) has_collation: bool,
}

#[derive(Default)]
pub(crate) struct Catalog {
    known: Mutex<HashMap<Namespace, (Instant, Collection)>>,
    indexed: Mutex<HashMap<Namespace, ()>>,
}

impl Catalog {
    /// A collection as transactions see it. One that does not exist yet is an empty ordinary one.
    pub(crate) async fn look_up(&self, server: &Server, ns: &Namespace) -> Result<Collection> {
        if let Ok(known) = self.known.lock()
            && let Some((when, found)) = known.get(ns)
            && when.elapsed() < FRESH
        {
            return Ok(found.clone());
        }
        let Some(found) = inspect(server, ns).await? else { return Ok(Collection::default()) };
        if let Ok(mut known) = self.known.lock() {
            if known.len() >= MAX_CACHED {
                known.clear();
            }
            known.insert(ns.clone(), (Instant::now(), found.clone()));
        }
        Ok(found)
    }

    /// May transactions write to it?
    pub(crate) async fn admit_writes(&self, server: &Server, ns: &Namespace) -> Result<Collection> {
        let found = self.look_up(server, ns).await?;
        match &found.refused {
            Some(reason) => Err(Error::unsupported(format!("transactions cannot write to {ns}: {reason}"))),
            None => Ok(found),
        }
    }

    /// Makes sure that pending documents of `ns` are found by index. False when there is no such collection, and so
    /// nothing pending.
    pub(crate) async fn ensure_pending_index(&self, server: &Server, ns: &Namespace) -> Result<bool> {
        if self.indexed.lock().is_ok_and(|indexed| indexed.contains_key(ns)) {
            return Ok(true);
        }
        let Some(indexes) = list_indexes(server, ns).await? else { return Ok(false) };
        if !indexes.iter().any(|index| index.get_str("name").is_ok_and(|name| name == PENDING_INDEX)) {
            let index = doc! {"key": {sd2v::names::WRITER: 1}, "name": PENDING_INDEX, "sparse": true};
            if let Err(error) = server.run(&ns.db, doc! {"createIndexes": &ns.coll, "indexes": [index]}).await {
                // Without it (no privilege, a view, too many indexes) the same query scans the collection.
                tracing::debug!(%ns, %error, "the index on pending documents could not be created");
            }
        }
        if let Ok(mut indexed) = self.indexed.lock() {
            if indexed.len() >= MAX_CACHED {
                indexed.clear();
            }
            indexed.insert(ns.clone(), ());
        }
        Ok(true)
    }
}

async fn list_indexes(server: &Server, ns: &Namespace) -> Result<Option<Vec<Document>>> {
    match server.collect(&ns.db, doc! {"listIndexes": &ns.coll, "cursor": {}}, 1_000).await {
        Ok(indexes) => Ok(Some(indexes)),
        Err(error) if error.code() == Some(NO_SUCH_COLLECTION) => Ok(None),
        // Views and time series have no indexes of their own.
        Err(error) if error.code() == Some(166) => Ok(Some(Vec::new())),
        Err(error) => Err(error),
    }
}

async fn inspect(server: &Server, ns: &Namespace) -> Result<Option<Collection>> {
    let list = doc! {"listCollections": 1, "filter": {"name": &ns.coll}, "cursor": {}};
    let Some(info) = server.collect(&ns.db, list, 1).await?.pop() else { return Ok(None) };
    let options = info.get_document("options").cloned().unwrap_or_default();
    let kind = info.get_str("type").unwrap_or("collection").to_owned();
    let mut refused = refused_kind(ns, &kind, &options);
    if refused.is_none() {
        let indexes = list_indexes(server, ns).await?.unwrap_or_default();
        refused = indexes.iter().find_map(refused_index);
    }
    Ok(Some(Collection { refused, has_collation: options.contains_key("collation") }))
}

fn refused_kind(ns: &Namespace, kind: &str, options: &Document) -> Option<String> {
    if kind != "collection" {
        return Some(format!("it is a {kind}"));
    }
    if ns.coll.starts_with("system.") {
        return Some("it belongs to the server".to_owned());
    }
    if options.get_bool("capped").unwrap_or(false) {
        return Some("it is capped, and documents there cannot grow or be removed".to_owned());
    }
    if options.get_document("validator").is_ok_and(|validator| !validator.is_empty()) {
        return Some("its validator would see uncommitted documents; validators are not supported yet".to_owned());
    }
    None
}

fn refused_index(index: &Document) -> Option<String> {
    let name = index.get_str("name").unwrap_or("?");
    let key = index.get_document("key").cloned().unwrap_or_default();
    if index.get_bool("unique").unwrap_or(false) && key.keys().ne(["_id"]) {
        return Some(format!(
            "its unique index {name:?} does not see uncommitted documents; unique indexes are not supported yet"
        ));
    }
    // Such an index refuses some documents, and would do so when the transaction is committed and being finished.
    if let Some(kind) = key.values().find_map(bson::Bson::as_str) {
        return Some(format!(
            "its {kind} index {name:?} does not see uncommitted documents; such indexes are not supported yet"
        ));
    }
    if index.contains_key("expireAfterSeconds") {
        return Some(format!(
            "its TTL index {name:?} could remove a document that a transaction holds; TTL indexes are not supported yet"
        ));
    }
    None
}
