//! Large documents: the server's limit is 16 MB, and a document doubles while it is locked for an
//! update.

use bson::{Document, doc};
use mongotx::{Error, ErrorKind, Isolation, Session, Step, TransactionOptions};

use crate::limits::Scene;

const MB: usize = 1024 * 1024;
const LARGEST: usize = 16 * MB;

/// A document of exactly `bytes` bytes.
fn document_of(id: i32, bytes: usize) -> Document {
    let empty = doc! {"_id": id, "n": 0, "fill": ""}.to_vec().unwrap().len();
    doc! {"_id": id, "n": 0, "fill": "x".repeat(bytes - empty)}
}

fn assert_too_large(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.code().is_some() && error.labels().is_empty(), "{error}");
    assert!(error.to_string().len() < 2_000, "the message holds the document");
}

/// Checks that the transaction goes on after a refusal: what it wrote before and what it writes
/// then is committed.
async fn goes_on(scene: &Scene, mut session: Session) {
    scene.a.update_one(doc! {"_id": 2}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    assert_eq!(scene.seen(1).await, Some(doc! {"_id": 1, "n": 1}));
    assert_eq!(scene.seen(2).await, Some(doc! {"_id": 2, "n": 1}));
    scene.assert_clean("after a refusal").await;
}

async fn open(scene: &Scene) -> Session {
    let mut session = scene.client.session();
    session.begin().unwrap();
    scene.a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
    session
}

/// Plainly stored, as another application would.
async fn store(scene: &Scene, document: &Document) {
    let raw = scene.world.raw().await;
    raw.database(&scene.world.db).collection::<Document>("a").insert_one(document).await.unwrap();
}

async fn seen_size(scene: &Scene, id: i32) -> usize {
    scene.seen(id).await.unwrap().to_vec().unwrap().len()
}

#[tokio::test]
async fn insert_just_below_the_limit_commits() {
    let scene = Scene::set_up().await;
    let mut session = open(&scene).await;
    scene.a.insert_one(&document_of(10, LARGEST - 200)).session(&mut session).await.unwrap();
    goes_on(&scene, session).await;
    assert_eq!(seen_size(&scene, 10).await, LARGEST - 200);
}

#[tokio::test]
async fn insert_at_the_limit_is_refused_and_the_transaction_goes_on() {
    let scene = Scene::set_up().await;
    let mut session = open(&scene).await;
    for bytes in [LARGEST, LARGEST + 1_000, 20 * MB] {
        let error = scene.a.insert_one(&document_of(10, bytes)).session(&mut session).await.unwrap_err();
        assert_too_large(&error);
    }
    assert!(session.is_open());
    goes_on(&scene, session).await;
    assert_eq!(scene.seen(10).await, None);
}

/// The value is said once in what is sent: it may be larger than half of a command.
#[tokio::test]
async fn a_small_document_may_be_given_a_value_of_nine_megabytes() {
    let scene = Scene::set_up().await;
    let set = doc! {"$set": {"fill": "x".repeat(9 * MB)}};
    for filter in [doc! {"_id": 2}, doc! {"n": 0, "_id": {"$gt": 1}}] {
        scene.a.update_one(doc! {"_id": 2}, doc! {"$set": {"n": 0, "fill": 0}}).await.unwrap();
        let mut session = open(&scene).await;
        let updated = scene.a.update_one(filter, set.clone()).session(&mut session).await.unwrap();
        assert_eq!(updated.modified_count, 1);
        session.rollback().await.unwrap();
        let mut session = open(&scene).await;
        let updated = scene.a.update_many(doc! {"_id": 2}, set.clone()).session(&mut session).await.unwrap();
        assert_eq!(updated.modified_count, 1);
        session.commit().await.unwrap();
        assert_eq!(scene.seen(2).await.unwrap().get_str("fill").unwrap().len(), 9 * MB);
    }
}

/// The error has the sizes, and says why.
#[tokio::test]
async fn an_update_whose_two_versions_are_too_large_together_says_so() {
    let scene = Scene::set_up().await;
    store(&scene, &document_of(10, 9 * MB)).await;
    let mut session = open(&scene).await;
    for update in [doc! {"$set": {"n": 1}}, doc! {"$push": {"list": 1}}] {
        let refused = scene.a.update_one(doc! {"_id": 10}, update.clone()).session(&mut session).await.unwrap_err();
        assert_eq!(refused.code(), Some(10_334));
        for words in ["_id: 10", "188", "16793600", "committed and its new version"] {
            assert!(refused.to_string().contains(words), "{words}: {refused}");
        }
        scene.a.update_one(doc! {"_id": 10}, update).await.unwrap();
    }
    goes_on(&scene, session).await;
}

#[tokio::test]
async fn insert_outside_a_transaction_is_limited_as_by_the_server() {
    let scene = Scene::set_up().await;
    scene.a.insert_one(&document_of(10, LARGEST)).await.unwrap();
    assert_eq!(seen_size(&scene, 10).await, LARGEST);
    let error = scene.a.insert_one(&document_of(11, LARGEST + 20)).await.unwrap_err();
    assert_too_large(&error);
    // Nothing doubles where nothing is locked.
    scene.a.update_one(doc! {"_id": 10}, doc! {"$inc": {"n": 1}}).await.unwrap();
    assert_eq!(scene.seen(10).await.unwrap().get_i32("n").unwrap(), 1);
}

/// The committed document is finished first, and then marked: it is at no time stored twice.
#[tokio::test]
async fn a_document_that_cannot_double_is_removed_just_after_it_was_committed() {
    let scene = Scene::set_up().await;
    // Nothing is finished by the client that has committed it.
    let gate = crate::quiet::Gate::before(&[Step::BeforeFinish]);
    gate.shut();
    let inserting = scene.world.client_with(60_000, gate.clone()).await;
    let mut session = inserting.session();
    session.begin().unwrap();
    let coll = scene.world.collection(&inserting, "a");
    coll.insert_one(&document_of(10, 15 * MB)).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    let mut session = open(&scene).await;
    assert_eq!(scene.a.delete_one(doc! {"_id": 10}).session(&mut session).await.unwrap(), 1);
    goes_on(&scene, session).await;
    assert_eq!(scene.seen(10).await, None);
    gate.open();
}

#[tokio::test]
async fn update_of_a_document_that_cannot_double_is_refused_and_loses_nothing() {
    let scene = Scene::set_up().await;
    for (id, bytes) in [(20, 9 * MB), (21, LARGEST - 10)] {
        let large = document_of(id, bytes);
        store(&scene, &large).await;
        let mut session = open(&scene).await;
        let error =
            scene.a.update_one(doc! {"_id": id}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap_err();
        assert_too_large(&error);
        let pushed = doc! {"$push": {"tags": {"$each": [1, 2]}}};
        let error = scene.a.find_one_and_update(doc! {"_id": id}, pushed).session(&mut session).await.unwrap_err();
        assert_too_large(&error);
        let small = doc! {"_id": id, "n": 1};
        // A replacement needs no copy of what it replaces, if the library knows its size; either
        // way nothing is lost.
        let replaced = scene.a.replace_one(doc! {"_id": id}, &small).session(&mut session).await;
        replaced.as_ref().err().into_iter().for_each(assert_too_large);
        session.rollback().await.unwrap();
        assert_eq!(scene.seen(id).await.unwrap(), large);
        scene.assert_clean("an update that was refused").await;
    }
    let session = open(&scene).await;
    goes_on(&scene, session).await;
}

#[tokio::test]
async fn update_that_grows_both_versions_beyond_the_limit_is_refused() {
    let scene = Scene::set_up().await;
    let before = document_of(20, 6 * MB);
    store(&scene, &before).await;
    let mut session = open(&scene).await;
    let grow = doc! {"$set": {"more": "y".repeat(6 * MB)}};
    let error = scene.a.update_one(doc! {"_id": 20}, grow).session(&mut session).await.unwrap_err();
    assert_too_large(&error);
    // The document may be locked; it can still be changed within the limit.
    scene.a.update_one(doc! {"_id": 20}, doc! {"$inc": {"n": 5}}).session(&mut session).await.unwrap();
    goes_on(&scene, session).await;
    let after = scene.seen(20).await.unwrap();
    assert_eq!((after.get_i32("n").unwrap(), after.len()), (5, before.len()));
}

#[tokio::test]
async fn update_of_half_the_limit_and_removal_of_the_largest_commit() {
    let scene = Scene::set_up().await;
    store(&scene, &document_of(20, 8 * MB - 500)).await;
    store(&scene, &document_of(21, LARGEST - 100)).await;
    let mut session = open(&scene).await;
    scene.a.update_one(doc! {"_id": 20}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
    assert_eq!(scene.a.delete_one(doc! {"_id": 21}).session(&mut session).await.unwrap(), 1);
    goes_on(&scene, session).await;
    assert_eq!(scene.seen(20).await.unwrap().get_i32("n").unwrap(), 1);
    assert_eq!(scene.seen(21).await, None);
}

#[tokio::test]
async fn removal_of_a_document_without_room_for_a_lock_is_refused_and_loses_nothing() {
    let scene = Scene::set_up().await;
    store(&scene, &document_of(21, LARGEST)).await;
    let mut session = open(&scene).await;
    // The server lets internal growth pass for some bytes beyond the limit; whichever it is,
    // nothing is lost.
    let done = scene.a.delete_one(doc! {"_id": 21}).session(&mut session).await;
    done.as_ref().err().into_iter().for_each(assert_too_large);
    goes_on(&scene, session).await;
    let left = scene.a.count_documents(doc! {"_id": 21}).await.unwrap();
    assert_eq!(left, u64::from(done.is_err()));
}

#[tokio::test]
async fn update_many_over_one_document_that_is_too_large_loses_nothing() {
    let scene = Scene::set_up().await;
    let large = document_of(20, 9 * MB);
    store(&scene, &large).await;
    let mut session = open(&scene).await;
    let all = scene.a.update_many(doc! {}, doc! {"$inc": {"n": 1}}).session(&mut session).await;
    assert_too_large(&all.unwrap_err());
    session.rollback().await.unwrap();
    assert_eq!(scene.seen(20).await.unwrap(), large);
    assert_eq!(scene.seen(1).await, Some(doc! {"_id": 1, "n": 0}));
    scene.assert_clean("update_many").await;
}

#[tokio::test]
async fn read_lock_without_room_is_refused_and_loses_nothing() {
    let scene = Scene::set_up().await;
    let large = document_of(20, LARGEST);
    store(&scene, &large).await;
    let options = TransactionOptions { isolation: Some(Isolation::RepeatableRead), ..TransactionOptions::default() };
    let mut session = scene.client.session_with(options);
    session.begin().unwrap();
    scene.a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
    let read = scene.a.find_one(doc! {"_id": 20}).session(&mut session).await;
    match &read {
        Ok(found) => assert_eq!(found.as_ref(), Some(&large)),
        Err(error) => assert_too_large(error),
    }
    goes_on(&scene, session).await;
    assert_eq!(scene.seen(20).await.unwrap(), large);
}

#[tokio::test]
async fn several_large_inserts_travel_in_several_commands() {
    let scene = Scene::set_up().await;
    let documents: Vec<Document> = (10..16).map(|id| document_of(id, 9 * MB)).collect();
    let mut session = open(&scene).await;
    scene.a.insert_many(&documents).session(&mut session).await.unwrap();
    goes_on(&scene, session).await;
    assert_eq!(scene.a.count_documents(doc! {"_id": {"$gte": 10}}).await.unwrap(), 6);
    assert_eq!(scene.a.delete_many(doc! {"_id": {"$gte": 10}}).await.unwrap(), 6);
}
