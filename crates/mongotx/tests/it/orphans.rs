//! Late messages: locks under a number below the low-water mark, and under an id whose record is
//! not there, written by hand with the plain driver. Readers and writers take them for dead and
//! undo them, and never finish them (3.12).

use crate::common;

use std::time::Duration;

use bson::{Bson, Document, doc, oid::ObjectId};
use futures_util::TryStreamExt;
use mongotx::{Client, ClientId, Collection, ErrorKind, Isolation, Session, TransactionOptions, TxId};
use protocol::id::database_tag;

use common::{
    until,
    verify::{assert_documents_clean, is_clean},
    world::World,
};

struct Scene {
    world: World,
    owner: Client,
    other: Client,
    raw: mongodb::Collection<Document>,
}

fn stored_id(id: TxId) -> Bson {
    doc! {"c": ObjectId::from_bytes(id.client.0), "n": id.seq as i64}.into()
}

impl Scene {
    /// A client whose first transaction has left its record, and another one.
    async fn set_up() -> (Self, [TxId; 2]) {
        let server = local_mongod::shared_standalone().await.unwrap();
        let world = World::new(&server.uri(), "orphans");
        let (owner, other) = (world.client(900).await, world.client(5_000).await);
        let raw = world.raw().await.database(&world.db).collection("a");
        let scene = Self { world, owner, other, raw };
        scene.collection(&scene.owner).insert_one(&doc! {"_id": 0, "n": 0}).await.unwrap();
        let mut session = scene.owner.session();
        session.begin().unwrap();
        scene.collection(&scene.owner).delete_one(doc! {"_id": 0}).session(&mut session).await.unwrap();
        let id = session.id().unwrap();
        session.commit().await.unwrap();
        until("the number is below the mark", async || {
            let records = scene.other.clients().await.unwrap();
            records.iter().any(|record| record.id == id.client && record.low > id.seq).then_some(())
        })
        .await;
        // Of a client that registered long enough ago for its record to be gone.
        let made = ClientId(ObjectId::new().bytes()).made() - 3_600;
        let tag = database_tag(&scene.world.tx_db());
        let missing = TxId { client: ClientId::compose(made, tag, [1, 2, 3, 4, 5]), seq: 1 };
        (scene, [id, missing])
    }

    fn collection(&self, client: &Client) -> Collection<Document> {
        self.world.collection(client, "a")
    }

    /// Documents 1 to 3: changed, removed and inserted by a transaction that is long over.
    async fn plant(&self, id: TxId) {
        self.raw.delete_many(doc! {}).await.unwrap();
        let writer = stored_id(id);
        let with_id = |id: i32| doc! {"_id": id, "n": 99};
        let documents = [
            doc! {"_id": 1, "n": 0, "_unsafe": with_id(1), "_xTxId": writer.clone()},
            doc! {"_id": 2, "n": 0, "_xTxId": writer.clone(), "_remove": true},
            doc! {"_id": 3, "_unsafe": with_id(3), "_xTxId": writer.clone(), "_insert": true},
            doc! {"_id": 4, "n": 0, "_sTxIds": [writer]},
        ];
        self.raw.insert_many(documents).await.unwrap();
    }

    async fn assert_rolled_back(&self, what: &str) {
        assert_documents_clean(&self.world, what).await;
        let mut ids: Vec<i32> = Vec::new();
        for document in self.world.stored(&self.world.db, "a").await {
            assert_ne!(document.get_i32("n").unwrap(), 99, "{what}: finished");
            ids.push(document.get_i32("_id").unwrap());
        }
        ids.sort_unstable();
        assert_eq!(ids, [1, 2, 4], "{what}");
    }
}

