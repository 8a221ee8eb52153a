//! Reading events in their order.
//!
//! 1. Read those above the position, by number, at read committed.
//! 2. Accept the first ones, as long as each number follows the last: a scan that passes a number
//!    before that is committed may find a later one.
//! 3. The first one is not the next number: ask for that by its `_id`. What was committed later is
//!    there, so this one is as well, unless it was removed.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use bson::{Bson, Document, Timestamp, doc, oid::ObjectId};
use tokio::time::{Instant, timeout_at};

use crate::{
    command::isolation::committed,
    coordinator::{
        Core,
        events::SEQUENCE,
        request::{query::Query, query_options::QueryOptions},
    },
    document,
    error::{Error, Result},
    numbers::as_i64,
};

/// Number of MongoDB's error `ChangeStreamHistoryLost`.
const HISTORY_LOST: i32 = 286;
/// Bytes of events that are read at a time; the last of them may be larger.
const READ_BYTES: usize = 16 * 1024 * 1024;
/// Interval at which a caller that waits looks for events of other clients.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A place in the events of a deployment: behind the one with this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    /// Era of the collection of events: another one if that was dropped and made anew.
    pub era: ObjectId,
    /// Number of the last event before it; zero at the beginning.
    pub number: i64,
}

/// An event, as it is stored.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Event {
    /// The position behind the event.
    pub position: Position,
    /// `operationType`, `ns`, `documentKey`, `clusterTime` and so on, under MongoDB's names;
    /// `origin` if the transaction has one; of an update `postImage` where images are kept.
    pub document: Document,
}

/// Reads events. It has the whole client, because it reads them with the command `find`, which
/// takes it.
pub(crate) struct EventReader<'a> {
    core: &'a Core,
}

impl<'c> EventReader<'c> {
    pub(crate) fn of(core: &'c Core) -> Self {
        Self { core }
    }

    /// The position behind all events that are committed now.
    pub(crate) async fn last_position(&self) -> Result<Position> {
        self.core.events.ensure_sequence().await?;
        let query = Query::of(doc! {"_id": SEQUENCE}, QueryOptions::default());
        let found = committed::find(self.core, None, &self.core.events.ns, &query).await?.all(1).await?.pop();
        let sequence = found.unwrap_or_default();
        let era = sequence.get_object_id("era").map_err(|_| {
            self.core.events.has_sequence.store(false, SeqCst);
            lost("the change events were dropped")
        })?;
        Ok(Position { era, number: sequence.get("n").map_or(0, as_i64) })
    }

    /// The next events, at most `limit`, and as many as take [`READ_BYTES`]; none if there are none
    /// yet.
    pub(crate) async fn events_after(&self, position: Position, limit: u32) -> Result<Vec<Event>> {
        let mut next = position.number + 1;
        let mut found = self.read_events(doc! {"_id": {"$gt": position.number}}, limit).await?;
        if found.first().is_some_and(|first| number_of(first) != next) {
            found = self.read_events(doc! {"_id": next}, 1).await?;
            if found.is_empty() {
                return Err(lost(&format!("the change event {next}, which is the next one, was removed")));
            }
        }
        let mut events = Vec::new();
        for document in found {
            if number_of(&document) != next {
                break;
            }
            events.push(event(position, document)?);
            next += 1;
        }
        Ok(events)
    }

    /// The event behind this position, which a client has seen before. `None`: it was removed.
    pub(crate) async fn event_at(&self, position: Position) -> Result<Option<Event>> {
        let found = self.read_events(doc! {"_id": position.number}, 1).await?.pop();
        found.map(|document| event(position, document)).transpose()
    }

    /// In front of the first event that is not earlier than this.
    pub(crate) async fn position_at(&self, time: Timestamp) -> Result<Position> {
        let last = self.last_position().await?;
        let oldest = self.read_events(doc! {"_id": {"$gte": 0}}, 1).await?.pop();
        let Some(oldest) = oldest.map(|document| event(last, document)).transpose()? else { return Ok(last) };
        let (mut low, mut high) = (oldest.position.number, last.number + 1);
        if time_of(&oldest) >= time && low > 1 {
            return Err(lost("the resume point is earlier than the oldest change event that is kept"));
        }
        // Below `low` all are earlier, from `high` on none is.
        while low < high {
            let middle = low + (high - low) / 2;
            let found = self.event_at(Position { number: middle, ..last }).await?;
            // Events that were removed meanwhile are earlier than all that are kept.
            match found {
                Some(event) if time_of(&event) >= time => high = middle,
                _ => low = middle + 1,
            }
        }
        Ok(Position { number: low - 1, ..last })
    }

    /// Waits until there is an event behind the position, until `deadline` at most.
    pub(crate) async fn await_event(&self, position: Position, deadline: Instant) -> Result<bool> {
        let mut latest = self.core.events.latest.subscribe();
        loop {
            let last = self.last_position().await?;
            if last.era != position.era {
                return Err(lost("the change events were dropped, and begin anew"));
            }
            if last.number > position.number {
                return Ok(true);
            }
            let now = Instant::now();
            if now >= deadline {
                return Ok(false);
            }
            // The sender lives as long as the client does.
            let newer = latest.wait_for(|latest| *latest > position.number);
            let _ = timeout_at(deadline.min(now + LOOK_EVERY), newer).await;
        }
    }

    async fn read_events(&self, filter: Document, limit: u32) -> Result<Vec<Document>> {
        let query =
            Query { sort: Some(doc! {"_id": 1}), limit: limit.into(), ..Query::of(filter, QueryOptions::default()) };
        let mut found = committed::find(self.core, None, &self.core.events.ns, &query).await?;
        let (mut documents, mut bytes) = (Vec::new(), 0);
        while bytes < READ_BYTES
            && let Some(next) = found.next().await
        {
            let next = next?;
            bytes += next.as_bytes().len();
            documents.push(document::parse(&next)?);
        }
        Ok(documents)
    }
}

fn number_of(document: &Document) -> i64 {
    document.get("_id").map_or(0, as_i64)
}

fn time_of(event: &Event) -> Timestamp {
    event.document.get_timestamp("clusterTime").unwrap_or(Timestamp { time: 0, increment: 0 })
}

/// The event that is stored as this document, behind the position.
///
/// # Errors
/// The event is not of the position's era.
fn event(position: Position, mut document: Document) -> Result<Event> {
    let number = number_of(&document);
    document.remove("_id");
    if document.remove("era") != Some(Bson::ObjectId(position.era)) {
        return Err(lost("the change events were dropped, and begin anew"));
    }
    Ok(Event { position: Position { number, ..position }, document })
}

fn lost(why: &str) -> Error {
    let message =
        format!("Resume of change stream was not possible, as the resume point may no longer be there: {why}");
    Error::invalid(HISTORY_LOST, message)
}
