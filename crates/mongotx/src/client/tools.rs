//! Calls for tools such as `mongotx ls` and `doctor`: questions about clients and locked documents,
//! repairs, sweeps and checkpoints. Applications need none of them.
//!
//! Each call asks the server anew and changes only what its name says. What is repaired, and when,
//! is decided in `coordinator/finishing/repairs` and `coordinator/cleaning`; this file turns
//! their answers into public types.

use std::time::Duration;

use bson::{Bson, Document, doc};
use protocol::{ClientId, LockState, TxId};

use super::Client;
use crate::{
    coordinator::{
        cleaning::{
            checkpoint::Checkpoint,
            sweep::{Cleaned, SweepResult, any_lock},
        },
        log::{record_databases::noted_databases, records::StoredRecord, txlog::Outcome},
        request::address::Address,
    },
    error::Result,
    options::Namespace,
    process_info::ProcessInfo,
};
#[cfg(doc)]
use crate::{error::ErrorKind, options::ClientOptions};

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
    /// True when the lease has expired: rivals may fence the record and roll back what is
    /// undecided.
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
    pub process_info: Option<ProcessInfo>,
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
            process_info: found.about,
        }
    }
}

/// A document that a transaction has locked: see [`Client::locked_documents`] and
/// [`Client::documents_of`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LockedDocument {
    /// Namespace of the locked document.
    pub namespace: Namespace,
    /// `_id` of the locked document.
    pub id: Bson,
    /// Transactions that hold the lock: one that writes, those that read, or one that does both.
    pub lock: LockState,
}

impl Client {
    /// Rolls back a transaction of any client if it is not decided, and returns its outcome.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.insert_one(&doc! {"_id": 1, "balance": 100}).await?;
    /// use mongotx::Outcome;
    ///
    /// let mut session = client.session();
    /// session.begin()?;
    /// accounts.update_one(doc! {"_id": 1}, doc! {"$inc": {"balance": 5}}).session(&mut session).await?;
    /// let id = session.id().expect("a transaction that has written has an id");
    ///
    /// assert_eq!(client.abort(id).await?, Outcome::RolledBack); // `Committed` if it is too late
    /// assert!(session.commit().await.is_err());
    /// assert_eq!(accounts.find_one(doc! {"_id": 1}).await?, Some(doc! {"_id": 1, "balance": 100}));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when the server cannot be reached.
    pub async fn abort(&self, id: TxId) -> Result<Outcome> {
        let outcome = self.core.log.abort(id).await?;
        if outcome == Outcome::RolledBack {
            for (ns, at, lock) in self.held_by(id, 1_000).await? {
                self.core.repairs.clear_locks(&ns, &at, &lock, None).await?;
            }
        }
        Ok(outcome)
    }

    /// Looks for locks of dead clients in all collections that their records name, and finishes or
    /// undoes them now. A client does so by itself at its start and every few leases, unless
    /// [`ClientOptions::sweep`] is off.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client);
    /// let swept = client.sweep().await?;
    /// println!("{} documents of {} dead clients were repaired", swept.repaired, swept.fenced);
    /// assert_eq!(swept.fenced, 0);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`]; what was done so far stays done.
    pub async fn sweep(&self) -> Result<SweepResult> {
        self.core.sweeper.sweep().await
    }

    /// Finishes everything that was decided, and lets no transaction be decided until the
    /// checkpoint ends: what is copied meanwhile from the application's databases has no locks, and
    /// is of one moment as far as transactions have written it. What open transactions of all
    /// clients had done is rolled back. New ones wait for up to [`ClientOptions::commit_timeout`].
    /// Writes outside transactions go on.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # client.session().with_transaction(async |session| accounts.insert_one(&doc! {"_id": 1}).session(session).await).await?;
    /// let checkpoint = client.checkpoint().await?;
    /// println!("transactions write to {:?}", checkpoint.preparation().collections);
    /// // Copy the application's databases here, by any tool.
    /// let ended = checkpoint.end().await?;
    /// assert!(ended.broken.is_none() && ended.late == 0, "not to be used: {ended:?}");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when there is another checkpoint, when something cannot be
    /// finished, or when the server does not answer; [`ErrorKind::Unsupported`] in the published
    /// layout, and beside clients that write in a later version of the stored format.
    pub async fn checkpoint(&self) -> Result<Checkpoint> {
        self.core.checkpoints.begin(&self.core).await
    }