#[tokio::test]
async fn readers_see_the_safe_versions_only() {
    let (scene, ids) = Scene::set_up().await;
    for (id, client) in ids.into_iter().flat_map(|id| [(id, &scene.owner), (id, &scene.other)]) {
        let a = scene.collection(client);
        scene.plant(id).await;
        for (which, there) in [(1, true), (2, true), (3, false), (4, true)] {
            let found = a.find_one(doc! {"_id": which}).await.unwrap();
            assert_eq!(found, there.then(|| doc! {"_id": which, "n": 0}), "by _id, {id}");
        }
        scene.plant(id).await;
        let all = a.find(doc! {}).sort(doc! {"_id": 1}).await.unwrap().try_collect().await.unwrap();
        assert_eq!(all, [1, 2, 4].map(|which| doc! {"_id": which, "n": 0}), "by query, {id}");
        scene.plant(id).await;
        assert_eq!(a.count_documents(doc! {"n": 99}).await.unwrap(), 0, "{id}");
        scene.plant(id).await;
        assert_eq!(a.count_documents(doc! {}).await.unwrap(), 3, "{id}");
        scene.plant(id).await;
        assert_eq!(a.distinct("n", doc! {}).await.unwrap(), [Bson::Int32(0)], "{id}");
    }
}

#[tokio::test]
async fn writers_outside_transactions_roll_them_back() {
    let (scene, ids) = Scene::set_up().await;
    for (id, client) in ids.into_iter().flat_map(|id| [(id, &scene.owner), (id, &scene.other)]) {
        let a = scene.collection(client);
        scene.plant(id).await;
        for which in [1, 2, 4] {
            let done = a.update_one(doc! {"_id": which}, doc! {"$inc": {"n": 1}}).await.unwrap();
            assert_eq!(done.matched_count, 1, "{which}, {id}");
        }
        assert_eq!(a.delete_one(doc! {"_id": 3}).await.unwrap(), 0, "{id}");
        assert_eq!(a.update_one(doc! {"n": 99}, doc! {"$inc": {"n": 1}}).await.unwrap().matched_count, 0, "{id}");
        // The insert may not have been in any client's way.
        client.repair_collection(a.namespace()).await.unwrap();
        scene.assert_rolled_back("written outside a transaction").await;
        scene.plant(id).await;
        a.insert_one(&doc! {"_id": 3, "n": 7}).await.unwrap();
        assert_eq!(a.find_one(doc! {"_id": 3}).await.unwrap(), Some(doc! {"_id": 3, "n": 7}), "{id}");
    }
}

async fn write_all(a: &Collection<Document>, session: &mut Session) -> mongotx::Result<()> {
    a.find_one_and_update(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(session).await?.unwrap();
    assert_eq!(a.delete_one(doc! {"_id": 2}).session(session).await?, 1);
    a.insert_one(&doc! {"_id": 3, "n": 1}).session(session).await?;
    assert_eq!(a.update_one(doc! {"_id": 4}, doc! {"$inc": {"n": 1}}).session(session).await?.matched_count, 1);
    Ok(())
}

#[tokio::test]
async fn transactions_roll_them_back_and_go_on() {
    let (scene, ids) = Scene::set_up().await;
    for (id, client) in ids.into_iter().flat_map(|id| [(id, &scene.owner), (id, &scene.other)]) {
        for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
            scene.plant(id).await;
            let a = scene.collection(client);
            let mut session =
                client.session_with(TransactionOptions { isolation: Some(isolation), ..TransactionOptions::default() });
            session.begin().unwrap();
            write_all(&a, &mut session).await.unwrap();
            session.commit().await.unwrap();
            let all = a.find(doc! {}).sort(doc! {"_id": 1}).await.unwrap().try_collect().await.unwrap();
            assert_eq!(all, [1, 3, 4].map(|which| doc! {"_id": which, "n": 1}), "{id}, {isolation:?}");
        }
    }
}

#[tokio::test]
async fn repair_rolls_them_all_back_at_once() {
    let (scene, ids) = Scene::set_up().await;
    for (id, client) in ids.into_iter().flat_map(|id| [(id, &scene.owner), (id, &scene.other)]) {
        scene.plant(id).await;
        assert_eq!(client.repair_collection(scene.collection(client).namespace()).await.unwrap(), 4);
        scene.assert_rolled_back("repaired").await;
    }
}

