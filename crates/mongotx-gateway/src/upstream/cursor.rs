//! A cursor of the backing server's, whose batches are passed on.

use std::{sync::Arc, time::Duration};

use bson::{RawDocument, RawDocumentBuf, rawdoc};
use mongotx::Namespace;

use super::lean::Lean;
use crate::{
    error::{CommandError, code},
    reply::Reply,
};

/// An open cursor of the server's. The server ends it when this is dropped.
pub(crate) struct ServerCursor {
    lean: Arc<Lean>,
    namespace: Namespace,
    /// Id of the cursor at the server; 0: the server has ended it.
    id: i64,
    /// True if a fetch waits for documents when there are none.
    pub(crate) awaits: bool,
}

/// The cursor in a server's reply.
pub(crate) struct ServerBatch<'a> {
    pub(crate) id: i64,
    pub(crate) documents: &'a bson::RawArray,
}

impl<'a> ServerBatch<'a> {
    /// The batch of this name in a reply.
    ///
    /// # Errors
    /// The reply has no cursor.
    pub(crate) fn of(reply: &'a RawDocument, name: &str) -> Result<Self, CommandError> {
        let parsed = || -> Result<Self, bson::error::Error> {
            let cursor = reply.get_document("cursor")?;
            let id = cursor.get_i64("id")?;
            Ok(Self { id, documents: cursor.get_array(name)? })
        };
        parsed().map_err(|error| CommandError::new(code::INTERNAL_ERROR, format!("the server's cursor: {error}")))
    }
}

impl ServerCursor {
    pub(super) fn new(lean: Arc<Lean>, namespace: Namespace, id: i64, awaits: bool) -> Self {
        Self { lean, namespace, id, awaits }
    }

    /// The server's reply with the next documents, at most `size`. `wait`: how long it waits for
    /// some, if it does.
    ///
    /// # Errors
    /// As [`super::Upstream::run_command`].
    pub(crate) async fn more(&mut self, size: Option<u64>, wait: Option<Duration>) -> Result<Reply, CommandError> {
        let mut command = rawdoc! {"getMore": self.id, "collection": self.namespace.coll.as_str()};
        if let Some(size) = size {
            command.append(bson::raw::cstr!("batchSize"), i64::try_from(size).unwrap_or(i64::MAX));
        }
        if let Some(wait) = wait {
            command.append(bson::raw::cstr!("maxTimeMS"), i64::try_from(wait.as_millis()).unwrap_or(i64::MAX));
        }
        let reply = self.lean.run_command(&self.namespace.db, &command, &[]).await?;
        if !reply.is_ok() || ServerBatch::of(reply.body(), "nextBatch")?.id == 0 {
            self.id = 0;
        }
        Ok(reply)
    }
}

impl Drop for ServerCursor {
    /// Closes the cursor in the background, if there is a runtime; otherwise the server closes it
    /// when it has not been used for a while.
    fn drop(&mut self) {
        if self.id == 0 {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let kill: RawDocumentBuf = rawdoc! {"killCursors": self.namespace.coll.as_str(), "cursors": [self.id]};
        let (lean, database) = (Arc::clone(&self.lean), self.namespace.db.clone());
        runtime.spawn(async move { lean.run_command(&database, &kill, &[]).await });
    }
}
