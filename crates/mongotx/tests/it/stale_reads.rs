//! Reads that may be a little old: one command, no lock, no waiting, and never older than the
//! limit.

use std::{sync::Arc, time::Duration};

use bson::{Document, doc};
use futures_util::future::BoxFuture;
use mongotx::{Client, ClientOptions, Collection, ErrorKind, Isolation, Session, Step, StepHook, TransactionOptions};

const HOUR: Duration = Duration::from_secs(3_600);

struct Place {
    client: Client,
    coll: Collection<Document>,
}

async fn place(name: &str) -> Place {
    let server = local_mongod::shared_standalone().await.unwrap();
    let db = local_mongod::unique_db(name);
    let driver = server.client().await.unwrap();
    let documents: Vec<Document> = (0..10).map(|n| doc! {"_id": n, "n": n}).collect();
    driver.database(&db).collection::<Document>("c").insert_many(documents).await.unwrap();
    let options = ClientOptions { sweep: false, ..crate::quiet::at_read_committed() };
    let client = Client::connect_with(&server.uri(), options).await.unwrap();
    Place { coll: client.database(&db).collection("c"), client }
}

impl Place {
    /// A transaction that has changed the first document.
    async fn writer(&self) -> Session {
        let mut session = self.client.session();
        session.begin().unwrap();
        self.coll.update_one(doc! {"_id": 0}, doc! {"$set": {"n": 100}}).session(&mut session).await.unwrap();
        session
    }

    fn commands(&self) -> u64 {
        self.client.metrics().commands_sent()
    }
}

#[tokio::test]
async fn stale_read_costs_one_command_while_others_write() {
    let place = place("stale_commands").await;
    let _writer = place.writer().await;
    place.coll.count_documents(doc! {}).max_staleness(HOUR).await.unwrap();
    let mut session = place.client.session();
    session.begin().unwrap();
    let before = place.commands();
    let all = place.coll.find(doc! {"n": {"$lt": 5}}).max_staleness(HOUR).await.unwrap().try_collect().await.unwrap();
    assert_eq!((all.len(), place.commands() - before), (5, 1));
    let one = place.coll.find_one(doc! {"_id": 0}).max_staleness(HOUR).session(&mut session).await.unwrap();
    assert_eq!((one, place.commands() - before), (Some(doc! {"_id": 0, "n": 0}), 2));
    assert_eq!(place.coll.count_documents(doc! {}).max_staleness(HOUR).await.unwrap(), 10);
    let distinct = place.coll.distinct("n", doc! {"_id": {"$lte": 1}}).max_staleness(HOUR).session(&mut session);
    assert_eq!(distinct.await.unwrap(), [0.into(), 1.into()]);
    let sum = vec![doc! {"$group": {"_id": 1, "n": {"$sum": "$n"}}}];
    let sums = place.coll.aggregate(sum).max_staleness(HOUR).await.unwrap().try_collect().await.unwrap();
    assert_eq!((sums, place.commands() - before), (vec![doc! {"_id": 1, "n": 45}], 5));
}

/// A client that leaves what it has committed unfinished.
struct NeverFinishes;

impl StepHook for NeverFinishes {
    fn at(&self, step: Step) -> BoxFuture<'static, ()> {
        match step {
            Step::BeforeFinish => Box::pin(std::future::pending()),
            _ => Box::pin(std::future::ready(())),
        }
    }
}

#[tokio::test]
async fn read_is_never_older_than_it_may_be() {
    let place = place("stale_bound").await;
    let server = local_mongod::shared_standalone().await.unwrap();
    let options =
        ClientOptions { sweep: false, hook: Some(Arc::new(NeverFinishes)), ..crate::quiet::at_read_committed() };
    let writer = Client::connect_with(&server.uri(), options).await.unwrap();
    let ns = place.coll.namespace();
    let written: Collection<Document> = writer.database(&ns.db).collection(&ns.coll);
    let n = async |age: Duration| {
        let found = place.coll.find_one(doc! {"_id": 0}).max_staleness(age).await.unwrap();
        found.unwrap().get_i32("n").unwrap()
    };
    assert_eq!(n(HOUR).await, 0);
    let mut session = writer.session();
    session.begin().unwrap();
    written.update_one(doc! {"_id": 0}, doc! {"$set": {"n": 1}}).session(&mut session).await.unwrap();
    assert_eq!((n(Duration::ZERO).await, n(HOUR).await), (0, 0), "no client reads what is not committed");
    session.commit().await.unwrap();
    assert_eq!(n(HOUR).await, 0, "it may be an hour old, so nothing is asked");
    assert_eq!(n(Duration::ZERO).await, 1, "it was committed before the read began");
    assert_eq!(n(HOUR).await, 1, "what was seen stays seen");
}

/// Reads by `_id` finish nothing, so that safe versions are older than what they have shown.
#[tokio::test]
async fn stale_read_does_not_go_back_behind_what_was_read_by_id() {
    let place = place("stale_by_id").await;
    let server = local_mongod::shared_standalone().await.unwrap();
    let (ns, n) = (place.coll.namespace(), async |coll: &Collection<Document>, age: Option<Duration>| {
        let query = coll.find(doc! {"n": {"$gte": 0}, "_id": {"$lte": 0}});
        let query = age.map_or(coll.find(doc! {"_id": 0}), |age| query.max_staleness(age));
        query.await.unwrap().try_collect().await.unwrap()[0].get_i32("n").unwrap()
    });
    for other in [true, false] {
        let hook: Arc<dyn StepHook> = Arc::new(NeverFinishes);
        let options = ClientOptions { sweep: false, hook: Some(hook), ..crate::quiet::at_read_committed() };
        let writer = Client::connect_with(&server.uri(), options).await.unwrap();
        let written: Collection<Document> = writer.database(&ns.db).collection(&ns.coll);
        let reader = if other { &place.coll } else { &written };
        let before = n(reader, Some(HOUR)).await;
        let mut session = writer.session();
        session.begin().unwrap();
        written.update_one(doc! {"_id": 0}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
        session.commit().await.unwrap();
        assert_eq!(n(reader, None).await, before + 1);
        if other {
            assert_eq!(n(reader, Some(HOUR)).await, before + 1, "by another client");
        } else {
            // The document cannot be finished here, so the read takes as long as it is waited for.
            let reading = tokio::time::timeout(Duration::from_secs(2), n(reader, Some(HOUR)));
            assert!(reading.await.is_ok_and(|seen| seen == before + 1), "by the same client");
        }
    }
}

#[tokio::test]
async fn stale_read_sees_the_transactions_own_writes() {
    let place = place("stale_own").await;
    let mut session = place.writer().await;
    let one = place.coll.find_one(doc! {"_id": 0}).max_staleness(HOUR).session(&mut session).await.unwrap();
    assert_eq!(one, Some(doc! {"_id": 0, "n": 100}));
    place.coll.insert_one(&doc! {"_id": 77}).session(&mut session).await.unwrap();
    assert_eq!(place.coll.count_documents(doc! {}).max_staleness(HOUR).session(&mut session).await.unwrap(), 11);
}

#[tokio::test]
async fn repeatable_read_cannot_be_stale() {
    let place = place("stale_repeatable").await;
    let mut session = place.client.session();
    let options = TransactionOptions { isolation: Some(Isolation::RepeatableRead), ..TransactionOptions::default() };
    session.begin_with(options).unwrap();
    let refused = place.coll.find_one(doc! {"_id": 0}).max_staleness(HOUR).session(&mut session).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
}
