//! The client: the connection to one deployment, and questions about its transactions and locked
//! documents.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use bson::{Bson, Document, Timestamp, doc};
use mongodb::{
    event::{EventHandler, cmap::CmapEvent, command::CommandEvent, sdam::SdamEvent},
    options::ClientOptions as DriverOptions,
};
use protocol::{ClientId, LockState, TxId};

use crate::{
    about::About,
    coordinator::{
        Core,
        address::Address,
        by_key::WantedKeys,
        catalog::{Catalog, Shards},
        checkpoint::Checkpoint,
        client_record::ClientRecordLog,
        events::{Event, Events, Position},
        finisher::Finisher,
        freshness::Freshness,
        looks::Looks,
        nodes::Nodes,
        parked::reap_in_background,
        published::{self, PublishedLog},
        records::{Records, StoredRecord},
        server::{
            Server, from_driver,
            lean::{Lean, Purpose},
        },
        strangers,
        sweep::{Cleaned, Swept, any_lock},
        txlog::{Fate, TxLog},
    },
    database::Database,
    error::{Error, ErrorKind, Result},
    metrics::{Counters, Metrics},
    options::{ClientOptions, Layout, Namespace, TransactionOptions},
    session::Session,
};

/// A client of one deployment. It is cheap to clone; all clones share one client record and one
/// connection pool.
///
/// A program needs one client for each deployment. Make it on a Tokio runtime that lives as long as
/// the client: signs of life, finishing and repairs run there in the background.
///
/// ```no_run
/// # use bson::doc;
/// # #[tokio::main]
/// # async fn main() -> mongotx::Result<()> {
/// let client = mongotx::Client::connect("mongodb://127.0.0.1:27017").await?;
/// let accounts = client.database("bank").collection::<bson::Document>("accounts");
/// accounts.insert_one(&doc! {"_id": 1, "balance": 100}).await?;
/// client.shutdown().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Client {
    core: Arc<Core>,
}

/// Content of a client's record, for people and tools: see [`Client::clients`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientInfo {
    /// Id of the client, part of the ids of its transactions.
    pub id: ClientId,
    /// Time after the last sign of life from which rivals may roll back what the client left
    /// undecided.
    pub lease: Duration,
    /// Time since the last sign of life, by the server's clock.
    pub silent: Duration,
    /// True when the lease has expired.
    pub expired: bool,
    /// True when the record is fenced: none of its transactions can be decided any more.
    pub fenced: bool,
    /// True when the client has ended and all its documents are clean; the record is kept for
    /// outcomes only.
    pub closed: bool,
    /// Low-water mark: every transaction number below it is decided and finished.
    pub low: u64,
    /// Numbers of committed transactions that may not be finished yet.
    pub committed: Vec<u64>,
    /// Numbers of transactions that are rolled back, by the client itself or by others.
    pub rolled_back: Vec<u64>,
    /// Namespaces of the collections in which the client may have locked documents.
    pub namespaces: Vec<Namespace>,
    /// The client's description of itself. `None`: its version does not store one.
    pub about: Option<About>,
}

/// The events of watched collections, in an order that agrees with that of the commits: see
/// `docs/change-streams.md`.
#[derive(Clone, Copy)]
pub struct Changes<'a> {
    core: &'a Arc<Core>,
}

impl Changes<'_> {
    /// Behind all events that are committed now.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when the server cannot be asked.
    pub async fn now(&self) -> Result<Position> {
        self.core.last_position().await
    }

    /// In front of the first event that is not earlier than this.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with code 286 if events that may be among them were removed.
    pub async fn from(&self, time: Timestamp) -> Result<Position> {
        self.core.position_at(time).await
    }

    /// The next events behind a position, at most `limit`; none if there are none yet.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with code 286 if the next one was removed.
    pub async fn after(&self, position: Position, limit: u32) -> Result<Vec<Event>> {
        self.core.events_after(position, limit).await
    }

    /// The event right in front of a position. `None`: it was removed, or there is none.
    ///
    /// # Errors
    /// As [`Changes::after`].
    pub async fn at(&self, position: Position) -> Result<Option<Event>> {
        self.core.event_at(position).await
    }

    /// Waits until there is an event behind the position, for so long at most. False: there is
    /// none.
    ///
    /// # Errors
    /// As [`Changes::after`].
    pub async fn wait(&self, position: Position, limit: Duration) -> Result<bool> {
        self.core.await_event(position, tokio::time::Instant::now() + limit).await
    }
}

