//! Limits on numbers: documents of one transaction, leases of one client, write concerns, the
//! length of a life.

use std::time::Duration;

use bson::{Document, doc};
use mongotx::{
    Client, ClientOptions, Concern, ErrorKind, Isolation, Session, TransactionOptions, UpdateResult, WriteModel,
};

use crate::common::{until, world::World};
use crate::limits::Scene;

async fn scene_with_three() -> Scene {
    let server = local_mongod::shared_standalone().await.unwrap();
    let world = World::new(&server.uri(), "limits");
    let options = ClientOptions { max_documents: 3, ..world.options(5_000) };
    let client = Client::connect_with(&world.uri, options).await.unwrap();
    Scene::with(world, client).await
}

fn add(id: i32) -> WriteModel {
    WriteModel::UpdateOne { filter: doc! {"_id": id}, update: doc! {"$inc": {"n": 1}}.into(), upsert: false }
}

/// The statements of a bulk are refused where they stand, and what is unordered goes on.
#[tokio::test]
async fn documents_too_many_in_a_bulk_are_refused_where_they_stand() {
    let scene = scene_with_three().await;
    let mut session = scene.client.session();
    session.begin().unwrap();
    scene.a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
    let bulk = scene.a.bulk_write([2, 3, 4, 5, 1].map(add)).ordered(false).session(&mut session);
    let error = bulk.await.unwrap_err();
    let places: Vec<usize> = error.write_errors().iter().map(|refused| refused.index).collect();
    assert_eq!(places, [2, 3], "{error}");
    session.commit().await.unwrap();
    for (id, n) in [(1, 2), (2, 1), (3, 1), (4, 0)] {
        assert_eq!(scene.seen(id).await, Some(doc! {"_id": id, "n": n}));
    }
}

/// A bulk that is too large takes no room for what stands behind the first document that fits.
#[tokio::test]
async fn removals_too_many_in_a_bulk_are_refused_where_they_stand() {
    let scene = scene_with_three().await;
    let mut session = scene.client.session();
    session.begin().unwrap();
    scene.a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
    let bulk = [WriteModel::DeleteOne { filter: doc! {"_id": 2} }, add(3), add(4)];
    let error = scene.a.bulk_write(bulk).session(&mut session).await.unwrap_err();
    let places: Vec<usize> = error.write_errors().iter().map(|refused| refused.index).collect();
    assert_eq!(places, [2], "{error}");
    session.commit().await.unwrap();
    assert_eq!(scene.seen(2).await, None);
    for (id, n) in [(1, 1), (3, 1), (4, 0)] {
        assert_eq!(scene.seen(id).await, Some(doc! {"_id": id, "n": n}));
    }
}

#[tokio::test]
async fn one_document_too_many_is_refused_and_the_rest_commits() {
    let scene = scene_with_three().await;
    let mut session = scene.client.session();
    session.begin().unwrap();
    for id in 1..=3 {
        scene.a.update_one(doc! {"_id": id}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
    }
    let error = scene.a.update_one(doc! {"_id": 4}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("at most 3 documents"), "{error}");
    let error = scene.a.insert_one(&doc! {"_id": 5}).session(&mut session).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    // Documents that it holds can still be changed.
    scene.a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    for (id, n) in [(1, 2), (2, 1), (3, 1), (4, 0)] {
        assert_eq!(scene.seen(id).await, Some(doc! {"_id": id, "n": n}));
    }
    assert_eq!(scene.seen(5).await, None);
    scene.assert_clean("too many").await;
}

#[tokio::test]
async fn update_many_and_insert_many_of_too_many_are_refused_whole_or_rolled_back() {
    let scene = scene_with_three().await;
    for inside in [true, false] {
        let mut session = scene.client.session();
        session.begin().unwrap();
        let all = scene.a.update_many(doc! {}, doc! {"$inc": {"n": 1}});
        let error = if inside { all.session(&mut session).await } else { all.await }.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        let gone = scene.a.delete_many(doc! {});
        let error = if inside { gone.session(&mut session).await } else { gone.await }.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        session.rollback().await.unwrap();
    }
    assert_eq!(scene.a.count_documents(doc! {"n": 0}).await.unwrap(), 4);
    scene.assert_clean("many").await;
}

#[tokio::test]
async fn repeatable_read_of_too_many_is_refused_and_leaves_no_lock() {
    let scene = scene_with_three().await;
    let options = TransactionOptions { isolation: Some(Isolation::RepeatableRead), ..TransactionOptions::default() };
    let mut session = scene.client.session_with(options);
    session.begin().unwrap();
    let Err(error) = scene.a.find(doc! {}).session(&mut session).await else { panic!("four documents were locked") };
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let three = scene.a.find(doc! {"_id": {"$lt": 4}}).session(&mut session).await.unwrap();
    assert_eq!(three.try_collect().await.unwrap().len(), 3);
    session.commit().await.unwrap();
    scene.assert_clean("read locks").await;
}

/// A session whose transaction has this lease, and the result of its first write.
async fn with_lease(scene: &Scene, seconds: u64, id: i32) -> (Session, mongotx::Result<UpdateResult>) {
    let lease = Some(Duration::from_secs(seconds));
    let mut session = scene.client.session_with(TransactionOptions { lease, ..TransactionOptions::default() });
    session.begin().unwrap();
    let done = scene.a.update_one(doc! {"_id": id}, doc! {"$inc": {"n": 1}}).upsert(true).session(&mut session).await;
    (session, done)
}

#[tokio::test]
async fn ninth_lease_at_a_time_is_refused_and_the_eight_go_on() {
    let scene = Scene::set_up().await;
    let mut open = Vec::new();
    for n in 1..=8 {
        let (session, done) = with_lease(&scene, 60 + n, n as i32).await;
        done.unwrap();
        open.push(session);
    }
    let error = with_lease(&scene, 99, 9).await.1.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("at most 8"), "{error}");
    open.pop().unwrap().commit().await.unwrap();
    // A lease that no transaction has any more leaves its place to another one.
    let (mut ninth, done) = with_lease(&scene, 99, 9).await;
    done.unwrap();
    ninth.commit().await.unwrap();
    for mut session in open {
        session.commit().await.unwrap();
    }
    for id in 1..=9 {
        assert!(scene.seen(id).await.is_some(), "{id}");
    }
    scene.client.shutdown().await.unwrap();
    assert!(scene.client.clients().await.unwrap().iter().all(|record| record.closed));
}

