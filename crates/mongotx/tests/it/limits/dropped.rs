//! Dropped half-way: a session, a call's future, a commit's future.

use std::time::Duration;

use bson::doc;
use mongotx::{ErrorKind, Isolation, Outcome, Step, TransactionOptions};

use crate::common::{hooks::Gate, until, world::World};
use crate::limits::Scene;

/// A lease that no pause of the machine outlasts.
const LONG_MS: u64 = 10_000;
/// A lease whose end a test waits for.
const SHORT_MS: u64 = 2_000;

async fn scene_with_gate(step: Step, nth: usize, lease_ms: u64) -> (Scene, Gate) {
    let server = local_mongod::shared_standalone().await.unwrap();
    let world = World::new(&server.uri(), "dropped");
    let (gate, hook) = Gate::at(step, nth, false);
    let client = world.client_with(lease_ms, hook).await;
    (Scene::with(world, client).await, gate)
}

#[tokio::test]
async fn session_dropped_in_a_transaction_rolls_back() {
    let scene = Scene::set_up().await;
    let id = {
        let mut session = scene.client.session();
        session.begin().unwrap();
        scene.a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
        scene.a.insert_one(&doc! {"_id": 9}).session(&mut session).await.unwrap();
        session.id().unwrap()
    };
    scene.assert_clean("dropped").await;
    assert_eq!(scene.seen(1).await, Some(doc! {"_id": 1, "n": 0}));
    assert_eq!(scene.seen(9).await, None);
    scene.client.shutdown().await.unwrap();
    assert_eq!(scene.client.outcome(id).await.unwrap(), Outcome::RolledBack);
}

/// The future of a write is dropped before it was sent and after it was answered: it cannot be
/// known which.
#[tokio::test]
async fn write_dropped_half_way_leaves_a_transaction_that_cannot_commit() {
    for step in [Step::BeforeLock, Step::AfterLock] {
        for by_commit in [true, false] {
            let (scene, gate) = scene_with_gate(step, 2, LONG_MS).await;
            let mut session = scene.client.session();
            session.begin().unwrap();
            scene.a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
            let (second, third) = (doc! {"_id": 2}, doc! {"_id": 3});
            tokio::select! {
                done = scene.a.update_one(second, doc! {"$inc": {"n": 1}}).session(&mut session) => panic!("{done:?}"),
                () = gate.reached() => {}
            }
            gate.open();
            let error = match by_commit {
                true => session.commit().await.unwrap_err(),
                false => scene.a.update_one(third, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap_err(),
            };
            assert_eq!(error.kind(), ErrorKind::Expired, "{step:?}: {error}");
            assert!(!session.is_open());
            for id in 1..=3 {
                assert_eq!(scene.seen(id).await, Some(doc! {"_id": id, "n": 0}), "{step:?}");
            }
            scene.assert_clean("a dropped write").await;
            scene.client.shutdown().await.unwrap();
        }
    }
}

#[tokio::test]
async fn first_write_dropped_half_way_holds_nothing_up() {
    // The record is there already, and does not know the other collection yet.
    for (step, nth) in [(Step::BeforeStamp, 1), (Step::AfterStamp, 1)] {
        let (scene, gate) = scene_with_gate(step, nth, LONG_MS).await;
        let mut session = scene.client.session();
        session.begin().unwrap();
        scene.a.delete_one(doc! {"_id": 7}).session(&mut session).await.unwrap();
        let b = scene.world.collection(&scene.client, "b");
        let mut other = scene.client.session();
        other.begin().unwrap();
        tokio::select! {
            done = b.insert_one(&doc! {"_id": 1}).session(&mut other) => panic!("{done:?}"),
            () = gate.reached() => {}
        }
        gate.open();
        drop(other);
        drop(session.rollback().await);
        scene.client.shutdown().await.unwrap_or_else(|error| panic!("{step:?}: {error}"));
        assert!(scene.client.clients().await.unwrap().iter().all(|record| record.closed));
    }
}

#[tokio::test]
async fn registration_dropped_half_way_is_made_again() {
    for step in [Step::BeforeRegister, Step::AfterRegister] {
        let (scene, gate) = scene_with_gate(step, 1, SHORT_MS).await;
        let mut session = scene.client.session();
        session.begin().unwrap();
        tokio::select! {
            done = scene.a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut session) => panic!("{done:?}"),
            () = gate.reached() => {}
        }
        gate.open();
        scene.a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
        session.commit().await.unwrap();
        assert_eq!(scene.seen(1).await, Some(doc! {"_id": 1, "n": 1}));
        scene.client.shutdown().await.unwrap();
        until("what was left is swept", async || {
            scene.client.sweep().await.unwrap();
            scene.client.clients().await.unwrap().iter().all(|record| record.closed).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn read_lock_dropped_half_way_leaves_a_transaction_that_cannot_commit() {
    for step in [Step::BeforeReadLock, Step::AfterReadLock] {
        let (scene, gate) = scene_with_gate(step, 1, LONG_MS).await;
        let options =
            TransactionOptions { isolation: Some(Isolation::RepeatableRead), ..TransactionOptions::default() };
        let mut session = scene.client.session_with(options);
        session.begin().unwrap();
        scene.a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
        tokio::select! {
            done = scene.a.find_one(doc! {"_id": 2}).session(&mut session) => panic!("{done:?}"),
            () = gate.reached() => {}
        }
        gate.open();
        assert_eq!(session.commit().await.unwrap_err().kind(), ErrorKind::Expired, "{step:?}");
        assert_eq!(scene.seen(1).await, Some(doc! {"_id": 1, "n": 0}));
        scene.assert_clean("a dropped read").await;
    }
}

/// A transaction whose commit was requested may or may not come through: the outcome can be looked
/// up by its id, and nothing stays locked.
#[tokio::test]
async fn commit_dropped_half_way_is_decided_and_finished_all_the_same() {
    for step in [Step::BeforeDecision, Step::AfterDecision, Step::BeforeFinish] {
        let (scene, gate) = scene_with_gate(step, 1, LONG_MS).await;
        let mut session = scene.client.session();
        session.begin().unwrap();
        scene.a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
        let id = session.id().unwrap();
        tokio::select! {
            _ = session.commit() => assert_eq!(step, Step::BeforeFinish),
            () = gate.reached() => {}
        }
        assert!(!session.is_open());
        drop(session);
        gate.open();
        let outcome = until("an outcome", async || {
            Some(scene.client.outcome(id).await.unwrap()).filter(|outcome| *outcome != Outcome::Active)
        })
        .await;
        assert_eq!(outcome, Outcome::Committed, "{step:?}: nothing stood in its way");
        assert_eq!(scene.seen(1).await, Some(doc! {"_id": 1, "n": 1}));
        scene.assert_clean("a dropped commit").await;
        scene.client.shutdown().await.unwrap();
    }
}

/// A client that is dropped gives no more signs of life.
#[tokio::test]
async fn client_dropped_without_shutdown_is_swept_after_its_lease() {
    let scene = Scene::set_up().await;
    let world = scene.world.clone();
    let client = world.client(600).await;
    let a = world.collection(&client, "a");
    let mut session = client.session();
    session.begin().unwrap();
    a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    drop((session, a, client));
    until("it is swept", async || {
        scene.client.sweep().await.unwrap();
        scene.client.clients().await.unwrap().iter().all(|record| record.closed).then_some(())
    })
    .await;
    assert_eq!(scene.seen(1).await, Some(doc! {"_id": 1, "n": 1}));
    tokio::time::timeout(Duration::from_secs(20), scene.client.shutdown()).await.unwrap().unwrap();
}
