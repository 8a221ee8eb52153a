//! Leases are judged by the server's clock: no client's time is stored or compared.

use std::time::Duration;

use bson::{Bson, Document, doc};
use mongotx::ErrorKind;

use crate::common::{ghost, until, world::World};
use crate::limits::Scene;

/// The server's clock may not be moved here, so the test reads it: its times before and after
/// enclose every stored time.
async fn server_now(world: &World) -> bson::DateTime {
    let hello: Document = world.raw().await.database("admin").run_command(doc! {"hello": 1}).await.unwrap();
    *hello.get_datetime("localTime").unwrap()
}

#[tokio::test]
async fn times_of_the_record_are_the_servers() {
    let scene = Scene::set_up().await;
    let before = server_now(&scene.world).await;
    let mut session = scene.client.session();
    session.begin().unwrap();
    scene.a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    scene.client.shutdown().await.unwrap();
    let after = server_now(&scene.world).await;
    let record = scene.world.stored(&scene.world.tx_db(), "txs").await.remove(0);
    for (field, value) in &record {
        if let Bson::DateTime(time) = value {
            assert!((before..=after).contains(time), "{field} is {time}, not in {before}..{after}");
        }
    }
    assert!(record.get_datetime("beat").is_ok() && record.get_datetime("closedAt").is_ok());
}

/// A record whose sign of life lies in the server's future or past, as a client with a wrong clock
/// would leave it if its own time were stored: only the server's clock counts.
#[tokio::test]
async fn expiry_is_the_servers_subtraction() {
    let scene = Scene::set_up().await;
    let dead = ghost::undecided(&scene.world).await;
    let txs = scene.world.raw().await.database(&scene.world.tx_db()).collection::<Document>("txs");
    let record = doc! {"_id": bson::oid::ObjectId::from_bytes(dead.client.0)};
    let shift = |ms: i64| vec![doc! {"$set": {"beat": {"$add": ["$$NOW", ms]}}}];
    txs.update_one(record.clone(), shift(3_600_000)).await.unwrap();
    let seen = scene.client.clients().await.unwrap().into_iter().find(|found| found.id == dead.client).unwrap();
    assert!(!seen.expired && seen.silent == Duration::ZERO, "{seen:?}");
    let error = {
        let mut session = scene.client.session();
        session.begin().unwrap();
        scene.a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap_err()
    };
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    txs.update_one(record, shift(-3_600_000)).await.unwrap();
    let seen = scene.client.clients().await.unwrap().into_iter().find(|found| found.id == dead.client).unwrap();
    assert!(seen.expired && seen.silent >= Duration::from_secs(3_600), "{seen:?}");
    scene.a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).await.unwrap();
    assert_eq!(scene.seen(1).await, Some(doc! {"_id": 1, "n": 1}));
    until("it is swept", async || (scene.client.sweep().await.unwrap().retired == 0).then_some(())).await;
}
