//! What targets on the official driver share: a client with its commands counted, write concerns, making and loading
//! collections as any application would.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bson::{Document, doc};
use mongodb::{
    Client, Database, IndexModel,
    error::{Error, ErrorKind, WriteFailure},
    event::{EventHandler, command::CommandEvent},
    options::{Acknowledgment, ClientOptions, IndexOptions, WriteConcern},
};

use super::{Acknowledged, Connection, Durability, Index};
use crate::error::{BenchError, OpError};

/// How long the driver looks for a server.
const SELECTION: Duration = Duration::from_secs(10);
/// How long one write may wait for its acknowledgement by other nodes.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
const DUPLICATE_KEY: i32 = 11_000;

/// A client of the official driver that counts the commands it sends.
pub struct CountingDriver {
    /// The client.
    pub client: Client,
    commands: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl CountingDriver {
    /// Connects, with a pool that has a connection for every session.
    pub(crate) async fn connect(connection: &Connection) -> Result<Self, BenchError> {
        Self::with_uri(&connection.uri, connection.sessions).await
    }

    /// Connects, once the server has answered.
    ///
    /// # Errors
    /// [`BenchError::Driver`].
    pub async fn with_uri(uri: &str, sessions: u32) -> Result<Self, BenchError> {
        let mut options = ClientOptions::parse(uri).await?;
        options.max_pool_size = Some(sessions.max(10));
        options.server_selection_timeout.get_or_insert(SELECTION);
        let commands = Arc::new(Mutex::new(BTreeMap::new()));
        let count = Arc::clone(&commands);
        options.command_event_handler = Some(EventHandler::callback(move |event| {
            if let CommandEvent::Started(started) = event {
                let mut counts = count.lock().unwrap_or_else(PoisonError::into_inner);
                match counts.get_mut(&started.command_name) {
                    Some(n) => *n += 1,
                    None => drop(counts.insert(started.command_name, 1_u64)),
                }
            }
        }));
        let client = Client::with_options(options)?;
        client.database("admin").run_command(doc! {"ping": 1}).await?;
        Ok(Self { client, commands })
    }

    /// Commands sent so far, by name.
    pub fn commands(&self) -> BTreeMap<String, u64> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Makes a collection with its indexes.
pub(crate) async fn create(db: &Database, collection: &str, indexes: &[Index]) -> Result<(), BenchError> {
    db.create_collection(collection).await?;
    let models = indexes.iter().map(|index| {
        let options = IndexOptions::builder().unique(index.unique.then_some(true)).build();
        IndexModel::builder().keys(index.key.clone()).options(options).build()
    });
    let models: Vec<IndexModel> = models.collect();
    if !models.is_empty() {
        db.collection::<Document>(collection).create_indexes(models).await?;
    }
    Ok(())
}

/// Inserts documents in bulk, not waiting for the disk.
pub(crate) async fn load(db: &Database, collection: &str, documents: Vec<Document>) -> Result<(), BenchError> {
    if documents.is_empty() {
        return Ok(());
    }
    let concern = WriteConcern::builder().w(Acknowledgment::Nodes(1)).build();
    db.collection::<Document>(collection).insert_many(documents).ordered(false).write_concern(concern).await?;
    Ok(())
}

/// The write concern of this durability.
pub(crate) fn write_concern(durability: Durability) -> WriteConcern {
    let nodes = match durability.nodes {
        Acknowledged::Nodes(n) => Acknowledgment::Nodes(n.into()),
        Acknowledged::Majority => Acknowledgment::Majority,
    };
    WriteConcern::builder().w(nodes).journal(durability.journaled).w_timeout(WRITE_TIMEOUT).build()
}

/// What a failed write outside a transaction means.
pub(crate) fn write_error(error: Error) -> OpError {
    let duplicate = match error.kind.as_ref() {
        ErrorKind::Write(WriteFailure::WriteError(write)) => write.code == DUPLICATE_KEY,
        ErrorKind::InsertMany(many) => {
            many.write_errors.as_ref().is_some_and(|errors| errors.iter().any(|write| write.code == DUPLICATE_KEY))
        }
        ErrorKind::Command(command) => command.code == DUPLICATE_KEY,
        _ => false,
    };
    if duplicate { OpError::Duplicate } else { OpError::from(error) }
}
