//! Descriptions of this gateway's open transactions, written to the store for `mongotx ls` and
//! `mongotx show`: these read in the store which documents a transaction holds, but not which
//! client runs it. A gateway has one record, which it replaces once a second while transactions
//! hold documents that are older than a second, and removes when there are none. No decision
//! depends on it; a failure to write it is ignored. The record of a dead gateway shows its
//! transactions for half an hour.

use std::time::{Duration, Instant};

use bson::{Bson, DateTime, Document, doc, oid::ObjectId};
use tokio::time::timeout;

use crate::{
    activity::transactions::OpenTransaction,
    session::records::ACTIVITY,
    state::State,
    upstream::{Lane, Upstream},
};

/// Younger transactions are left out: most are over before anyone could look.
const YOUNG: Duration = Duration::from_secs(1);
/// Greatest number of transactions in the record; the oldest are taken.
const MOST: usize = 100;
/// Time limit of one write to the store.
const LIMIT: Duration = Duration::from_secs(2);
/// Seconds after which a record that is not replaced any more is removed.
const KEPT_SECONDS: i32 = 30 * 60;

/// The activity record of this gateway.
pub(crate) struct ActivityRecord {
    id: ObjectId,
    database: String,
    gateway: String,
    /// True if a record was written and is still stored.
    is_there: bool,
    is_prepared: bool,
}

impl ActivityRecord {
    pub(crate) fn new(database: &str, gateway: String) -> Self {
        let id = ObjectId::new();
        Self { id, database: database.to_owned(), gateway, is_there: false, is_prepared: false }
    }

    /// Replaces the record if there is something to show, or if the last record showed something.
    pub(crate) async fn write(&mut self, state: &State, upstream: &Upstream) {
        let now = Instant::now();
        let mut open = state.transactions.all();
        open.retain(|open| now.saturating_duration_since(open.since) >= YOUNG);
        open.sort_by_key(|open| open.since);
        let more = open.len().saturating_sub(MOST);
        let described: Vec<Bson> = open.iter().take(MOST).map(|open| describe(open, now).into()).collect();
        if described.is_empty() {
            return self.remove(upstream).await;
        }
        if !self.is_prepared {
            let index = doc! {"key": {"at": 1}, "name": "at", "expireAfterSeconds": KEPT_SECONDS};
            self.is_prepared = self.send(upstream, doc! {"createIndexes": ACTIVITY, "indexes": [index]}).await;
        }
        let fields = doc! {"gateway": &self.gateway, "transactions": described, "more": more as i64};
        let change = doc! {"$set": fields, "$currentDate": {"at": true}};
        let statement = doc! {"q": {"_id": self.id}, "u": change, "upsert": true};
        self.is_there |= self.send(upstream, doc! {"update": ACTIVITY, "updates": [statement]}).await;
    }

    /// Removes the record, if one is stored.
    pub(crate) async fn remove(&mut self, upstream: &Upstream) {
        if self.is_there {
            let statement = doc! {"q": {"_id": self.id}, "limit": 1};
            self.is_there = !self.send(upstream, doc! {"delete": ACTIVITY, "deletes": [statement]}).await;
        }
    }

    /// Sends a command to the store. Answers whether the server has carried it out.
    async fn send(&self, upstream: &Upstream, command: Document) -> bool {
        let sent = timeout(LIMIT, upstream.run_document_on(Lane::Own, &self.database, &command)).await;
        let is_done = matches!(&sent, Ok(Ok(reply)) if reply.is_ok());
        if !is_done {
            tracing::debug!("what transactions are open could not be written to the store");
        }
        is_done
    }
}

fn describe(open: &OpenTransaction, now: Instant) -> Document {
    let shown = open.now();
    let who = &shown.who;
    let open_ms = i64::try_from(now.saturating_duration_since(open.since).as_millis()).unwrap_or(i64::MAX);
    let since = DateTime::from_millis(DateTime::now().timestamp_millis().saturating_sub(open_ms));
    let mut described = doc! {
        "id": shown.id.map(|id| id.to_string()), "session": &open.session, "number": open.number, "since": since,
        "openMs": open_ms, "host": &who.host, "runs": shown.runs,
    };
    let texts = [
        ("user", who.user.as_ref().map(ToString::to_string)),
        ("application", who.application.clone()),
        ("namespace", shown.statement.namespace()),
        ("shape", shown.statement.shape()),
        ("waitsFor", open.wait().map(|wait| wait.rival.to_string())),
    ];
    described.extend(texts.into_iter().filter_map(|(field, text)| Some((field.to_owned(), Bson::from(text?)))));
    described
}