#[tokio::test]
async fn times_that_are_too_long_are_refused_by_name() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let world = World::new(&server.uri(), "too_long");
    type Change = fn(&mut ClientOptions);
    let cases: [(&str, Change); 5] = [
        ("lease", |options| options.lease = Duration::MAX),
        ("write_wait", |options| options.write_wait = Duration::MAX),
        ("commit_timeout", |options| options.commit_timeout = Duration::MAX),
        ("retry_limit", |options| options.retry_limit = Duration::MAX),
        ("finish_delay", |options| options.finish_delay = Duration::MAX),
    ];
    for (name, change) in cases {
        let mut options = world.options(5_000);
        change(&mut options);
        let error = Client::connect_with(&world.uri, options).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(&format!("{name} can be")), "{error}");
    }
    let client = world.client(5_000).await;
    let (lease, lock_wait) = (Some(Duration::MAX), Duration::MAX);
    for options in [
        TransactionOptions { lease, ..TransactionOptions::default() },
        TransactionOptions { lock_wait, ..TransactionOptions::default() },
    ] {
        assert_eq!(client.session_with(options).begin().unwrap_err().kind(), ErrorKind::Invalid);
    }
}

/// The longest that are allowed work, and a client that meets the lock leaves it alone.
#[tokio::test]
async fn longest_times_work() {
    let scene = Scene::set_up().await;
    let (day, year) = (Duration::from_secs(24 * 3_600), Duration::from_secs(365 * 24 * 3_600));
    let longest = ClientOptions {
        lease: day,
        idle_limit: Duration::MAX,
        write_wait: year,
        commit_timeout: year,
        retry_limit: year,
        ..scene.world.options(5_000)
    };
    let client = Client::connect_with(&scene.world.uri, longest).await.unwrap();
    let a = scene.world.collection(&client, "a");
    let mut session = client.session_with(TransactionOptions { lock_wait: year, ..TransactionOptions::default() });
    session.begin().unwrap();
    a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 5}}).session(&mut session).await.unwrap();
    let mut rival = scene.client.session();
    rival.begin().unwrap();
    let met = scene.a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut rival).await.unwrap_err();
    assert_eq!(met.kind(), ErrorKind::Conflict, "{met}");
    session.commit().await.unwrap();
    a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).await.unwrap();
    assert_eq!(scene.seen(1).await, Some(doc! {"_id": 1, "n": 6}));
    assert!(client.changes().wait(client.changes().now().await.unwrap(), Duration::ZERO).await.is_ok());
}

#[tokio::test]
async fn concern_that_no_server_can_satisfy_is_refused_at_begin() {
    let scene = Scene::set_up().await;
    for concern in [Concern::Nodes(3), Concern::Nodes(0), Concern::Acknowledged] {
        let options = TransactionOptions { concern, ..TransactionOptions::default() };
        let mut session = scene.client.session_with(options);
        let error = session.begin().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(!session.is_open());
    }
    for concern in [Concern::Nodes(1), Concern::Majority, Concern::Journaled] {
        let mut session = scene.client.session_with(TransactionOptions { concern, ..TransactionOptions::default() });
        session.begin().unwrap();
        scene.a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
        session.commit().await.unwrap();
    }
    assert_eq!(scene.seen(1).await, Some(doc! {"_id": 1, "n": 3}));
}

#[tokio::test]
async fn transaction_older_than_its_maximum_is_rolled_back_when_it_is_used() {
    let scene = Scene::set_up().await;
    let max_life = Some(Duration::from_millis(300));
    let options = TransactionOptions { max_life, ..TransactionOptions::default() };
    for at_commit in [true, false] {
        let mut session = scene.client.session_with(options.clone());
        session.begin().unwrap();
        let begun = std::time::Instant::now();
        // On a very slow day this is too late already, which is the same error.
        let add: Document = doc! {"$inc": {"n": 1}};
        let mut error = scene.a.update_one(doc! {"_id": 1}, add.clone()).session(&mut session).await.err();
        until("its maximum", async || (begun.elapsed() > Duration::from_millis(301)).then_some(())).await;
        if error.is_none() {
            error = match at_commit {
                true => session.commit().await.err(),
                false => scene.a.update_one(doc! {"_id": 2}, add).session(&mut session).await.err(),
            };
        }
        let error = error.unwrap();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Expired, Some(251)), "{error}");
        assert!(error.contains_label("TransientTransactionError"));
        assert_eq!(scene.seen(1).await, Some(doc! {"_id": 1, "n": 0}));
        scene.assert_clean("its life is over").await;
    }
}
