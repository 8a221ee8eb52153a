//! The client: the connection to one deployment, and calls about its transactions and locked
//! documents.

mod changes;
mod connect;
mod tools;

use std::{sync::Arc, time::Duration};

use bson::{Document, oid::ObjectId};
use protocol::TxId;

pub use self::{
    changes::Changes,
    tools::{ClientInfo, LockedDocument},
};
use crate::{
    coordinator::{Core, log::txlog::Outcome},
    database::Database,
    error::{Error, ErrorKind, Result},
    metrics::Metrics,
    options::{ClientOptions, TransactionOptions},
    session::Session,
};

/// A client of one deployment. It is cheap to clone; all clones share one client record and one
/// connection pool.
///
/// A program needs one client for each deployment. Make it on a Tokio runtime that lives as long as
/// the client: signs of life, finishing and repairs run there in the background.
///
/// ```
/// # use bson::doc;
/// # #[tokio::main]
/// # async fn main() -> mongotx::Result<()> {
/// let uri = "mongodb://127.0.0.1:27017";
/// # let server = local_mongod::Server::standalone().await.expect("a mongod");
/// # let uri = &server.uri();
/// let client = mongotx::Client::connect(uri).await?;
/// let accounts = client.database("bank").collection::<bson::Document>("accounts");
/// accounts.insert_one(&doc! {"_id": 1, "balance": 100}).await?;
/// assert_eq!(accounts.find_one(doc! {"_id": 1}).await?, Some(doc! {"_id": 1, "balance": 100}));
/// client.shutdown().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Client {
    core: Arc<Core>,
}

impl Client {
    /// Connects to the deployment of this connection string, with default options.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// let uri = "mongodb://127.0.0.1:27017";
    /// # let server = local_mongod::Server::standalone().await.expect("a mongod");
    /// # let uri = &server.uri();
    /// let client = mongotx::Client::connect(uri).await?;
    /// assert!(!client.is_replicated()); // it has reached the server
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Client::connect_with`].
    pub async fn connect(uri: &str) -> Result<Self> {
        Self::connect_with(uri, ClientOptions::default()).await
    }

    /// Connects to the deployment of this connection string, and checks that transactions are safe
    /// on its server.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// use std::time::Duration;
    ///
    /// use mongotx::{Client, ClientOptions, ErrorKind, Isolation};
    ///
    /// let uri = "mongodb://127.0.0.1:27017";
    /// # let server = local_mongod::Server::standalone().await.expect("a mongod");
    /// # let uri = &server.uri();
    /// let options = ClientOptions { isolation: Isolation::Serializable, ..ClientOptions::default() };
    /// let client = Client::connect_with(uri, options).await?;
    ///
    /// let wrong = ClientOptions { finish_delay: Duration::from_secs(60), ..ClientOptions::default() };
    /// let refused = Client::connect_with(uri, wrong).await.err().expect("ten seconds is the most");
    /// assert_eq!(refused.kind(), ErrorKind::Invalid);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a malformed URI or declared shard key, or an option out of its
    /// bounds, [`ErrorKind::Unavailable`] when no server answers, [`ErrorKind::Unsupported`] for a
    /// server on which transactions would not be safe, with the reason.
    pub async fn connect_with(uri: &str, options: ClientOptions) -> Result<Self> {
        Ok(Self { core: connect::connect(uri, options).await? })
    }

    /// A handle on the database with this name. Sends nothing; the first insert creates the
    /// database.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client);
    /// let accounts: mongotx::Collection = client.database("bank").collection("accounts");
    /// assert_eq!(accounts.namespace().to_string(), "bank.accounts");
    /// # Ok(()) }
    /// ```
    pub fn database(&self, name: &str) -> Database {
        Database::new(Arc::clone(&self.core), name)
    }

    /// A session whose transactions use the client's defaults. Sends nothing.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.insert_one(&doc! {"_id": 1, "closed": true}).await?;
    /// let mut session = client.session();
    /// session.begin()?;
    /// accounts.delete_many(doc! {"closed": true}).session(&mut session).await?;
    /// session.commit().await?;
    /// assert_eq!(accounts.count_documents(doc! {}).await?, 0);
    /// # Ok(()) }
    /// ```
    pub fn session(&self) -> Session {
        self.session_with(TransactionOptions::default())
    }

    /// A session whose transactions use these options, unless [`Session::begin_with`] names others.
    /// Sends nothing.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.insert_many(&[doc! {"_id": 1, "balance": 70}, doc! {"_id": 2, "balance": -20}]).await?;
    /// use mongotx::{Isolation, TransactionOptions};
    ///
    /// let serializable = TransactionOptions { isolation: Some(Isolation::Serializable), ..TransactionOptions::default() };
    /// let mut session = client.session_with(serializable);
    /// session.begin()?;
    /// let overdrawn = accounts.count_documents(doc! {"balance": {"$lt": 0}}).session(&mut session).await?;
    /// accounts.insert_one(&doc! {"_id": "report", "overdrawn": overdrawn as i64}).session(&mut session).await?;
    /// session.commit().await?; // refused if an account was overdrawn or settled meanwhile
    /// assert_eq!(overdrawn, 1);
    /// # Ok(()) }
    /// ```
    pub fn session_with(&self, options: TransactionOptions) -> Session {
        Session::new(Arc::clone(&self.core), options)
    }

