//! Plain writes: writes outside transactions, which set no change stamp (decision 0068).
//!
//! Validations of this client see them in its memory ([`OwnChanges`]), from before each is sent
//! until its outcome is known. Those of other clients see that there may be any by a *notice*: a
//! document in the collection of client records, of the shape that looks at the change stamps take
//! for a closed record. It is stored before the first plain write is sent, and again where the last
//! one is [`RENEWED_AFTER`] old. Nobody removes it but the server, by the index on `closedAt`.
//!
//! It is stored wherever the data are: another client may know of fewer servers than this one. No
//! notice is needed for writes to MongoTx's own collections, which no validation
//! takes for unchanged, and for statements that are sent for the server's error and match nothing.

use std::{
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bson::{doc, oid::ObjectId};
use tokio::sync::Mutex as AsyncMutex;

use super::Server;
use crate::{
    coordinator::{
        format::{self, FORMAT},
        moment::Moment,
        own_changes::{Changing, OwnChanges},
        own_collections::{NOTICE, TXS, index_of_closed},
    },
    error::{Error, ErrorKind, Result},
    options::{Layout, Namespace},
};

/// Age at which the next one is stored, and age up to which one covers the plain writes that are
/// sent. The server keeps it for half an hour: what is sent last under it has twenty minutes to
/// arrive.
const RENEWED_AFTER: Duration = Duration::from_secs(5 * 60);
pub(super) const COVERS: Duration = Duration::from_secs(10 * 60);
/// How long a write waits for a notice that is only renewed.
const LONGEST_RENEWAL: Duration = Duration::from_secs(10);
/// Notices of one client that may still be there: those of the last half hour, and some that were
/// given up and arrived all the same.
const MOST_KEPT: usize = 64;

/// The notices of one client, and what it is changing.
pub(crate) struct Plain {
    own: Arc<OwnChanges>,
    /// Collection of the client records.
    home: Namespace,
    /// Whether validations of others heed notices: in the layout of this client they do.
    is_heeded: bool,
    /// Time at which the last notice was sent.
    sent: Mutex<Option<Moment>>,
    /// Held by who stores one; the last attempt, if that has failed.
    storing: AsyncMutex<Option<(Moment, Error)>>,
    notices: Mutex<Vec<ObjectId>>,
}

fn locked<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it is held.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Plain {
    /// `database`: the one of the client records. `layout`: theirs.
    pub(crate) fn new(own: Arc<OwnChanges>, database: &str, layout: Layout) -> Self {
        Self {
            own,
            home: Namespace::new(database, TXS),
            is_heeded: layout == Layout::ClientRecord,
            sent: Mutex::default(),
            storing: AsyncMutex::default(),
            notices: Mutex::default(),
        }
    }

    /// Is there a notice that was sent more lately than so long ago?
    fn has_notice(&self, age: Duration) -> bool {
        locked(&self.sent).is_some_and(|sent| sent.elapsed() < age)
    }

    /// Is this notice one of this client's own?
    pub(crate) fn is_own(&self, notice: ObjectId) -> bool {
        locked(&self.notices).contains(&notice)
    }

    fn note(&self, notice: ObjectId) {
        let mut notices = locked(&self.notices);
        if notices.len() >= MOST_KEPT {
            // One that is forgotten counts as another client's.
            notices.remove(0);
        }
        notices.push(notice);
    }
}

impl Server {
    /// What this client is changing.
    pub(crate) fn own_changes(&self) -> &Arc<OwnChanges> {
        &self.plain.own
    }

    /// Carries out a plain write in a collection, or in any (`None`). What it needs a connection
    /// for comes when it is polled: the notice needs one, too.
    pub(super) async fn plainly<T>(&self, ns: Option<&Namespace>, write: impl Future<Output = Result<T>>) -> Result<T> {
        if ns.is_some_and(|ns| ns.db == self.plain.home.db) {
            return write.await;
        }
        let change = self.begin_plain(ns).await?;
        let answer = self.under_notice(write).await;
        // Otherwise it was answered, or not sent.
        if !answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Indeterminate) {
            change.over();
        }
        answer
    }

    /// A plain write may be sent, and counts from now on.
    async fn begin_plain(&self, ns: Option<&Namespace>) -> Result<Changing> {
        loop {
            self.give_notice().await?;
            let change = match ns {
                Some(ns) => self.plain.own.writing(ns),
                None => self.plain.own.changing_any(),
            };
            // It counts before the notice is made sure of: who says that all is over sees it.
            if !self.needs_notice(COVERS) {
                return Ok(change);
            }
            change.over();
        }
    }

    /// Waits for the answer to a plain write, with a notice all the while.
    async fn under_notice<T>(&self, write: impl Future<Output = Result<T>>) -> Result<T> {
        let mut write = pin!(write);
        loop {
            match tokio::time::timeout(RENEWED_AFTER, &mut write).await {
                Ok(answer) => return answer,
                // The write may have all connections: then the next time will do.
                Err(_) => drop(tokio::time::timeout(LONGEST_RENEWAL, self.give_notice()).await),
            }
        }
    }

    /// Is there no notice that is young enough?
    pub(super) fn needs_notice(&self, age: Duration) -> bool {
        self.plain.is_heeded && !self.plain.has_notice(age)
    }

    /// Makes sure that other clients can see that this one writes outside transactions. To be
    /// called before a connection is taken for the write: the notice needs one, too.
    pub(crate) async fn give_notice(&self) -> Result<()> {
        if !self.needs_notice(RENEWED_AFTER) {
            return Ok(());
        }
        if !self.needs_notice(COVERS) {
            // One at a time renews it; until that has succeeded, the last one will do.
            if let Ok(_storing) = self.plain.storing.try_lock()
                && let Ok(Err(error)) = tokio::time::timeout(LONGEST_RENEWAL, self.store_notice()).await
            {
                tracing::debug!(%error, "the notice of writes outside transactions could not be renewed");
            }
            return Ok(());
        }
        let came = Moment::now();
        let mut failed = self.plain.storing.lock().await;
        if !self.needs_notice(RENEWED_AFTER) {
            return Ok(());
        }
        // Who has waited for an attempt shares its failure.
        if let Some((_, error)) = failed.as_ref().filter(|(at, _)| at.is_after(came)) {
            return Err(error.clone());
        }
        let stored = self.store_notice().await;
        *failed = stored.as_ref().err().map(|error| (Moment::now(), error.clone()));
        stored
    }

    async fn store_notice(&self) -> Result<()> {
        let (home, now) = (&self.plain.home, Moment::now());
        let is_first = locked(&self.plain.notices).is_empty();
        let stored = self.try_to_store_notice(home, is_first).await;
        stored.map_err(|error| match error.kind() {
            // Whether it is there or not, nothing else was sent.
            ErrorKind::Indeterminate => {
                let message = format!("the notice of writes outside transactions may not be stored in {home}: {error}");
                Error::new(ErrorKind::Unavailable, message)
            }
            _ => error,
        })?;
        *locked(&self.plain.sent) = Some(now);
        Ok(())
    }

    async fn try_to_store_notice(&self, home: &Namespace, is_first: bool) -> Result<()> {
        if is_first {
            // The index by which the server removes it.
            let mut create = index_of_closed();
            self.nodes.on_majority(&mut create);
            self.nodes.with_quorum(&mut create);
            self.run_command(&home.db, create).await?;
        }
        let notice = ObjectId::new();
        self.plain.note(notice);
        let stored = doc! {format::FIELD: FORMAT, NOTICE: true, "changes": {"$literal": {}}, "closedAt": "$$NOW"};
        let statement = doc! {"q": {"_id": notice}, "u": [{"$set": stored}], "upsert": true};
        let command = doc! {"update": &home.coll, "updates": [statement], "writeConcern": self.nodes.durable()};
        self.write_records(home, command).await?.ok().map(drop)
    }

    /// The client is shut down: its plain writes are over, unless the outcome of one is unknown.
    pub(crate) async fn end_notices(&self) -> Result<()> {
        let _storing = self.plain.storing.lock().await;
        // What begins from here on needs a notice of its own.
        *locked(&self.plain.sent) = None;
        if !self.plain.own.are_over() {
            return Ok(());
        }
        let notices = std::mem::take(&mut *locked(&self.plain.notices));
        if notices.is_empty() {
            return Ok(());
        }
        let home = &self.plain.home;
        let statement =
            doc! {"q": {"_id": {"$in": notices}, NOTICE: true}, "u": {"$set": {NOTICE: false}}, "multi": true};
        let command = doc! {"update": &home.coll, "updates": [statement]};
        self.write_records(home, command).await?.ok().map(drop)
    }
}
