//! The backing server as it is: commands go to it as they are, and its answers come back as they
//! are.
//!
//! | file | what |
//! | --- | --- |
//! | `lean` | connections of the gateway's own (`mongowire`): bytes in, bytes out |
//! | `cursor` | a cursor of the server's, whose batches are passed on |
//! | `driver` | the way for servers whose primary has to be searched for, or that want to be spoken to otherwise: the official driver |

mod cursor;
mod driver;
mod lean;

use std::sync::Arc;

use bson::{Document, RawDocument};
use mongodb::options::ClientOptions;
use mongotx::Namespace;
use mongowire::Settings;

pub(crate) use self::cursor::{ServerBatch, ServerCursor};
use self::lean::Lean;
use crate::{
    error::{Code, CommandError, code},
    failure::Failure,
    options::Limits,
    reply::Reply,
    request::Sequence,
};

/// A command that the server has not answered.
#[derive(Debug)]
pub(crate) struct Unanswered {
    /// The error for the client.
    error: CommandError,
    /// True if the command certainly did not reach the server, so that it may be sent again.
    is_unsent: bool,
}

impl Unanswered {
    /// The command could not be sent.
    fn unsent(code: Code, message: impl Into<String>) -> Self {
        Self { error: CommandError::new(code, message), is_unsent: true }
    }
}

impl From<Unanswered> for CommandError {
    fn from(unanswered: Unanswered) -> Self {
        unanswered.error
    }
}

impl From<Unanswered> for Failure {
    fn from(Unanswered { error, is_unsent }: Unanswered) -> Self {
        Self { is_unsent, ..Self::from(error) }
    }
}

/// The connection to the backing server.
pub struct Upstream {
    transport: Transport,
}

/// The way to the backing server: lean connections, or the driver.
enum Transport {
    Lean {
        commands: Arc<Lean>,
        /// Connections of their own for cursors that wait for documents: they would keep all others
        /// waiting.
        waiting: Arc<Lean>,
        /// Connections over which the gateway sends its own commands ([`Lane::Own`]).
        own: Arc<Lean>,
    },
    Driver {
        commands: mongodb::Client,
        own: mongodb::Client,
    },
}

/// Connections to the backing server that commands wait for together. What goes over one lane never
/// waits for what goes over the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Commands of clients: as many at a time as `Limits::upstream` says.
    Clients,
    /// The gateway's own commands, and those by which an operator ends what occupies the server: a
    /// few at a time, which are short.
    Own,
}

/// Most connections over which the gateway sends its own commands ([`Lane::Own`]).
const OWN_CONNECTIONS: u32 = 3;

impl Upstream {
    /// Connects at its first command.
    ///
    /// # Errors
    /// The connection string is malformed.
    pub(crate) async fn new(uri: &str, limits: &Limits) -> mongodb::error::Result<Self> {
        let mut options = ClientOptions::parse(uri).await?;
        options.app_name.get_or_insert_with(|| APP_NAME.to_owned());
        if let Some(settings) = Settings::from_driver_options(&options).filter(|_| options.repl_set_name.is_none()) {
            const BY: &str = "--max-upstream-connections, --upstream-wait";
            let lean = |most, by| Arc::new(Lean::new(settings.clone(), most, limits.upstream_wait, by));
            let [commands, waiting] = [(); 2].map(|()| lean(limits.upstream, BY));
            let own = lean(OWN_CONNECTIONS as usize, "those for the gateway's own commands; --upstream-wait");
            return Ok(Self { transport: Transport::Lean { commands, waiting, own } });
        }
        // A command is sent once.
        options.retry_reads = Some(false);
        options.retry_writes = Some(false);
        let mut own = options.clone();
        own.max_pool_size = Some(OWN_CONNECTIONS);
        let [commands, own] = [options, own].map(mongodb::Client::with_options);
        Ok(Self { transport: Transport::Driver { commands: commands?, own: own? } })
    }

    /// Sends a command as it is, once, and answers what the server answers, `ok: 0` included.
    /// Dropping the future closes the connection that the command went over.
    ///
    /// # Errors
    /// The server cannot be reached, or went away before it answered.
    pub async fn run_command(
        &self,
        database: &str,
        body: &RawDocument,
        sequences: &[Sequence],
    ) -> Result<Reply, CommandError> {
        Ok(self.run_command_on(Lane::Clients, database, body, sequences).await?)
    }

    /// As [`Upstream::run_command`], over the connections of this lane.
    ///
    /// # Errors
    /// As [`Upstream::run_command`].
    pub(crate) async fn run_command_on(
        &self,
        lane: Lane,
        database: &str,
        body: &RawDocument,
        sequences: &[Sequence],
    ) -> Result<Reply, Unanswered> {
        match (&self.transport, lane) {
            (Transport::Lean { commands: lean, .. }, Lane::Clients)
            | (Transport::Lean { own: lean, .. }, Lane::Own) => lean.run_command(database, body, sequences).await,
            (Transport::Driver { commands: client, .. }, Lane::Clients)
            | (Transport::Driver { own: client, .. }, Lane::Own) => {
                driver::run_command(client, database, body, sequences).await
            }
        }
    }

    /// Returns true if the gateway can fetch from the server's cursors: those that a driver opens
    /// belong to sessions of the driver's own.
    pub(crate) fn has_cursors(&self) -> bool {
        matches!(self.transport, Transport::Lean { .. })
    }

    /// The cursor that the server has opened under this id. `None` where there are none.
    pub(crate) fn cursor(&self, namespace: &Namespace, id: i64, awaits: bool) -> Option<ServerCursor> {
        match &self.transport {
            Transport::Lean { commands, waiting, .. } => {
                let lean = if awaits { waiting } else { commands };
                Some(ServerCursor::new(Arc::clone(lean), namespace.clone(), id, awaits))
            }
            Transport::Driver { .. } => None,
        }
    }

    /// As [`Upstream::run_command`], for a command that was made here on behalf of a client.
    ///
    /// # Errors
    /// As [`Upstream::run_command`].
    pub async fn run_document(&self, database: &str, command: &Document) -> Result<Reply, CommandError> {
        Ok(self.run_document_on(Lane::Clients, database, command).await?)
    }

    /// As [`Upstream::run_document`], over the connections of this lane.
    ///
    /// # Errors
    /// As [`Upstream::run_command`].
    pub(crate) async fn run_document_on(
        &self,
        lane: Lane,
        database: &str,
        command: &Document,
    ) -> Result<Reply, Unanswered> {
        let body = bson::RawDocumentBuf::try_from(command)
            .map_err(|error| Unanswered::unsent(code::INVALID_BSON, error.to_string()))?;
        self.run_command_on(lane, database, &body, &[]).await
    }
}

/// Name of the gateway in the server's logs.
const APP_NAME: &str = "mongotx gateway";
