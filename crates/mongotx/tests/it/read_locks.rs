//! Read locks of repeatable reads, where a rival comes or goes between two commands of one
//! operation. Gates decide the order.

use bson::{Document, doc};
use mongotx::{Client, ClientOptions, Collection, ErrorKind, Isolation, Session, Step, TransactionOptions};

use crate::{
    common::hooks::Gate,
    quiet::{collection, connect, options, through},
};

/// A reader that is held at a step, and a rival, both of their own client.
struct Scene {
    readers: Collection<Document>,
    session: Session,
    gate: Gate,
    rival: Client,
    rivals: Collection<Document>,
}

impl Scene {
    /// Documents `{_id: 1, n: 1}` to `{_id: 3, n: 1}`; the reader stops when it reaches `step`
    /// first.
    async fn held_at(step: Step) -> Self {
        let (gate, hook) = Gate::at(step, 1, false);
        let reader = connect(ClientOptions { hook: Some(hook), ..options() }).await;
        let rival = connect(ClientOptions { write_wait: std::time::Duration::from_millis(50), ..options() }).await;
        let rivals = collection(&rival, 3).await;
        let isolation = Isolation::RepeatableRead;
        let mut session =
            reader.session_with(TransactionOptions { isolation: Some(isolation), ..TransactionOptions::default() });
        session.begin().unwrap();
        Self { readers: through(&reader, &rivals), session, gate, rival, rivals }
    }

    /// The scene of [`Scene::held_at`] with a gate that stays open.
    async fn free() -> Self {
        let scene = Self::held_at(Step::BeforeReadLock).await;
        scene.gate.open();
        scene
    }

    async fn flush(&self) {
        assert!(self.rival.flush(std::time::Duration::from_secs(60)).await);
    }

    /// The stored documents, by the plain driver.
    async fn raw(&self) -> mongodb::Collection<Document> {
        let client = local_mongod::shared_standalone().await.unwrap().client().await.unwrap();
        let ns = self.rivals.namespace();
        client.database(&ns.db).collection(&ns.coll)
    }

    async fn lose_read_lock(&self, id: i32) {
        let done = self.raw().await.update_one(doc! {"_id": id}, doc! {"$unset": {"_sTxIds": ""}}).await.unwrap();
        assert_eq!(done.modified_count, 1, "document {id} was not read-locked");
    }

    async fn assert_read_locked(&self, id: i32) {
        let refused = self.rivals.update_one(doc! {"_id": id}, doc! {"$inc": {"n": 1}}).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    }
}

fn ids(found: &[Document]) -> Vec<i32> {
    found.iter().map(|document| document.get_i32("_id").unwrap()).collect()
}

#[tokio::test]
async fn a_rival_that_has_finished_before_the_look_is_not_taken_for_a_removal() {
    let mut scene = Scene::held_at(Step::AfterReadLock).await;
    let mut rival = scene.rival.session();
    rival.begin().unwrap();
    scene.rivals.update_one(doc! {"_id": 1}, doc! {"$set": {"n": 10}}).session(&mut rival).await.unwrap();
    let read = async { scene.readers.find_one(doc! {"_id": 1}).session(&mut scene.session).await.unwrap().unwrap() };
    let end = async {
        scene.gate.reached().await;
        rival.commit().await.unwrap();
        assert!(scene.rival.flush(std::time::Duration::from_secs(60)).await);
        scene.gate.open();
    };
    let (read, ()) = tokio::join!(read, end);
    assert_eq!(read, doc! {"_id": 1, "n": 10});
    scene.assert_read_locked(1).await;
    scene.readers.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut scene.session).await.unwrap();
    scene.session.commit().await.unwrap();
    let last = scene.rivals.find_one(doc! {"_id": 1}).await.unwrap().unwrap();
    assert_eq!(last, doc! {"_id": 1, "n": 11});
}

#[tokio::test]
async fn a_document_that_was_removed_before_it_was_locked_may_come_back() {
    let mut scene = Scene::held_at(Step::BeforeReadLock).await;
    let find = || doc! {"n": 1};
    let read = async {
        let found = scene.readers.find(find()).sort(doc! {"_id": 1}).session(&mut scene.session).await.unwrap();
        found.try_collect().await.unwrap()
    };
    let removal = async {
        scene.gate.reached().await;
        scene.rivals.delete_one(doc! {"_id": 1}).await.unwrap();
        scene.gate.open();
    };
    assert_eq!(ids(&tokio::join!(read, removal).0), [2, 3]);
    scene.rivals.insert_one(&doc! {"_id": 1, "n": 1}).await.unwrap();
    let found = scene.readers.find(find()).sort(doc! {"_id": 1}).session(&mut scene.session).await.unwrap();
    assert_eq!(ids(&found.try_collect().await.unwrap()), [1, 2, 3]);
    scene.assert_read_locked(1).await;
    scene.session.commit().await.unwrap();
    scene.flush().await;
}

