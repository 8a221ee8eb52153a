//! Creating indexes for the application.
//!
//! A unique index takes care, because transactions under way do not know it yet:
//!
//! 1. Its mirrored index is made: pending values are distinct from now on, and every later look-up
//!    of the collection heeds it.
//! 2. Wait for everything that may work by an older look-up: this client's commands by their hold
//!    on it; other clients, if a record names the collection, as long as a look-up is trusted. A
//!    record that is to name the collection from now on is followed by a new look-up.
//! 3. Wait for the documents that were pending then.
//! 4. The index itself is made.

use bson::Document;
use sd2v::index::{Creation, Index, interpret, plan_creation};

use super::{
    Schema,
    comparison::{Comparison, compare},
};
use crate::{
    coordinator::catalog::{create_stored, drop_stored, list_stored},
    error::{Error, Result},
    options::Namespace,
};

/// Clients that may give up the same index while it is made here.
const RIVALS: usize = 8;
/// Indexes that one collection may have in the server.
const MAX_INDEXES: usize = 64;
/// Number of MongoDB's error code `IndexOptionsConflict`.
const OTHER_OPTIONS: i32 = 85;
/// Number of MongoDB's error code `IndexKeySpecsConflict`.
const OTHER_INDEX: i32 = 86;

impl Schema {
    /// Creates indexes: each with whether its unsafe versions are to be indexed, too. Returns their
    /// names.
    pub(crate) async fn create_indexes(&self, ns: &Namespace, specs: &[(Document, bool)]) -> Result<Vec<String>> {
        if specs.is_empty() || specs.len() > MAX_INDEXES {
            return Err(Error::invalid(67, format!("between 1 and {MAX_INDEXES} indexes must be given")));
        }
        let existing = interpret(&list_stored(&self.server, ns).await?.unwrap_or_default());
        let collection = self.catalog.look_up(ns).await?;
        let (lockable, default) = (collection.unlockable.is_none(), collection.collation.clone());
        // Held, it would stand for a command that may miss the new index.
        drop(collection);
        let mut names = Vec::new();
        for (spec, mirror) in specs {
            let mut creation = plan_creation(spec, *mirror)?;
            let Some(wanted) = creation.index() else { continue };
            if !lockable {
                // No unsafe version is ever there: it is stored as it is.
                creation = Creation { mirror: None, main: vec![wanted.spec.clone()] };
            }
            let name = wanted.name().to_owned();
            let unfinished = existing.iter().any(|index| index.name() == name && !index.is_stored());
            let mirror = creation.mirror.is_some();
            if unfinished || !exists_already(ns, &existing, &wanted, mirror, default.as_ref())? {
                self.create_index(ns, &wanted, creation).await?;
            }
            names.push(name);
        }
        Ok(names)
    }

    async fn create_index(&self, ns: &Namespace, wanted: &Index, creation: Creation) -> Result<()> {
        let mirror: Vec<Document> = creation.mirror.into_iter().collect();
        let waits = wanted.unique().is_some() && !mirror.is_empty();
        create_stored(&self.server, ns, mirror.clone()).await?;
        // Until the catalog has forgotten what it knew, reads may use an index that is not in it.
        let change = self.server.own_changes().writing(ns);
        let making = async {
            if waits {
                self.wait_for_writers(ns, false).await?;
                self.keep_mirror(ns, &mirror).await?;
            }
            create_stored(&self.server, ns, creation.main).await?;
            if waits { self.keep_mirror(ns, &mirror).await } else { Ok(()) }
        };
        let made = making.await;
        if made.is_err() && !mirror.is_empty() {
            self.drop_mirror(ns, wanted).await;
        }
        self.catalog.forget(ns);
        change.over();
        made
    }

    /// Another client that has given up making the same index may have dropped the mirror
    /// meanwhile: it is made again, and what was written without it is waited for.
    async fn keep_mirror(&self, ns: &Namespace, mirror: &[Document]) -> Result<()> {
        for _ in 0..RIVALS {
            if create_stored(&self.server, ns, mirror.to_vec()).await? != Some(true) {
                break;
            }
            self.wait_for_writers(ns, false).await?;
        }
        Ok(())
    }

    /// Takes back the mirror of an index that could not be made, unless another client has made the
    /// index. One that is about to make it notices ([`Self::keep_mirror`]).
    async fn drop_mirror(&self, ns: &Namespace, wanted: &Index) {
        let dropping = async {
            let stored = interpret(&list_stored(&self.server, ns).await?.unwrap_or_default());
            if stored.iter().any(|index| index.name() == wanted.name() && index.is_stored()) {
                return Ok(());
            }
            drop_stored(&self.server, ns, &[wanted.mirror_name()]).await
        };
        if let Err(error) = dropping.await {
            // The application hears why its index was not made; an attempt to make it again finds
            // what is left.
            tracing::warn!(%ns, %error, "an index on unsafe versions could not be dropped");
        }
    }
}

/// An equal index is no error; another one of this name, or this one under another name, is.
/// `default`: the collation of the collection.
fn exists_already(
    ns: &Namespace,
    existing: &[Index],
    wanted: &Index,
    mirror: bool,
    default: Option<&Document>,
) -> Result<bool> {
    // A text index is listed in a form of its own: the server compares.
    if wanted.key().values().any(|kind| kind.as_str() == Some("text")) {
        return Ok(false);
    }
    let compared = |index: &Index| compare(&index.spec, &wanted.spec, default);
    let name = wanted.name();
    let refused = |code, message| Err(Error::invalid(code, message));
    if let Some(index) = existing.iter().find(|index| index.name() == name) {
        return match compared(index) {
            Comparison::Identical => Ok(index.mirrored || !mirror),
            Comparison::OtherOptions => refused(
                OTHER_OPTIONS,
                format!(
                    "{ns} has the index {name:?} already, with other options: change it by collMod, or drop it first"
                ),
            ),
            Comparison::Different => {
                refused(OTHER_INDEX, format!("{ns} has another index with the name {name:?}: drop it first"))
            }
        };
    }
    match existing.iter().find(|index| compared(index) != Comparison::Different) {
        Some(index) => {
            refused(OTHER_OPTIONS, format!("{ns} has the same index already, with the name {:?}", index.name()))
        }
        None => Ok(false),
    }
}
