//! Collections of special kinds: each works, or is refused with the reason. See
//! `docs/special-collections.md`.
//!
//! | file | what |
//! | --- | --- |
//! | [`capped`] | capped collections |
//! | [`series`] | time series |
//! | [`views`] | views |
//! | [`keyed`] | clustered collections, and those with a default collation |
//! | [`files`] | GridFS |
//! | [`servers`] | the server's own collections and databases, and the records of clients |

mod capped;
mod files;
mod keyed;
mod series;
mod servers;
mod views;

use std::time::Duration;

use bson::{Document, doc};
use mongotx::{Client, ClientOptions, Collection, Database, Error, ErrorKind, Isolation, Session, TransactionOptions};

/// A database, by MongoTx and by the plain driver.
pub(crate) struct Place {
    pub(crate) client: Client,
    pub(crate) ours: Database,
    pub(crate) plain: mongodb::Database,
}

impl Place {
    pub(crate) async fn new(name: &str) -> Self {
        let server = local_mongod::shared_standalone().await.unwrap();
        let options = ClientOptions { write_wait: Duration::from_millis(50), ..crate::quiet::at_read_committed() };
        let client = Client::connect_with(&server.uri(), options).await.unwrap();
        let plain = server.client().await.unwrap().database(&local_mongod::unique_db(name));
        Self { ours: client.database(plain.name()), client, plain }
    }

    /// A place with a collection `c` that is made with these options.
    pub(crate) async fn with(name: &str, options: Document) -> Self {
        let place = Self::new(name).await;
        let creating = place.ours.create_collection("c");
        options.into_iter().fold(creating, |creating, (option, value)| creating.option(&option, value)).await.unwrap();
        place
    }

    pub(crate) fn coll(&self, name: &str) -> Collection<Document> {
        self.ours.collection(name)
    }

    pub(crate) fn begin(&self, isolation: Isolation) -> Session {
        let mut session = self
            .client
            .session_with(TransactionOptions { isolation: Some(isolation), ..TransactionOptions::default() });
        session.begin().unwrap();
        session
    }

    pub(crate) async fn stored_index_names(&self, name: &str) -> Vec<String> {
        self.plain.collection::<Document>(name).list_index_names().await.unwrap()
    }
}

/// All that a pipeline answers, in a transaction or outside one.
pub(crate) async fn all(coll: &Collection<Document>, stages: &[Document], of: Option<&mut Session>) -> Vec<Document> {
    let action = coll.aggregate(stages.to_vec());
    let cursor = match of {
        Some(session) => action.session(session).await,
        None => action.await,
    };
    cursor.unwrap().try_collect().await.unwrap()
}

/// Refused by name: with the collection and the reason.
pub(crate) fn assert_refused(error: &Error, reason: &str) {
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains(reason), "{error}");
}

/// Every way to write in a transaction is refused with this reason, and so is what outside of one
/// would be one of its own; the session's transaction goes on. `there`: a filter that finds a
/// document.
pub(crate) async fn assert_writes_refused(
    coll: &Collection<Document>,
    there: Document,
    session: &mut Session,
    reason: &str,
) {
    let (some, set) = (there, doc! {"$set": {"a": 2}});
    assert_refused(&coll.insert_one(&doc! {"_id": 100}).session(session).await.unwrap_err(), reason);
    assert_refused(&coll.insert_many(&[doc! {"_id": 100}]).session(session).await.unwrap_err(), reason);
    assert_refused(&coll.update_one(some.clone(), set.clone()).session(session).await.unwrap_err(), reason);
    assert_refused(&coll.replace_one(some.clone(), &doc! {}).upsert(true).session(session).await.unwrap_err(), reason);
    assert_refused(&coll.find_one_and_update(some.clone(), set.clone()).session(session).await.unwrap_err(), reason);
    assert_refused(&coll.delete_one(some.clone()).session(session).await.unwrap_err(), reason);
    assert_refused(&coll.delete_many(some.clone()).session(session).await.unwrap_err(), reason);
    assert_refused(&coll.update_many(some, set).await.unwrap_err(), reason);
    assert_refused(&coll.insert_many(&[doc! {"_id": 100}]).await.unwrap_err(), reason);
    assert!(session.is_open());
}
