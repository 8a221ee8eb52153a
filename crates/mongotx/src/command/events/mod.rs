//! Events of change streams: the changes of committed transactions in watched collections (decision
//! 0048).
//!
//! A transaction that changes a watched collection writes its events as documents of its own, in
//! [`EVENTS`](crate::coordinator::stored::own_collections::EVENTS), when its commit is requested
//! and before it is validated:
//!
//! 1. Fetch what it holds there: its event is made from the two versions of each document
//!    ([`content`]).
//! 2. Take numbers: lock the document [`SEQUENCE`] and increment it. Other transactions that commit
//!    changes of watched collections wait there until this one is decided, so numbers have no gaps,
//!    and their order agrees with that of the commits.
//! 3. Insert the events, by their numbers.
//!
//! [`read`] reads them in order. The oldest are removed where there are more than
//! [`ClientOptions::change_events`].
//!
//! [`ClientOptions::change_events`]: crate::ClientOptions::change_events

mod content;
mod read;

use std::{
    collections::{HashMap, HashSet},
    ops::RangeInclusive,
    sync::Arc,
};

use bson::{Bson, DateTime, Document, Timestamp, doc, oid::ObjectId};
use futures_util::{FutureExt, future::BoxFuture};
use protocol::TxId;
use sd2v::{
    names::{WRITER, tx_id_to_bson},
    update::Update,
};

pub(crate) use self::read::EventReader;
pub use self::read::{Event, Position};
use crate::{
    clock::Clock,
    command::writes::{
        find_and_modify,
        insert_many::insert_many,
        write_commands::{FindAndModify, Modify, UpdateCommand},
    },
    coordinator::{
        Core,
        catalog::{Collection, Watch},
        events::SEQUENCE,
        finishing::finisher::IDS_PER_STATEMENT,
        request::{
            address::{Address, among},
            own_key::OwnKey,
            query_options::QueryOptions,
        },
        transaction::Transaction,
    },
    document,
    error::{Error, ErrorKind, Result},
    numbers::as_i64,
    options::Namespace,
    scoped,
};

/// Numbers that a transaction has taken of the sequence.
struct TakenNumbers {
    era: ObjectId,
    first: i64,
    /// Later than that of every event with a smaller number.
    time: Timestamp,
    held: HeldTime,
}

/// The events that a transaction has recorded.
#[derive(Default)]
pub(crate) struct RecordedEvents {
    /// The descriptions of its watched collections: a client that switches change streams on for
    /// one waits for those that go by an older description.
    _known: Vec<Arc<Collection>>,
    /// Numbers of the events, if there are any.
    numbers: Option<EventNumbers>,
}

/// Numbers of events, and their time, which is held until they are committed, or will not be.
pub(crate) struct EventNumbers {
    numbers: RangeInclusive<i64>,
    _time: HeldTime,
}

/// A time that the clock holds for events that are not committed yet. Dropping it releases the
/// time.
struct HeldTime {
    clock: Arc<dyn Clock>,
    time: Timestamp,
}

impl HeldTime {
    fn of(clock: &Arc<dyn Clock>) -> Self {
        Self { clock: Arc::clone(clock), time: clock.hold() }
    }
}

impl Drop for HeldTime {
    fn drop(&mut self) {
        self.clock.release(self.time);
    }
}

/// Writes events. It has the whole client, because it writes them with the commands that any
/// transaction writes with, and these take it.
pub(crate) struct EventLog<'a> {
    core: &'a Arc<Core>,
}

impl<'c> EventLog<'c> {
    pub(crate) fn of(core: &'c Arc<Core>) -> Self {
        Self { core }
    }

    /// Steps 1 to 3. An error is certain: nothing is decided.
    ///
    /// No answer is waited for longer than [`crate::ClientOptions::commit_timeout`].
    pub(crate) async fn record(&self, tx: &mut Transaction) -> Result<RecordedEvents> {
        let Some(me) = tx.id() else { return Ok(RecordedEvents::default()) };
        scoped::with_longest_answer(self.core.options.commit_timeout, self.record_in_time(tx, me)).await
    }

    async fn record_in_time(&self, tx: &mut Transaction, me: TxId) -> Result<RecordedEvents> {
        let (mut known, mut watched) = (Vec::new(), HashMap::new());
        for ns in tx.collections_written().filter(|ns| **ns != self.core.events.ns) {
            let collection = self.core.catalog.look_up(ns).await?;
            if let Some(watch) = collection.watch {
                watched.insert(ns.clone(), watch);
            }
            known.push(collection);
        }
        let events = if watched.is_empty() { Vec::new() } else { Box::pin(self.events_of(tx, me, &watched)).await? };
        let numbers = if events.is_empty() { None } else { Some(Box::pin(self.number(tx, events)).await?) };
        Ok(RecordedEvents { _known: known, numbers })
    }

