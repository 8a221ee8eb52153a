//! A gateway in front of the shared standalone server, and commands to it as a driver would send
//! them.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
};

use bson::{Binary, Bson, Document, doc, spec::BinarySubtype};
use mongotx::ClientOptions;
use mongotx_gateway::{Connection, Gateway, GatewayOptions, Request, SessionLimits};

/// A gateway and one connection to it.
pub struct Client {
    gateway: Gateway,
    connection: Connection,
    pub db: String,
}

impl Client {
    /// A client with a gateway and a database of its own.
    pub async fn start(test: &str) -> Self {
        Self::with_database(local_mongod::unique_db(test)).await
    }

    /// A client with this database.
    pub async fn with_database(db: String) -> Self {
        Self::with_limits(db, SessionLimits::default()).await
    }

    /// A client with these limits.
    pub async fn with_limits(db: String, sessions: SessionLimits) -> Self {
        Self::with_options(db, GatewayOptions { sessions, ..GatewayOptions::default() }).await
    }

    /// A client with these options.
    pub async fn with_options(db: String, options: GatewayOptions) -> Self {
        let server = local_mongod::shared_standalone().await.unwrap();
        Self::in_front_of(server.uri(), db, options).await
    }

    /// A client in front of another server.
    pub async fn in_front_of(uri: String, db: String, options: GatewayOptions) -> Self {
        let client = ClientOptions { tx_database: format!("{db}_tx"), ..options.client };
        let gateway = Gateway::start(GatewayOptions { uri, client, ..options }).await.unwrap();
        let connection = gateway.connect();
        Self { gateway, connection, db }
    }

    /// Drops the client's connection.
    pub async fn disconnect(&self) {
        self.gateway.disconnect(&self.connection).await;
    }

    /// Drops the connection, and opens another one.
    pub async fn reconnect(&mut self) {
        self.disconnect().await;
        self.connection = self.gateway.connect();
    }

    /// Shuts the gateway down.
    pub async fn shutdown(self) -> mongotx::Result<()> {
        self.gateway.shutdown(super::LIMIT).await
    }

    /// Number of commands that the gateway has sent to the server, by name.
    pub fn sent(&self) -> BTreeMap<String, u64> {
        self.gateway.metrics().commands
    }

    /// Runs a command on a database, and returns the reply, whatever it is.
    pub async fn run_on(&self, db: &str, mut command: Document) -> Document {
        command.insert("$db", db);
        let request = Request::of(&command).unwrap();
        let reply = self.gateway.run_command(&self.connection, &request).await;
        let mut reply = Document::try_from(reply.body()).unwrap();
        reply.remove("$clusterTime");
        reply.remove("operationTime");
        reply
    }

    /// Runs a command on the client's database, and returns the reply, whatever it is.
    pub async fn run_command(&self, command: Document) -> Document {
        self.run_on(&self.db.clone(), command).await
    }

    /// Runs a command that must succeed, and returns the reply.
    pub async fn ok(&self, command: Document) -> Document {
        let reply = self.run_command(command.clone()).await;
        assert!(is_ok(&reply) && !reply.contains_key("writeErrors"), "{command}: {reply}");
        reply
    }

    /// The documents of a collection, in the order of their `_id`s.
    pub async fn all(&self, collection: &str) -> Vec<Document> {
        let reply = self.ok(doc! {"find": collection, "sort": {"_id": 1}, "batchSize": 10_000}).await;
        documents(&reply, "firstBatch")
    }
}

/// The documents of a cursor's batch.
pub fn documents(reply: &Document, batch: &str) -> Vec<Document> {
    let batch = reply.get_document("cursor").unwrap().get_array(batch).unwrap();
    batch.iter().map(|one| one.as_document().unwrap().clone()).collect()
}

/// The id of the cursor in a reply.
pub fn cursor_id(reply: &Document) -> i64 {
    reply.get_document("cursor").unwrap().get_i64("id").unwrap()
}

/// Returns true if the reply has `ok: 1`.
pub fn is_ok(reply: &Document) -> bool {
    reply.get_f64("ok").is_ok_and(|ok| ok == 1.0)
}

/// The code of a reply that is an error; 0 for others.
pub fn code(reply: &Document) -> i32 {
    reply.get_i32("code").unwrap_or(0)
}

/// Returns true if the error carries this label.
pub fn has_label(reply: &Document, label: &str) -> bool {
    reply.get_array("errorLabels").is_ok_and(|labels| labels.contains(&Bson::from(label)))
}

/// A session of a driver.
pub struct Session {
    pub lsid: Document,
    number: AtomicI64,
}

static SESSIONS: AtomicU64 = AtomicU64::new(1);

impl Session {
    pub fn new() -> Self {
        let mut bytes = vec![0; 8];
        bytes.extend(SESSIONS.fetch_add(1, Relaxed).to_be_bytes());
        let lsid = doc! {"id": Binary { subtype: BinarySubtype::Uuid, bytes }};
        Self { lsid, number: AtomicI64::new(0) }
    }

    pub fn number(&self) -> i64 {
        self.number.load(Relaxed)
    }

    /// A command in the session, in no transaction.
    pub fn plain(&self, mut command: Document) -> Document {
        command.insert("lsid", self.lsid.clone());
        command
    }

    /// The first statement of the next transaction.
    pub fn first(&self, command: Document) -> Document {
        self.number.fetch_add(1, Relaxed);
        let mut command = self.next(command);
        command.insert("startTransaction", true);
        command
    }

    /// The command as a later statement.
    pub fn next(&self, command: Document) -> Document {
        let mut command = self.plain(command);
        command.insert("txnNumber", self.number());
        command.insert("autocommit", false);
        command
    }

    /// A retryable write under a new number.
    pub fn write(&self, command: Document) -> Document {
        self.number.fetch_add(1, Relaxed);
        self.again(command)
    }

    /// The same write, sent again.
    pub fn again(&self, command: Document) -> Document {
        let mut command = self.plain(command);
        command.insert("txnNumber", self.number());
        command
    }

    pub fn commit(&self) -> Document {
        self.next(doc! {"commitTransaction": 1})
    }

    pub fn abort(&self) -> Document {
        self.next(doc! {"abortTransaction": 1})
    }
}
