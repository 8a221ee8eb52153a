//! The answer of a query, read batch by batch as the caller asks for more.

use std::{collections::VecDeque, sync::Arc};

use bson::{RawDocumentBuf, doc};
use futures_util::TryStreamExt;
use mongodb::Cursor;
use tokio::{runtime::Handle, task::JoinHandle};

use super::{
    Server, in_time,
    lean::{Batch, collection_of},
};
use crate::{
    error::{Error, ErrorKind, Result},
    scoped,
};

/// The documents of a query that are left.
pub(crate) enum Stream {
    /// A cursor of the official driver.
    Driver(Box<Cursor<RawDocumentBuf>>),
    /// Read over connections of this library's own.
    Lean(LeanCursor),
}

impl Stream {
    /// The next document. The future may be dropped: no document is lost by that.
    pub(crate) async fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        match self {
            Self::Driver(cursor) => in_time(cursor.try_next()).await,
            Self::Lean(cursor) => cursor.next().await,
        }
    }

    /// Is it known that nothing is left?
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::Driver(_) => false,
            Self::Lean(cursor) => cursor.ready.is_empty() && cursor.open.is_none() && cursor.coming.is_none(),
        }
    }
}

/// A cursor that is asked for more over any connection to the server. Dropped, it is closed at the
/// server.
pub(crate) struct LeanCursor {
    server: Arc<Server>,
    runtime: Handle,
    /// Database and collection that the server keeps the cursor under, and its id there; `None`:
    /// the server has no more.
    open: Option<(String, String, i64)>,
    ready: VecDeque<RawDocumentBuf>,
    /// The next batch, on its way: a caller may stop waiting, and ask again.
    coming: Option<JoinHandle<Result<RawDocumentBuf>>>,
}

impl LeanCursor {
    /// The cursor of the answer to a query's first command.
    pub(super) fn of(server: &Arc<Server>, runtime: &Handle, answer: &RawDocumentBuf) -> Result<Self> {
        let mut cursor = Self {
            server: Arc::clone(server),
            runtime: runtime.clone(),
            open: None,
            ready: VecDeque::new(),
            coming: None,
        };
        let batch = Batch::of(answer, "firstBatch")?;
        if batch.id != 0 {
            let (db, coll) = collection_of(answer)?;
            cursor.open = Some((db, coll, batch.id));
        }
        cursor.take(&batch)?;
        Ok(cursor)
    }

    async fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        loop {
            if let Some(next) = self.ready.pop_front() {
                return Ok(Some(next));
            }
            if self.open.is_none() {
                return Ok(None);
            }
            if let Err(error) = self.read_on().await {
                // The batch that was under way is lost: nothing that could come after it is an
                // answer.
                self.coming = None;
                self.ready.clear();
                self.close();
                return Err(error);
            }
        }
    }

    async fn read_on(&mut self) -> Result<()> {
        let Some((db, coll, id)) = self.open.clone() else { return Ok(()) };
        let server = &self.server;
        let coming = self.coming.get_or_insert_with(|| {
            let (server, mut command) = (Arc::clone(server), doc! {"getMore": id, "collection": coll});
            // Here, because the task that sends it is another one. Without, the server goes on with
            // the comment of the query.
            scoped::add_comment(&mut command);
            self.runtime.spawn(async move { server.ask_raw(&db, &command).await })
        });
        let stopped = |_| Err(Error::new(ErrorKind::Closed, "the runtime of the client has ended"));
        let answer = coming.await.unwrap_or_else(stopped)?;
        self.coming = None;
        let batch = Batch::of(&answer, "nextBatch")?;
        if batch.id == 0 {
            self.open = None;
        }
        self.take(&batch)
    }

    fn take(&mut self, batch: &Batch<'_>) -> Result<()> {
        for document in batch.documents() {
            self.ready.push_back(document?.to_owned());
        }
        Ok(())
    }

    /// Ends the cursor. The answer does not matter: cursors that are not used end after a while.
    fn close(&mut self) {
        let Some((db, coll, id)) = self.open.take() else { return };
        let (server, coming) = (Arc::clone(&self.server), self.coming.take());
        self.runtime.spawn(async move {
            if let Some(coming) = coming {
                // The server refuses to close a cursor that is being read.
                drop(coming.await);
            }
            let _ = server.ask_raw(&db, &doc! {"killCursors": coll, "cursors": [id]}).await;
        });
    }
}

impl Drop for LeanCursor {
    fn drop(&mut self) {
        self.close();
    }
}
