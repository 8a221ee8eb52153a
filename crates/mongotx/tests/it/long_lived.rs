//! A transaction that stays open for many leases of its client: an hour is some hundred of them.
//!
//! Meanwhile its client commits more others than one record lists, so that its record is not the
//! one that they are decided in any more, and another client looks for leftovers and wants what it
//! holds.

use std::{env, time::Duration};

use bson::{Bson, Document, doc};
use mongotx::{Client, ClientOptions, ErrorKind};

use crate::common::{until, verify::is_clean, world::World};

const LEASE: Duration = Duration::from_secs(2);
/// Number of the other transactions: more than one record lists.
const OTHERS: i32 = 1_050;

/// Number of leases it lives through: `MONGOTX_LEASES=n`.
fn leases() -> i64 {
    env::var("MONGOTX_LEASES").map_or(4, |leases| leases.parse().unwrap())
}

/// A client that looks at all records finds that none has expired, and sweeps.
async fn look_for_leftovers(rival: &Client) {
    let expired: Vec<_> = rival.clients().await.unwrap().into_iter().filter(|client| client.expired).collect();
    assert!(expired.is_empty(), "{:?}", expired.iter().map(|client| (client.id, client.silent)).collect::<Vec<_>>());
    rival.sweep().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transaction_lives_as_long_as_its_client_renews_the_lease() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let world = World::new(&server.uri(), "long_lived");
    let raw = world.raw().await.database(&world.db).collection::<Document>("a");
    raw.insert_many((1..=4).map(|id| doc! {"_id": id, "n": 0})).await.unwrap();
    let options = ClientOptions { idle_limit: Duration::MAX, ..world.options(LEASE.as_millis() as u64) };
    let client = Client::connect_with(&world.uri, options).await.unwrap();
    let (a, rival) = (world.collection(&client, "a"), world.client(LEASE.as_millis() as u64).await);
    let wanted = world.collection(&rival, "a");

    let mut session = client.session();
    session.begin().unwrap();
    a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
    let id = session.id().unwrap();
    let mut others = client.session();
    for _ in 0..OTHERS {
        others.begin().unwrap();
        a.update_one(doc! {"_id": 2}, doc! {"$inc": {"n": 1}}).session(&mut others).await.unwrap();
        others.commit().await.unwrap();
    }
    let started = beat(&world, id.client.to_string()).await;
    while beat(&world, id.client.to_string()).await - started <= leases() * LEASE.as_millis() as i64 {
        look_for_leftovers(&rival).await;
        let mut other = rival.session();
        other.begin().unwrap();
        let refused = wanted.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 100}}).session(&mut other).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Conflict);
        tokio::time::sleep(LEASE / 20).await;
    }
    let own = a.find_one(doc! {"_id": 1}).session(&mut session).await.unwrap();
    assert_eq!(own, Some(doc! {"_id": 1, "n": 1}));
    a.update_one(doc! {"_id": 3}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    let seen: Vec<Document> = wanted.find(doc! {}).await.unwrap().try_collect().await.unwrap();
    let numbers: Vec<i32> = seen.iter().map(|document| document.get_i32("n").unwrap()).collect();
    assert_eq!(numbers, [1, OTHERS, 1, 0]);
    until("everything is finished", async || world.stored(&world.db, "a").await.iter().all(is_clean).then_some(()))
        .await;
    client.shutdown().await.unwrap();
    rival.shutdown().await.unwrap();
    world.drop().await;
}

/// Time at which the client's record was written last, in milliseconds.
async fn beat(world: &World, client: String) -> i64 {
    let records = world.raw().await.database(&world.tx_db()).collection::<Document>("txs");
    let id = bson::oid::ObjectId::parse_str(client).unwrap();
    let record = records.find_one(doc! {"_id": id}).await.unwrap().unwrap();
    let Some(Bson::DateTime(beat)) = record.get("beat") else { panic!("{record}") };
    beat.timestamp_millis()
}
