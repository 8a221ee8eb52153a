//! A collection with a shard key, and clients of it.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bson::{Bson, Document, doc};
use futures_util::{TryStreamExt, future::BoxFuture};
use mongotx::{Client, ClientOptions, Collection, Namespace, Session, Step, StepHook};
use tokio::sync::watch;

/// The longest that anything is waited for.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// The document with this `_id` and this key.
pub(crate) fn document(id: i32, region: i32, owner: i32) -> Document {
    doc! {"_id": id, "region": region, "owner": {"id": owner, "name": "x"}, "tag": id, "n": 0}
}

/// A filter that demands this key.
pub(crate) fn at(region: i32, owner: i32) -> Document {
    doc! {"region": region, "owner.id": owner}
}

/// A filter that demands this key and this `_id`.
pub(crate) fn one(id: i32, region: i32, owner: i32) -> Document {
    let mut filter = doc! {"_id": id};
    filter.extend(at(region, owner));
    filter
}

pub(crate) struct Place {
    /// The database that the collection is in, by the plain driver.
    pub(crate) db: mongodb::Database,
    uri: String,
    tx_database: String,
}

impl Place {
    /// Documents 1 to 6, of three keys.
    pub(crate) async fn new(name: &str) -> Self {
        let server = local_mongod::shared_standalone().await.unwrap();
        let db = server.client().await.unwrap().database(&local_mongod::unique_db(name));
        let documents = (1..=6).map(|id| document(id, id % 3, 7));
        db.collection::<Document>("c").insert_many(documents).await.unwrap();
        Self { db, uri: server.uri(), tx_database: local_mongod::unique_db(&format!("{name}_tx")) }
    }

    /// A copy of the place, for another thread.
    pub(crate) fn clone_of(place: &Self) -> Self {
        Self { db: place.db.clone(), uri: place.uri.clone(), tx_database: place.tx_database.clone() }
    }

    pub(crate) fn options(&self) -> ClientOptions {
        let ns = Namespace::parse_namespace(&format!("{}.c", self.db.name())).unwrap();
        ClientOptions {
            tx_database: self.tx_database.clone(),
            shard_keys: HashMap::from([(ns, vec!["region".to_owned(), "owner.id".to_owned()])]),
            sweep: false,
            ..crate::quiet::at_read_committed()
        }
    }

    pub(crate) async fn client(&self) -> Client {
        self.client_with(self.options()).await
    }

    pub(crate) async fn client_with(&self, options: ClientOptions) -> Client {
        Client::connect_with(&self.uri, options).await.unwrap()
    }

    pub(crate) fn collection(&self, client: &Client) -> Collection<Document> {
        client.database(self.db.name()).collection("c")
    }

    /// Every document as it is stored.
    pub(crate) async fn stored(&self) -> Vec<Document> {
        let found = self.db.collection::<Document>("c").find(doc! {}).sort(doc! {"_id": 1}).await.unwrap();
        found.try_collect().await.unwrap()
    }

    pub(crate) async fn stored_one(&self, id: impl Into<Bson>) -> Option<Document> {
        self.db.collection("c").find_one(doc! {"_id": id.into()}).await.unwrap()
    }

    /// `_id` and `n` of every document, none of which is locked.
    pub(crate) async fn clean(&self) -> Vec<(i32, i32)> {
        let number = |document: &Document, field| document.get_i32(field).unwrap_or(-1);
        let all = self.stored().await;
        let locked = |document: &Document| document.keys().any(|field| field.starts_with('_') && field != "_id");
        assert!(!all.iter().any(locked), "{all:?}");
        all.iter().map(|document| (number(document, "_id"), number(document, "n"))).collect()
    }
}

pub(crate) fn begin(client: &Client) -> Session {
    let mut session = client.session();
    session.begin().unwrap();
    session
}

/// Holds a client at one step until it is opened.
pub(crate) struct Gate {
    step: Step,
    open: watch::Sender<bool>,
}

impl Gate {
    pub(crate) fn before(step: Step) -> Arc<Self> {
        Arc::new(Self { step, open: watch::Sender::new(false) })
    }

    pub(crate) fn open(&self) {
        self.open.send_replace(true);
    }
}

impl StepHook for Gate {
    fn at(&self, step: Step) -> BoxFuture<'static, ()> {
        let mut open = self.open.subscribe();
        let here = step == self.step;
        Box::pin(async move {
            if here {
                let _ = open.wait_for(|open| *open).await;
            }
        })
    }
}
