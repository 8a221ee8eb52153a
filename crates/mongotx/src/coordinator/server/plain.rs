//! Plain writes: writes outside transactions, which set no change stamp (decision 0068).
//!
//! Validations of this client see them in its memory ([`OwnChanges`]), from before each is sent
//! until its outcome is known. Validations of other clients see by a *notice* that there may be
//! some: a document in the collection of client records, of the shape that looks at the change
//! stamps take for a closed record. It names the collections that were written to of late, and is
//! stored before the first plain write to one is sent, and again where the last one is
//! [`RENEWED_AFTER`] old. Only the server removes it, by the index on `closedAt`. The client marks
//! it as over when the client has made no plain write for a while, or is shut down (decisions 0070
//! and 0071).
//!
//! It is stored wherever the data are: another client may know of fewer servers than this one. No
//! notice is needed for writes to MongoTx's own collections, which no validation takes for
//! unchanged, and for statements that are sent for the server's error and match nothing.

mod own_notices;

use std::{
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use bson::{Bson, doc, oid::ObjectId};
use tokio::sync::Mutex as AsyncMutex;

use self::own_notices::OwnNotices;
use super::{Server, lean::Line};
use crate::{
    coordinator::{
        stamps::{
            moment::Moment,
            notice::Scope,
            own_changes::{ChangeInProgress, OwnChanges},
            tag::Tag,
        },
        stored::{
            format::{self, FORMAT},
            own_collections::{NOTICE, TXS, holds_records, index_of_closed},
        },
    },
    error::{Error, ErrorKind, Result},
    options::Namespace,
};

/// Age at which the next one is stored, and age up to which one covers the plain writes that are
/// sent. The server keeps it for half an hour: what is sent last under it has twenty minutes to
/// arrive.
const RENEWED_AFTER: Duration = Duration::from_secs(5 * 60);
const COVERS: Duration = Duration::from_secs(10 * 60);
/// Interval at which a client looks whether its notices can be ended.
const QUIET_INTERVAL: Duration = Duration::from_secs(10);
/// Longest wait of a write for a notice that is only renewed.
const LONGEST_RENEWAL: Duration = Duration::from_secs(10);

/// The notices of one client, and what it is changing.
pub(crate) struct Plain {
    own: Arc<OwnChanges>,
    /// Collection of the client records.
    home: Namespace,
    /// True if validations of others heed notices: in the layout of this client they do.
    is_heeded: bool,
    own_notices: Mutex<OwnNotices>,
    /// Held by the task that stores one; the last attempt, if that has failed.
    storing: AsyncMutex<Option<(Moment, Error)>>,
}

/// A plain write that may be sent. It counts as under way, and others have notice of it. Dropped,
/// it was not sent.
pub(crate) struct Admitted(Option<ChangeInProgress>);

impl Admitted {
    /// Takes the change out, because the write is sent now. `None`: it need not be counted.
    fn send(mut self) -> Option<ChangeInProgress> {
        self.0.take()
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(ChangeInProgress::over);
    }
}

impl Plain {
    /// `database`: the one of the client records. `is_heeded`: whether validations of others heed
    /// notices.
    pub(crate) fn new(own: Arc<OwnChanges>, database: &str, is_heeded: bool) -> Self {
        Self {
            own,
            home: Namespace::new(database, TXS),
            is_heeded,
            own_notices: Mutex::default(),
            storing: AsyncMutex::default(),
        }
    }

    fn own_notices(&self) -> MutexGuard<'_, OwnNotices> {
        // Nothing panics while it is held.
        self.own_notices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if it is a collection that no validation takes for unchanged.
    fn is_of_records(&self, ns: Option<&Namespace>) -> bool {
        ns.is_some_and(|ns| holds_records(ns, &self.home.db))
    }

    /// Returns true if this notice is one of this client's own.
    pub(crate) fn is_own(&self, notice: ObjectId) -> bool {
        self.own_notices().is_own(notice)
    }

    /// Notices that can be ended, if no plain write was made for this time. To be called while no
    /// task stores one.
    fn take_over(&self, quiet: Duration) -> Vec<ObjectId> {
        // Looked at while the notices are held: a write that begins counts before it makes sure of
        // its notice.
        self.own_notices().take_over(quiet, || self.own.are_over())
    }
}

impl Server {
    /// The changes that this client is making.
    pub(crate) fn own_changes(&self) -> &Arc<OwnChanges> {
        &self.plain.own
    }

    /// Carries out a plain write in a collection, or in any (`None`), over a connection of this
    /// library's own where there are some. Dropped before it has its connection, it was not sent.
    pub(super) async fn plainly<'a, T, F: Future<Output = Result<T>>>(
        &'a self,
        ns: Option<&Namespace>,
        write: impl FnOnce(Option<Line<'a>>) -> F,
    ) -> Result<T> {
        let admitted = self.admit_plain(ns).await?;
        let line = self.line().await?;
        self.check_covered(ns)?;
        // On the heap, as is the notice: commands with many futures around them end here.
        self.plainly_admitted(admitted, ns, Box::pin(write(line))).await
    }

    /// The same for a write that is admitted, and has its connection.
    pub(super) async fn plainly_admitted<T>(
        &self,
        admitted: Admitted,
        ns: Option<&Namespace>,
        write: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let Some(change) = admitted.send() else { return write.await };
        let answer = self.under_notice(ns, write).await;
        // Otherwise it was answered, or not sent.
        if !answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Indeterminate) {
            change.over();
        }
        answer
    }

    /// Makes sure that other clients can see that this one writes outside transactions, in this
    /// collection or in any, and counts the write from now on. To be called before a connection is
    /// taken for it: the notice needs one, too.
    pub(crate) async fn admit_plain(&self, ns: Option<&Namespace>) -> Result<Admitted> {
        if self.plain.is_of_records(ns) {
            return Ok(Admitted(None));
        }
        loop {
            self.plain.own_notices().note_write(ns.map(Tag::of));
            if self.needs_notice(ns, RENEWED_AFTER) {
                Box::pin(self.give_notice(ns)).await?;
            }
            let admitted = Admitted(Some(match ns {
                Some(ns) => self.plain.own.writing(ns),
                None => self.plain.own.changing_any(),
            }));
            // The write counts before its notice is made sure of: a task that is about to end
            // notices sees it.
            if !self.needs_notice(ns, COVERS) {
                return Ok(admitted);
            }
        }
    }

    /// Checks that the notice of a write that was admitted, and has waited for its connection,
    /// still covers it.
    pub(super) fn check_covered(&self, ns: Option<&Namespace>) -> Result<()> {
        if !self.needs_notice(ns, COVERS) {
            return Ok(());
        }
        // Another one would wait for the connection that the write has.
        let message = "the notice of writes outside transactions is too old, so nothing was sent";
        Err(Error::new(ErrorKind::Unavailable, message))
    }

    /// Waits for the answer to a plain write, with a notice all the while.
    async fn under_notice<T>(&self, ns: Option<&Namespace>, write: impl Future<Output = Result<T>>) -> Result<T> {
        let mut write = pin!(write);
        loop {
            match tokio::time::timeout(RENEWED_AFTER, &mut write).await {
                Ok(answer) => return answer,
                // Where no connection is free, because writes have all of them, the notice is
                // renewed at the next timeout.
                Err(_) => self.renew_notice(ns).await,
            }
        }
    }

    /// Returns true if there is no notice about this collection, or about any, that is young
    /// enough.
    fn needs_notice(&self, ns: Option<&Namespace>, age: Duration) -> bool {
        let is_needed = self.plain.is_heeded && !self.plain.is_of_records(ns);
        is_needed && !self.plain.own_notices().has_notice(ns.map(Tag::of), age)
    }

    /// Renews the notice for a write that takes long.
    async fn renew_notice(&self, ns: Option<&Namespace>) {
        self.plain.own_notices().note_write(ns.map(Tag::of));
        if self.needs_notice(ns, RENEWED_AFTER) {
            let given = tokio::time::timeout(LONGEST_RENEWAL, self.give_notice(ns));
            drop(Box::pin(given).await);
        }
    }

    async fn give_notice(&self, ns: Option<&Namespace>) -> Result<()> {
        if !self.needs_notice(ns, COVERS) {
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
        if !self.needs_notice(ns, RENEWED_AFTER) {
            return Ok(());
        }
        // A write that has waited for an attempt shares its failure.
        if let Some((_, error)) = failed.as_ref().filter(|(at, _)| at.is_after(came)) {
            return Err(error.clone());
        }
        let stored = self.store_notice().await;
        *failed = stored.as_ref().err().map(|error| (Moment::now(), error.clone()));
        stored
    }

    async fn store_notice(&self) -> Result<()> {
        let (home, now, scope) = (&self.plain.home, Moment::now(), self.plain.own_notices().next_scope());
        let stored = self.try_to_store_notice(home, &scope).await;
        let notice = stored.map_err(|error| match error.kind() {
            // Whether it is there or not, nothing else was sent.
            ErrorKind::Indeterminate => {
                let message = format!("the notice of writes outside transactions may not be stored in {home}: {error}");
                Error::new(ErrorKind::Unavailable, message)
            }
            _ => error,
        })?;
        self.plain.own_notices().stored(notice, now, scope);
        Ok(())
    }

    async fn try_to_store_notice(&self, home: &Namespace, scope: &Scope) -> Result<ObjectId> {
        if !self.plain.own_notices().has_any() {
            // The index by which the server removes it.
            let mut create = index_of_closed();
            self.nodes.on_majority(&mut create);
            self.nodes.with_quorum(&mut create);
            self.run_command(&home.db, create).await?;
        }
        let notice = ObjectId::new();
        self.plain.own_notices().note(notice);
        let stored = doc! {
            format::FIELD: FORMAT, NOTICE: Bson::from(scope), "changes": {"$literal": {}}, "closedAt": "$$NOW",
        };
        let statement = doc! {"q": {"_id": notice}, "u": [{"$set": stored}], "upsert": true};
        let command = doc! {"update": &home.coll, "updates": [statement], "writeConcern": self.nodes.durable()};
        let stored = self.write_records(home, command).await.and_then(|answer| answer.ok());
        let stored = stored.map_err(Error::or_indeterminate);
        if stored.as_ref().is_err_and(|error| error.kind() != ErrorKind::Indeterminate) {
            self.plain.own_notices().not_stored(notice);
        }
        stored.map(|_| notice)
    }

    /// The client is shut down: its plain writes are over, unless the outcome of one is unknown.
    pub(crate) async fn end_notices(&self) -> Result<()> {
        let over = {
            let _storing = self.plain.storing.lock().await;
            self.plain.take_over(Duration::ZERO)
        };
        self.end(over).await
    }

    /// Ends the notices of a client that has stopped to write plainly, as long as it lives.
    pub(crate) async fn end_quiet_notices(server: Weak<Self>) {
        loop {
            tokio::time::sleep(QUIET_INTERVAL).await;
            let Some(server) = server.upgrade() else { return };
            let quiet = server.plain.own_notices().quiet();
            // A task that stores a notice is about to write: then none is ended.
            let over = server.plain.storing.try_lock().map(|_storing| server.plain.take_over(quiet));
            if let Err(error) = server.end(over.unwrap_or_default()).await {
                tracing::debug!(%error, "the notice of writes outside transactions could not be ended yet");
            }
        }
    }

    /// Ends these notices. If that fails, or is dropped, the next call does it: they go on until
    /// their end is acknowledged.
    async fn end(&self, over: Vec<ObjectId>) -> Result<()> {
        if over.is_empty() {
            return Ok(());
        }
        let whose = doc! {"_id": {"$in": &over}, NOTICE: {"$exists": true}};
        let statement = doc! {"q": whose, "u": {"$set": {NOTICE: false}}, "multi": true};
        let command = doc! {"update": &self.plain.home.coll, "updates": [statement]};
        let ended = self.write_records(&self.plain.home, command).await?.ok()?;
        self.plain.own_notices().ended(&over, i64::try_from(over.len()) == Ok(ended.n));
        Ok(())
    }
}
