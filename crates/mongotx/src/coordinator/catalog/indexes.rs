//! Listing and dropping indexes for the application: it sees those that it made, without the
//! mirrored ones beside them. `crate::coordinator::schema` creates them.

use bson::{Bson, Document};
use sd2v::index::{Index, interpret};

use super::{Catalog, adopt::drop_stored, list_stored};
use crate::{
    error::{Error, Result},
    options::Namespace,
};

/// Number of MongoDB's error code `IndexNotFound`.
const NO_SUCH_INDEX: i32 = 27;
/// Number of MongoDB's error code `AmbiguousIndexKeyPattern`.
const AMBIGUOUS: i32 = 181;

/// The one of the application's indexes that has this name or this key pattern.
pub(super) fn find_index<'a>(ns: &Namespace, indexes: &[&'a Index], asked: &Bson) -> Result<&'a Index> {
    let is_meant = |index: &&&Index| match asked {
        Bson::String(name) => index.name() == name,
        Bson::Document(key) => index.has_key(key),
        _ => false,
    };
    let found: Vec<&'a Index> = indexes.iter().filter(is_meant).copied().collect();
    match found[..] {
        [one] => Ok(one),
        [] => Err(Error::invalid(NO_SUCH_INDEX, format!("cannot find index {asked} for ns {ns}"))),
        _ => {
            let names: Vec<&str> = found.iter().map(|index| index.name()).collect();
            let message = format!(
                "index keyPattern {asked} matches several indexes of {ns}, must use index name: {}",
                names.join(", ")
            );
            Err(Error::invalid(AMBIGUOUS, message))
        }
    }
}

impl Catalog {
    /// The application's indexes, as it made them, and whether they are mirrored.
    pub(crate) async fn list_indexes(&self, ns: &Namespace) -> Result<Vec<(Document, bool)>> {
        let stored = list_stored(&self.server, ns).await?.unwrap_or_default();
        Ok(interpret(&stored).into_iter().filter(Index::is_stored).map(|index| (index.spec, index.mirrored)).collect())
    }

    /// Drops one index by its name or its key pattern.
    pub(crate) async fn drop_index(&self, ns: &Namespace, which: &Bson) -> Result<()> {
        let stored = list_stored(&self.server, ns).await?.unwrap_or_default();
        let indexes = interpret(&stored);
        let index = find_index(ns, &indexes.iter().collect::<Vec<_>>(), which)?;
        if index.name() == "_id_" {
            return Err(Error::invalid(72, "the index on _id cannot be dropped"));
        }
        // The index before its mirror: what is unique stays heeded to the end.
        let names = index.stored_names();
        // Until it is forgotten, reads may rest on what it has kept unique.
        let change = self.server.own_changes().writing(ns);
        let dropped = drop_stored(&self.server, ns, &names).await;
        self.forget(ns);
        change.over();
        dropped
    }

    /// Drops every index but that on `_id`.
    pub(crate) async fn drop_indexes(&self, ns: &Namespace) -> Result<()> {
        for (spec, _) in self.list_indexes(ns).await? {
            if let Some(name) = spec.get("name").filter(|name| name.as_str() != Some("_id_")) {
                self.drop_index(ns, name).await?;
            }
        }
        Ok(())
    }
}
