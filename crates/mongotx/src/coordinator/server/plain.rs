//! Plain writes: writes outside transactions, which set no change stamp (decision 0068).
//!
//! Validations of this client see them in its memory ([`OwnChanges`]), from before each is sent
//! until its outcome is known. Those of other clients see that there may be any by a *notice*: a
//! document in the collection of client records, of the shape that looks at the change stamps take
//! for a closed record. It names the collections that were written to of late, and is stored before
//! the first plain write to one is sent, and again where the last one is [`RENEWED_AFTER`] old.
//! Nobody removes it but the server, by the index on `closedAt`. It says that it is over when the
//! client has made no plain write for half a minute, or is shut down (decision 0070).
//!
//! It is stored wherever the data are: another client may know of fewer servers than this one. No
//! notice is needed for writes to MongoTx's own collections, which no validation takes for
//! unchanged, and for statements that are sent for the server's error and match nothing.

use std::{
    collections::{BTreeSet, HashMap},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use bson::{Bson, doc, oid::ObjectId};
use tokio::sync::Mutex as AsyncMutex;

use super::Server;
use crate::{
    coordinator::{
        format::{self, FORMAT},
        moment::Moment,
        notice::Scope,
        own_changes::{Changing, OwnChanges},
        own_collections::{NOTICE, TXS, holds_records, index_of_closed},
        tag::Tag,
    },
    error::{Error, ErrorKind, Result},
    options::{Layout, Namespace},
};

/// Age at which the next one is stored, and age up to which one covers the plain writes that are
/// sent. The server keeps it for half an hour: what is sent last under it has twenty minutes to
/// arrive.
const RENEWED_AFTER: Duration = Duration::from_secs(5 * 60);
pub(super) const COVERS: Duration = Duration::from_secs(10 * 60);
/// Time without plain writes after which notices are ended: by then all clients know the indexes
/// that were made, and whoever waits for a connection to write on has got it.
const QUIET: Duration = Duration::from_secs(30);
/// Interval at which a client looks whether its notices can be ended.
const QUIET_INTERVAL: Duration = Duration::from_secs(10);
/// How long a write waits for a notice that is only renewed.
const LONGEST_RENEWAL: Duration = Duration::from_secs(10);
/// Collections that a notice names. Where more were written to of late, it is about all.
const MOST_NAMED: usize = 16;
/// Notices of one client that may still be there: those of the last half hour, and some that were
/// given up and arrived all the same.
const MOST_KEPT: usize = 256;

/// The notices of one client, and what it is changing.
pub(crate) struct Plain {
    own: Arc<OwnChanges>,
    /// Collection of the client records.
    home: Namespace,
    /// Whether validations of others heed notices: in the layout of this client they do.
    is_heeded: bool,
    given: Mutex<Given>,
    /// Held by who stores one; the last attempt, if that has failed.
    storing: AsyncMutex<Option<(Moment, Error)>>,
}

/// Notices that were given, and what the next one will be about.
#[derive(Default)]
struct Given {
    /// The last one that is stored: when it was sent, and what it is about.
    last: Option<(Moment, Scope)>,
    written: Written,
    /// Those that this client has sent.
    notices: Vec<ObjectId>,
    /// Those of them that go on, and may be ended.
    going_on: Vec<ObjectId>,
}

/// When plain writes were last made, by their collections; `None`: in any.
#[derive(Default)]
struct Written(HashMap<Option<Tag>, Moment>);

impl Written {
    /// One is about to be made.
    fn note(&mut self, collection: Option<Tag>) {
        if !self.0.contains_key(&collection) && self.0.len() > MOST_NAMED {
            // Too many to be named, with this one instead of another as well.
            let oldest = self.0.iter().max_by_key(|(_, at)| at.elapsed()).map(|(collection, _)| *collection);
            oldest.and_then(|oldest| self.0.remove(&oldest));
        }
        self.0.insert(collection, Moment::now());
    }

    /// Has none been made for so long?
    fn are_quiet(&self, time: Duration) -> bool {
        self.0.values().all(|at| at.elapsed() >= time)
    }

    /// Those that a notice has to be about which is sent now.
    fn of_late(&mut self) -> Scope {
        self.0.retain(|_, at| at.elapsed() < COVERS);
        let collections: Option<BTreeSet<Tag>> = self.0.keys().copied().collect();
        collections.filter(|collections| collections.len() <= MOST_NAMED).map_or(Scope::All, Scope::Of)
    }
}

impl Plain {
    /// `database`: the one of the client records. `layout`: theirs.
    pub(crate) fn new(own: Arc<OwnChanges>, database: &str, layout: Layout) -> Self {
        Self {
            own,
            home: Namespace::new(database, TXS),
            is_heeded: layout == Layout::ClientRecord,
            given: Mutex::default(),
            storing: AsyncMutex::default(),
        }
    }

    fn given(&self) -> MutexGuard<'_, Given> {
        // Nothing panics while it is held.
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Is it a collection that no validation takes for unchanged?
    fn is_of_records(&self, ns: Option<&Namespace>) -> bool {
        ns.is_some_and(|ns| holds_records(ns, &self.home.db))
    }

    /// Is there a notice about this collection, or about any, that was sent more lately than so
    /// long ago?
    fn has_notice(&self, collection: Option<Tag>, age: Duration) -> bool {
        let given = self.given();
        given.last.as_ref().is_some_and(|(sent, scope)| sent.elapsed() < age && scope.covers(collection))
    }

    /// Is this notice one of this client's own?
    pub(crate) fn is_own(&self, notice: ObjectId) -> bool {
        self.given().notices.contains(&notice)
    }

    fn note(&self, notice: ObjectId) {
        let mut given = self.given();
        let Given { notices, going_on, .. } = &mut *given;
        for kept in [notices, going_on] {
            if kept.len() >= MOST_KEPT {
                // One that is forgotten counts as another client's, and goes on.
                kept.remove(0);
            }
            kept.push(notice);
        }
    }

    /// Notices that may be ended, if no plain write was made for so long, and all are over. What is
    /// written from here on needs another one. To be called while nobody stores one.
    fn take_over(&self, quiet: Duration) -> Vec<ObjectId> {
        let mut given = self.given();
        // In this order: a write that begins counts before it makes sure of its notice.
        if given.going_on.is_empty() || !given.written.are_quiet(quiet) || !self.own.are_over() {
            return Vec::new();
        }
        given.last = None;
        given.written = Written::default();
        std::mem::take(&mut given.going_on)
    }

    /// These could not be ended.
    fn go_on(&self, notices: Vec<ObjectId>) {
        let going_on = &mut self.given().going_on;
        going_on.extend(notices);
        let too_many = going_on.len().saturating_sub(MOST_KEPT);
        going_on.drain(..too_many);
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
        if self.plain.is_of_records(ns) {
            return write.await;
        }
        let change = self.begin_plain(ns).await?;
        let answer = self.under_notice(ns, write).await;
        // Otherwise it was answered, or not sent.
        if !answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Indeterminate) {
            change.over();
        }
        answer
    }

    /// A plain write may be sent, and counts from now on.
    async fn begin_plain(&self, ns: Option<&Namespace>) -> Result<Changing> {
        loop {
            self.give_notice(ns).await?;
            let change = match ns {
                Some(ns) => self.plain.own.writing(ns),
                None => self.plain.own.changing_any(),
            };
            // It counts before the notice is made sure of: who says that all is over sees it.
            if !self.needs_notice(ns, COVERS) {
                return Ok(change);
            }
            change.over();
        }
    }

    /// Waits for the answer to a plain write, with a notice all the while.
    async fn under_notice<T>(&self, ns: Option<&Namespace>, write: impl Future<Output = Result<T>>) -> Result<T> {
        let mut write = pin!(write);
        loop {
            match tokio::time::timeout(RENEWED_AFTER, &mut write).await {
                Ok(answer) => return answer,
                // The write may have all connections: then the next time will do.
                Err(_) => drop(tokio::time::timeout(LONGEST_RENEWAL, self.give_notice(ns)).await),
            }
        }
    }

    /// Is there no notice about this collection, or about any, that is young enough?
    pub(super) fn needs_notice(&self, ns: Option<&Namespace>, age: Duration) -> bool {
        self.plain.is_heeded && !self.plain.is_of_records(ns) && !self.plain.has_notice(ns.map(Tag::of), age)
    }

    /// Makes sure that other clients can see that this one writes outside transactions, in this
    /// collection or in any. To be called before a connection is taken for the write: the notice
    /// needs one, too.
    pub(crate) async fn give_notice(&self, ns: Option<&Namespace>) -> Result<()> {
        if self.plain.is_of_records(ns) {
            return Ok(());
        }
        // Whoever stores the next one names it.
        self.plain.given().written.note(ns.map(Tag::of));
        if !self.needs_notice(ns, RENEWED_AFTER) {
            return Ok(());
        }
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
        // Who has waited for an attempt shares its failure.
        if let Some((_, error)) = failed.as_ref().filter(|(at, _)| at.is_after(came)) {
            return Err(error.clone());
        }
        let stored = self.store_notice().await;
        *failed = stored.as_ref().err().map(|error| (Moment::now(), error.clone()));
        stored
    }

    async fn store_notice(&self) -> Result<()> {
        let (home, now, scope) = (&self.plain.home, Moment::now(), self.plain.given().written.of_late());
        let stored = self.try_to_store_notice(home, &scope).await;
        stored.map_err(|error| match error.kind() {
            // Whether it is there or not, nothing else was sent.
            ErrorKind::Indeterminate => {
                let message = format!("the notice of writes outside transactions may not be stored in {home}: {error}");
                Error::new(ErrorKind::Unavailable, message)
            }
            _ => error,
        })?;
        self.plain.given().last = Some((now, scope));
        Ok(())
    }

    async fn try_to_store_notice(&self, home: &Namespace, scope: &Scope) -> Result<()> {
        let is_first = self.plain.given().notices.is_empty();
        if is_first {
            // The index by which the server removes it.
            let mut create = index_of_closed();
            self.nodes.on_majority(&mut create);
            self.nodes.with_quorum(&mut create);
            self.run_command(&home.db, create).await?;
        }
        let notice = ObjectId::new();
        self.plain.note(notice);
        let stored = doc! {
            format::FIELD: FORMAT, NOTICE: Bson::from(scope), "changes": {"$literal": {}}, "closedAt": "$$NOW",
        };
        let statement = doc! {"q": {"_id": notice}, "u": [{"$set": stored}], "upsert": true};
        let command = doc! {"update": &home.coll, "updates": [statement], "writeConcern": self.nodes.durable()};
        self.write_records(home, command).await?.ok().map(drop)
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
            // Who stores one is about to write.
            let over = server.plain.storing.try_lock().map(|_storing| server.plain.take_over(QUIET));
            if let Err(error) = server.end(over.unwrap_or_default()).await {
                tracing::debug!(%error, "the notice of writes outside transactions could not be ended yet");
            }
        }
    }

    async fn end(&self, over: Vec<ObjectId>) -> Result<()> {
        if over.is_empty() {
            return Ok(());
        }
        let ended = async {
            let statement = doc! {"q": {"_id": {"$in": &over}, NOTICE: {"$exists": true}}, "u": {"$set": {NOTICE: false}}, "multi": true};
            let command = doc! {"update": &self.plain.home.coll, "updates": [statement]};
            self.write_records(&self.plain.home, command).await?.ok().map(drop)
        };
        let ended = ended.await;
        if ended.is_err() {
            self.plain.go_on(over);
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(name: &str) -> Tag {
        Tag::of(&Namespace::new("d", name))
    }

    fn written(names: &[&str]) -> Written {
        let mut written = Written::default();
        names.iter().for_each(|name| written.note(Some(tag(name))));
        written
    }

    #[test]
    fn a_notice_names_what_was_written_to_of_late() {
        let mut written = written(&["a", "b"]);
        assert_eq!(written.of_late(), Scope::Of([tag("a"), tag("b")].into()));
        written.0.insert(Some(tag("a")), Moment::now().earlier(COVERS, Duration::ZERO));
        assert_eq!(written.of_late(), Scope::Of([tag("b")].into()));
        written.note(None);
        assert_eq!(written.of_late(), Scope::All, "a command was sent that may change any");
        written.0.insert(None, Moment::now().earlier(COVERS, Duration::ZERO));
        assert_eq!(written.of_late(), Scope::Of([tag("b")].into()));
    }

    #[test]
    fn more_collections_than_can_be_named_stand_for_all_and_are_not_all_kept() {
        let names: Vec<String> = (0..1_000).map(|n| n.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert!(matches!(written(&names[..MOST_NAMED]).of_late(), Scope::Of(named) if named.len() == MOST_NAMED));
        let mut all = written(&names);
        assert_eq!((all.0.len(), all.of_late()), (MOST_NAMED + 1, Scope::All));
    }

    #[test]
    fn notices_are_over_when_all_plain_writes_are_and_the_last_one_is_long_ago() {
        let own = Arc::new(OwnChanges::new(Arc::default()));
        let plain = Plain::new(Arc::clone(&own), "db", Layout::ClientRecord);
        let (ns, notice) = (Namespace::new("d", "a"), ObjectId::new());
        let write = |at: Moment| {
            plain.given().written.0.insert(Some(tag("a")), at);
            plain.given().last = Some((Moment::now(), Scope::Of([tag("a")].into())));
        };
        let long_ago = Moment::now().earlier(QUIET, QUIET);
        let is_covered = || plain.has_notice(Some(tag("a")), COVERS);
        assert!(plain.take_over(QUIET).is_empty(), "there is none");
        plain.note(notice);
        write(Moment::now());
        assert!(plain.take_over(QUIET).is_empty() && is_covered(), "a plain write was made");
        write(long_ago);
        let change = own.writing(&ns);
        assert!(plain.take_over(QUIET).is_empty() && is_covered(), "one is under way");
        change.over();
        assert_eq!(plain.take_over(QUIET), [notice]);
        assert!(!is_covered() && plain.is_own(notice), "the next write needs another notice");
        assert!(plain.take_over(QUIET).is_empty(), "it is over");
        plain.go_on(vec![notice]);
        assert_eq!(plain.take_over(QUIET), [notice], "it could not be ended");
        plain.go_on(vec![notice]);
        drop(own.writing(&ns));
        assert!(plain.take_over(QUIET).is_empty(), "nobody knows what has become of a write");
    }
}
