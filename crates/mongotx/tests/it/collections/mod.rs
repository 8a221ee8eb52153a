//! Collections made and dropped: explicitly, and by the first insert.
//!
//! | file | what |
//! | --- | --- |
//! | [`created`] | made with options, and listed as they were made |
//! | [`implicit`] | made by writes of transactions that commit, that are rolled back, and of two at once |
//! | [`dropped`] | dropped when nothing in them is locked |
//! | [`renamed`] | renamed when nothing in them is locked, and no lock comes in between |

mod created;
mod dropped;
mod implicit;
mod renamed;

use std::time::Duration;

use bson::Document;
use mongotx::{Client, ClientOptions, Collection, Database, Session};

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

    pub(crate) fn begin(&self) -> Session {
        let mut session = self.client.session();
        session.begin().unwrap();
        session
    }

    pub(crate) fn coll(&self, name: &str) -> Collection<Document> {
        self.ours.collection(name)
    }

    /// As they are stored, when everything decided is finished.
    pub(crate) async fn stored(&self, name: &str) -> Vec<Document> {
        use futures_util::TryStreamExt;
        assert!(self.client.flush(Duration::from_secs(20)).await, "not everything could be finished");
        let all = self.plain.collection(name).find(bson::doc! {}).sort(bson::doc! {"_id": 1}).await.unwrap();
        all.try_collect().await.unwrap()
    }
}
