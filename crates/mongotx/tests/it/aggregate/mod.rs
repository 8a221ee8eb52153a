//! Aggregation inside and outside transactions.
//!
//! | file | what it shows |
//! | --- | --- |
//! | `visible` | which versions a pipeline sees, in every collection that it reads |
//! | `isolation` | what a pipeline at repeatable read keeps still |
//! | `output` | `$out` and `$merge` |
//! | `merged` | `$merge` by fields of a unique index |
//! | `views` | the server's views |
//! | `refused` | what is refused, by name |
//! | `explained` | the indexes that the server uses |

mod explained;
mod isolation;
mod merged;
mod output;
mod refused;
mod views;
mod visible;

use bson::{Document, doc};
use mongotx::{Aggregate, Client, ClientOptions, Collection, Isolation, Session, TransactionOptions};

/// Two clients of one database, and the plain driver.
struct World {
    client: Client,
    rival: Client,
    driver: mongodb::Database,
    db: String,
}

impl World {
    async fn new() -> Self {
        let server = local_mongod::shared_standalone().await.unwrap();
        let options = || ClientOptions { sweep: false, ..crate::quiet::at_read_committed() };
        let client = Client::connect_with(&server.uri(), options()).await.unwrap();
        let rival = Client::connect_with(&server.uri(), options()).await.unwrap();
        let db = local_mongod::unique_db("aggregate");
        let driver = server.client().await.unwrap().database(&db);
        Self { client, rival, driver, db }
    }

    /// A world with collections `a` and `b` of documents `{_id: 1, n: 10, to: 2}` to
    /// `{_id: 3, n: 30, to: 4}`.
    async fn filled() -> Self {
        let world = Self::new().await;
        for name in ["a", "b"] {
            let documents = (1..=3).map(|id| doc! {"_id": id, "n": id * 10, "to": id + 1});
            world.driver.collection(name).insert_many(documents).await.unwrap();
        }
        world
    }

    fn coll(&self, name: &str) -> Collection<Document> {
        self.client.database(&self.db).collection(name)
    }

    fn rivals(&self, name: &str) -> Collection<Document> {
        self.rival.database(&self.db).collection(name)
    }

    async fn stored(&self, name: &str) -> Vec<Document> {
        use futures_util::TryStreamExt;
        let found = self.driver.collection::<Document>(name).find(doc! {}).sort(doc! {"_id": 1}).await.unwrap();
        found.try_collect().await.unwrap()
    }
}

/// Changes both collections: document 1 gets `n: 11`, document 2 goes, document 4 comes with `n:
/// 40`.
async fn change(world: &World, of: impl Fn(&World, &str) -> Collection<Document>, session: &mut Session) {
    for name in ["a", "b"] {
        let coll = of(world, name);
        coll.update_one(doc! {"_id": 1}, doc! {"$set": {"n": 11}}).session(session).await.unwrap();
        coll.delete_one(doc! {"_id": 2}).session(session).await.unwrap();
        coll.insert_one(&doc! {"_id": 4, "n": 40, "to": 1}).session(session).await.unwrap();
    }
}

fn begun(client: &Client) -> Session {
    let mut session = client.session();
    session.begin().unwrap();
    session
}

fn repeatable(client: &Client) -> Session {
    let mut session = client.session_with(TransactionOptions {
        isolation: Some(Isolation::RepeatableRead),
        ..TransactionOptions::default()
    });
    session.begin().unwrap();
    session
}

async fn all(action: Aggregate<'_>) -> Vec<Document> {
    action.await.unwrap().try_collect().await.unwrap()
}