impl From<StoredRecord> for ClientInfo {
    fn from(found: StoredRecord) -> Self {
        let ms = |n: i64| Duration::from_millis(u64::try_from(n).unwrap_or(0));
        let record = found.record;
        Self {
            id: found.client,
            lease: ms(found.lease_ms),
            silent: ms(found.silent_ms),
            expired: found.expired,
            fenced: record.fenced,
            closed: found.closed,
            low: record.low,
            committed: record.committed.into_iter().collect(),
            rolled_back: record.rolled_back.into_iter().chain(record.killed).chain(record.aborted).collect(),
            namespaces: found.namespaces,
            about: found.about,
        }
    }
}

/// A document that a transaction has locked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LockedDocument {
    /// Namespace of the locked document.
    pub namespace: Namespace,
    /// `_id` of the locked document.
    pub id: Bson,
    /// Transactions that hold the lock.
    pub lock: LockState,
}

impl Client {
    /// Connects to the deployment of this connection string, with default options.
    ///
    /// ```no_run
    /// # async fn example() -> mongotx::Result<()> {
    /// let client = mongotx::Client::connect("mongodb://127.0.0.1:27017").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Client::connect_with`].
    pub async fn connect(uri: &str) -> Result<Self> {
        Self::connect_with(uri, ClientOptions::default()).await
    }

    /// Connects to the deployment of this connection string, and asks the server whether
    /// transactions are safe on it.
    ///
    /// ```no_run
    /// # async fn example() -> mongotx::Result<()> {
    /// use mongotx::{Client, ClientOptions, Isolation};
    ///
    /// let options = ClientOptions { isolation: Isolation::Serializable, ..ClientOptions::default() };
    /// let client = Client::connect_with("mongodb://127.0.0.1:27017", options).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a malformed URI or declared shard key, or an option out of its bounds, [`ErrorKind::Unavailable`] when no server answers,
    /// [`ErrorKind::Unsupported`] for a server on which transactions would not be safe, with the reason.
    pub async fn connect_with(uri: &str, options: ClientOptions) -> Result<Self> {
        options.check()?;
        let counters = Arc::new(Counters::default());
        let counting = options.count_commands.then_some(&counters);
        let nodes = Arc::new(Nodes::default());
        let connections = Arc::new(AtomicU64::new(0));
        let asked = options_for(uri, counting, &nodes).await?;
        let driver = driver(asked.clone(), &connections)?;
        let hello = examine(&driver, &nodes).await?;
        let shards = Shards::new(&options.shard_keys, is_router(&hello))?;
        let lean = |purpose, begun: &Arc<AtomicU64>| {
            let lean = Lean::new(&asked, &hello, &driver, &nodes, &purpose, begun)?;
            Some(lean.counted(counting))
        };
        let server = |driver, lean, begun| {
            Server::new(driver, lean, Arc::clone(&counters), options.hook.clone(), begun, Arc::clone(&nodes))
        };
        let lane = async || -> Result<(Server, Arc<AtomicU64>)> {
            let epoch = Arc::new(AtomicU64::new(0));
            nodes.ends(&epoch);
            let recorder = driver_for_records(asked.clone(), &epoch)?;
            Ok((server(recorder, lean(Purpose::Records, &epoch), Arc::clone(&epoch)), epoch))
        };
        let data = lean(Purpose::Data, &connections);
        let server = Arc::new(server(driver.clone(), data, connections));
        let log: Arc<dyn TxLog> = match options.layout {
            Layout::ClientRecord => {
                let (recorder, epoch) = lane().await?;
                let application = options.application.clone().or_else(|| asked.app_name.clone());
                let records = Records::new(&options.tx_database).of(About::this(application));
                Arc::new(ClientRecordLog::new(Arc::clone(&server), recorder, epoch, records, options.commit_timeout))
            }
            Layout::Published => {
                let mut lanes = Vec::new();
                for _ in 0..published::LANES {
                    lanes.push(lane().await?);
                }
                Arc::new(PublishedLog::new(Arc::clone(&server), lanes, &options.tx_database))
            }
        };
        let finisher = Finisher::start(Arc::clone(&server), Arc::clone(&log), options.finish_delay);
        let core = Arc::new_cyclic(|this| Core {
            server,
            log,
            finisher,
            catalog: Catalog::new(shards, &options.tx_database, options.change_streams),
            freshness: Freshness::default(),
            looks: Looks::default(),
            siblings: Arc::default(),
            wanted: WantedKeys::default(),
            events: Events::new(&options),
            options,
            reaper: Arc::default(),
            runtime: tokio::runtime::Handle::current(),
            this: Weak::clone(this),
        });
        reap_in_background(&core);
        if core.options.sweep {
            sweep_in_background(&core);
        }
        Ok(Self { core })
    }