    /// Step 1: the events of the documents that the transaction holds, in the order in which these
    /// became its own.
    async fn events_of(
        &self,
        tx: &Transaction,
        me: TxId,
        watched: &HashMap<Namespace, Watch>,
    ) -> Result<Vec<Document>> {
        let mut events = Vec::new();
        for (ns, watch) in watched {
            // One document may have been written under several equal `_id`s, of which each is an
            // address.
            let mut seen = HashSet::new();
            for some in tx.written(ns).chunks(IDS_PER_STATEMENT) {
                for stored in self.fetch_own(me, ns, some).await? {
                    let id = stored.get("_id").unwrap_or(&Bson::Null);
                    if !seen.insert(OwnKey::of(id)) {
                        continue;
                    }
                    let (place, is_replaced) = (tx.place_of_own(ns, id), tx.is_replaced(ns, id));
                    let event = content::event(ns, stored, is_replaced, *watch)?;
                    events.extend(event.map(|event| (place.unwrap_or(usize::MAX), event)));
                }
            }
        }
        events.sort_by_key(|(place, _)| *place);
        Ok(events.into_iter().map(|(_, event)| event).collect())
    }

    /// The documents that the transaction holds among these, as they are stored.
    async fn fetch_own(&self, me: TxId, ns: &Namespace, some: &[Address]) -> Result<Vec<Document>> {
        let mut filter = among(some);
        filter.insert(WRITER, tx_id_to_bson(me));
        let find = doc! {"find": &ns.coll, "filter": filter};
        let found = self.core.server.collect_raw(&ns.db, find, some.len()).await?;
        found.iter().map(|raw| document::exact(raw)).collect()
    }

    /// Steps 2 and 3: answers the numbers of the events.
    pub(super) async fn number(&self, tx: &mut Transaction, events: Vec<Document>) -> Result<EventNumbers> {
        let count = i64::try_from(events.len()).unwrap_or(i64::MAX);
        let wait = tx.options.lock_wait.max(self.core.options.write_wait);
        let before = std::mem::replace(&mut tx.options.lock_wait, wait);
        let limit = self.core.options.commit_timeout;
        let written = scoped::with_longest_answer(limit, self.number_within(tx, count, events)).await;
        tx.options.lock_wait = before;
        written.map_err(|error| match error.kind() {
            // The application knows of no such document.
            ErrorKind::Conflict => Error::new(
                ErrorKind::Conflict,
                format!("the change events of the transaction got no numbers: others' commits were in the way, for {wait:?} at most"),
            ),
            _ => error,
        })
    }

    async fn number_within(&self, tx: &mut Transaction, count: i64, events: Vec<Document>) -> Result<EventNumbers> {
        let TakenNumbers { era, first, time, held } = self.take_numbers(tx, count).await?;
        let last = first + count - 1;
        let now = DateTime::now();
        let documents = events.into_iter().zip(first..).map(|(event, number)| {
            let mut document = doc! {"_id": number, "era": era, "clusterTime": time, "wallTime": now};
            document.extend(event);
            if let Some(origin) = &tx.options.origin {
                document.insert("origin", origin.clone());
            }
            document
        });
        let documents: Vec<Document> = documents.collect();
        insert_many(self.core, tx, &self.core.events.ns, documents, true).await?;
        tx.end_statement();
        Ok(EventNumbers { numbers: first..=last, _time: held })
    }

    /// Step 2: takes numbers for the events.
    async fn take_numbers(&self, tx: &mut Transaction, count: i64) -> Result<TakenNumbers> {
        self.core.events.ensure_sequence().await?;
        // Before the wait for the sequence, and held: whoever is told a later time, and reads from
        // there, would miss the events.
        let held = HeldTime::of(&self.core.events.clock);
        let time = held.time;
        let before = self.change_sequence(tx, doc! {"$inc": {"n": count}, "$set": {"time": time}}).await?;
        let era = before.get_object_id("era").map_err(|_| self.core.events.no_sequence())?;
        let first = before.get("n").map_or(0, as_i64) + 1;
        let latest = before.get_timestamp("time").unwrap_or(Timestamp { time: 0, increment: 0 });
        if latest < time {
            return Ok(TakenNumbers { era, first, time, held });
        }
        // Another client's clock is ahead of this one's.
        let time = self.core.events.clock.after(latest);
        self.change_sequence(tx, doc! {"$set": {"time": time}}).await?;
        Ok(TakenNumbers { era, first, time, held })
    }

    /// Locks and changes the sequence. Returns what it was before. (Boxed: outside a transaction,
    /// the command commits one.)
    fn change_sequence<'a>(&'a self, tx: &'a mut Transaction, update: Document) -> BoxFuture<'a, Result<Document>> {
        async move {
            let update = UpdateCommand {
                filter: doc! {"_id": SEQUENCE},
                update: Update::parse_update(update.into())?,
                multi: false,
                upsert: false,
                array_filters: None,
                options: QueryOptions::default(),
            };
            let modify = Modify::Update(Box::new(update));
            let command = FindAndModify { modify, sort: None, projection: None, after: false };
            let changed = find_and_modify::find_and_modify(self.core, Some(tx), &self.core.events.ns, &command).await?;
            tx.end_statement();
            changed.value.ok_or_else(|| self.core.events.no_sequence())
        }
        .boxed()
    }
}

impl RecordedEvents {
    /// The events with these numbers, and no others.
    pub(super) fn numbered(numbers: EventNumbers) -> Self {
        Self { numbers: Some(numbers), ..Self::default() }
    }

    /// Notes that the transaction is committed.
    pub(super) fn are_committed(&self, core: &Core) {
        if let Some(numbers) = &self.numbers {
            core.events.are_committed(&numbers.numbers);
        }
    }
}
