//! Indexes and validators: created, listed and dropped, and honoured between pending and committed
//! versions.
//!
//! | file | what |
//! | --- | --- |
//! | [`listing`] | what is listed is what was created, whatever is stored |
//! | [`interleavings`] | every order of short transactions that want the same values |
//! | [`unique`] | unique indexes: inserts, updates, removals, exchanges, arrays, partial, sparse, collation |
//! | [`through_arrays`] | which documents the server takes for duplicates, in all pairs of many |
//! | [`all_or_none`] | several of one call, calls that are given up, and what they leave |
//! | [`looked_up`] | made while others work by what they knew before |
//! | [`adopted`] | indexes that were made without MongoTx |
//! | [`refusals`] | what the server would refuse at the end is refused at the write |
//! | [`expiry`] | TTL indexes never remove what a transaction holds |
//! | [`outlived`] | nor what it has prolonged, whatever the server had found before |
//! | [`validators`] | a write that breaks a validator fails at the write |

mod adopted;
mod all_or_none;
mod expiry;
mod interleavings;
mod listing;
mod looked_up;
mod outlived;
mod refusals;
mod through_arrays;
mod unique;
mod validators;

use std::time::Duration;

use bson::{Bson, Document, doc};
use mongotx::{Client, Collection, Error, Session};

/// A client, and a collection in a database of its own.
pub(crate) struct Place {
    pub(crate) client: Client,
    pub(crate) coll: Collection<Document>,
    /// The collection by the plain driver.
    pub(crate) plain: mongodb::Collection<Document>,
    pub(crate) db: mongodb::Database,
}

impl Place {
    pub(crate) async fn new(name: &str) -> Self {
        let server = local_mongod::shared_standalone().await.unwrap();
        let client = Client::connect_with(&server.uri(), crate::quiet::at_read_committed()).await.unwrap();
        let db = server.client().await.unwrap().database(&local_mongod::unique_db(name));
        let coll = client.database(db.name()).collection("c");
        Self { client, coll, plain: db.collection("c"), db }
    }

    pub(crate) fn begin(&self) -> Session {
        let mut session = self.client.session();
        session.begin().unwrap();
        session
    }

    /// Every stored document, when everything decided is finished.
    pub(crate) async fn stored(&self) -> Vec<Document> {
        use futures_util::TryStreamExt;
        assert!(self.client.flush(Duration::from_secs(20)).await, "not everything could be finished");
        self.plain.find(doc! {}).sort(doc! {"_id": 1}).await.unwrap().try_collect().await.unwrap()
    }

    pub(crate) async fn stored_index_names(&self) -> Vec<String> {
        let mut names = self.plain.list_index_names().await.unwrap();
        names.sort();
        names
    }
}

/// A duplicate key of this index.
pub(crate) fn assert_duplicate(error: &Error, pattern: Document, value: Document) {
    assert_eq!(error.code(), Some(11000), "{error}");
    let key = error.duplicate_key().unwrap();
    assert_eq!((&key.pattern, &key.value), (&pattern, &value), "{error}");
    let text = error.to_string();
    assert!(!text.contains("_unsafe") && !text.contains("_slot") && !text.contains("_mongotx"), "{text}");
}

pub(crate) fn ids(documents: &[Document]) -> Vec<Bson> {
    documents.iter().map(|document| document.get("_id").cloned().unwrap()).collect()
}
