//! Sessions that are left with locks: dropped where no runtime runs, or open and idle.

use std::time::Duration;

use bson::{Document, doc};
use mongotx::{Client, ClientOptions, ErrorKind, Session, Step, TransactionOptions};

use crate::common::{hooks::Gate, until, verify::is_clean, world::World};

async fn scene(name: &str) -> (World, Client) {
    let server = local_mongod::shared_standalone().await.unwrap();
    let world = World::new(&server.uri(), name);
    let raw = world.raw().await.database(&world.db).collection::<Document>("a");
    raw.insert_one(doc! {"_id": 1, "n": 0}).await.unwrap();
    // The lease ends long after this test: only the owner gives its locks back.
    let client = world.client(600_000).await;
    (world, client)
}

async fn lock(world: &World, client: &Client, session: &mut Session) {
    let a = world.collection(client, "a");
    session.begin().unwrap();
    a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(session).await.unwrap();
}

async fn until_free(world: &World) {
    until("the document is free", async || world.stored(&world.db, "a").await.iter().all(is_clean).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_dropped_where_no_runtime_runs_gives_its_locks_back() {
    let (world, client) = scene("dropped_outside").await;
    let mut session = client.session();
    lock(&world, &client, &mut session).await;
    tokio::task::spawn_blocking(|| std::thread::spawn(move || drop(session)).join().unwrap()).await.unwrap();
    until_free(&world).await;
    let found = world.collection(&client, "a").find_one(doc! {"_id": 1}).await.unwrap();
    assert_eq!(found, Some(doc! {"_id": 1, "n": 0}));
    tokio::time::timeout(Duration::from_secs(60), client.shutdown()).await.unwrap().unwrap();
    world.drop().await;
}

/// A session of a client with heartbeats, and another client that wants the document.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transaction_left_idle_is_rolled_back_and_says_so() {
    let (world, _) = scene("left_idle").await;
    let limit = Duration::from_millis(300);
    let options = ClientOptions { idle_limit: limit, ..world.options(600_000) };
    let client = Client::connect_with(&world.uri, options).await.unwrap();
    for end in 0..4 {
        let mut session = client.session();
        lock(&world, &client, &mut session).await;
        until_free(&world).await;
        until("the session notices", async || (!session.is_open()).then_some(())).await;
        assert_eq!(session.id(), None);
        let a = world.collection(&client, "a");
        let error = match end {
            0 => a.find_one(doc! {"_id": 1}).session(&mut session).await.unwrap_err(),
            1 => a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap_err(),
            2 => session.commit().await.unwrap_err(),
            _ => {
                session.rollback().await.unwrap();
                continue;
            }
        };
        assert_eq!(error.kind(), ErrorKind::Expired, "{error}");
        assert!(error.to_string().contains("300ms") && error.transaction().is_some(), "{error}");
        if end < 2 {
            assert_eq!(session.commit().await.unwrap_err().kind(), ErrorKind::Closed);
        }
        // And the session is as good as new.
        session.begin().unwrap();
        let found = a.find_one(doc! {"_id": 1}).session(&mut session).await.unwrap();
        assert_eq!(found, Some(doc! {"_id": 1, "n": 0}), "after {end}");
        session.rollback().await.unwrap();
    }
    client.shutdown().await.unwrap();
    world.drop().await;
}

/// Transactions without locks are not rolled back, nor those whose own limit is longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_limit_is_for_transactions_with_locks_and_can_be_longer_for_one() {
    let (world, _) = scene("may_idle").await;
    let options = ClientOptions { idle_limit: Duration::from_millis(50), ..world.options(600_000) };
    let client = Client::connect_with(&world.uri, options).await.unwrap();
    let a = world.collection(&client, "a");
    let mut reader = client.session();
    reader.begin().unwrap();
    assert!(a.find_one(doc! {"_id": 1}).session(&mut reader).await.unwrap().is_some());
    let patient = TransactionOptions { idle_limit: Some(Duration::MAX), ..TransactionOptions::default() };
    let mut writer = client.session_with(patient);
    lock(&world, &client, &mut writer).await;
    let raw = world.raw().await.database(&world.db).collection::<Document>("a");
    raw.insert_one(doc! {"_id": 2, "n": 0}).await.unwrap();
    let mut hasty = client.session();
    hasty.begin().unwrap();
    a.update_one(doc! {"_id": 2}, doc! {"$inc": {"n": 1}}).session(&mut hasty).await.unwrap();
    // Two of these limits are over when the third transaction is gone.
    until("the one with the short limit is rolled back", async || (!hasty.is_open()).then_some(())).await;
    assert!(reader.is_open() && writer.is_open());
    writer.commit().await.unwrap();
    assert!(a.find_one(doc! {"_id": 1}).session(&mut reader).await.unwrap().is_some());
    reader.commit().await.unwrap();
    world.drop().await;
}

/// A statement that takes longer than the limit is not interrupted, and the limit runs from its
/// end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statement_under_way_is_not_idle() {
    let (world, _) = scene("busy").await;
    let (gate, hook) = Gate::at(Step::BeforeLock, 2, false);
    let options = ClientOptions { idle_limit: Duration::from_millis(500), hook: Some(hook), ..world.options(600_000) };
    let client = Client::connect_with(&world.uri, options).await.unwrap();
    let a = world.collection(&client, "a");
    let mut session = client.session();
    session.begin().unwrap();
    a.insert_one(&doc! {"_id": 2}).session(&mut session).await.unwrap();
    let statement = tokio::spawn({
        let a = a.clone();
        async move {
            a.insert_one(&doc! {"_id": 3}).session(&mut session).await.map(|_| ())?;
            Ok::<_, mongotx::Error>(session)
        }
    });
    gate.reached().await;
    // Another transaction of the client shows that the limit is over.
    let mut other = client.session();
    lock(&world, &client, &mut other).await;
    until("the limit is over for the other", async || (!other.is_open()).then_some(())).await;
    gate.open();
    let session = statement.await.unwrap().unwrap();
    // A statement that ended late was parked late.
    assert!(session.is_open());
    world.drop().await;
}
