//! The collections that a client works on: their properties, and the changes to them that make
//! transactions safe.
//!
//! | file | |
//! | --- | --- |
//! | this one | looked up every few seconds and collection, once more when a record first names the collection |
//! | [`cache`] | results of look-ups, and the commands that may be working by them |
//! | [`collection`] | the properties of a collection that matter |
//! | [`known_keys`] | the `_id`s of documents by keys of unique indexes, as far as this client knows them |
//! | [`adopt`] | indexes and validator brought into the form that transactions need, before the first write |
//! | [`special`] | collections in which transactions can lock nothing |
//! | [`shards`] | shard keys |
//! | [`collections`] | listing collections for the application, and their options |
//! | [`watched`] | whether a change of options switches change streams on |
//! | [`wide`] | whether queries look for all writers first |
//! | [`modify`] | changing options of collections and indexes, by one command |
//! | [`indexes`] | listing and dropping indexes for the application |
//!
//! What has to wait for transactions besides is in [`super::schema`].

mod adopt;
mod cache;
mod collection;
pub(crate) mod collections;
pub(crate) mod indexes;
mod known_keys;
mod modify;
mod shards;
mod special;
mod watched;
mod wide;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use bson::{Document, doc};
use protocol::{ClientId, TxId};
use sd2v::{
    index::{PENDING_INDEX, pending_index},
    shard::ShardKey,
};
use tokio::{runtime::Handle, sync::watch, time::Instant};

use self::cache::CollectionCache;
pub(crate) use self::{
    adopt::{create as create_stored, drop_stored},
    collection::{Collection, ViewOptions, Watch},
    collections::{MAX_COLLECTIONS, is_scratch, with_options},
    known_keys::{KnownDocument, KnownKeys},
    shards::Shards,
    watched::{check_created, switches_on},
    wide::WideProbes,
};
use super::{server::Server, stamps::moment::Moment};
use crate::{
    error::{Error, ErrorKind, Result},
    numbers::as_i64,
    options::{ChangeStreams, ClientOptions, Namespace},
};

/// Time for which the look-up of a collection is trusted.
pub(crate) const FRESH: Duration = Duration::from_secs(10);
/// Number of pending documents from which on a collection is crowded.
const CROWD: i64 = 100;
/// Longest wait of a query for the index on pending documents.
const MOMENT: Duration = Duration::from_millis(500);
const MAX_CACHED: usize = 10_000;
/// Times that a collection is looked up because what was known of it was forgotten meanwhile.
const LOOKS: usize = 64;
/// Number of MongoDB's error code `NamespaceNotFound`.
pub(crate) const NO_SUCH_COLLECTION: i32 = 26;
/// Number of MongoDB's error code `CommandNotSupportedOnView`.
const NOT_ON_A_VIEW: i32 = 166;

/// The collections of one client, as it knows them. It sends its own commands, and knows nothing of
/// transactions but the numbers of their clients.
pub(crate) struct Catalog {
    server: Arc<Server>,
    /// Name of the database with the records of clients.
    tx_database: String,
    /// The collections that are watched.
    change_streams: ChangeStreams,
    pub(crate) shards: Shards,
    /// Documents by keys of unique indexes.
    pub(crate) known_keys: KnownKeys,
    cache: CollectionCache,
    /// Collections whose index on pending documents exists, or is being built: then with the time
    /// until which queries wait for it, and a channel that reports the end.
    indexed: Arc<Mutex<HashMap<Namespace, Option<Build>>>>,
    /// Id of the client whose record was last seen to name the collection. A unique index is made
    /// after a read of the records, which shows the clients to wait for: a look-up from before the
    /// record named the collection does not count.
    enlisted: Mutex<HashMap<Namespace, ClientId>>,
    /// The client's runtime: what is built there goes on though the caller's has ended.
    runtime: Handle,
}

/// A build of the index on pending documents.
#[derive(Clone)]
struct Build {
    /// Time from which on no query waits for it any more.
    deadline: Instant,
    is_over: watch::Receiver<bool>,
}

/// Adds to one of these caches; a cache that is full is emptied first.
fn remember<T>(cache: &Mutex<HashMap<Namespace, T>>, ns: &Namespace, value: T) {
    if let Ok(mut cache) = cache.lock() {
        if cache.len() >= MAX_CACHED {
            cache.clear();
        }
        cache.insert(ns.clone(), value);
    }
}

impl Catalog {
    pub(crate) fn new(server: Arc<Server>, shards: Shards, options: &ClientOptions) -> Self {
        Self {
            server,
            tx_database: options.tx_database.clone(),
            change_streams: options.change_streams,
            shards,
            known_keys: KnownKeys::default(),
            cache: CollectionCache::default(),
            indexed: Arc::default(),
            enlisted: Mutex::default(),
            runtime: Handle::current(),
        }
    }

    /// The shard key of a collection.
    pub(crate) async fn shard_key(&self, ns: &Namespace) -> Result<ShardKey> {
        self.shards.key(&self.server, ns).await
    }

