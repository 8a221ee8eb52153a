//! Clients of one deployment that keep their records in different databases, and locks whose record
//! is not there although it must be: no client repairs what another one may still commit.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bson::{Document, doc, oid::ObjectId};
use mongotx::{Client, ClientOptions, ErrorKind, Session, Step, TxId};

use crate::common::{
    hooks::Gate,
    until,
    world::{COLLECTIONS, World},
};

pub(crate) async fn world(name: &str) -> World {
    let server = local_mongod::shared_standalone().await.unwrap();
    let world = World::new(&server.uri(), name);
    let raw = world.raw().await.database(&world.db);
    for coll in COLLECTIONS {
        raw.collection(coll).insert_many([doc! {"_id": 1, "n": 0}, doc! {"_id": 2, "n": 0}]).await.unwrap();
    }
    world
}

/// A client of the same deployment with another `tx_database`.
async fn stranger(world: &World) -> Client {
    let options = ClientOptions { tx_database: format!("{}_other", world.db), ..world.options(10_000) };
    let options = ClientOptions { write_wait: Duration::from_millis(200), ..options };
    Client::connect_with(&world.uri, options).await.unwrap()
}

pub(crate) async fn change_both(world: &World, client: &Client) -> Session {
    let mut session = client.session();
    session.begin().unwrap();
    for coll in COLLECTIONS {
        let coll = world.collection(client, coll);
        coll.update_one(doc! {"_id": 1}, doc! {"$set": {"n": 7}}).session(&mut session).await.unwrap();
    }
    session
}

/// Every way to meet the locked document answers an error with all of `words`, and changes nothing.
pub(crate) async fn assert_refused(world: &World, client: &Client, kind: ErrorKind, words: &[&str]) {
    let before = world.stored(&world.db, "a").await;
    let a = world.collection(client, "a");
    let errors = [
        ("by _id", a.find_one(doc! {"_id": 1}).await.unwrap_err()),
        ("by query", a.find(doc! {"n": {"$gte": 0}}).await.map(drop).unwrap_err()),
        ("count", a.count_documents(doc! {}).await.unwrap_err()),
        ("distinct", a.distinct("n", doc! {}).await.unwrap_err()),
        ("update", a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).await.unwrap_err()),
        ("update of all", a.update_many(doc! {}, doc! {"$inc": {"n": 1}}).await.unwrap_err()),
        ("insert", a.insert_one(&doc! {"_id": 1, "n": 1}).await.unwrap_err()),
        ("removal", a.delete_one(doc! {"_id": 1}).await.unwrap_err()),
        ("repair", client.repair_collection(a.namespace()).await.unwrap_err()),
    ];
    for (way, error) in errors {
        assert_eq!(error.kind(), kind, "{way}: {error}");
        for word in words {
            assert!(error.to_string().contains(word), "{way}: {word:?} is not in {error}");
        }
    }
    assert_eq!(world.stored(&world.db, "a").await, before);
    let other = a.find_one(doc! {"_id": 2}).await.unwrap();
    assert_eq!(other, Some(doc! {"_id": 2, "n": 0}), "what is not locked is read");
}

#[tokio::test]
async fn active_transaction_of_another_database_is_left_alone() {
    let world = world("stranger").await;
    let owner = world.client(10_000).await;
    let mut session = change_both(&world, &owner).await;
    let stranger = stranger(&world).await;
    let (theirs, ours) = (format!("{}_other", world.db), world.tx_db());
    let words = [theirs.as_str(), ours.as_str(), "Nothing is repaired"];
    assert_refused(&world, &stranger, ErrorKind::Invalid, &words).await;
    session.commit().await.unwrap();
    assert!(owner.flush(Duration::from_secs(60)).await);
    for coll in COLLECTIONS {
        let found = world.collection(&stranger, coll).find_one(doc! {"_id": 1}).await.unwrap();
        assert_eq!(found, Some(doc! {"_id": 1, "n": 7}), "{coll}");
    }
    world.drop().await;
}

#[tokio::test]
async fn committed_transaction_of_another_database_is_left_alone() {
    let world = world("stranger").await;
    let (gate, hook) = Gate::at(Step::BeforeFinish, 1, true);
    let owner = world.client_with(10_000, hook).await;
    let mut session = change_both(&world, &owner).await;
    session.commit().await.unwrap();
    gate.reached().await;
    let stranger = stranger(&world).await;
    let (theirs, ours) = (format!("{}_other", world.db), world.tx_db());
    let words = [theirs.as_str(), ours.as_str(), "Nothing is repaired"];
    assert_refused(&world, &stranger, ErrorKind::Invalid, &words).await;
    gate.open();
    assert!(owner.flush(Duration::from_secs(60)).await);
    for coll in COLLECTIONS {
        let found = world.collection(&stranger, coll).find_one(doc! {"_id": 1}).await.unwrap();
        assert_eq!(found, Some(doc! {"_id": 1, "n": 7}), "{coll}");
    }
    world.drop().await;
}

async fn remove_record(world: &World, id: TxId) {
    let txs = world.raw().await.database(&world.tx_db()).collection::<Document>("txs");
    let removed = txs.delete_one(doc! {"_id": ObjectId::from_bytes(id.client.0)}).await.unwrap();
    assert_eq!(removed.deleted_count, 1);
}

#[tokio::test]
async fn lock_younger_than_records_are_kept_is_no_orphan() {
    let world = world("removed_early").await;
    let owner = world.client(10_000).await;
    let session = change_both(&world, &owner).await;
    remove_record(&world, session.id().unwrap()).await;
    let other = world.client(10_000).await;
    let txs = format!("{}.txs", world.tx_db());
    assert_refused(&world, &other, ErrorKind::Corruption, &["no record", &txs, "30 minutes"]).await;
    world.drop().await;
}

/// The id of a client of this age.
fn id_of_age(id: TxId, age: Duration) -> TxId {
    let then = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() - age;
    let mut bytes = id.client.0;
    bytes[..4].copy_from_slice(&u32::try_from(then.as_secs()).unwrap().to_be_bytes());
    TxId { client: mongotx::ClientId(bytes), seq: id.seq }
}

/// No wait lasts for ever: a lock whose record is gone, at a time at which none need be kept, is an
/// orphan.
#[tokio::test]
async fn lock_older_than_records_are_kept_is_rolled_back() {
    let world = world("removed_late").await;
    let owner = world.client(10_000).await;
    let session = change_both(&world, &owner).await;
    let id = session.id().unwrap();
    let old = id_of_age(id, Duration::from_secs(32 * 60));
    let stored_id = doc! {"c": ObjectId::from_bytes(old.client.0), "n": old.seq as i64};
    let raw = world.raw().await.database(&world.db);
    raw.collection::<Document>("a").update_one(doc! {"_id": 1}, doc! {"$set": {"_xTxId": stored_id}}).await.unwrap();
    let other = world.client(10_000).await;
    let found =
        until("the orphan is rolled back", async || world.collection(&other, "a").find_one(doc! {"_id": 1}).await.ok())
            .await;
    assert_eq!(found, Some(doc! {"_id": 1, "n": 0}));
    world.drop().await;
}