#[tokio::test]
async fn lock_of_another_shape_is_corruption_and_left_alone() {
    let (scene, _) = Scene::set_up().await;
    scene.raw.insert_one(doc! {"_id": 9, "n": 0, "_unsafe": {"_id": 9, "n": 99}, "_xTxId": "who?"}).await.unwrap();
    let a = scene.collection(&scene.other);
    let read = a.find_one(doc! {"_id": 9}).await.unwrap_err();
    assert_eq!(read.kind(), ErrorKind::Corruption, "{read}");
    let written = a.update_one(doc! {"_id": 9}, doc! {"$inc": {"n": 1}}).await.unwrap_err();
    assert_eq!(written.kind(), ErrorKind::Corruption, "{written}");
    let stored = scene.world.stored(&scene.world.db, "a").await;
    assert!(stored.iter().all(|document| !is_clean(document)));
}

/// No write is undone silently: a backup that was put back without the records of its time has
/// locks like these.
#[tokio::test]
async fn what_they_were_to_become_is_kept() {
    let (scene, ids) = Scene::set_up().await;
    let kept = scene.world.raw().await.database(&scene.world.tx_db()).collection::<Document>("orphans");
    for id in ids {
        scene.plant(id).await;
        let (one, two) = (scene.collection(&scene.owner), scene.collection(&scene.other));
        let repairs = futures_util::future::join(
            scene.owner.repair_collection(one.namespace()),
            scene.other.repair_collection(two.namespace()),
        );
        let (one, two) = repairs.await;
        assert!(one.is_ok() && two.is_ok(), "{one:?} {two:?}");
        scene.assert_rolled_back("kept").await;
        let of_writer = doc! {"writer": stored_id(id)};
        let orphans: Vec<Document> =
            kept.find(of_writer).sort(doc! {"id": 1}).await.unwrap().try_collect().await.unwrap();
        let becomes = |n: i32| doc! {"_id": n, "n": 99};
        let listed: Vec<(i32, &str, Option<&Document>)> = orphans
            .iter()
            .map(|one| (one.get_i32("id").unwrap(), one.get_str("write").unwrap(), one.get_document("becomes").ok()))
            .collect();
        assert_eq!(
            listed,
            [(1, "update", Some(&becomes(1))), (2, "delete", None), (3, "insert", Some(&becomes(3)))],
            "{id}"
        );
    }
}

#[tokio::test]
async fn a_writer_that_meets_one_keeps_it_too() {
    let (scene, ids) = Scene::set_up().await;
    let kept = scene.world.raw().await.database(&scene.world.tx_db()).collection::<Document>("orphans");
    for id in ids {
        scene.plant(id).await;
        let a = scene.collection(&scene.other);
        a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).await.unwrap();
        let orphan = kept.find_one(doc! {"writer": stored_id(id), "id": 1}).await.unwrap().unwrap();
        assert_eq!(orphan.get_document("becomes").unwrap(), &doc! {"_id": 1, "n": 99}, "{id}");
        scene.other.repair_collection(a.namespace()).await.unwrap();
    }
}

/// A program that does not know MongoTx has removed what an insert was to become: no statement can
/// undo it, and nobody tries for ever.
#[tokio::test]
async fn an_orphan_that_cannot_be_undone_is_an_error() {
    let (scene, ids) = Scene::set_up().await;
    for id in ids {
        scene.plant(id).await;
        let damaged = doc! {"_id": 5, "_xTxId": stored_id(id), "_insert": true};
        scene.raw.insert_one(damaged).await.unwrap();
        let reading = async { scene.collection(&scene.other).find(doc! {}).await?.try_collect().await };
        let error =
            tokio::time::timeout(Duration::from_secs(60), reading).await.expect("it tries for ever").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert!(error.to_string().contains("{_id: 5}"), "{error}");
    }
}