    /// A handle on the database with this name. Sends nothing; the first insert creates the
    /// database.
    ///
    /// ```no_run
    /// # async fn example(client: mongotx::Client) -> mongotx::Result<()> {
    /// let accounts: mongotx::Collection = client.database("bank").collection("accounts");
    /// # Ok(()) }
    /// ```
    pub fn database(&self, name: &str) -> Database {
        Database::new(Arc::clone(&self.core), name)
    }

    /// A session whose transactions use the client's defaults. Sends nothing.
    ///
    /// ```no_run
    /// # use bson::doc;
    /// # async fn example(client: mongotx::Client, accounts: mongotx::Collection) -> mongotx::Result<()> {
    /// let mut session = client.session();
    /// session.begin()?;
    /// accounts.delete_many(doc! {"closed": true}).session(&mut session).await?;
    /// session.commit().await?;
    /// # Ok(()) }
    /// ```
    pub fn session(&self) -> Session {
        self.session_with(TransactionOptions::default())
    }

    /// A session whose transactions use these options, unless [`Session::begin_with`] names others.
    /// Sends nothing.
    ///
    /// ```no_run
    /// # async fn example(client: mongotx::Client) -> mongotx::Result<()> {
    /// use mongotx::{Isolation, TransactionOptions};
    ///
    /// let serializable = TransactionOptions { isolation: Some(Isolation::Serializable), ..TransactionOptions::default() };
    /// let mut session = client.session_with(serializable);
    /// # Ok(()) }
    /// ```
    pub fn session_with(&self, options: TransactionOptions) -> Session {
        Session::new(Arc::clone(&self.core), options)
    }

    /// The outcome of a transaction of any client, by its id. `Committed` and `RolledBack` are
    /// durable and final. Ask after [`ErrorKind::Indeterminate`], before anything is run again.
    /// Outcomes are kept for 30 minutes.
    ///
    /// ```no_run
    /// # async fn example(client: mongotx::Client, mut session: mongotx::Session) -> mongotx::Result<()> {
    /// use mongotx::{ErrorKind, Fate};
    ///
    /// if let Err(error) = session.commit().await {
    ///     match (error.kind(), error.transaction()) {
    ///         (ErrorKind::Indeterminate, Some(id)) => match client.outcome(id).await? {
    ///             Fate::Committed => println!("committed all the same"),
    ///             Fate::RolledBack => println!("not committed, and never will be: run it again"),
    ///             Fate::Active => println!("not decided yet: ask again"),
    ///             _ => println!("nothing is known of it any more: look at the data"),
    ///         },
    ///         _ => return Err(error),
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when the server cannot be asked.
    pub async fn outcome(&self, id: TxId) -> Result<Fate> {
        self.core.log.fate(id).await
    }

    /// Rolls back a transaction of any client if it is not decided, and answers its outcome.
    ///
    /// ```no_run
    /// # async fn example(client: mongotx::Client, id: mongotx::TxId) -> mongotx::Result<()> {
    /// if client.kill(id).await? == mongotx::Fate::Committed {
    ///     println!("too late: {id} is committed");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when the server cannot be asked.
    pub async fn kill(&self, id: TxId) -> Result<Fate> {
        let fate = self.core.log.kill(id).await?;
        if fate == Fate::RolledBack {
            for (ns, at, lock) in self.held_by(id, 1_000).await? {
                self.core.clear_locks(&ns, &at, &lock, None).await?;
            }
        }
        Ok(fate)
    }

