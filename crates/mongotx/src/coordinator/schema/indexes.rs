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

use bson::{Bson, Document};
use sd2v::index::{Creation, Index, interpret, plan_creation};

use super::Schema;
use crate::{
    coordinator::catalog::{create_stored, drop_stored, list_stored},
    error::{Error, Result},
    options::Namespace,
};

/// Indexes that one collection may have in the server.
const MAX_INDEXES: usize = 64;

impl Schema {
    /// Creates indexes: each with whether its unsafe versions are to be indexed, too. Returns their
    /// names.
    pub(crate) async fn create_indexes(&self, ns: &Namespace, specs: &[(Document, bool)]) -> Result<Vec<String>> {
        if specs.is_empty() || specs.len() > MAX_INDEXES {
            return Err(Error::invalid(67, format!("between 1 and {MAX_INDEXES} indexes must be given")));
        }
        let existing = interpret(&list_stored(&self.server, ns).await?.unwrap_or_default());
        let lockable = self.catalog.look_up(ns).await?.unlockable.is_none();
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
            if unfinished || !exists_already(ns, &existing, &wanted, creation.mirror.is_some())? {
                self.create_index(ns, &wanted, creation).await?;
            }
            names.push(name);
        }
        Ok(names)
    }

    async fn create_index(&self, ns: &Namespace, wanted: &Index, creation: Creation) -> Result<()> {
        let mirror: Vec<Document> = creation.mirror.into_iter().collect();
        let mirror_names: Vec<String> =
            mirror.iter().filter_map(|spec| spec.get_str("name").ok().map(str::to_owned)).collect();
        create_stored(&self.server, ns, mirror).await?;
        // Until the catalog has forgotten what it knew, reads may use an index that is not in it.
        let change = self.server.own_changes().writing(ns);
        let made = match wanted.unique() {
            Some(_) if !mirror_names.is_empty() => self.wait_for_writers(ns, false).await,
            _ => Ok(()),
        };
        let made = match made {
            Ok(()) => create_stored(&self.server, ns, creation.main).await,
            Err(error) => Err(error),
        };
        if made.is_err()
            && let Err(error) = drop_stored(&self.server, ns, &mirror_names).await
        {
            // The application hears why its index was not made; an attempt to make it again finds
            // what is left.
            tracing::warn!(%ns, %error, "an index on unsafe versions could not be dropped");
        }
        self.catalog.forget(ns);
        change.over();
        made
    }
}

/// An equal index is no error, another one of this name is.
fn exists_already(ns: &Namespace, existing: &[Index], wanted: &Index, mirror: bool) -> Result<bool> {
    // A text index is listed in a form of its own: the server compares.
    if wanted.key().values().any(|kind| kind.as_str() == Some("text")) {
        return Ok(false);
    }
    let same = |index: &&Index| same_options(&index.spec, &wanted.spec);
    match existing.iter().find(|index| index.name() == wanted.name()) {
        Some(index) if same(&index) => Ok(index.mirrored || !mirror),
        Some(_) => {
            Err(Error::invalid(86, format!("{ns} has another index with the name {:?}: drop it first", wanted.name())))
        }
        None => match existing.iter().find(same) {
            Some(index) => {
                Err(Error::invalid(85, format!("{ns} has the same index already, with the name {:?}", index.name())))
            }
            None => Ok(false),
        },
    }
}

fn same_options(left: &Document, right: &Document) -> bool {
    const TELLING: [&str; 7] =
        ["key", "unique", "sparse", "expireAfterSeconds", "partialFilterExpression", "wildcardProjection", "weights"];
    let value = |spec: &Document, option: &str| match spec.get(option) {
        Some(Bson::Boolean(false)) | None => None,
        Some(Bson::Document(key)) if option == "key" => Some(normal_key(key)),
        Some(value) => Some(normal(value)),
    };
    let locale =
        |spec: &Document| spec.get_document("collation").ok().and_then(|c| c.get_str("locale").ok().map(str::to_owned));
    TELLING.iter().all(|option| value(left, option) == value(right, option)) && locale(left) == locale(right)
}

/// A number as a double, so that equal numbers of different types are equal.
fn normal(value: &Bson) -> Bson {
    match value {
        Bson::Int32(n) => Bson::Double(f64::from(*n)),
        Bson::Int64(n) => Bson::Double(*n as f64),
        other => other.clone(),
    }
}

/// The fields in their order, which documents are compared without.
fn normal_key(key: &Document) -> Bson {
    key.iter().map(|(field, kind)| Bson::Array(vec![field.as_str().into(), normal(kind)])).collect()
}
