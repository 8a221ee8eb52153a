//! One open cursor, and the batches that are taken from it.

use std::sync::Arc;

use bson::{RawArrayBuf, RawDocumentBuf, Timestamp};
use mongotx::Cursor;

use super::gathered::{Gathered, Gathering, GatheringLimits};
use crate::{
    changes::ChangeStream,
    failure::{Answer, Failure, codes},
    memory::{HeldMemory, Memory},
    upstream::ServerCursor,
};

/// The most bytes of documents in one reply; one document may be larger.
const BATCH_BYTES: usize = 16 * 1024 * 1024;
/// Documents of a first batch when the client names no number.
pub(crate) const FIRST_BATCH: usize = 101;

/// A query whose documents were not all sent yet.
pub(crate) struct OpenCursor {
    documents: Source,
    /// A document that was fetched and did not fit.
    ahead: Option<RawDocumentBuf>,
    /// Documents that may still be sent; `None`: all there are.
    left: Option<u64>,
    /// Name of the moment that all documents are of, if they are of one.
    pub(crate) moment: Option<Timestamp>,
    /// Memory of the documents that wait for the next command.
    held: Option<HeldMemory>,
}

/// The source of the documents of a cursor.
enum Source {
    Query(Box<Cursor<RawDocumentBuf>>),
    AtHand(std::vec::IntoIter<RawDocumentBuf>),
    Gathered(Gathered),
    /// A cursor of the server: its batches are passed on unchanged.
    Server(ServerCursor),
    /// A change stream, whose batches wait for events that are not committed yet.
    Changes(Box<ChangeStream>),
}

/// Documents of a cursor for one reply.
pub(crate) struct Batch {
    pub(crate) documents: RawArrayBuf,
    /// True if there are no more documents.
    pub(crate) is_last: bool,
}

impl OpenCursor {
    /// A query that answers at most `limit` documents (0: all).
    pub(crate) fn of_query(documents: Cursor<RawDocumentBuf>, limit: u64) -> Self {
        Self {
            documents: Source::Query(Box::new(documents)),
            ahead: None,
            left: (limit > 0).then_some(limit),
            moment: None,
            held: None,
        }
    }

    fn of(documents: Source) -> Self {
        Self { documents, ahead: None, left: None, moment: None, held: None }
    }

    /// Documents that are here already.
    pub(crate) fn of_documents(documents: Vec<RawDocumentBuf>) -> Self {
        Self::of(Source::AtHand(documents.into_iter()))
    }

    /// A cursor of the server's, whose batches are passed on.
    pub(crate) fn of_server(cursor: ServerCursor) -> Self {
        Self::of(Source::Server(cursor))
    }

    /// The cursor of a change stream.
    pub(crate) fn of_changes(stream: ChangeStream) -> Self {
        Self::of(Source::Changes(Box::new(stream)))
    }

    /// Is it a change stream?
    pub(crate) fn is_changes(&self) -> bool {
        matches!(self.documents, Source::Changes(_))
    }

    /// The change stream, if it is one; else this again.
    pub(crate) fn into_changes(self) -> Result<Box<ChangeStream>, Box<Self>> {
        match self.documents {
            Source::Changes(stream) => Ok(stream),
            documents => Err(Box::new(Self { documents, ..self })),
        }
    }

    /// The server's cursor, if it is one; else this again.
    pub(crate) fn into_server(self) -> Result<ServerCursor, Box<Self>> {
        match self.documents {
            Source::Server(cursor) => Ok(cursor),
            documents => Err(Box::new(Self { documents, ..self })),
        }
    }

    /// The same documents, or the first `most` of them, read now: they need no server any more.
    ///
    /// # Errors
    /// 146 when there is no room for them.
    pub(crate) async fn gathered(
        mut self,
        most: Option<usize>,
        room: GatheringLimits,
        held: HeldMemory,
    ) -> Answer<Self> {
        let most = [most.map(|most| most as u64), self.left].into_iter().flatten().min();
        let mut gathering = Gathering::new(room, held);
        while most.is_none_or(|most| (gathering.count() as u64) < most) {
            let Some(document) = self.next().await? else { break };
            gathering.add(document)?;
        }
        Ok(Self { documents: Source::Gathered(gathering.finish()), ..self })
    }

    /// Counts the documents that are here and wait for the next command.
    ///
    /// # Errors
    /// 146 when the gateway has no memory left for them.
    pub(crate) fn keep(&mut self, memory: &Arc<Memory>) -> Answer<()> {
        let source = match &self.documents {
            Source::Query(cursor) => cursor.buffered_bytes(),
            Source::AtHand(documents) => documents.as_slice().iter().map(|one| one.as_bytes().len()).sum(),
            Source::Changes(stream) => stream.ready_bytes(),
            // The first counts itself, and the other waits at the server.
            Source::Gathered(_) | Source::Server(_) => 0,
        };
        let mut held = memory.hold();
        held.grow_kept(source + self.ahead.as_ref().map_or(0, |one| one.as_bytes().len())).map_err(|full| {
            let message = format!(
                "the gateway has no memory left to keep this cursor's documents: {} bytes, the limit for it (half of --max-memory-mib), are held; fetch answers to their end, or in batches of fewer documents",
                full.limit_bytes
            );
            Failure::new(codes::EXCEEDED_MEMORY_LIMIT, message)
        })?;
        self.held = Some(held);
        Ok(())
    }