    /// All clients that have records, dead ones included.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # client.session().with_transaction(async |session| accounts.insert_one(&doc! {"_id": 1}).session(session).await).await?;
    /// for info in client.clients().await? {
    ///     println!("{}: silent for {:?}", info.id, info.silent);
    ///     assert!(!info.expired, "rivals may roll back what it has not decided");
    /// }
    /// # assert_eq!(client.clients().await?.len(), 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`], [`ErrorKind::Corruption`]; [`ErrorKind::Unsupported`] when a
    /// client writes in a later version of the stored format.
    pub async fn clients(&self) -> Result<Vec<ClientInfo>> {
        let found = self.core.records.read(&self.core.server, &[]).await?;
        Ok(found.into_iter().map(ClientInfo::from).collect())
    }

    /// Some of the clients whose records are not closed, at most `limit`, those first that have
    /// been silent for the longest time. Records that cannot be read are left out.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # client.session().with_transaction(async |session| accounts.insert_one(&doc! {"_id": 1}).session(session).await).await?;
    /// let longest_silent = client.open_clients(10).await?;
    /// for info in &longest_silent {
    ///     let about = info.process_info.as_ref().map(|about| about.to_string());
    ///     println!("{}: {}, lease {:?}", info.id, about.unwrap_or_default(), info.lease);
    /// }
    /// assert_eq!(longest_silent.len(), 1); // this client itself
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`]; [`ErrorKind::Unsupported`] when a client writes in a later
    /// version of the stored format.
    pub async fn open_clients(&self, limit: usize) -> Result<Vec<ClientInfo>> {
        let found = self.core.records.open(&self.core.server, limit).await?;
        Ok(found.into_iter().map(ClientInfo::from).collect())
    }

    /// The record of one client, or `None` when there is none. Changes nothing: an expired client
    /// is not fenced.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.insert_one(&doc! {"_id": 1, "balance": 100}).await?;
    /// # let mut session = client.session();
    /// session.begin()?;
    /// accounts.update_one(doc! {"_id": 1}, doc! {"$inc": {"balance": 5}}).session(&mut session).await?;
    /// let id = session.id().expect("a transaction that has written has an id");
    /// let info = client.client_info(id.client).await?.expect("its client has a record");
    /// assert!(info.namespaces.contains(accounts.namespace()) && !info.fenced);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`], [`ErrorKind::Corruption`]; [`ErrorKind::Unsupported`] as of
    /// [`Client::clients`].
    pub async fn client_info(&self, id: ClientId) -> Result<Option<ClientInfo>> {
        let found = self.core.records.read(&self.core.server, &[id]).await?;
        Ok(found.into_iter().next().map(ClientInfo::from))
    }

    /// The databases in which clients of this deployment have registered, as far as they could note
    /// it in `mongotx.deployment`: at most 20, the one that was registered in last first. More than
    /// one is a mistake, unless their clients never meet.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// client.session().with_transaction(async |session| accounts.insert_one(&doc! {"_id": 1}).session(session).await).await?;
    /// assert_eq!(client.record_databases().await?, ["mongotx"]); // more than one is a mistake
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`]; [`ErrorKind::Invalid`] when the server does not let this user
    /// read them.
    pub async fn record_databases(&self) -> Result<Vec<String>> {
        noted_databases(&self.core.server).await
    }

    /// The locked documents of a collection, at most `limit`.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.insert_one(&doc! {"_id": 1, "balance": 100}).await?;
    /// # let mut session = client.session();
    /// session.begin()?;
    /// accounts.update_one(doc! {"_id": 1}, doc! {"$inc": {"balance": 5}}).session(&mut session).await?;
    ///
    /// let locked = client.locked_documents(accounts.namespace(), 100).await?;
    /// assert_eq!(locked.len(), 1);
    /// assert_eq!(locked[0].id, 1.into());
    /// println!("{} {{_id: {}}} is locked: {:?}", locked[0].namespace, locked[0].id, locked[0].lock);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`], [`ErrorKind::Corruption`].
    pub async fn locked_documents(&self, namespace: &Namespace, limit: usize) -> Result<Vec<LockedDocument>> {
        let found = self.core.sweeper.locked_documents(namespace, limit).await?;
        Ok(found
            .into_iter()
            .map(|(at, lock)| LockedDocument { namespace: namespace.clone(), id: at.id, lock })
            .collect())
    }

    /// The documents that a transaction holds, at most `limit` of each collection that its client's
    /// record names.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.insert_many(&[doc! {"_id": 1, "balance": 100}, doc! {"_id": 2, "balance": 0}]).await?;
    /// # let mut session = client.session();
    /// session.begin()?;
    /// accounts.update_many(doc! {}, doc! {"$inc": {"balance": 5}}).session(&mut session).await?;
    /// let id = session.id().expect("a transaction that has written has an id");
    /// assert_eq!(client.documents_of(id, 1_000).await?.len(), 2);
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
        let clients = self.core.records.read(&self.core.server, &[id.client]).await?;
        let namespaces = clients.first().map(|client| client.namespaces.clone()).unwrap_or_default();
        self.core.sweeper.held_by(id, &namespaces, limit).await
    }

    /// Repairs every document of a collection whose transaction is decided, or whose client is
    /// dead. Returns the number of documents that are free now.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.insert_one(&doc! {"_id": 1, "balance": 100}).await?;
    /// # let mut session = client.session();
    /// session.begin()?;
    /// accounts.update_one(doc! {"_id": 1}, doc! {"$inc": {"balance": 5}}).session(&mut session).await?;
    ///
    /// let freed = client.repair_collection(accounts.namespace()).await?;
    /// assert_eq!(freed, 0); // the transaction is under way: its lock stays
    /// session.commit().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`]. For documents that cannot be repaired, when all others are:
    /// [`ErrorKind::Corruption`], and [`ErrorKind::Invalid`] for those that the server refuses to
    /// finish and those of clients whose records are in another database. The message names the
    /// first and the number of others.
    pub async fn repair_collection(&self, namespace: &Namespace) -> Result<usize> {
        self.repair(namespace, Document::new()).await
    }

    /// Repairs the documents of a collection that have this `_id`, as a read of them would. Returns
    /// how many are free now.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # client.session().with_transaction(async |session| accounts.insert_one(&doc! {"_id": 1}).session(session).await).await?;
    /// client.repair_document(accounts.namespace(), &1.into()).await?;
    /// assert!(client.locked_documents(accounts.namespace(), 1).await?.is_empty());
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
        let Cleaned { repaired, mut refused, .. } = self.core.sweeper.repair_where(namespace, filter).await?;
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
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # client.session().with_transaction(async |session| accounts.insert_one(&doc! {"_id": 1}).session(session).await).await?;
    /// let all = client.all_collections().await?;
    /// for namespace in &all {
    ///     client.repair_collection(namespace).await?;
    /// }
    /// assert!(all.contains(accounts.namespace()));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`].
    pub async fn all_collections(&self) -> Result<Vec<Namespace>> {
        let databases = self.core.server.run_command("admin", doc! {"listDatabases": 1, "nameOnly": true}).await?;
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

    /// Reason why no transaction can lock a document of this collection; `None`: transactions can.
    /// If none can, no document is ever pending in it, and what is stored there is what the
    /// application wrote. Such are capped collections, time series, views, the server's own
    /// collections and databases, and collections whose documents the server removes by their
    /// `_id`.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// let bank = client.database("bank");
    /// bank.create_collection("log").option("capped", true).option("size", 65_536).await?;
    /// let log = bank.collection::<bson::Document>("log");
    /// if let Some(reason) = client.cannot_lock(log.namespace()).await? {
    ///     println!("transactions cannot write to {}: {reason}", log.namespace());
    /// }
    /// assert!(client.cannot_lock(log.namespace()).await?.is_some());
    /// assert!(client.cannot_lock(accounts.namespace()).await?.is_none());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when the server cannot be reached.
    pub async fn cannot_lock(&self, namespace: &Namespace) -> Result<Option<String>> {
        Ok(self.core.catalog.look_up(namespace).await?.unlockable.clone())
    }

    /// Returns true if changes of this collection leave events for change streams.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # let bank = client.database("bank");
    /// bank.create_collection("accounts").await?;
    /// assert!(!client.is_watched(accounts.namespace()).await?);
    ///
    /// let switched_on = doc! {"enabled": true};
    /// bank.modify_collection("accounts").option("changeStreamPreAndPostImages", switched_on).await?;
    /// assert!(client.is_watched(accounts.namespace()).await?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when the server cannot be reached.
    pub async fn is_watched(&self, namespace: &Namespace) -> Result<bool> {
        Ok(self.core.catalog.look_up(namespace).await?.watch.is_some())
    }
}
