//! A database of its own on the shared server, by MongoTx and by the plain driver: for the tests
//! that make collections and drop them, or make collections of special kinds.

use std::time::Duration;

use bson::{Document, doc};
use futures_util::TryStreamExt;
use mongotx::{Client, ClientOptions, Collection, Database, Isolation, Session, TransactionOptions};

/// A database, by MongoTx and by the plain driver.
pub(crate) struct Place {
    pub(crate) client: Client,
    pub(crate) ours: Database,
    pub(crate) plain: mongodb::Database,
}

/// Options of a client that does not wait long for a rival.
pub(crate) fn options() -> ClientOptions {
    ClientOptions { write_wait: Duration::from_millis(50), ..crate::quiet::at_read_committed() }
}

impl Place {
    pub(crate) async fn new(name: &str) -> Self {
        let server = local_mongod::shared_standalone().await.unwrap();
        let client = Client::connect_with(&server.uri(), options()).await.unwrap();
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

    pub(crate) fn begin(&self) -> Session {
        let mut session = self.client.session();
        session.begin().unwrap();
        session
    }

    pub(crate) fn begin_at(&self, isolation: Isolation) -> Session {
        let options = TransactionOptions { isolation: Some(isolation), ..TransactionOptions::default() };
        let mut session = self.client.session_with(options);
        session.begin().unwrap();
        session
    }

    pub(crate) fn coll(&self, name: &str) -> Collection<Document> {
        self.ours.collection(name)
    }

    /// As they are stored, when everything decided is finished.
    pub(crate) async fn stored(&self, name: &str) -> Vec<Document> {
        assert!(self.client.flush(Duration::from_secs(20)).await, "not everything could be finished");
        let all = self.plain.collection(name).find(doc! {}).sort(doc! {"_id": 1}).await.unwrap();
        all.try_collect().await.unwrap()
    }

    pub(crate) async fn stored_index_names(&self, name: &str) -> Vec<String> {
        self.plain.collection::<Document>(name).list_index_names().await.unwrap()
    }
}