    /// Reason why nothing may write to the collection or drop it, in a transaction or not.
    pub(crate) fn never_written(&self, ns: &Namespace) -> Option<&'static str> {
        special::never_written(ns, &self.tx_database)
    }

    /// Refuses a write for the collection's name, before any command is sent.
    pub(crate) fn check_written(&self, ns: &Namespace, in_transaction: bool) -> Result<()> {
        if let Some(reason) = self.never_written(ns) {
            return Err(Error::unsupported(format!("{ns} cannot be written to: {reason}")));
        }
        match self.unlockable_name(ns).filter(|_| in_transaction) {
            Some(reason) => Err(refused(ns, &reason)),
            None => Ok(()),
        }
    }

    fn unlockable_name(&self, ns: &Namespace) -> Option<String> {
        special::unlockable_name(ns, &self.tx_database)
    }

    /// A collection as transactions see it. One that does not exist yet is an empty ordinary one.
    pub(crate) async fn look_up(&self, ns: &Namespace) -> Result<Arc<Collection>> {
        // A view shows what its present definition says, so its definition is looked up each time.
        if let Some(found) = self.cache.get(ns).filter(|found| found.view.is_none()) {
            return Ok(found);
        }
        // Every command begins here and seldom comes so far: the room for it is on the heap.
        Box::pin(self.look_up_anew(ns)).await
    }

    async fn look_up_anew(&self, ns: &Namespace) -> Result<Arc<Collection>> {
        for _ in 0..LOOKS {
            let begun = self.cache.begin(ns);
            let inspected = inspect(&self.server, ns).await?;
            let is_there = inspected.is_some();
            let mut found = match inspected {
                Some((info, indexes)) => Collection::read(self.unlockable_name(ns), &info, &indexes),
                None => Collection::missing(self.unlockable_name(ns)),
            };
            if found.is_clustered {
                self.server.clustered.note(ns);
            }
            if self.change_streams == ChangeStreams::All && found.unlockable.is_none() && ns.db != self.tx_database {
                found.watch = found.watch.or(Some(Watch::Changes));
            }
            if found.has_mirrors() {
                found.crowded = is_crowded(&self.server, ns).await?;
            }
            // The collection was not forgotten meanwhile, so a unique index that is being made
            // waits for the users of this result.
            if let Some(found) = self.cache.learn(ns, begun, is_there, found) {
                return Ok(found);
            }
        }
        let message = format!("the indexes of {ns} changed {LOOKS} times while they were looked up");
        Err(Error::new(ErrorKind::Conflict, message))
    }

    /// Checks that transactions may write to the collection. If they may once its indexes and its
    /// validator are stored as they need them, that is done now.
    pub(crate) async fn admit_writes(&self, ns: &Namespace, me: TxId) -> Result<Arc<Collection>> {
        let enlisted = self.enlisted.lock().ok().and_then(|enlisted| enlisted.get(ns).copied());
        if enlisted != Some(me.client) {
            self.forget_look_up(ns);
            remember(&self.enlisted, ns, me.client);
        }
        self.prepared(ns).await
    }

    /// As [`Catalog::admit_writes`], for a write that may turn out to need a transaction.
    pub(crate) async fn prepared(&self, ns: &Namespace) -> Result<Arc<Collection>> {
        let mut found = self.look_up(ns).await?;
        if found.refused.is_none() && !found.is_adopted() {
            // What is adopted is stored again: an older look-up would bring back what others have
            // changed or dropped since.
            found = self.look_up_again(ns).await?;
        }
        if found.refused.is_none() && !found.is_adopted() {
            Box::pin(adopt::adopt(&self.server, ns, &found)).await?;
            found = self.look_up_again(ns).await?;
        }
        match &found.refused {
            Some(reason) => Err(refused(ns, reason)),
            None => Ok(found),
        }
    }

    /// The collection as it is now.
    async fn look_up_again(&self, ns: &Namespace) -> Result<Arc<Collection>> {
        self.forget_look_up(ns);
        self.look_up(ns).await
    }

    /// Look-ups that were sent up to this moment do not count any more: others have changed indexes
    /// before, without a notice that still shows it (decision 0071).
    pub(crate) fn outdate(&self, at: Moment) {
        self.cache.outdate(at);
    }

    /// Forgets the collection, which this client changes or has changed, and its documents. Returns
    /// the results of look-ups by which commands may still be working.
    pub(crate) fn forget(&self, ns: &Namespace) -> Vec<Weak<Collection>> {
        self.known_keys.forget_collection(ns);
        self.forget_look_up(ns)
    }

    /// Forgets the last look-up, so that the next one reads from the server.
    fn forget_look_up(&self, ns: &Namespace) -> Vec<Weak<Collection>> {
        if let Ok(mut indexed) = self.indexed.lock() {
            indexed.remove(ns);
        }
        self.cache.forget(ns)
    }

    /// Nothing that was known of the collections of a database counts any more.
    pub(crate) fn forget_database(&self, db: &str) {
        if let Ok(mut indexed) = self.indexed.lock() {
            indexed.retain(|ns, _| ns.db != db);
        }
        self.cache.forget_database(db);
        self.known_keys.forget_database(db);
    }

    /// Makes sure that pending documents of `ns` are found by an index, and waits a moment for it
    /// at most: without it the same query scans the collection. False when nothing can be pending
    /// there: the collection does not exist, or it is the server's own or a time series.
    pub(crate) async fn ensure_pending_index(&self, ns: &Namespace) -> Result<bool> {
        let known = self.indexed.lock().ok().and_then(|indexed| indexed.get(ns).cloned());
        if let Some(build) = known {
            until_over(build).await;
            return Ok(true);
        }
        if self.unlockable_name(ns).is_some() {
            return Ok(false);
        }
        let Some(indexes) = list_stored(&self.server, ns).await? else { return Ok(false) };
        let has = |wanted: &str| indexes.iter().any(|index| index.get_str("name").is_ok_and(|name| name == wanted));
        if !has("_id_") && self.look_up(ns).await?.is_series {
            return Ok(false);
        }
        if has(PENDING_INDEX) {
            remember(&self.indexed, ns, None);
        } else {
            until_over(self.begun_build(ns)).await;
        }
        Ok(true)
    }

    /// Builds that index on a collection that was made just now, and waits for its end: a build
    /// that comes late must not make the collection again after it was dropped.
    pub(crate) async fn index_new(&self, ns: &Namespace) {
        index_pending(&self.server, ns, &self.indexed).await;
    }

    /// The build that is under way, or is begun now. It goes on by itself: a large collection, or
    /// members that are away, must not hold a reader up.
    fn begun_build(&self, ns: &Namespace) -> Option<Build> {
        let mut indexed = self.indexed.lock().ok()?;
        if let Some(Some(build)) = indexed.get(ns) {
            return Some(build.clone());
        }
        if indexed.len() >= MAX_CACHED {
            indexed.clear();
        }
        let (over, is_over) = watch::channel(false);
        let build = Build { deadline: Instant::now() + MOMENT, is_over };
        indexed.insert(ns.clone(), Some(build.clone()));
        let (server, ns, indexed) = (Arc::clone(&self.server), ns.clone(), Arc::clone(&self.indexed));
        self.runtime.spawn(async move {
            index_pending(&server, &ns, &indexed).await;
            let _ = over.send(true);
        });
        Some(build)
    }
}

