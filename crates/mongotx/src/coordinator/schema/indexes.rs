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
//!
//! Several indexes take these steps together, so that all of them are made or none: what is known
//! to be refused is refused before 1, and the server makes all indexes of one command or none. Who
//! gives up, or whose caller has gone, takes the mirrored indexes back.

use bson::{Bson, Document};
use sd2v::index::{Creation, Index, interpret, plan_creation};

use super::{
    Schema,
    comparison::{Comparison, compare},
};
use crate::{
    caller::Caller,
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
/// Number of MongoDB's error code `OperationFailed`.
const TWICE: i32 = 96;

/// Indexes that one call is to make.
struct Planned {
    /// The names of all of them, also of those that are there.
    names: Vec<String>,
    /// Those that are not there, or not whole.
    missing: Vec<(Index, Creation)>,
}

impl Planned {
    fn mirrors(&self) -> Vec<Document> {
        self.missing.iter().filter_map(|(_, creation)| creation.mirror.clone()).collect()
    }

    /// Returns true if writers that do not know one of them have to be waited for.
    fn waits(&self) -> bool {
        self.missing.iter().any(|(wanted, creation)| wanted.unique().is_some() && creation.mirror.is_some())
    }

    /// Names of the mirrored indexes whose index is not among these stored ones.
    fn needless_mirrors(&self, stored: &[Document]) -> Vec<String> {
        let there = interpret(stored);
        let is_there = |wanted: &Index| there.iter().any(|index| index.name() == wanted.name() && index.is_stored());
        let needless = self.missing.iter().filter(|(wanted, creation)| creation.mirror.is_some() && !is_there(wanted));
        needless.map(|(wanted, _)| wanted.mirror_name()).collect()
    }
}

impl Schema {
    /// Creates indexes, all of them or none: each with whether its unsafe versions are to be
    /// indexed, too. Returns their names. Gives up when the caller has gone before the indexes
    /// themselves are made.
    pub(crate) async fn create_indexes(
        &self,
        ns: &Namespace,
        specs: &[(Document, bool)],
        caller: &Caller,
    ) -> Result<Vec<String>> {
        if specs.is_empty() || specs.len() > MAX_INDEXES {
            return Err(Error::invalid(67, format!("between 1 and {MAX_INDEXES} indexes must be given")));
        }
        let existing = interpret(&list_stored(&self.server, ns).await?.unwrap_or_default());
        let collection = self.catalog.look_up(ns).await?;
        let (lockable, default) = (collection.unlockable.is_none(), collection.collation.clone());
        // Held, it would stand for a command that may miss the new indexes.
        drop(collection);
        let planned = plan(ns, specs, &existing, lockable, default.as_ref())?;
        if !planned.missing.is_empty() {
            self.create_missing(ns, &planned, caller).await?;
        }
        Ok(planned.names)
    }

    async fn create_missing(&self, ns: &Namespace, planned: &Planned, caller: &Caller) -> Result<()> {
        let mirrors = planned.mirrors();
        let mirrored = create_stored(&self.server, ns, mirrors.clone()).await;
        // Until the catalog has forgotten what it knew, reads may use an index that is not in it.
        let change = self.server.own_changes().writing(ns);
        let made = match mirrored {
            Ok(_) => self.create_behind(ns, planned, &mirrors, caller).await,
            Err(refused) => Err(refused),
        };
        if made.is_err() && !mirrors.is_empty() {
            self.drop_mirrors(ns, planned).await;
        }
        self.catalog.forget(ns);
        change.over();
        made
    }

    /// Steps 2 to 4: creates the indexes whose mirrors are there.
    async fn create_behind(
        &self,
        ns: &Namespace,
        planned: &Planned,
        mirrors: &[Document],
        caller: &Caller,
    ) -> Result<()> {
        let waits = planned.waits();
        if waits {
            caller.while_there(self.wait_for_writers(ns, false)).await?;
            self.keep_mirrors(ns, mirrors, caller).await?;
        }
        let main = planned.missing.iter().flat_map(|(_, creation)| creation.main.clone()).collect();
        create_stored(&self.server, ns, main).await?;
        if waits { self.keep_mirrors(ns, mirrors, &Caller::staying()).await } else { Ok(()) }
    }

    /// Another client that has given up making one of the same indexes may have dropped its mirror
    /// meanwhile: it is made again, and what was written without it is waited for.
    async fn keep_mirrors(&self, ns: &Namespace, mirrors: &[Document], caller: &Caller) -> Result<()> {
        for _ in 0..RIVALS {
            if create_stored(&self.server, ns, mirrors.to_vec()).await? != Some(true) {
                break;
            }
            caller.while_there(self.wait_for_writers(ns, false)).await?;
        }
        Ok(())
    }

    /// Takes back the mirrors of indexes that could not be made, unless another client has made the
    /// index. One that is about to make it notices ([`Self::keep_mirrors`]).
    async fn drop_mirrors(&self, ns: &Namespace, planned: &Planned) {
        let dropping = async {
            let Some(stored) = list_stored(&self.server, ns).await? else { return Ok(()) };
            drop_stored(&self.server, ns, &planned.needless_mirrors(&stored)).await
        };
        if let Err(error) = dropping.await {
            // The application hears why its indexes were not made; an attempt to make them again
            // finds what is left.
            tracing::warn!(%ns, %error, "indexes on unsafe versions could not be dropped");
        }
    }
}

/// Compares the indexes with those that are there, and with each other. `lockable`: documents of
/// the collection may be locked. `default`: the collation of the collection.
fn plan(
    ns: &Namespace,
    specs: &[(Document, bool)],
    existing: &[Index],
    lockable: bool,
    default: Option<&Document>,
) -> Result<Planned> {
    let mut planned = Planned { names: Vec::new(), missing: Vec::new() };
    let mut wanted_before: Vec<Index> = Vec::new();
    for (spec, mirror) in specs {
        let mut creation = plan_creation(spec, *mirror)?;
        let Some(wanted) = creation.index() else { continue };
        if !lockable {
            // No unsafe version is ever there: it is stored as it is.
            creation = Creation { mirror: None, main: vec![wanted.spec.clone()] };
        }
        let mirror = creation.mirror.is_some();
        let unfinished = existing.iter().any(|index| index.name() == wanted.name() && !index.is_stored());
        let same = if unfinished { None } else { find_same(ns, existing, &wanted, default)? };
        planned.names.push(wanted.name().to_owned());
        if same.is_some_and(|index| index.mirrored || !mirror) {
            continue;
        }
        if find_same(ns, &wanted_before, &wanted, default)?.is_some() {
            let message = "Cannot build two identical indexes. Try again without duplicate indexes.";
            return Err(Error::invalid(TWICE, message));
        }
        wanted_before.push(with_collation(wanted.clone(), default));
        planned.missing.push((wanted, creation));
    }
    Ok(planned)
}

/// As the server will list it.
fn with_collation(mut index: Index, default: Option<&Document>) -> Index {
    if let Some(default) = default
        && !index.spec.contains_key("collation")
    {
        index.spec.insert("collation", Bson::from(default));
    }
    index
}

/// The index that is equal to the wanted one. Another one of its name, or this one under another
/// name, is an error. `default`: the collation of the collection.
fn find_same<'a>(
    ns: &Namespace,
    indexes: &'a [Index],
    wanted: &Index,
    default: Option<&Document>,
) -> Result<Option<&'a Index>> {
    // A text index is listed in a form of its own: the server compares.
    if wanted.key().values().any(|kind| kind.as_str() == Some("text")) {
        return Ok(None);
    }
    let compared = |index: &Index| compare(&index.spec, &wanted.spec, default);
    let name = wanted.name();
    let refused = |code, message| Err(Error::invalid(code, message));
    if let Some(index) = indexes.iter().find(|index| index.name() == name) {
        return match compared(index) {
            Comparison::Identical => Ok(Some(index)),
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
    match indexes.iter().find(|index| compared(index) != Comparison::Different) {
        Some(index) => {
            refused(OTHER_OPTIONS, format!("{ns} has the same index already, with the name {:?}", index.name()))
        }
        None => Ok(None),
    }
}
