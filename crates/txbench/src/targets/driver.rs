//! Parts that targets on the official driver share: a client that counts its commands, write
//! concerns, making and loading collections as any application would.

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
use crate::error::{BenchError, OpError, OpResult};

/// Time for which the driver looks for a server.
const SELECTION: Duration = Duration::from_secs(10);
/// Time that one write may wait for its acknowledgement by other nodes, unless the connection
/// string has a `wTimeoutMS`.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
pub(crate) const DUPLICATE_KEY: i32 = 11_000;

/// A client of the official driver that counts the commands it sends.
pub struct CountingDriver {
    /// The client of the driver.
    pub client: Client,
    write_timeout: Duration,
    commands: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl CountingDriver {
    /// Connects, with a pool that has a connection for every session, unless the connection string
    /// has a `maxPoolSize`.
    pub(crate) async fn connect(connection: &Connection) -> Result<Self, BenchError> {
        Self::with_uri(&connection.uri, connection.sessions).await
    }

    /// Connects, once the server has answered.
    ///
    /// # Errors
    /// [`BenchError::Driver`].
    pub async fn with_uri(uri: &str, sessions: u32) -> Result<Self, BenchError> {
        let mut options = ClientOptions::parse(uri).await?;
        options.max_pool_size.get_or_insert(sessions.max(10));
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
        let write_timeout =
            options.write_concern.as_ref().and_then(|concern| concern.w_timeout).unwrap_or(WRITE_TIMEOUT);
        let client = Client::with_options(options)?;
        client.database("admin").run_command(doc! {"ping": 1}).await?;
        Ok(Self { client, write_timeout, commands })
    }

    /// The write concerns of one session.
    pub(crate) fn concerns(&self, connection: &Connection) -> Concerns {
        Concerns { durability: connection.durability, timeout: self.write_timeout }
    }

    /// Time that a commit may wait for other nodes.
    pub(crate) fn write_timeout(&self) -> Duration {
        self.write_timeout
    }

    /// Number of nodes that keep the data.
    pub(crate) async fn node_count(&self) -> Result<usize, BenchError> {
        let hello = self.client.database("admin").run_command(doc! {"hello": 1}).await?;
        Ok(hello.get_array("hosts").map_or(1, Vec::len))
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

/// Write concerns of a session's writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Concerns {
    durability: Durability,
    timeout: Duration,
}

impl Concerns {
    /// The write concern of this durability, or of the connection's.
    pub(crate) fn of(self, durability: Option<Durability>) -> WriteConcern {
        let Durability { nodes, journaled } = durability.unwrap_or(self.durability);
        let nodes = match nodes {
            Acknowledged::Nodes(n) => Acknowledgment::Nodes(n.into()),
            Acknowledged::Majority => Acknowledgment::Majority,
        };
        WriteConcern::builder().w(nodes).journal(journaled).w_timeout(self.timeout).build()
    }
}

/// The server's code for an error, where it came from there.
pub(crate) fn error_code(error: &Error) -> Option<i32> {
    match error.kind.as_ref() {
        ErrorKind::Command(command) => Some(command.code),
        ErrorKind::Write(WriteFailure::WriteError(write)) => Some(write.code),
        ErrorKind::Write(WriteFailure::WriteConcernError(concern)) => Some(concern.code),
        ErrorKind::InsertMany(many) => {
            let write = many.write_errors.iter().flatten().next().map(|write| write.code);
            write.or_else(|| many.write_concern_error.as_ref().map(|concern| concern.code))
        }
        _ => None,
    }
}

/// Returns true if the write is done where it was sent, and too few nodes have confirmed it.
pub(crate) fn is_not_durable(error: &Error) -> bool {
    match error.kind.as_ref() {
        ErrorKind::Write(WriteFailure::WriteConcernError(_)) => true,
        ErrorKind::InsertMany(many) => many.write_errors.iter().flatten().next().is_none(),
        _ => false,
    }
}

/// The error of a write with an unknown outcome; too few nodes have confirmed it, or no answer
/// came.
pub(crate) fn in_doubt(error: Error) -> OpError {
    let concern = match error.kind.as_ref() {
        ErrorKind::Write(WriteFailure::WriteConcernError(concern)) => concern,
        ErrorKind::InsertMany(many) => match &many.write_concern_error {
            Some(concern) => concern,
            None => return OpError::Unknown(error.into()),
        },
        _ => return OpError::Unknown(error.into()),
    };
    let asked = concern.details.as_ref().and_then(|details| details.get_document("writeConcern").ok());
    let asked = asked.map_or_else(|| "as many nodes as asked".to_owned(), Document::to_string);
    OpError::Unknown(BenchError::Failed(format!("the write is not confirmed by {asked}: {}", concern.message)))
}

/// The meaning of a failed write outside a transaction.
pub(crate) fn write_error(error: Error) -> OpError {
    match error_code(&error) {
        Some(DUPLICATE_KEY) => OpError::Duplicate,
        _ if is_not_durable(&error) => in_doubt(error),
        _ => OpError::from(error),
    }
}

/// Number of a command's updates that matched, by its answer.
pub(crate) fn matched(answer: &Document) -> OpResult<u64> {
    if let Ok(errors) = answer.get_array("writeErrors") {
        let codes = errors.iter().filter_map(|error| error.as_document()?.get_i32("code").ok());
        return match codes.into_iter().any(|code| code == DUPLICATE_KEY) {
            true => Err(OpError::Duplicate),
            false => Err(BenchError::Failed(format!("the server refused updates: {errors:?}")).into()),
        };
    }
    if let Ok(concern) = answer.get_document("writeConcernError") {
        return Err(OpError::Unknown(BenchError::Failed(format!("the updates are not durable: {concern}"))));
    }
    Ok(answer.get_i32("n").map_or(0, |n| u64::from(n.cast_unsigned())))
}

/// Returns true if the server was not reached, or its answer did not arrive.
pub(crate) fn is_unreachable(error: &Error) -> bool {
    let kind = error.kind.as_ref();
    matches!(kind, ErrorKind::Io(_) | ErrorKind::ConnectionPoolCleared { .. } | ErrorKind::ServerSelection { .. })
}
