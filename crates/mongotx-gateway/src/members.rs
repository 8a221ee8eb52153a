//! Several gateways as the members of one replica set. Each gateway with an advertised address
//! notes its presence every [`LOOK`] in one document, in the database of the client records, and
//! reads from it which other members there are and which of them is the primary.
//!
//! The primary stays as long as it keeps writing; otherwise the first member to notice takes its
//! place, for a higher term. Drivers only learn from it where to send their commands. Correctness
//! does not depend on it: a gateway that takes itself for the primary when another one is carries
//! out the commands that it gets, as every gateway may.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bson::{Bson, DateTime, Document, doc};
use tokio::time::{Instant, timeout};

use crate::{
    error::CommandError,
    options::ReplicaSetFace,
    upstream::{Lane, Upstream},
};

/// The collection of the document, whose `_id` is the set's name.
pub(crate) const COLLECTION: &str = "gateways";
/// Time between two looks of a member at the set's document.
pub(crate) const LOOK: Duration = Duration::from_secs(1);
/// Time between two looks of a gateway that has just been started.
const PAUSE: Duration = Duration::from_millis(100);
/// Time limit of one look at the server. The look after one that is given up still begins before
/// the primary may be replaced.
const LIMIT: Duration = Duration::from_millis(1_400);
/// Milliseconds after its last look from which on a primary may be replaced, by the server's clock.
const LEASE_MS: i64 = 4_000;
/// Milliseconds after its last look for which a member is listed.
const SHOWN_MS: i64 = 60_000;
/// Greatest number of members that are listed: those that looked last.
const MOST: i32 = 50;

/// The set, as its document described it last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    /// Address of the primary, if there is one.
    pub(crate) primary: Option<String>,
    /// Addresses of all members, in one order for all.
    pub(crate) hosts: Vec<String>,
    /// Number of times that another member has become the primary.
    pub(crate) term: u64,
    /// Time at which the primary has looked last, by the server's clock.
    seen: Option<DateTime>,
}

impl View {
    /// A set of one member.
    pub(crate) fn of_one(address: String) -> Self {
        Self { primary: Some(address.clone()), hosts: vec![address], term: 1, seen: None }
    }

    fn parse(found: &Document) -> Option<Self> {
        let host = |member: &Bson| Some(member.as_document()?.get_str("host").ok()?.to_owned());
        let mut hosts: Vec<String> = found.get_array("members").ok()?.iter().filter_map(host).collect();
        hosts.sort_unstable();
        let term = found.get_i64("term").ok().and_then(|term| u64::try_from(term).ok())?;
        let seen = found.get_datetime("seen").ok().copied();
        Some(Self { primary: Some(found.get_str("primary").ok()?.to_owned()), hosts, term, seen })
    }
}

/// This gateway as a member.
pub(crate) struct Members {
    set: String,
    me: String,
    view: Mutex<View>,
    /// True if this gateway has left the set. One command at a time is sent.
    left: tokio::sync::Mutex<bool>,
}

impl Members {
    /// This gateway's membership. `None`: it advertises no address, so no other gateway can list
    /// it.
    pub(crate) fn of(face: &ReplicaSetFace) -> Option<Self> {
        let me = face.advertise.clone()?;
        Some(Self {
            set: face.name.clone(),
            view: Mutex::new(View::of_one(me.clone())),
            me,
            left: tokio::sync::Mutex::new(false),
        })
    }