    /// True when the server is a member of a replica set: writes then wait for the majority of its
    /// members.
    ///
    /// ```no_run
    /// # async fn example(client: mongotx::Client) -> mongotx::Result<()> {
    /// println!("writes wait for a majority: {}", client.is_replicated());
    /// # Ok(()) }
    /// ```
    pub fn is_replicated(&self) -> bool {
        self.core.server.nodes.are_several()
    }

    /// Waits until all writes that were acknowledged so far satisfy a write concern, given as a
    /// document. Answers the server's `writeConcernError` if they do not (in time, where the write
    /// concern has a `wtimeout`).
    ///
    /// ```no_run
    /// # use bson::doc;
    /// # async fn example(client: mongotx::Client) -> mongotx::Result<()> {
    /// let all_members = doc! {"w": 3, "wtimeout": 5_000};
    /// if let Some(error) = client.await_write_concern(all_members).await? {
    ///     println!("not all three members have it: {error}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a write concern that the server does not take, [`ErrorKind::Unavailable`] and
    /// [`ErrorKind::Indeterminate`] when the server does not answer.
    pub async fn await_write_concern(&self, concern: Document) -> Result<Option<Document>> {
        self.core.records().await_concern(&self.core.server, concern).await
    }

    /// Looks for locks of dead clients in all collections that their records name, and finishes or
    /// undoes them now. A client does so by itself at its start and every few leases, unless
    /// [`ClientOptions::sweep`] is off.
    ///
    /// ```no_run
    /// # async fn example(client: mongotx::Client) -> mongotx::Result<()> {
    /// let swept = client.sweep().await?;
    /// println!("{swept:?}");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`]; what was done so far stays done.
    pub async fn sweep(&self) -> Result<Swept> {
        self.core.sweep().await
    }

    /// Finishes everything that was decided, and lets no transaction be decided until the
    /// checkpoint ends: what is copied meanwhile from the application's databases has no locks, and
    /// is of one moment as far as transactions have written it. What open transactions of all
    /// clients had done is rolled back. New ones wait for up to [`ClientOptions::commit_timeout`].
    /// Writes outside transactions go on.
    ///
    /// ```no_run
    /// # async fn example(client: mongotx::Client) -> mongotx::Result<()> {
    /// let checkpoint = client.checkpoint().await?;
    /// // Copy the application's databases here, by any tool.
    /// let ended = checkpoint.end().await?;
    /// assert!(ended.broken.is_none() && ended.late == 0, "not to be used: {ended:?}");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when there is another checkpoint, when something cannot be finished, or when the server does
    /// not answer; [`ErrorKind::Unsupported`] in the published layout, and beside clients that write in a later version of the
    /// stored format.
    pub async fn checkpoint(&self) -> Result<Checkpoint> {
        self.core.checkpoint().await
    }

    /// All clients that have records, dead ones included.
    ///
    /// ```no_run
    /// # async fn example(client: mongotx::Client) -> mongotx::Result<()> {
    /// for info in client.clients().await? {
    ///     println!("{}: silent for {:?}, expired: {}", info.id, info.silent, info.expired);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`], [`ErrorKind::Corruption`]; [`ErrorKind::Unsupported`] when a
    /// client writes in a later version of the stored format.
    pub async fn clients(&self) -> Result<Vec<ClientInfo>> {
        let found = self.core.records().read(&self.core.server, &[]).await?;
        Ok(found.into_iter().map(ClientInfo::from).collect())
    }

    /// Some of the clients whose records are not closed, at most `limit`, those first that were
    /// silent for the longest time. Records that cannot be read are left out.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`]; [`ErrorKind::Unsupported`] when a client writes in a later
    /// version of the stored format.
    pub async fn open_clients(&self, limit: usize) -> Result<Vec<ClientInfo>> {
        let found = self.core.records().open(&self.core.server, limit).await?;
        Ok(found.into_iter().map(ClientInfo::from).collect())
    }

