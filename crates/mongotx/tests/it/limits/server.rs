//! A server that is not there: at the start, in the middle of a transaction, for longer than any
//! client waits.

use std::time::{Duration, Instant};

use bson::doc;
use local_mongod::Server;
use mongotx::{Client, ClientOptions, ErrorKind, Outcome};

use crate::common::{LIMIT, until, world::World};
use crate::limits::Scene;

/// A client that looks for this server for `selection_ms` milliseconds only. At first that may not
/// be enough: on a slow machine it connects several times.
async fn impatient(server: &Server, selection_ms: u64, options: ClientOptions) -> Client {
    let uri = format!("{}&serverSelectionTimeoutMS={selection_ms}", server.uri());
    until("the server is found", async || Client::connect_with(&uri, options.clone()).await.ok()).await
}

#[tokio::test]
async fn connect_without_a_server_is_unavailable_in_time() {
    let server = Server::standalone().await.unwrap();
    let uri = format!("{}&serverSelectionTimeoutMS=500", server.uri());
    server.kill().unwrap();
    let begun = Instant::now();
    let Err(error) = Client::connect_with(&uri, crate::quiet::at_read_committed()).await else {
        panic!("who answered?")
    };
    assert_eq!((error.kind(), error.code()), (ErrorKind::Unavailable, Some(89)), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(15));
    for malformed in ["", "mongodb:/", "http://127.0.0.1", "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=x"] {
        let Err(error) = Client::connect(malformed).await else { panic!("{malformed:?} was taken for a URI") };
        assert_eq!(error.kind(), ErrorKind::Invalid, "{malformed:?}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_that_dies_in_a_transaction_is_unavailable_and_labelled() {
    let server = Server::standalone().await.unwrap();
    let world = World::new(&server.uri(), "dies");
    let client = impatient(&server, 700, world.options(20_000)).await;
    let scene = Scene::with(world, client).await;
    let mut session = scene.client.session();
    session.begin().unwrap();
    scene.a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
    let id = session.id().unwrap();
    scene.world.make_durable().await;
    server.kill().unwrap();
    let begun = Instant::now();
    let error = scene.a.update_one(doc! {"_id": 2}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap_err();
    assert_eq!((error.kind(), error.transaction()), (ErrorKind::Unavailable, Some(id)), "{error}");
    assert!(error.contains_label("TransientTransactionError"));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(session.commit().await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(scene.client.outcome(id).await.unwrap_err().kind(), ErrorKind::Unavailable);
    server.restart().await.unwrap();
    assert_eq!(scene.seen(1).await, Some(doc! {"_id": 1, "n": 0}));
    let outcome = until("the client finds the server again", async || scene.client.outcome(id).await.ok()).await;
    assert_ne!(outcome, Outcome::Committed);
    // The same client goes on.
    let mut session = scene.client.session();
    session
        .with_transaction(async |session| {
            scene.a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 5}}).session(session).await.map(drop)
        })
        .await
        .unwrap();
    assert_eq!(scene.seen(1).await, Some(doc! {"_id": 1, "n": 5}));
    assert_eq!(scene.seen(2).await, Some(doc! {"_id": 2, "n": 0}));
}

/// The server is away for longer than a client tries to finish what was committed: it is finished
/// nevertheless, and the record is closed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_while_the_server_is_away_ends_in_time() {
    let server = Server::standalone().await.unwrap();
    let world = World::new(&server.uri(), "away");
    let options = ClientOptions { commit_timeout: Duration::from_secs(4), ..world.options(1_000) };
    let client = impatient(&server, 500, options).await;
    let scene = Scene::with(world, client).await;
    let mut session = scene.client.session();
    session.begin().unwrap();
    scene.a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
    let id = session.id().unwrap();
    scene.world.make_durable().await;
    server.kill().unwrap();
    let error = tokio::time::timeout(LIMIT, session.commit()).await.expect("a bounded wait").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Expired | ErrorKind::Unavailable | ErrorKind::Indeterminate), "{error}");
    server.restart().await.unwrap();
    let outcome = until("an outcome", async || {
        Some(scene.client.outcome(id).await.ok()?).filter(|outcome| *outcome != Outcome::Active)
    })
    .await;
    assert_ne!(outcome, Outcome::Committed, "{error}");
    assert_eq!(scene.seen(1).await, Some(doc! {"_id": 1, "n": 0}));
    until("everything is closed", async || {
        scene.client.sweep().await.ok()?;
        scene.client.clients().await.ok()?.iter().all(|record| record.closed).then_some(())
    })
    .await;
    scene.assert_clean("the server was away").await;
}

/// Committed documents are finished by their own client however long the server was away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn committed_before_a_long_absence_is_finished_and_the_record_closes() {
    use crate::common::hooks::Gate;
    let server = Server::standalone().await.unwrap();
    let world = World::new(&server.uri(), "long");
    let (gate, hook) = Gate::at(mongotx::Step::BeforeFinish, 1, false);
    let options = ClientOptions { hook: Some(hook), commit_timeout: Duration::from_secs(60), ..world.options(60_000) };
    let client = impatient(&server, 200, options).await;
    let scene = Scene::with(world, client).await;
    let mut session = scene.client.session();
    session.begin().unwrap();
    scene.a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
    let id = session.id().unwrap();
    session.commit().await.unwrap();
    gate.reached().await;
    server.kill().unwrap();
    gate.open();
    // Away until the finisher has given up, if it ever does.
    scene.client.flush(Duration::from_secs(20)).await;
    server.restart().await.unwrap();
    scene.assert_clean("a long absence").await;
    assert_eq!(scene.seen(1).await, Some(doc! {"_id": 1, "n": 1}));
    scene.client.shutdown().await.unwrap();
    until("the record is closed", async || {
        scene.client.sweep().await.unwrap();
        scene.client.clients().await.unwrap().iter().all(|record| record.closed).then_some(())
    })
    .await;
    assert_eq!(scene.client.outcome(id).await.unwrap(), Outcome::Committed);
}