    /// The set as it is known here.
    pub(crate) fn view(&self) -> View {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, View> {
        // Nothing panics while it is held.
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the members until this gateway may take commands: it is the primary, or the primary
    /// has looked since this gateway came and names it to drivers. Ends at the latest when a
    /// primary that does not look any more may be replaced.
    pub(crate) async fn join(&self, upstream: &Upstream, database: &str) {
        let until = Instant::now() + Duration::from_millis(LEASE_MS as u64);
        self.look(upstream, database).await;
        let joined = self.view().seen;
        while Instant::now() < until {
            let view = self.view();
            if view.primary.as_ref() == Some(&self.me) || view.seen != joined {
                return;
            }
            tokio::time::sleep(PAUSE).await;
            self.look(upstream, database).await;
        }
    }

    /// Looks once. If the document cannot be read, the last view stays. False: this gateway has
    /// left the set, and looks no more.
    pub(crate) async fn look(&self, upstream: &Upstream, database: &str) -> bool {
        let left = self.left.lock().await;
        if *left {
            return false;
        }
        match self.ask(upstream, database, here(&self.me)).await {
            Ok(Some(view)) => {
                let mut known = self.lock();
                if known.primary != view.primary {
                    tracing::info!(
                        set = self.set,
                        primary = view.primary,
                        term = view.term,
                        "the set has a new primary"
                    );
                }
                *known = view;
            }
            Ok(None) => {}
            Err(reason) => tracing::warn!(set = self.set, reason, "the members of the set could not be read"),
        }
        true
    }

    /// Leaves the set, so that another one becomes the primary at once. Takes no longer than two
    /// looks do.
    pub(crate) async fn leave(&self, upstream: &Upstream, database: &str) {
        self.lock().primary = None;
        let mut left = self.left.lock().await;
        *left = true;
        // A look that was under way has seen it as the primary.
        self.lock().primary = None;
        if let Err(reason) = self.ask(upstream, database, gone(&self.me)).await {
            tracing::debug!(reason, "the set could not be left; its other members will find out");
        }
    }

    /// Sends the update, and reads the document. `None`: it does not exist or has another form.
    async fn ask(&self, upstream: &Upstream, database: &str, update: Vec<Document>) -> Result<Option<View>, String> {
        let command = doc! {
            "findAndModify": COLLECTION, "query": {"_id": &self.set}, "update": update, "upsert": true, "new": true,
        };
        let asked = timeout(LIMIT, upstream.run_document_on(Lane::Own, database, &command)).await;
        let asked = asked.map_err(|_| format!("the server did not answer within {LIMIT:?}"))?;
        let reply = asked.map_err(|unanswered| CommandError::from(unanswered).to_string())?;
        let reply = Document::try_from(reply.body()).map_err(|error| error.to_string())?;
        if !reply.get_f64("ok").is_ok_and(|ok| ok == 1.0) {
            return Err(reply.get_str("errmsg").unwrap_or("the server gave no reason").to_owned());
        }
        Ok(reply.get_document("value").ok().and_then(View::parse))
    }
}

/// Milliseconds from a stored time till now, by the server's clock.
fn since(time: &str) -> Document {
    doc! {"$subtract": ["$$NOW", time]}
}

/// The other members that were there not long ago, without `me`.
fn others(me: &str) -> Document {
    let is_there = doc! {"$and": [{"$ne": ["$$this.host", me]}, {"$lt": [since("$$this.seen"), SHOWN_MS]}]};
    doc! {"$filter": {"input": {"$ifNull": ["$members", []]}, "cond": is_there}}
}

/// The update that notes this member, and makes it the primary if it was, or if there is none.
fn here(me: &str) -> Vec<Document> {
    let is_mine = doc! {"$eq": ["$primary", me]};
    let is_free = doc! {"$or": [
        {"$ne": [{"$type": "$primary"}, "string"]}, {"$ne": [{"$type": "$seen"}, "date"]}, {"$gt": [since("$seen"), LEASE_MS]},
    ]};
    let all = doc! {"$concatArrays": [others(me), [{"host": me, "seen": "$$NOW"}]]};
    vec![
        doc! {"$set": {
            "members": {"$slice": [all, -MOST]},
            "takes": {"$or": [is_mine, is_free]},
            "term": {"$toLong": {"$ifNull": ["$term", 0]}},
        }},
        doc! {"$set": {
            "term": {"$cond": [{"$and": ["$takes", {"$ne": ["$primary", me]}]}, {"$add": ["$term", 1_i64]}, "$term"]},
            "primary": {"$cond": ["$takes", me, "$primary"]},
            "seen": {"$cond": ["$takes", "$$NOW", "$seen"]},
        }},
        doc! {"$unset": "takes"},
    ]
}

/// The update by which this member leaves, and is no longer the primary.
fn gone(me: &str) -> Vec<Document> {
    let is_mine = doc! {"$eq": ["$primary", me]};
    vec![doc! {"$set": {
        "members": others(me),
        "seen": {"$cond": [is_mine, "$$REMOVE", "$seen"]},
    }}]
}