    /// The record of one client, or `None` when there is none. Changes nothing: an expired client
    /// is not fenced.
    ///
    /// ```no_run
    /// # async fn example(client: mongotx::Client, id: mongotx::TxId) -> mongotx::Result<()> {
    /// if let Some(info) = client.client_info(id.client).await? {
    ///     println!("{id} was begun by a client with {} committed transactions to finish", info.committed.len());
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`], [`ErrorKind::Corruption`]; [`ErrorKind::Unsupported`] as of
    /// [`Client::clients`].
    pub async fn client_info(&self, id: ClientId) -> Result<Option<ClientInfo>> {
        let found = self.core.records().read(&self.core.server, &[id]).await?;
        Ok(found.into_iter().next().map(ClientInfo::from))
    }

    /// The databases in which clients of this deployment have registered, as far as they could note
    /// it in `mongotx.deployment`: at most 20, the one that was registered in last first. More than
    /// one is a mistake, unless their clients never meet.
    ///
    /// ```no_run
    /// # async fn example(client: mongotx::Client) -> mongotx::Result<()> {
    /// let databases = client.record_databases().await?;
    /// assert!(databases.len() <= 1, "clients of one deployment keep their records in several databases: {databases:?}");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`]; [`ErrorKind::Invalid`] when the server does not let this user read them.
    pub async fn record_databases(&self) -> Result<Vec<String>> {
        strangers::noted_databases(&self.core.server).await
    }

    /// The locked documents of a collection, at most `limit`.
    ///
    /// ```no_run
    /// # async fn example(client: mongotx::Client, accounts: mongotx::Collection) -> mongotx::Result<()> {
    /// for locked in client.locked_documents(accounts.namespace(), 100).await? {
    ///     println!("{} {{_id: {}}} is locked: {:?}", locked.namespace, locked.id, locked.lock);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`], [`ErrorKind::Corruption`].
    pub async fn locked_documents(&self, namespace: &Namespace, limit: usize) -> Result<Vec<LockedDocument>> {
        let found = self.core.locked_documents(namespace, limit).await?;
        Ok(found
            .into_iter()
            .map(|(at, lock)| LockedDocument { namespace: namespace.clone(), id: at.id, lock })
            .collect())
    }

    /// The documents that a transaction holds, at most `limit` of each collection that its client's
    /// record names.
    ///
    /// ```no_run
    /// # async fn example(client: mongotx::Client, session: mongotx::Session) -> mongotx::Result<()> {
    /// if let Some(id) = session.id() {
    ///     println!("{id} holds {} documents", client.documents_of(id, 1_000).await?.len());
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`], [`ErrorKind::Corruption`].
    pub async fn documents_of(&self, id: TxId, limit: usize) -> Result<Vec<LockedDocument>> {
        let held = self.held_by(id, limit).await?;
        Ok(held.into_iter().map(|(namespace, at, lock)| LockedDocument { namespace, id: at.id, lock }).collect())
    }

    async fn held_by(&self, id: TxId, limit: usize) -> Result<Vec<(Namespace, Address, LockState)>> {
        let clients = self.core.records().read(&self.core.server, &[id.client]).await?;
        let namespaces = clients.first().map(|client| client.namespaces.clone()).unwrap_or_default();
        self.core.held_by(id, &namespaces, limit).await
    }

    /// Repairs every document of a collection whose transaction is decided, or whose client is
    /// dead. Answers how many are free now.
    ///
    /// ```no_run
    /// # async fn example(client: mongotx::Client, accounts: mongotx::Collection) -> mongotx::Result<()> {
    /// let freed = client.repair_collection(accounts.namespace()).await?;
    /// println!("{freed} documents were locked by transactions that are over");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`]. For documents that cannot be repaired, when all others are: [`ErrorKind::Corruption`], and
    /// [`ErrorKind::Invalid`] for those that the server refuses to finish and those of clients whose records are in
    /// another database. The message names the first and the number of others.
    pub async fn repair_collection(&self, namespace: &Namespace) -> Result<usize> {
        self.repair(namespace, Document::new()).await
    }

    /// Repairs the documents of a collection that have this `_id`, as a read of them would. Answers
    /// how many are free now.
    ///
    /// ```no_run
    /// # async fn example(client: mongotx::Client, accounts: mongotx::Collection) -> mongotx::Result<()> {
    /// client.repair_document(accounts.namespace(), &1.into()).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Client::repair_collection`].
    pub async fn repair_document(&self, namespace: &Namespace, id: &Bson) -> Result<usize> {
        self.repair(namespace, doc! {"_id": id.clone()}).await
    }

