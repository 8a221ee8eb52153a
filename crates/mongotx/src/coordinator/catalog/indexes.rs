//! Listing and dropping indexes for the application: it sees those that it made, without the
//! mirrored ones beside them. `crate::coordinator::schema` creates them.

use bson::{Bson, Document};
use sd2v::index::{Index, interpret, left_behind};

use super::{Catalog, adopt::drop_stored, list_stored};
use crate::{
    error::{Error, Result},
    options::Namespace,
};

/// Number of MongoDB's error code `IndexNotFound`.
const NO_SUCH_INDEX: i32 = 27;
/// Number of MongoDB's error code `AmbiguousIndexKeyPattern`.
const AMBIGUOUS: i32 = 181;
/// Name of the index on `_id`.
const ID_INDEX: &str = "_id_";

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

    /// Drops indexes by their names or their key patterns: all of them, or none if one is not
    /// found. Of one that was dropped half way before, the rest is dropped.
    pub(crate) async fn drop_indexes_named(&self, ns: &Namespace, asked: &[Bson]) -> Result<()> {
        let stored = list_stored(&self.server, ns).await?.unwrap_or_default();
        let (indexes, left) = (interpret(&stored), left_behind(&stored));
        let (indexes, left) = (indexes.iter().collect::<Vec<_>>(), left.iter().collect::<Vec<_>>());
        let mut names: Vec<String> = Vec::new();
        for which in asked {
            let index = find_index(ns, &indexes, which).or_else(|missing| match missing.code() {
                Some(NO_SUCH_INDEX) => find_index(ns, &left, which),
                _ => Err(missing),
            })?;
            if index.name() == ID_INDEX {
                return Err(Error::invalid(72, "the index on _id cannot be dropped"));
            }
            names.extend(index.stored_names().into_iter().filter(|name| !names.contains(name)).collect::<Vec<_>>());
        }
        self.drop_all_stored(ns, &names).await
    }

    /// Drops every index but that on `_id`, and what is left of those that were dropped half way.
    pub(crate) async fn drop_indexes(&self, ns: &Namespace) -> Result<()> {
        let stored = list_stored(&self.server, ns).await?.unwrap_or_default();
        let all = interpret(&stored).into_iter().chain(left_behind(&stored));
        let names: Vec<String> =
            all.filter(|index| index.name() != ID_INDEX).flat_map(|index| index.stored_names()).collect();
        self.drop_all_stored(ns, &names).await
    }

    async fn drop_all_stored(&self, ns: &Namespace, names: &[String]) -> Result<()> {
        // Until they are forgotten, reads may rest on what they have kept unique.
        let change = self.server.own_changes().writing(ns);
        let dropped = drop_stored(&self.server, ns, names).await;
        self.forget(ns);
        change.over();
        dropped
    }
}