    /// The server sends so many documents as the client wants, and the rest waits there.
    fn fetch_at_most(&mut self, size: Option<usize>) {
        let most = [size.map(|size| size as u64), self.left].into_iter().flatten().min();
        if let Source::Query(cursor) = &mut self.documents {
            cursor.set_batch_size(most.map_or(0, |most| u32::try_from(most).unwrap_or(u32::MAX)));
        }
    }

    async fn next(&mut self) -> Answer<Option<RawDocumentBuf>> {
        if let Some(ahead) = self.ahead.take() {
            return Ok(Some(ahead));
        }
        match &mut self.documents {
            Source::Query(cursor) => Ok(cursor.next().await?),
            Source::AtHand(documents) => Ok(documents.next()),
            Source::Gathered(documents) => Ok(documents.next()),
            Source::Server(_) | Source::Changes(_) => Ok(None),
        }
    }

    /// The documents that the server sends together next, as its array, where nothing stands before
    /// them and they are at most `most`. Empty: they are to be read one by one, or there are none.
    async fn whole(&mut self, most: usize) -> Answer<RawArrayBuf> {
        let Source::Query(cursor) = &mut self.documents else { return Ok(RawArrayBuf::new()) };
        let most = self.left.map_or(most, |left| usize::try_from(left).unwrap_or(usize::MAX).min(most));
        if most == 0 || self.ahead.is_some() {
            return Ok(RawArrayBuf::new());
        }
        Ok(cursor.next_batch_raw(most, BATCH_BYTES).await?.unwrap_or_default())
    }

    /// The next documents, at most `size` (`None`: as many as fit). As in the server, a batch that
    /// is full does not tell whether it is the last one, unless the limit is reached.
    pub(crate) async fn batch(&mut self, size: Option<usize>) -> Answer<Batch> {
        self.held = None;
        self.fetch_at_most(size);
        let mut documents = self.whole(size.unwrap_or(usize::MAX)).await?;
        let (mut count, mut bytes) = documents.into_iter().flatten().fold((0, 0), |(count, bytes), one| {
            (count + 1, bytes + one.as_document().map_or(0, |one| one.as_bytes().len()))
        });
        self.left = self.left.map(|left| left.saturating_sub(count as u64));
        while size.is_none_or(|size| count < size) && self.left != Some(0) {
            let Some(document) = self.next().await? else { return Ok(Batch { documents, is_last: true }) };
            bytes += document.as_bytes().len();
            if count > 0 && bytes > BATCH_BYTES {
                self.ahead = Some(document);
                break;
            }
            documents.push(document);
            count += 1;
            self.left = self.left.map(|left| left - 1);
        }
        Ok(Batch { documents, is_last: self.left == Some(0) })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::rawdoc;
    use prometheus_client::metrics::gauge::Gauge;

    use super::*;

    fn numbered(count: i32) -> OpenCursor {
        OpenCursor::of_documents((0..count).map(|n| rawdoc! {"n": n}).collect())
    }

    async fn counts(open: &mut OpenCursor, size: Option<usize>) -> (usize, bool) {
        let batch = open.batch(size).await.unwrap();
        (batch.documents.into_iter().count(), batch.is_last)
    }

    #[tokio::test]
    async fn a_full_batch_does_not_know_that_it_is_the_last() {
        let mut open = numbered(4);
        assert_eq!(counts(&mut open, Some(2)).await, (2, false));
        assert_eq!(counts(&mut open, Some(2)).await, (2, false));
        assert_eq!(counts(&mut open, Some(2)).await, (0, true));
    }

    #[tokio::test]
    async fn what_waits_for_the_next_command_is_counted_until_then() {
        let shown = Gauge::default();
        let (memory, bytes) = (Memory::new(100, shown.clone()), rawdoc! {"n": 1}.as_bytes().len() as i64);
        let mut open = numbered(6);
        assert_eq!(open.keep(&memory).unwrap_err().code, 146);
        assert_eq!(shown.get(), 0);
        assert_eq!(counts(&mut open, Some(3)).await, (3, false));
        open.keep(&memory).unwrap();
        assert_eq!(shown.get(), 3 * bytes);
        assert_eq!(counts(&mut open, Some(2)).await, (2, false));
        assert_eq!(shown.get(), 0);
        open.keep(&memory).unwrap();
        assert_eq!(shown.get(), bytes);
    }

    #[tokio::test]
    async fn a_limit_that_is_reached_ends_it() {
        let mut open = OpenCursor { left: Some(3), ..numbered(9) };
        assert_eq!(counts(&mut open, Some(0)).await, (0, false));
        assert_eq!(counts(&mut open, Some(2)).await, (2, false));
        assert_eq!(counts(&mut open, Some(2)).await, (1, true));
    }

    #[tokio::test]
    async fn what_does_not_fit_comes_with_the_next_batch() {
        let large = || rawdoc! {"x": "x".repeat(9 * 1024 * 1024)};
        let mut open = OpenCursor::of_documents(vec![large(), large(), large()]);
        for (wanted, is_last) in [(1, false), (1, false), (1, true)] {
            assert_eq!(counts(&mut open, None).await, (wanted, is_last));
        }
    }
}
