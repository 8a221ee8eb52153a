//! The surroundings of a case: a server, a database and a `txs` of its own, so that nothing else is
//! in the way of its checks.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bson::{Bson, Document, doc};
use mongotx::{Client, ClientOptions, Collection, StepHook};

/// The state of all documents: collection and `_id`, and the number in it modulo 100. (Rivals add
/// hundreds.)
pub(crate) type State = BTreeMap<String, i32>;

pub(crate) const COLLECTIONS: [&str; 2] = ["a", "b"];

#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) uri: String,
    pub(crate) db: String,
}

impl World {
    pub(crate) fn new(uri: &str, name: &str) -> Self {
        Self { uri: format!("{uri}&serverSelectionTimeoutMS=8000"), db: local_mongod::unique_db(name) }
    }

    /// The database of the client records.
    pub(crate) fn tx_db(&self) -> String {
        format!("{}_tx", self.db)
    }

    pub(crate) fn options(&self, lease_ms: u64) -> ClientOptions {
        ClientOptions {
            tx_database: self.tx_db(),
            lease: Duration::from_millis(lease_ms),
            commit_timeout: Duration::from_secs(20),
            sweep: false,
            ..crate::quiet::at_read_committed()
        }
    }

    /// A client that sweeps only when a test calls for it.
    pub(crate) async fn client(&self, lease_ms: u64) -> Client {
        Client::connect_with(&self.uri, self.options(lease_ms)).await.unwrap()
    }

    pub(crate) async fn client_with(&self, lease_ms: u64, hook: Arc<dyn StepHook>) -> Client {
        let options = ClientOptions { hook: Some(hook), ..self.options(lease_ms) };
        Client::connect_with(&self.uri, options).await.unwrap()
    }

    pub(crate) fn collection(&self, client: &Client, name: &str) -> Collection<Document> {
        client.database(&self.db).collection(name)
    }

    /// The plain driver, for what is stored.
    pub(crate) async fn raw(&self) -> mongodb::Client {
        mongodb::Client::with_uri_str(&self.uri).await.unwrap()
    }

    pub(crate) async fn stored(&self, db: &str, coll: &str) -> Vec<Document> {
        let mut cursor = self.raw().await.database(db).collection::<Document>(coll).find(doc! {}).await.unwrap();
        let mut all = Vec::new();
        while cursor.advance().await.unwrap() {
            all.push(cursor.deserialize_current().unwrap());
        }
        all
    }

    /// The state that this client sees, by queries.
    pub(crate) async fn state(&self, client: &Client) -> State {
        let mut state = State::new();
        for name in COLLECTIONS {
            let all = self.collection(client, name).find(doc! {}).await.unwrap().try_collect().await.unwrap();
            state.extend(all.iter().map(|document| entry(name, document)));
        }
        state
    }

    /// The same, by one read of each `_id`.
    pub(crate) async fn state_by_id(&self, client: &Client) -> State {
        let mut state = State::new();
        for name in COLLECTIONS {
            for id in 1..20 {
                let found = self.collection(client, name).find_one(doc! {"_id": id}).await.unwrap();
                state.extend(found.map(|document| entry(name, &document)));
            }
        }
        state
    }

    /// Waits until the journal has everything written so far.
    pub(crate) async fn make_durable(&self) {
        let command = doc! {"insert": "durable", "documents": [{"n": 1}], "writeConcern": {"w": 1, "j": true}};
        self.raw().await.database(&self.tx_db()).run_command(command).await.unwrap();
    }

    /// Removes what the case has stored.
    pub(crate) async fn drop(&self) {
        let raw = self.raw().await;
        raw.database(&self.db).drop().await.unwrap();
        raw.database(&self.tx_db()).drop().await.unwrap();
    }
}

fn entry(name: &str, document: &Document) -> (String, i32) {
    let id = document.get("_id").unwrap_or(&Bson::Null);
    (format!("{name}{id}"), document.get_i32("n").unwrap() % 100)
}

pub(crate) fn state_of(entries: &[(&str, i32)]) -> State {
    entries.iter().map(|(key, n)| ((*key).to_owned(), *n)).collect()
}
