//! Events of watched collections (decision 0048): each committed change has one, in an order that
//! agrees with the commits'.
//!
//! | file | what |
//! | --- | --- |
//! | [`copied`] | events that are applied to an empty copy |
//! | [`each_write`] | the event of each kind of write |
//! | [`switched`] | collections that are switched on, dropped and renamed |
//! | [`agreement`] | many writers, of which some give up, die, or lose their server |
//! | [`kept`] | old events that are removed, and positions that are of another time |
//! | [`late`] | commits of which a command is late, or whose future is dropped |

mod agreement;
mod copied;
mod each_write;
mod kept;
mod late;
mod switched;

use std::time::Duration;

use bson::{Document, doc};
use mongotx::{ChangeStreams, Client, ClientOptions, Collection, Database, Event, Namespace, Position, Session};

/// A database whose collections are all watched, with client records of its own.
pub(crate) struct Watched {
    pub(crate) client: Client,
    pub(crate) ours: Database,
    pub(crate) plain: mongodb::Database,
    pub(crate) options: ClientOptions,
    pub(crate) uri: String,
}

impl Watched {
    pub(crate) async fn new(name: &str) -> Self {
        Self::with(name, ClientOptions { change_streams: ChangeStreams::All, ..crate::quiet::options() }).await
    }

    pub(crate) async fn with(name: &str, options: ClientOptions) -> Self {
        Self::on(local_mongod::shared_standalone().await.unwrap(), name, options).await
    }

    pub(crate) async fn on(server: &local_mongod::Server, name: &str, options: ClientOptions) -> Self {
        let options = ClientOptions { tx_database: local_mongod::unique_db("changes"), ..options };
        let client = Client::connect_with(&server.uri(), options.clone()).await.unwrap();
        let plain = server.client().await.unwrap().database(&local_mongod::unique_db(name));
        Self { ours: client.database(plain.name()), client, plain, options, uri: server.uri() }
    }

    /// Another client of the same deployment.
    pub(crate) async fn another(&self) -> Client {
        Client::connect_with(&self.uri, self.options.clone()).await.unwrap()
    }

    pub(crate) fn coll(&self, name: &str) -> Collection<Document> {
        self.ours.collection(name)
    }

    pub(crate) fn named(&self, name: &str) -> Namespace {
        self.coll(name).namespace().clone()
    }

    pub(crate) fn begin(&self) -> Session {
        let mut session = self.client.session();
        session.begin().unwrap();
        session
    }

    pub(crate) async fn now(&self) -> Position {
        self.client.changes().now().await.unwrap()
    }

    /// All events behind a position.
    pub(crate) async fn since(&self, position: Position) -> Vec<Event> {
        all_since(&self.client, position).await
    }

    /// The kind and the key of each of them.
    pub(crate) async fn kinds_since(&self, position: Position) -> Vec<String> {
        let kind = |event: Event| {
            let kind = event.document.get_str("operationType").unwrap().to_owned();
            match event.document.get_document("documentKey") {
                Ok(key) => format!("{kind} {}", key.get("_id").unwrap()),
                Err(_) => kind,
            }
        };
        self.since(position).await.into_iter().map(kind).collect()
    }

    /// A collection as a plain driver finds it, when everything decided is finished.
    pub(crate) async fn stored(&self, name: &str) -> Vec<Document> {
        use futures_util::TryStreamExt;
        assert!(self.client.flush(Duration::from_secs(20)).await, "not everything could be finished");
        let all = self.plain.collection(name).find(doc! {}).sort(doc! {"_id": 1}).await.unwrap();
        all.try_collect().await.unwrap()
    }
}

/// All events behind a position, a few at a time.
pub(crate) async fn all_since(client: &Client, mut position: Position) -> Vec<Event> {
    let mut all: Vec<Event> = Vec::new();
    loop {
        let some = client.changes().after(position, 7).await.unwrap();
        let Some(last) = some.last() else { return all };
        position = last.position;
        all.extend(some);
    }
}
