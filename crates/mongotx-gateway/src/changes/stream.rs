//! An open change stream: it reads events behind its position, and makes batches of those that are
//! its own.
//!
//! 1. Read the next events. None: wait, until the batch is due.
//! 2. Those of its scope get MongoDB's shape; documents that are to be looked up are.
//! 3. The client's stages, if there are any, are run by the server, on the shaped events as
//!    literals.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bson::{Bson, Document, RawDocumentBuf, doc};
use mongotx::{Client, Event, Position};
use tokio::time::Instant;

use super::{
    Image, Start, StreamOptions, shape,
    token::{Kind, Token},
};
use crate::{
    failure::{Answer, Failure, NOT_RESUMABLE_CHANGE_STREAM_ERROR, RESUMABLE_CHANGE_STREAM_ERROR, codes},
    session::labels::add_for_changes,
    upstream::{ServerBatch, Upstream},
};

/// Events that are read at a time.
const READ: u32 = 128;
/// Bytes of events on which the server runs stages in one command; a single one may be larger.
const STAGED_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of one batch; a single event may be larger.
const BATCH_BYTES: usize = 16 * 1024 * 1024;

/// An open change stream: its options, its position, and the events that wait to be delivered.
pub(crate) struct ChangeStream {
    asked: Arc<StreamOptions>,
    /// Position behind all events that were read.
    position: Position,
    /// Events that are read and not delivered.
    ready: VecDeque<(Token, RawDocumentBuf)>,
    /// The stream ends behind the events that are ready.
    is_over: bool,
}

/// The documents and the token of one batch.
pub(crate) struct Delivery {
    pub(crate) documents: Vec<RawDocumentBuf>,
    /// The token behind the last event delivered.
    pub(crate) token: Token,
    pub(crate) is_over: bool,
}

/// The client, the server connections and the database that a stream reads from.
#[derive(Clone, Copy)]
pub(crate) struct Sources<'a> {
    pub(crate) client: &'a Client,
    pub(crate) upstream: &'a Upstream,
    /// The database of the client records, which has the events.
    pub(crate) records: &'a str,
}

impl ChangeStream {
    /// Opens a stream, and reads no event yet.
    ///
    /// # Errors
    /// 286 for events that were removed, 260 for a token of a stream that has ended, and the
    /// server's for stages that it refuses.
    pub(crate) async fn open(asked: StreamOptions, from: Sources<'_>) -> Answer<Self> {
        let changes = from.client.changes();
        let now = changes.now().await.map_err(failed)?;
        let (mut position, mut ready, mut is_over) = (now, VecDeque::new(), false);
        match &asked.start {
            Start::Now => {}
            Start::At(time) => position = changes.from(*time).await.map_err(failed)?,
            Start::After { token, may_be_over } => {
                position = token.position;
                if position.era != now.era || position.number > now.number {
                    let message = "Resume of change stream was not possible, as the resume point may no longer be there: it is of other events";
                    return Err(lost(message));
                }
                if token.kind == Kind::Invalidate && !may_be_over {
                    let message = "Attempting to resume a change stream using 'resumeAfter' is not allowed from an invalidate notification.";
                    return Err(Failure::new(codes::INVALID_RESUME_TOKEN, message));
                }
                if token.kind == Kind::Event
                    && let Some(event) = changes.at(position).await.map_err(failed)?
                    && asked.scope.has(&event.document)
                    && asked.scope.is_ended_by(&event.document)
                {
                    ready.push_back(with_token(shape::invalidate(&event))?);
                    is_over = true;
                }
            }
        }
        let stream = Self { asked: Arc::new(asked), position, ready, is_over };
        if !stream.asked.stages.is_empty() {
            stream.staged(Vec::new(), from).await?;
        }
        Ok(stream)
    }

