//! Listing and dropping indexes for the application: it sees those that it made, without the
//! mirrored ones beside them. `crate::coordinator::schema` creates them.

use bson::{Bson, Document};
use sd2v::index::{Index, interpret};

use super::{Catalog, adopt::drop_stored, list_stored};
use crate::{
    error::{Error, Result},
    options::Namespace,
};

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
        let found = indexes.iter().find(|index| match which {
            Bson::String(name) => index.name() == name,
            Bson::Document(key) => index.has_key(key),
            _ => false,
        });
        let Some(index) = found else {
            return Err(Error::invalid(27, format!("{ns} has no index {which}")));
        };
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
