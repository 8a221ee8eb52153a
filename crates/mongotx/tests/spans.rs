//! Spans: what a subscriber sees of a transaction.
//!
//! One test, alone in its process: a subscriber of one test does not get the spans that other tests
//! were the first to reach.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use bson::{Document, doc};
use mongotx::{Client, ClientOptions, Collection};
use tracing::{Event, Metadata, Subscriber, span, subscriber::DefaultGuard};

/// Notes the names of all spans.
#[derive(Clone, Default)]
struct Names(Arc<Mutex<Vec<&'static str>>>, Arc<AtomicU64>);

impl Subscriber for Names {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.name().starts_with("mongotx.")
    }

    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        self.0.lock().unwrap().push(span.metadata().name());
        span::Id::from_u64(self.1.fetch_add(1, Relaxed) + 1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[tokio::test]
async fn spans_name_the_steps_of_a_transaction() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let client =
        Client::connect_with(&server.uri(), ClientOptions { sweep: false, ..ClientOptions::default() }).await.unwrap();
    let coll: Collection<Document> = client.database(&local_mongod::unique_db("spans")).collection("a");
    coll.insert_one(&doc! {"_id": 1}).await.unwrap();
    let names = Names::default();
    let guard: DefaultGuard = tracing::subscriber::set_default(names.clone());
    let mut session = client.session();
    session.begin().unwrap();
    coll.update_one(doc! {"_id": 1}, doc! {"$set": {"a": 1}}).session(&mut session).await.unwrap();
    coll.find(doc! {"a": 1}).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    session.begin().unwrap();
    coll.delete_one(doc! {"_id": 1}).session(&mut session).await.unwrap();
    session.rollback().await.unwrap();
    drop(guard);
    let seen = names.0.lock().unwrap().clone();
    for name in
        ["mongotx.update", "mongotx.prepare", "mongotx.find", "mongotx.commit", "mongotx.delete", "mongotx.rollback"]
    {
        assert!(seen.contains(&name), "{name} is missing in {seen:?}");
    }
}