    /// The next events, at most `size`, as soon as there are any; none if there are none in time.
    ///
    /// # Errors
    /// 286 for events that were removed; what a driver may resume after is labelled.
    pub(crate) async fn batch(&mut self, size: Option<usize>, until: Instant, from: Sources<'_>) -> Answer<Delivery> {
        while self.ready.is_empty() && !self.is_over && size != Some(0) {
            let events = from.client.changes().after(self.position, READ).await.map_err(failed)?;
            if !events.is_empty() {
                self.take(events, from).await?;
                continue;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left == Duration::ZERO || !from.client.changes().wait(self.position, left).await.map_err(failed)? {
                break;
            }
        }
        Ok(self.delivered(size.unwrap_or(usize::MAX)))
    }

    /// Bytes of the events that wait to be delivered.
    pub(crate) fn ready_bytes(&self) -> usize {
        self.ready.iter().map(|(_, event)| event.as_bytes().len()).sum()
    }

    fn delivered(&mut self, size: usize) -> Delivery {
        let (mut documents, mut bytes, mut last) = (Vec::new(), 0, None);
        while documents.len() < size
            && let Some((token, document)) = self.ready.pop_front()
        {
            bytes += document.as_bytes().len();
            if !documents.is_empty() && bytes > BATCH_BYTES {
                self.ready.push_front((token, document));
                break;
            }
            documents.push(document);
            last = Some(token);
        }
        let behind = Token { position: self.position, kind: Kind::Batch };
        let token = match last {
            Some(token) if !self.ready.is_empty() || self.is_over => token,
            Some(token) if token.position == behind.position => token,
            // Events are ready that the client did not fetch: the place of the last delivered one
            // is not known here any more.
            None if !self.ready.is_empty() => self.ready.front().map_or(behind, |(first, _)| before(*first)),
            _ => behind,
        };
        Delivery { documents, token, is_over: self.is_over && self.ready.is_empty() }
    }

    /// Shapes the events and applies the client's stages: steps 2 and 3.
    async fn take(&mut self, events: Vec<Event>, from: Sources<'_>) -> Answer<()> {
        let (mut shaped, mut bytes) = (Vec::new(), 0);
        for event in events {
            // The rest is read again.
            if bytes + self.ready_bytes() > BATCH_BYTES {
                break;
            }
            self.position = event.position;
            if !self.asked.scope.has(&event.document) {
                continue;
            }
            let mut one = shape::shaped(&self.asked, &event)?;
            if self.asked.after == Image::Lookup {
                look_up(&mut one, from).await?;
            }
            let more = one.to_vec().map_or(0, |bytes| bytes.len());
            // A large one goes alone: one command could not hold it beside others.
            if bytes + more > STAGED_BYTES {
                bytes = 0;
                self.put(std::mem::take(&mut shaped), from).await?;
            }
            bytes += more;
            shaped.push(one);
            if self.asked.scope.is_ended_by(&event.document) {
                shaped.push(shape::invalidate(&event));
                self.is_over = true;
                break;
            }
        }
        self.put(shaped, from).await
    }

    async fn put(&mut self, shaped: Vec<Document>, from: Sources<'_>) -> Answer<()> {
        if shaped.is_empty() {
            return Ok(());
        }
        let staged = if self.asked.stages.is_empty() { shaped } else { self.staged(shaped, from).await? };
        for event in staged {
            self.ready.push_back(with_token(event)?);
        }
        Ok(())
    }

    /// The result of the client's stages for these events. The pipeline gets them from the one
    /// document that is there whenever events are.
    async fn staged(&self, shaped: Vec<Document>, from: Sources<'_>) -> Answer<Vec<Document>> {
        let literal: Vec<Bson> = shaped.into_iter().map(Bson::Document).collect();
        let mut pipeline = vec![
            doc! {"$match": {"_id": "sequence"}},
            doc! {"$project": {"_id": 0, "event": {"$literal": literal}}},
            doc! {"$unwind": "$event"},
            doc! {"$replaceWith": "$event"},
        ];
        pipeline.extend(self.asked.stages.iter().cloned());
        let most = i32::MAX;
        let mut command = doc! {"aggregate": "events", "pipeline": pipeline, "cursor": {"batchSize": most}};
        if let Some(collation) = &self.asked.collation {
            command.insert("collation", collation.clone());
        }
        if let Some(variables) = &self.asked.variables {
            command.insert("let", variables.clone());
        }
        let reply =
            from.upstream.run_document(from.records, &command).await.map_err(|error| add_for_changes(error.into()))?;
        if !reply.is_ok() {
            let reply = Document::try_from(reply.body()).map_err(mongotx::Error::from)?;
            let code = reply.get_i32("code").unwrap_or(codes::INTERNAL_ERROR);
            return Err(Failure::new(code, reply.get_str("errmsg").unwrap_or_default()));
        }
        let batch = ServerBatch::of(reply.body(), "firstBatch")?;
        if batch.id != 0 {
            let message = "the events of one batch take more than the limit of one reply behind the stream's stages";
            return Err(Failure::new(codes::OBJECT_TOO_LARGE, message).labelled(NOT_RESUMABLE_CHANGE_STREAM_ERROR));
        }
        let mut events = Vec::new();
        for event in batch.documents {
            let event = event.map_err(mongotx::Error::from)?;
            let Some(event) = event.as_document() else { continue };
            events.push(mongotx::document::exact(event)?);
        }
        Ok(events)
    }
}

/// The same place, before its event. The end of a stream is at the place of the event that ends it,
/// which was delivered.
fn before(token: Token) -> Token {
    if token.kind == Kind::Invalidate {
        return Token { kind: Kind::Event, ..token };
    }
    let position = Position { number: token.position.number - 1, ..token.position };
    Token { position, kind: Kind::Batch }
}

/// An event of an update, with the document as it is now.
async fn look_up(event: &mut Document, from: Sources<'_>) -> Answer<()> {
    if event.get("operationType").and_then(Bson::as_str) != Some("update") {
        return Ok(());
    }
    let (Ok(ns), Ok(key)) = (event.get_document("ns"), event.get_document("documentKey")) else { return Ok(()) };
    let database = from.client.database(ns.get_str("db").unwrap_or_default());
    let collection = database.collection::<Document>(ns.get_str("coll").unwrap_or_default());
    let id = key.get("_id").cloned().unwrap_or(Bson::Null);
    let found = collection.find_one(doc! {"_id": {"$eq": id}}).await.map_err(failed)?;
    event.insert("fullDocument", found.map_or(Bson::Null, Bson::Document));
    Ok(())
}

/// The event with its token, for the client.
///
/// # Errors
/// 280 if the client's stages have changed the token.
fn with_token(event: Document) -> Answer<(Token, RawDocumentBuf)> {
    let Some(token) = Token::of_event(&event) else {
        let found = event.get("_id").map_or_else(|| "(NONE)".to_owned(), ToString::to_string);
        let message = format!(
            "Encountered an event whose _id field, which contains the resume token, was modified by the pipeline. Modifying the _id \
             field of an event makes it impossible to resume the stream from that point. Only transformations that retain the \
             unmodified _id field are allowed. Found: {found}"
        );
        return Err(Failure::new(codes::CHANGE_STREAM_FATAL, message).labelled(NOT_RESUMABLE_CHANGE_STREAM_ERROR));
    };
    let raw = RawDocumentBuf::try_from(&event)
        .map_err(|error| Failure::new(codes::INTERNAL_ERROR, format!("an event is no BSON: {error}")))?;
    Ok((token, raw))
}

/// An error of the library's, outside transactions.
fn failed(error: mongotx::Error) -> Failure {
    let code = error.code();
    let failure = Failure::from(&error).outside();
    match code {
        Some(codes::CHANGE_STREAM_HISTORY_LOST) => failure.labelled(NOT_RESUMABLE_CHANGE_STREAM_ERROR),
        _ if failure.code == codes::WRITE_CONFLICT => failure.labelled(RESUMABLE_CHANGE_STREAM_ERROR),
        _ => add_for_changes(failure),
    }
}

fn lost(message: &str) -> Failure {
    Failure::new(codes::CHANGE_STREAM_HISTORY_LOST, message).labelled(NOT_RESUMABLE_CHANGE_STREAM_ERROR)
}
