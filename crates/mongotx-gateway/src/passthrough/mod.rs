//! Commands that MongoTx need not touch go to the backing server as they are, and its answer goes back as it is.
//!
//! | file | what |
//! | --- | --- |
//! | `strip` | fields that a server without sessions and transactions refuses |
//! | `lean` | connections of the gateway's own (`mongowire`): bytes in, bytes out |
//! | `driver` | the way for servers whose primary has to be searched for, or that want to be spoken to otherwise: the official driver |

mod driver;
mod lean;
mod strip;

use bson::{Document, RawDocument};
use mongodb::options::ClientOptions;
use mongowire::Settings;

use self::lean::Lean;
use crate::{
    connection::Connection,
    context::Context,
    error::{CommandError, code},
    options::Limits,
    reply::Reply,
    request::{Request, Sequence},
};

/// The backing server.
pub struct Upstream {
    way: Way,
}

enum Way {
    Lean(Lean),
    Driver(mongodb::Client),
}

impl Upstream {
    /// Connects at its first command.
    ///
    /// # Errors
    /// The connection string is not one.
    pub(crate) async fn new(uri: &str, limits: &Limits) -> mongodb::error::Result<Self> {
        let mut options = ClientOptions::parse(uri).await?;
        options.app_name.get_or_insert_with(|| APP_NAME.to_owned());
        if let Some(settings) = Settings::of_driver(&options).filter(|_| options.repl_set_name.is_none()) {
            return Ok(Self { way: Way::Lean(Lean::new(settings, limits)) });
        }
        // A command is sent once.
        options.retry_reads = Some(false);
        options.retry_writes = Some(false);
        Ok(Self { way: Way::Driver(mongodb::Client::with_options(options)?) })
    }

    /// Sends a command as it is, once, and answers what the server answers, `ok: 0` included. Dropping the future closes
    /// the connection that the command went over.
    ///
    /// # Errors
    /// The server cannot be reached, or went away before it answered.
    pub async fn run(&self, database: &str, body: &RawDocument, sequences: &[Sequence]) -> Result<Reply, CommandError> {
        match &self.way {
            Way::Lean(lean) => lean.run(database, body, sequences).await,
            Way::Driver(client) => driver::run(client, database, body, sequences).await,
        }
    }

    /// As [`Upstream::run`], for a command of the gateway's own.
    ///
    /// # Errors
    /// As [`Upstream::run`].
    pub async fn run_document(&self, database: &str, command: &Document) -> Result<Reply, CommandError> {
        let body = bson::RawDocumentBuf::try_from(command)
            .map_err(|error| CommandError::new(code::INVALID_BSON, error.to_string()))?;
        self.run(database, &body, &[]).await
    }
}

/// How the gateway calls itself in the server's logs.
const APP_NAME: &str = "mongotx gateway";

/// Passes a request on. It is given up when the client is gone.
pub(crate) async fn run(context: &Context, connection: &Connection, request: &Request) -> Result<Reply, CommandError> {
    let body = strip::strip(request.body())?;
    tokio::select! {
        reply = context.upstream.run(request.database(), &body, request.sequences()) => reply,
        () = connection.gone() => Err(CommandError::new(code::CLIENT_DISCONNECT, "nobody waits for an answer")),
    }
}
