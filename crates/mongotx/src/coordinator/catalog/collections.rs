//! Creating and listing collections for the application.
//!
//! None of it is part of a transaction: it takes effect at once, and stays when the caller's
//! transaction is rolled back.

use bson::{Bson, Document, doc};
use sd2v::{text::SCRATCH, validator};

use super::watched::{check_created, switches_on};
use crate::{
    coordinator::Core,
    error::{Error, Result},
    options::{ChangeStreams, Namespace},
};

/// Number of MongoDB's error code `InvalidNamespace`.
const INVALID_NAME: i32 = 73;
/// Collections listed of one database.
pub(crate) const MAX_COLLECTIONS: usize = 1_000_000;

impl Core {
    /// Creates a collection, a time series or a view. A validator is stored as transactions need
    /// it.
    pub(crate) async fn create_collection(&self, ns: &Namespace, options: &Document) -> Result<()> {
        if is_scratch(&ns.coll) {
            let message = format!("the collection name {:?} is reserved: it begins with {SCRATCH:?}", ns.coll);
            return Err(Error::invalid(INVALID_NAME, message));
        }
        check_created(ns, options)?;
        self.server.run_directly(&ns.db, with_options("create", ns, options)?).await?;
        self.catalog.forget(ns);
        if switches_on(options) && self.options.change_streams != ChangeStreams::All {
            // Others may know another collection of this name.
            self.wait_for_writers(ns, false).await?;
        }
        if !["viewOn", "timeseries", "capped"].iter().any(|kind| options.contains_key(kind)) {
            // Now it costs nothing; the first query of a collection that has grown would wait for
            // it, or scan. Without it transactions work as well.
            self.catalog.index_new(&self.server, ns).await;
        }
        Ok(())
    }

    /// The server's descriptions of the collections, as the application made them.
    pub(crate) async fn list_collections(&self, db: &str, filter: Option<Document>) -> Result<Vec<Document>> {
        let mut command = doc! {"listCollections": 1, "cursor": {}};
        command.extend(filter.map(|filter| ("filter".to_owned(), filter.into())));
        let listed = self.server.collect(db, command, MAX_COLLECTIONS).await?.into_iter();
        let own = |info: &Document| info.get_str("name").is_ok_and(is_scratch);
        Ok(listed.filter(|info| !own(info)).map(as_made).collect())
    }

    /// The names alone, which takes no lock on the collections.
    pub(crate) async fn list_collection_names(&self, db: &str) -> Result<Vec<String>> {
        let list = doc! {"listCollections": 1, "nameOnly": true, "cursor": {}};
        let listed = self.server.collect(db, list, MAX_COLLECTIONS).await?.into_iter();
        let names = listed.filter_map(|info| info.get_str("name").ok().map(str::to_owned));
        Ok(names.filter(|name| !is_scratch(name)).collect())
    }
}

/// `create` or `collMod`, a validator in its stored form.
pub(super) fn with_options(name: &str, ns: &Namespace, options: &Document) -> Result<Document> {
    let mut command = doc! {name: &ns.coll};
    for (option, value) in options {
        let value = match (option.as_str(), value) {
            (option, _) if option == name => {
                return Err(Error::invalid(72, format!("{name:?} is the command, not an option of it")));
            }
            ("validator", Bson::Document(condition)) if !condition.is_empty() => {
                Bson::Document(validator::wrap(condition)?)
            }
            _ => value.clone(),
        };
        command.insert(option, value);
    }
    Ok(command)
}

/// A collection of a text search that is under way.
pub(crate) fn is_scratch(name: &str) -> bool {
    name.starts_with(SCRATCH)
}

/// The listed collection with the application's own validator.
fn as_made(mut info: Document) -> Document {
    if let Ok(options) = info.get_document_mut("options")
        && let Some(own) = options.get_document("validator").ok().and_then(validator::unwrap)
    {
        options.insert("validator", own);
    }
    info
}
