//! Plain writes: writes outside transactions, which set no change stamp (decision 0068).
//!
//! Validations of this client see them in its memory ([`OwnChanges`]), from before each is sent
//! until its outcome is known. Those of other clients see that there may be any by a *notice*: a
//! document in the collection of client records, of the shape that looks at the change stamps take
//! for a closed record. It is stored before the first plain write is sent, and again where the last
//! one is [`RENEWED_AFTER`] old. Nobody removes it but the server, by the index on `closedAt`.
//!
//! Where several servers keep the data, everything that was read is asked again by everybody, and
//! no notice is needed. Nor is one for writes to MongoTx's own collections, which no validation
//! takes for unchanged, and for statements that are sent for the server's error and match nothing.

use std::{
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
const COVERS: Duration = Duration::from_secs(10 * 60);
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
    storing: AsyncMutex<()>,
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

    /// Carries out a plain write in a collection, or in any (`None`).
    pub(super) async fn plainly<T>(&self, ns: Option<&Namespace>, write: impl Future<Output = Result<T>>) -> Result<T> {
        if ns.is_some_and(|ns| ns.db == self.plain.home.db) {
            return write.await;
        }
        let change = self.begin_plain(ns).await?;
        let answer = write.await;
        let is_lost = |error: &Error| matches!(error.kind(), ErrorKind::Indeterminate | ErrorKind::Unavailable);
        if !answer.as_ref().is_err_and(is_lost) {
            change.over();
        }
        answer
    }

    /// A plain write may be sent, and counts from now on.
    async fn begin_plain(&self, ns: Option<&Namespace>) -> Result<Changing> {
        loop {
            if !self.plain.has_notice(COVERS) {
                self.give_notice().await?;
            }
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

    fn needs_notice(&self, age: Duration) -> bool {
        self.plain.is_heeded && !self.nodes.are_several() && !self.plain.has_notice(age)
    }

    /// Makes sure that other clients can see that this one writes outside transactions. To be
    /// called before a connection is taken for the write: the notice needs one, too.
    pub(crate) async fn give_notice(&self) -> Result<()> {
        if !self.needs_notice(RENEWED_AFTER) {
            return Ok(());
        }
        let _storing = self.plain.storing.lock().await;
        if !self.needs_notice(RENEWED_AFTER) {
            return Ok(());
        }
        let (home, now) = (&self.plain.home, Moment::now());
        self.store_notice(home).await.map_err(|error| {
            let message = format!("the notice of writes outside transactions could not be stored in {home}: {error}");
            Error::new(ErrorKind::Unavailable, message)
        })?;
        *locked(&self.plain.sent) = Some(now);
        Ok(())
    }

    async fn store_notice(&self, home: &Namespace) -> Result<()> {
        if locked(&self.plain.notices).is_empty() {
            // The index by which the server removes it.
            self.run_command(&home.db, index_of_closed()).await?;
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
        let notices = std::mem::take(&mut *locked(&self.plain.notices));
        if notices.is_empty() || !self.plain.own.are_over() {
            return Ok(());
        }
        let home = &self.plain.home;
        let statement =
            doc! {"q": {"_id": {"$in": notices}, NOTICE: true}, "u": {"$set": {NOTICE: false}}, "multi": true};
        let command = doc! {"update": &home.coll, "updates": [statement]};
        self.write_records(home, command).await?.ok().map(drop)
    }
}