    async fn repair(&self, namespace: &Namespace, mut filter: Document) -> Result<usize> {
        filter.insert("$or", any_lock());
        let Cleaned { repaired, mut refused, .. } = self.core.repair_where(namespace, filter).await?;
        if refused.is_empty() {
            return Ok(repaired);
        }
        let others = refused.len() - 1;
        let first = refused.swap_remove(0);
        Err(if others > 0 { first.and_others(others) } else { first })
    }

    /// All collections that transactions may have touched and that exist, for tools: those that
    /// records name, and those of the deployment that have the index on pending documents or any
    /// locked document.
    ///
    /// ```no_run
    /// # async fn example(client: mongotx::Client) -> mongotx::Result<()> {
    /// for namespace in client.all_collections().await? {
    ///     client.repair_collection(&namespace).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`].
    pub async fn all_collections(&self) -> Result<Vec<Namespace>> {
        let databases = self.core.server.run("admin", doc! {"listDatabases": 1, "nameOnly": true}).await?;
        let mut all = Vec::new();
        for db in databases
            .get_array("databases")
            .into_iter()
            .flatten()
            .filter_map(|db| db.as_document()?.get_str("name").ok())
        {
            if ["admin", "local", "config", &self.core.options.tx_database].contains(&db) {
                continue;
            }
            let list = doc! {"listCollections": 1, "nameOnly": true, "filter": {"type": "collection"}, "cursor": {}};
            for info in self.core.server.collect(db, list, 100_000).await? {
                if let Ok(name) = info.get_str("name")
                    && !name.starts_with("system.")
                {
                    all.push(Namespace::new(db, name));
                }
            }
        }
        Ok(all)
    }

    /// Why no transaction can lock a document of this collection, if none can: then nothing is ever
    /// pending in it, and what is stored there is what the application wrote. See
    /// `docs/special-collections.md`.
    ///
    /// ```no_run
    /// # async fn example(client: mongotx::Client, accounts: mongotx::Collection) -> mongotx::Result<()> {
    /// if let Some(reason) = client.cannot_lock(accounts.namespace()).await? {
    ///     println!("transactions cannot write to {}: {reason}", accounts.namespace());
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when the server cannot be asked.
    pub async fn cannot_lock(&self, namespace: &Namespace) -> Result<Option<String>> {
        Ok(self.core.catalog.look_up(&self.core.server, namespace).await?.unlockable.clone())
    }

    /// Whether changes of this collection leave events for change streams.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when the server cannot be asked.
    pub async fn is_watched(&self, namespace: &Namespace) -> Result<bool> {
        Ok(self.core.catalog.look_up(&self.core.server, namespace).await?.watch.is_some())
    }

    /// The events of watched collections.
    pub fn changes(&self) -> Changes<'_> {
        Changes { core: &self.core }
    }

    /// The counters of this client, at this moment.
    ///
    /// ```no_run
    /// # async fn example(client: mongotx::Client) -> mongotx::Result<()> {
    /// let metrics = client.metrics();
    /// println!("{} commits, {} conflicts", metrics.commits, metrics.aborts_conflict);
    /// # Ok(()) }
    /// ```
    pub fn metrics(&self) -> Metrics {
        self.core.server.counters.snapshot()
    }

    /// Waits until every document of this client's ended transactions is clean, for programs that
    /// read the stored documents without MongoTx. Answers false when that takes longer than
    /// `limit`.
    ///
    /// ```no_run
    /// # async fn example(client: mongotx::Client) -> mongotx::Result<()> {
    /// use std::time::Duration;
    ///
    /// assert!(client.flush(Duration::from_secs(10)).await, "documents are still locked after 10 seconds");
    /// # Ok(()) }
    /// ```
    pub async fn flush(&self, limit: Duration) -> bool {
        self.core.finisher.until_idle(limit).await
    }

    /// Finishes what is decided and closes the client record. Transactions still open are rolled
    /// back when their sessions are dropped, or by rivals when the lease ends.
    ///
    /// ```no_run
    /// # async fn example(client: mongotx::Client) -> mongotx::Result<()> {
    /// client.shutdown().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when that takes too long; a sweep will do what is left.
    pub async fn shutdown(&self) -> Result<()> {
        let limit = self.core.options.commit_timeout;
        if !self.core.finisher.until_idle(limit).await {
            return Err(Error::new(ErrorKind::Unavailable, "decided transactions could not be finished in time"));
        }
        self.core.log.close().await
    }
}

