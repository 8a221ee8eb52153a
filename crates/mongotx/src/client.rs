//! The client: the connection to one deployment, and calls about its transactions and locked
//! documents.

mod changes;
mod connect;
mod tools;

use std::{sync::Arc, time::Duration};

use bson::Document;
use protocol::TxId;

pub use self::{
    changes::Changes,
    tools::{ClientInfo, LockedDocument},
};
use crate::{
    coordinator::{Core, log::txlog::Fate},
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

    /// Connects to the deployment of this connection string, and checks that transactions are safe
    /// on its server.
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
    /// [`ErrorKind::Invalid`] for a malformed URI or declared shard key, or an option out of its
    /// bounds, [`ErrorKind::Unavailable`] when no server answers, [`ErrorKind::Unsupported`] for a
    /// server on which transactions would not be safe, with the reason.
    pub async fn connect_with(uri: &str, options: ClientOptions) -> Result<Self> {
        Ok(Self { core: connect::connect(uri, options).await? })
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
    /// durable and final. Call it after [`ErrorKind::Indeterminate`], before anything is run again.
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
    /// [`ErrorKind::Unavailable`] when the server cannot be reached.
    pub async fn outcome(&self, id: TxId) -> Result<Fate> {
        self.core.log.fate(id).await
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
    /// document. Returns the server's `writeConcernError` if they do not (in time, where the write
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
    /// [`ErrorKind::Invalid`] for a write concern that the server does not take,
    /// [`ErrorKind::Unavailable`] and [`ErrorKind::Indeterminate`] when the server does not answer.
    pub async fn await_write_concern(&self, concern: Document) -> Result<Option<Document>> {
        self.core.records.await_concern(&self.core.server, concern).await
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
    /// read the stored documents without MongoTx. Returns false when that takes longer than
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
