//! Commands that MongoTx need not touch go to the backing server as they are, and its answer goes back as it is.

use bson::{Document, RawDocument};

use crate::{
    context::Context,
    error::{CommandError, code},
    reply::Reply,
    request::{Request, Sequence},
};

/// The backing server.
pub struct Upstream {
    driver: mongodb::Client,
}

impl Upstream {
    /// Connects at its first command.
    ///
    /// # Errors
    /// The connection string is not one.
    pub async fn new(uri: &str) -> mongodb::error::Result<Self> {
        Ok(Self { driver: mongodb::Client::with_uri_str(uri).await? })
    }

    /// Sends a command as it is and answers what the server answers, `ok: 0` included.
    ///
    /// # Errors
    /// The server cannot be reached, or went away before it answered.
    pub async fn run(
        &self,
        database: &str,
        body: &RawDocument,
        _sequences: &[Sequence],
    ) -> Result<Reply, CommandError> {
        match self.driver.database(database).run_raw_command(body.to_owned()).await {
            Ok(reply) => Ok(Reply::from(reply)),
            Err(error) => match error.server_response() {
                Some(reply) => Ok(Reply::from(reply.clone())),
                None => Err(CommandError::new(code::HOST_UNREACHABLE, error.to_string())),
            },
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

/// Passes a request on.
pub(crate) async fn run(context: &Context, request: &Request) -> Result<Reply, CommandError> {
    context.upstream.run(request.database(), request.body(), request.sequences()).await
}
