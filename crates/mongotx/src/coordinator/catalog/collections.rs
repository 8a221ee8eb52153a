//! Listing collections for the application, and the options that they are created with.
//! [`crate::coordinator::schema`] creates them.

use bson::{Bson, Document, doc};
use sd2v::{text::SCRATCH, validator};

use super::Catalog;
use crate::{
    error::{Error, Result},
    options::Namespace,
};

/// Collections listed of one database.
pub(crate) const MAX_COLLECTIONS: usize = 1_000_000;

impl Catalog {
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
pub(crate) fn with_options(name: &str, ns: &Namespace, options: &Document) -> Result<Document> {
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