/// Waits until the build is over, or for a moment since it began.
async fn until_over(build: Option<Build>) {
    let Some(Build { deadline, mut is_over }) = build else { return };
    // An error: the build was stopped with its runtime.
    let _ = tokio::time::timeout_at(deadline, is_over.wait_for(|is_over| *is_over)).await;
}

async fn index_pending(server: &Server, ns: &Namespace, indexed: &Mutex<HashMap<Namespace, Option<Build>>>) {
    let mut create = doc! {"createIndexes": &ns.coll, "indexes": [pending_index()]};
    server.nodes.with_quorum(&mut create);
    let Err(error) = server.run_command(&ns.db, create).await else { return };
    // Without it (no privilege, a view, too many indexes) the same query scans the collection.
    tracing::debug!(%ns, %error, "the index on pending documents could not be created");
    if error.kind() == ErrorKind::Unavailable
        && let Ok(mut indexed) = indexed.lock()
    {
        indexed.remove(ns);
    }
}

fn refused(ns: &Namespace, reason: &str) -> Error {
    Error::unsupported(format!("transactions cannot write to {ns}: {reason}"))
}

/// The indexes as they are stored; `None` when the collection does not exist.
pub(crate) async fn list_stored(server: &Server, ns: &Namespace) -> Result<Option<Vec<Document>>> {
    match server.collect(&ns.db, doc! {"listIndexes": &ns.coll, "cursor": {}}, 1_000).await {
        Ok(indexes) => Ok(Some(indexes)),
        Err(error) if error.code() == Some(NO_SUCH_COLLECTION) => Ok(None),
        // Views and time series have no indexes of their own.
        Err(error) if error.code() == Some(NOT_ON_A_VIEW) => Ok(Some(Vec::new())),
        Err(error) => Err(error),
    }
}

/// The server's description of a collection, and its indexes as they are stored.
async fn inspect(server: &Server, ns: &Namespace) -> Result<Option<(Document, Vec<Document>)>> {
    let list = doc! {"listCollections": 1, "filter": {"name": &ns.coll}, "cursor": {}};
    let Some(info) = server.collect(&ns.db, list, 1).await?.pop() else { return Ok(None) };
    let indexes = match info.get_str("type") {
        Ok("view") => Vec::new(),
        _ => list_stored(server, ns).await?.unwrap_or_default(),
    };
    Ok(Some((info, indexes)))
}

/// Returns true if many documents are pending. Then each query also searches a mirrored index,
/// which costs it a little when nothing is pending.
async fn is_crowded(server: &Server, ns: &Namespace) -> Result<bool> {
    let pending = doc! {sd2v::names::WRITER: {"$exists": true}};
    let counted = server.run_command(&ns.db, doc! {"count": &ns.coll, "query": pending, "limit": CROWD}).await?;
    Ok(counted.get("n").is_some_and(|n| as_i64(n) >= CROWD))
}
