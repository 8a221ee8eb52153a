//! Renaming a collection for the application ([decision
//! 0046](../../../../../docs/decisions/0046-renaming.md)).
//!
//! A lock that moved with its document to another name would be lost: its transaction looks for it
//! under the old one, finds nothing to finish, and forgets that it was committed. So no document
//! may be locked when the server renames.
//!
//! 1. Wait until nothing is locked, in the collection and in one that its new name takes the place
//!    of.
//! 2. Freeze both: two indexes that the server cannot make as long as there is a lock, and with
//!    which it refuses every lock ([`sd2v::index::freeze`]). A lock came in between: thaw, and
//!    again from 1.
//! 3. Rename. The indexes go along.
//! 4. Thaw: drop the two indexes.
//!
//! Interrupted after 2, the collection stays frozen, under one name or the other: locks in it are
//! refused with an error that says so, and `mongotx doctor` finds the indexes. Nothing else drops
//! them, because the command of step 3 may still be on its way.

use std::sync::Arc;

use bson::{Document, doc, oid::ObjectId};
use futures_util::FutureExt;
use sd2v::index::freeze;

use super::{collection_events::with_events, to_its_end::to_its_end};
use crate::{
    coordinator::{
        Core,
        catalog::{NO_SUCH_COLLECTION, drop_stored},
        finishing::lock_wait::LockWait,
    },
    error::{Error, ErrorKind, Result},
    options::Namespace,
    steps::Step,
};

/// Number of MongoDB's error code `IllegalOperation`.
const ILLEGAL: i32 = 20;
/// Number of MongoDB's error code `NamespaceExists`.
const EXISTS: i32 = 48;
/// Number of MongoDB's error code `IndexOptionsConflict`.
const OTHER_NAME: i32 = 85;

/// Result of an attempt to freeze the collections.
enum FreezeResult {
    Frozen,
    /// The collection was not frozen, because a document was locked.
    Locked,
}

/// Renames a collection when nothing in it is locked any more. It goes on when the caller's
/// future is dropped.
pub(crate) async fn rename_collection(
    core: &Arc<Core>,
    from: &Namespace,
    to: &Namespace,
    drops_target: bool,
) -> Result<()> {
    for ns in [from, to] {
        if let Some(reason) = core.catalog.never_written(ns) {
            return Err(Error::unsupported(format!("{from} cannot be renamed to {to}: {reason}")));
        }
    }
    if !core.catalog.shards.none() {
        let message = format!("{from} cannot be renamed behind a router: shards would not do it at one moment");
        return Err(Error::unsupported(message));
    }
    if from == to {
        return Err(Error::invalid(ILLEGAL, "Can't rename a collection to itself"));
    }
    let rename = Rename { core: Arc::clone(core), from: from.clone(), to: to.clone(), drops_target, replaces: false };
    to_its_end(core, &format!("renaming {from}"), rename.carry_out()).await
}

/// A collection that is being renamed.
struct Rename {
    core: Arc<Core>,
    from: Namespace,
    to: Namespace,
    /// The caller allows that a collection of the new name is dropped.
    drops_target: bool,
    /// There was one, so nothing is locked in it. One that comes later, with documents that are
    /// locked already, is not dropped.
    replaces: bool,
}

impl Rename {
    async fn carry_out(mut self) -> Result<()> {
        let mut lockable = self.lockable().await?;
        let limit = self.core.options.write_wait;
        let mut lock_wait = LockWait::new(limit);
        loop {
            for ns in &lockable {
                self.core.schema.until_unlocked(ns, "renamed", &mut lock_wait).await?;
            }
            let indexes = freeze(ObjectId::new());
            self.core.server.at(Step::BeforeFreeze).await;
            match self.freeze_all(&lockable, &indexes).await {
                Ok(FreezeResult::Frozen) => match self.rename_with_events(&indexes).await {
                    Err(error) if error.code() == Some(EXISTS) && self.drops_target && !self.replaces => {
                        lockable = self.lockable().await?;
                    }
                    renamed => return renamed,
                },
                Ok(FreezeResult::Locked) => self.thaw(&lockable, &indexes).await,
                Err(error) => {
                    self.thaw(&lockable, &indexes).await;
                    return Err(error);
                }
            }
            if std::time::Instant::now() >= lock_wait.deadline() {
                let message = format!(
                    "{} cannot be renamed: its documents were locked again and again for longer than the {limit:?} this call waits",
                    self.from
                );
                return Err(Error::new(ErrorKind::Conflict, message));
            }
            lock_wait.pause().await;
        }
    }