/// Options of the driver, with its own retries of writes off: a write is sent once. `counters`
/// count its commands. `nodes` gets every answer to the driver's own `hello`, which the driver
/// sends every few seconds and when the set changes.
async fn options_for(uri: &str, counters: Option<&Arc<Counters>>, nodes: &Arc<Nodes>) -> Result<DriverOptions> {
    let mut options = DriverOptions::parse(uri).await.map_err(from_driver)?;
    options.retry_writes = Some(false);
    options.app_name.get_or_insert_with(|| "mongotx".to_owned());
    if let Some(counters) = counters.cloned() {
        options.command_event_handler = Some(EventHandler::callback(move |event| {
            if let CommandEvent::Started(started) = event {
                counters.count_command(&started.command_name);
            }
        }));
    }
    let nodes = Arc::clone(nodes);
    options.sdam_event_handler = Some(EventHandler::callback(move |event| {
        if let SdamEvent::ServerHeartbeatSucceeded(heartbeat) = event {
            nodes.note_heartbeat(&heartbeat.reply);
        }
    }));
    Ok(options)
}

/// `connections`: counts those that are begun.
fn driver(mut options: DriverOptions, connections: &Arc<AtomicU64>) -> Result<mongodb::Client> {
    count_connections(&mut options, connections);
    mongodb::Client::with_options(options).map_err(from_driver)
}

/// The handler is called before the new connection is tried.
fn count_connections(options: &mut DriverOptions, connections: &Arc<AtomicU64>) {
    let connections = Arc::clone(connections);
    options.cmap_event_handler = Some(EventHandler::callback(move |event| {
        if let CmapEvent::ConnectionCreated(_) = event {
            connections.fetch_add(1, SeqCst);
        }
    }));
}

/// One connection for the writes to client records, and a counter that changes whenever it has to
/// be made anew: the handler is called before the new connection is tried.
fn driver_for_records(mut options: DriverOptions, epoch: &Arc<AtomicU64>) -> Result<mongodb::Client> {
    options.max_pool_size = Some(1);
    options.min_pool_size = None;
    options.max_idle_time = None;
    driver(options, epoch)
}

/// Refuses servers on which transactions would not be safe. Answers what the server says of itself.
async fn examine(driver: &mongodb::Client, nodes: &Nodes) -> Result<Document> {
    let admin = driver.database("admin");
    let build: Document = admin.run_command(doc! {"buildInfo": 1}).await.map_err(from_driver)?;
    let hello: Document = admin.run_command(doc! {"hello": 1}).await.map_err(from_driver)?;
    let ferret = build.keys().chain(hello.keys()).any(|key| key.to_lowercase().contains("ferret"));
    if ferret {
        return Err(Error::unsupported(
            "FerretDB 1.x does not update single documents atomically, so no transaction would be safe on it",
        ));
    }
    let wire = hello.get_i32("maxWireVersion").unwrap_or(0);
    if wire < 9 {
        return Err(Error::unsupported(format!(
            "the server speaks wire version {wire}; transactions need pipeline updates and their operators, which came with version 9 (MongoDB 4.4)"
        )));
    }
    nodes.note(&hello);
    Ok(hello)
}

/// Whether the server is a router, where collections may have shard keys.
fn is_router(hello: &Document) -> bool {
    hello.get_str("msg").is_ok_and(|msg| msg == "isdbgrid")
}

/// Sweeps now and every few leases, as long as the client lives.
fn sweep_in_background(core: &Arc<Core>) {
    let weak = Arc::downgrade(core);
    tokio::spawn(async move {
        while let Some(core) = weak.upgrade() {
            if let Err(error) = core.sweep().await {
                tracing::debug!(%error, "a sweep was interrupted");
            }
            let pause = core.options.lease * 3;
            drop(core);
            tokio::time::sleep(pause).await;
        }
    });
}
