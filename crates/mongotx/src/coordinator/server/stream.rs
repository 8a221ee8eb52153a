//! The answer of a query, read batch by batch as the caller needs more.

use std::{collections::VecDeque, ops::Range, sync::Arc};

use bson::{RawArrayBuf, RawDocument, RawDocumentBuf, doc};
use futures_util::TryStreamExt;
use mongodb::Cursor;
use tokio::{runtime::Handle, task::JoinHandle};

use super::{
    Server, in_time,
    lean::{Batch, collection_of, unreadable},
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

    /// The next document as it lies in the server's answer, where it stays. `None`: nothing is
    /// left, or it can only be taken ([`Stream::next`]).
    pub(crate) async fn peek(&mut self) -> Result<Option<&RawDocument>> {
        match self {
            Self::Driver(_) => Ok(None),
            Self::Lean(cursor) => {
                cursor.fetch().await?;
                cursor.ready.first()
            }
        }
    }

    /// All documents that the server has sent together, if none of them was taken, and the array is
    /// `wanted`.
    pub(crate) fn take_batch(&mut self, wanted: impl FnOnce(&RawArrayBuf, usize) -> bool) -> Option<RawArrayBuf> {
        match self {
            Self::Driver(_) => None,
            Self::Lean(cursor) => cursor.ready.take_whole(wanted),
        }
    }

    /// Returns true if the server has sent all of the answer.
    pub(crate) fn has_come(&self) -> bool {
        match self {
            Self::Driver(_) => false,
            Self::Lean(cursor) => cursor.open.is_none() && cursor.coming.is_none(),
        }
    }

    /// Sets the number of documents that the server sends together from now on; 0: it decides.
    pub(crate) fn set_batch_size(&mut self, size: u32) {
        if let Self::Lean(cursor) = self {
            cursor.batch_size = size;
        }
    }

    /// Bytes of documents that have come and were not all taken yet, as far as that is known: the
    /// official driver does not say.
    pub(crate) fn buffered_bytes(&self) -> usize {
        match self {
            Self::Driver(_) => 0,
            Self::Lean(cursor) => cursor.ready.array.as_ref().map_or(0, |array| array.as_bytes().len()),
        }
    }

    /// Returns true if it is known that nothing is left.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::Driver(_) => false,
            Self::Lean(cursor) => cursor.ready.is_empty() && self.has_come(),
        }
    }
}

/// A cursor that fetches its next batch over any connection to the server. Dropped, it is closed at
/// the server.
pub(crate) struct LeanCursor {
    server: Arc<Server>,
    runtime: Handle,
    /// Database and collection that the server keeps the cursor under, and its id there; `None`:
    /// the server has no more.
    open: Option<(String, String, i64)>,
    ready: Ready,
    /// Documents that the server sends together; 0: it decides.
    batch_size: u32,
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
            ready: Ready::default(),
            batch_size: 0,
            coming: None,
        };
        let batch = Batch::of(answer, "firstBatch")?;
        if batch.id != 0 {
            let (db, coll) = collection_of(answer)?;
            cursor.open = Some((db, coll, batch.id));
        }
        cursor.ready = Ready::of(&batch)?;
        Ok(cursor)
    }

    async fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        self.fetch().await?;
        let first = self.ready.first()?.map(RawDocument::to_owned);
        self.ready.drop_first();
        Ok(first)
    }

    /// Waits until a document is there, or there are no more.
    async fn fetch(&mut self) -> Result<()> {
        while self.ready.is_empty() && self.open.is_some() {
            if let Err(error) = self.read_on().await {
                // The batch that was under way is lost: nothing that could come after it is an
                // answer.
                self.coming = None;
                self.ready = Ready::default();
                self.close();
                return Err(error);
            }
        }
        Ok(())
    }

    async fn read_on(&mut self) -> Result<()> {
        let Some((db, coll, id)) = self.open.clone() else { return Ok(()) };
        let (server, size) = (&self.server, self.batch_size);
        let coming = self.coming.get_or_insert_with(|| {
            let (server, mut command) = (Arc::clone(server), doc! {"getMore": id, "collection": coll});
            if size > 0 {
                command.insert("batchSize", i64::from(size));
            }
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
        self.ready = Ready::of(&batch)?;
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

/// Documents that the server has sent together, as one array, and the places in it of those that
/// were not taken yet.
#[derive(Default)]
struct Ready {
    array: Option<RawArrayBuf>,
    places: VecDeque<Range<usize>>,
    is_whole: bool,
}

impl Ready {
    /// # Errors
    /// The array has something in it that is no document.
    fn of(batch: &Batch<'_>) -> Result<Self> {
        let array = batch.array();
        let begin = array.as_bytes().as_ptr().addr();
        let mut places = VecDeque::new();
        for document in batch.documents() {
            let bytes = document?.as_bytes();
            let from = bytes.as_ptr().addr() - begin;
            places.push_back(from..from + bytes.len());
        }
        Ok(Self { array: Some(array.to_owned()), places, is_whole: true })
    }

    fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    fn first(&self) -> Result<Option<&RawDocument>> {
        let (Some(array), Some(place)) = (&self.array, self.places.front()) else { return Ok(None) };
        let bytes = array.as_bytes().get(place.clone()).ok_or_else(unreadable)?;
        RawDocument::from_bytes(bytes).map(Some).map_err(|_| unreadable())
    }

    fn drop_first(&mut self) {
        self.places.pop_front();
        self.is_whole = false;
        if self.places.is_empty() {
            self.array = None;
        }
    }

    fn take_whole(&mut self, wanted: impl FnOnce(&RawArrayBuf, usize) -> bool) -> Option<RawArrayBuf> {
        let is_wanted = self.is_whole
            && !self.is_empty()
            && self.array.as_ref().is_some_and(|array| wanted(array, self.places.len()));
        if !is_wanted {
            return None;
        }
        self.places.clear();
        self.array.take()
    }
}

impl Drop for LeanCursor {
    fn drop(&mut self) {
        self.close();
    }
}