    /// Of the two collections, those in which documents could be locked.
    async fn lockable(&mut self) -> Result<Vec<Namespace>> {
        if !self.is_there(&self.from).await? {
            return Err(self.missing());
        }
        let mut both = vec![self.from.clone()];
        self.replaces = self.is_there(&self.to).await?;
        if self.replaces {
            if !self.drops_target {
                return Err(Error::invalid(EXISTS, "target namespace exists"));
            }
            both.push(self.to.clone());
        }
        let mut lockable = Vec::new();
        for ns in both {
            // An earlier look-up may have been of another collection with this name.
            self.core.catalog.forget(&ns);
            if self.core.catalog.look_up(&ns).await?.unlockable.is_none() {
                lockable.push(ns);
            }
        }
        Ok(lockable)
    }

    async fn is_there(&self, ns: &Namespace) -> Result<bool> {
        let list = doc! {"listCollections": 1, "nameOnly": true, "filter": {"name": &ns.coll}, "cursor": {}};
        Ok(!self.core.server.collect(&ns.db, list, 1).await?.is_empty())
    }

    fn missing(&self) -> Error {
        Error::invalid(NO_SUCH_COLLECTION, format!("Source collection {} does not exist", self.from))
    }

    /// Step 2: freezes the collections.
    async fn freeze_all(&self, lockable: &[Namespace], indexes: &[Document; 2]) -> Result<FreezeResult> {
        for ns in lockable {
            let mut create = doc! {"createIndexes": &ns.coll, "indexes": indexes.to_vec()};
            self.core.server.nodes.with_quorum(&mut create);
            match self.core.server.run_directly(&ns.db, create).await {
                Ok(made) if made.get_bool("createdCollectionAutomatically").unwrap_or(false) => {
                    return Err(self.missing());
                }
                Ok(_) => {}
                Err(refused) if refused.is_frozen() => return Ok(FreezeResult::Locked),
                Err(refused) if refused.code() == Some(OTHER_NAME) => {
                    let message = format!("{ns} is being renamed by another client: {refused}");
                    return Err(Error::new(ErrorKind::Conflict, message));
                }
                Err(refused) => return Err(refused),
            }
        }
        Ok(FreezeResult::Frozen)
    }

    /// Steps 3 and 4, with the events that watched collections leave.
    async fn rename_with_events(&self, indexes: &[Document; 2]) -> Result<()> {
        let named = |ns: &Namespace| doc! {"db": &ns.db, "coll": &ns.coll};
        let mut events = Vec::new();
        if self.replaces {
            events.extend(self.core.catalog.dropped_event(&self.to).await?);
        }
        if self.core.catalog.dropped_event(&self.from).await?.is_some() {
            events.push(doc! {"operationType": "rename", "ns": named(&self.from), "to": named(&self.to)});
        }
        match events.is_empty() {
            true => self.rename_frozen(indexes).await,
            false => with_events(&self.core, events, self.rename_frozen(indexes).boxed()).await,
        }
    }

    /// Steps 3 and 4: renames the collection, then thaws it.
    async fn rename_frozen(&self, indexes: &[Document; 2]) -> Result<()> {
        let command = doc! {
            "renameCollection": self.from.to_string(), "to": self.to.to_string(), "dropTarget": self.replaces,
        };
        self.core.server.at(Step::BeforeRename).await;
        // Until the catalog has forgotten what it knew, reads may rest on it.
        let change = self.core.server.own_changes().changing_any();
        let renamed = self.core.server.run_directly("admin", command).await;
        for ns in [&self.from, &self.to] {
            self.core.catalog.forget(ns);
        }
        change.over();
        match renamed {
            // The command may still be on its way to the server.
            Err(error) if error.kind() == ErrorKind::Indeterminate && error.unreplicated_answer().is_none() => {
                let name = indexes[0].get_str("name").unwrap_or_default();
                let message = format!(
                    "{error}; until it is known whether {} was renamed to {}, no document in it can be locked: \
                     mongotx doctor --repair drops the index {name:?}, which sees to that",
                    self.from, self.to
                );
                Err(Error::new(ErrorKind::Indeterminate, message))
            }
            answered => {
                // The server may lose the renaming again; then the indexes are under the old name.
                self.thaw(&[self.from.clone(), self.to.clone()], indexes).await;
                answered.map(drop)
            }
        }
    }

    /// Step 4, and taking step 2 back.
    async fn thaw(&self, collections: &[Namespace], indexes: &[Document; 2]) {
        let names: Vec<String> =
            indexes.iter().filter_map(|index| index.get_str("name").ok().map(str::to_owned)).collect();
        for ns in collections {
            match drop_stored(&self.core.server, ns, &names).await {
                Err(error) if error.code() != Some(NO_SUCH_COLLECTION) => {
                    tracing::warn!(%ns, %error, "no document can be locked until the indexes of a renaming are dropped: mongotx doctor --repair");
                }
                _ => {}
            }
        }
    }
}