#[tokio::test]
async fn a_count_is_of_what_is_there_under_the_locks() {
    let mut scene = Scene::held_at(Step::BeforeReadLock).await;
    let count = async { scene.readers.count_documents(doc! {"n": 1}).session(&mut scene.session).await.unwrap() };
    let change = async {
        scene.gate.reached().await;
        scene.rivals.update_one(doc! {"_id": 1}, doc! {"$set": {"n": 2}}).await.unwrap();
        scene.gate.open();
    };
    assert_eq!(tokio::join!(count, change).0, 2);
    scene.assert_read_locked(2).await;
    let behind = scene.readers.count_documents(doc! {}).skip(2).session(&mut scene.session).await.unwrap();
    assert_eq!(behind, 1);
    scene.session.commit().await.unwrap();
}

#[tokio::test]
async fn distinct_values_are_of_what_is_there_under_the_locks() {
    let mut scene = Scene::held_at(Step::BeforeReadLock).await;
    let distinct = async { scene.readers.distinct("_id", doc! {"n": 1}).session(&mut scene.session).await.unwrap() };
    let change = async {
        scene.gate.reached().await;
        scene.rivals.delete_one(doc! {"_id": 1}).await.unwrap();
        scene.rivals.insert_one(&doc! {"_id": 1, "n": 1}).await.unwrap();
        scene.gate.open();
    };
    let mut values: Vec<i32> = tokio::join!(distinct, change).0.iter().map(|value| value.as_i32().unwrap()).collect();
    values.sort_unstable();
    assert_eq!(values, [1, 2, 3]);
    for id in 1..=3 {
        scene.assert_read_locked(id).await;
    }
    scene.session.commit().await.unwrap();
}

/// One write of document 1, which the transaction has read; what is refused ends the transaction.
async fn write(scene: &mut Scene, nth: usize) -> mongotx::Result<()> {
    let (coll, session) = (&scene.readers, &mut scene.session);
    let (one, all, add) = (doc! {"_id": 1}, doc! {"_id": {"$gte": 1}}, doc! {"$inc": {"n": 1}});
    match nth {
        0 => coll.update_one(one, add).session(session).await.map(drop),
        1 => coll.update_one(doc! {"_id": 1, "n": 1}, doc! {"$push": {"list": 1}}).session(session).await.map(drop),
        2 => coll.update_many(all, add).session(session).await.map(drop),
        3 => coll.delete_one(one).session(session).await.map(drop),
        4 => coll.delete_many(all).session(session).await.map(drop),
        5 => coll.find_one_and_update(one, add).session(session).await.map(drop),
        6 => coll.find_one_and_delete(one).session(session).await.map(drop),
        _ => coll.replace_one(one, &doc! {"n": 7}).session(session).await.map(drop),
    }
}

#[tokio::test]
async fn a_writer_that_has_lost_its_read_lock_learns_it() {
    for nth in 0..8 {
        for removed in [false, true] {
            let mut scene = Scene::free().await;
            scene.readers.find_one(doc! {"_id": 1}).session(&mut scene.session).await.unwrap();
            if removed {
                scene.raw().await.delete_one(doc! {"_id": 1}).await.unwrap();
                if nth == 2 || nth == 4 {
                    // A query that does not find it does not write to it.
                    continue;
                }
            } else {
                scene.lose_read_lock(1).await;
            }
            let refused = write(&mut scene, nth).await.expect_err(&format!("write {nth}, removed: {removed}"));
            assert_eq!(refused.kind(), ErrorKind::Expired, "write {nth}, removed: {removed}: {refused}");
            assert!(refused.message().contains("read lock"), "{refused}");
        }
    }
}

#[tokio::test]
async fn a_document_beside_those_that_were_read_is_written_as_ever() {
    for nth in 0..8 {
        let mut scene = Scene::free().await;
        scene.readers.find_one(doc! {"_id": 2}).session(&mut scene.session).await.unwrap();
        write(&mut scene, nth).await.unwrap();
        scene.session.commit().await.unwrap();
        scene.flush().await;
        let one = scene.rivals.find_one(doc! {"_id": 1}).await.unwrap();
        assert_ne!(one, Some(doc! {"_id": 1, "n": 1}), "write {nth}");
    }
}