    /// The outcome of a transaction of any client, by its id. `Committed` and `RolledBack` are
    /// durable and final. Call it after [`ErrorKind::Indeterminate`], before anything is run again.
    /// Outcomes are kept for 30 minutes.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.insert_one(&doc! {"_id": 1, "balance": 100}).await?;
    /// use mongotx::{ErrorKind, Outcome};
    ///
    /// let mut session = client.session();
    /// session.begin()?;
    /// accounts.update_one(doc! {"_id": 1}, doc! {"$inc": {"balance": 5}}).session(&mut session).await?;
    /// let id = session.id().expect("a transaction that has written has an id");
    /// match session.commit().await {
    ///     Err(error) if error.kind() == ErrorKind::Indeterminate => match client.outcome(id).await? {
    ///         Outcome::Committed => println!("committed all the same"),
    ///         Outcome::RolledBack => println!("not committed, and never will be: run it again"),
    ///         Outcome::Active => println!("not decided yet: ask again"),
    ///         _ => println!("nothing is known of it any more: look at the data"),
    ///     },
    ///     other => other?,
    /// }
    /// assert_eq!(client.outcome(id).await?, Outcome::Committed);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when the server cannot be reached.
    pub async fn outcome(&self, id: TxId) -> Result<Outcome> {
        self.core.log.outcome(id).await
    }

    /// True when the server is a member of a replica set: writes then wait for the majority of its
    /// members.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client);
    /// assert!(!client.is_replicated(), "this example has a standalone server");
    /// # Ok(()) }
    /// ```
    pub fn is_replicated(&self) -> bool {
        self.core.server.nodes.are_several()
    }

    /// Id of the process of the one server that keeps the data: another one after each of its
    /// starts. What a process has acknowledged, and not written to its journal, may be lost with
    /// it. `None` where several servers keep the data, or the server names no process.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client);
    /// let before = client.server_process();
    /// assert!(before.is_some() && client.server_process() == before);
    /// # Ok(()) }
    /// ```
    pub fn server_process(&self) -> Option<ObjectId> {
        self.core.server.nodes.process()
    }

    /// Waits until all writes that were acknowledged so far satisfy a write concern, given as a
    /// document. Returns the server's `writeConcernError` if they do not (in time, where the write
    /// concern has a `wtimeout`). Of one server it says nothing about writes that were acknowledged
    /// before its last start: see [`Client::server_process`].
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// accounts.insert_one(&doc! {"_id": 1, "balance": 100}).await?;
    /// let in_the_journal = doc! {"w": 1, "j": true};
    /// match client.await_write_concern(in_the_journal).await? {
    ///     None => println!("the insert survives a crash of the server"),
    ///     Some(error) => panic!("not in time: {error}"),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a write concern that the server does not take,
    /// [`ErrorKind::Unavailable`] and [`ErrorKind::Indeterminate`] when the server does not answer.
    pub async fn await_write_concern(&self, concern: Document) -> Result<Option<Document>> {
        let missed = self.core.records.await_concern(&self.core.server, concern.clone()).await?;
        if missed.is_some() || !self.core.server.nodes.are_several() {
            return Ok(missed);
        }
        // Decisions go over connections of their own, which may follow another primary.
        self.core.log.await_concern(concern).await
    }

    /// The counters of this client, at this moment.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// let before = client.metrics();
    /// client
    ///     .session()
    ///     .with_transaction(async |session| {
    ///         accounts.insert_one(&doc! {"_id": 1}).session(session).await?;
    ///         accounts.insert_one(&doc! {"_id": 2}).session(session).await
    ///     })
    ///     .await?;
    /// let after = client.metrics();
    /// assert_eq!(after.commits - before.commits, 1);
    /// println!("{} conflicts, {} commands", after.aborts_conflict, after.commands_sent());
    /// # Ok(()) }
    /// ```
    pub fn metrics(&self) -> Metrics {
        self.core.server.counters.snapshot()
    }

    /// Waits until every document of this client's ended transactions is clean, for programs that
    /// read the stored documents without MongoTx. Returns false when that takes longer than
    /// `limit`.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # accounts.insert_one(&doc! {"_id": 1, "balance": 100}).await?;
    /// # let mut session = client.session();
    /// use std::time::Duration;
    ///
    /// session.begin()?;
    /// accounts.update_one(doc! {"_id": 1}, doc! {"$inc": {"balance": 5}}).session(&mut session).await?;
    /// session.commit().await?;
    /// assert!(client.flush(Duration::from_secs(60)).await, "documents are still locked after 60 seconds");
    /// assert!(client.locked_documents(accounts.namespace(), 1).await?.is_empty());
    /// # Ok(()) }
    /// ```
    pub async fn flush(&self, limit: Duration) -> bool {
        self.core.finisher.until_idle(limit).await
    }

    /// Finishes what is decided and closes the client record. Transactions still open are rolled
    /// back when their sessions are dropped, or by rivals when the lease ends.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # let server = local_mongod::Server::standalone().await.expect("a mongod");
    /// # let uri = &server.uri();
    /// # let client = mongotx::Client::connect(uri).await?;
    /// # let accounts: mongotx::Collection = client.database("bank").collection("accounts");
    /// client.session().with_transaction(async |session| accounts.insert_one(&doc! {"_id": 1}).session(session).await).await?;
    /// client.shutdown().await?;
    ///
    /// let another = mongotx::Client::connect(uri).await?;
    /// assert!(another.open_clients(10).await?.is_empty());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when that takes too long; a sweep will do what is left.
    pub async fn shutdown(&self) -> Result<()> {
        self.core.unprobed.end_read_lease().await;
        let limit = self.core.options.commit_timeout;
        if !self.core.finisher.until_idle(limit).await {
            return Err(Error::new(ErrorKind::Unavailable, "decided transactions could not be finished in time"));
        }
        // A notice that goes on standing makes others read again what they need not.
        let ended = tokio::time::timeout(limit, self.core.server.end_notices()).await;
        if let Ok(Err(error)) = ended {
            tracing::debug!(%error, "a notice of writes outside transactions stands for half an hour");
        }
        self.core.log.close().await
    }
}
