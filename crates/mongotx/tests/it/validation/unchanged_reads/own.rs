//! Changes of the same client, in a transaction or outside, and those that change nothing that was
//! read.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicI32, Ordering::SeqCst},
    },
    time::Duration,
};

use bson::doc;
use mongotx::{Isolation, Metrics, Session};

use super::{ASKED, CONFLICT, Stage, begun, commit_change, set};
use crate::quiet;

#[tokio::test]
async fn what_nothing_has_changed_is_not_asked_again() {
    let stage = Stage::start().await;
    stage.until_unasked(async || stage.reading().await).await;
    // One that has written, and its commands.
    let (id, before) = (AtomicI32::new(50), Mutex::new(Metrics::default()));
    stage
        .until_unasked(async || {
            let mut session = stage.reading().await;
            let document = doc! {"_id": id.fetch_add(1, SeqCst), "n": 0};
            stage.coll.insert_one(&document).session(&mut session).await.unwrap();
            *before.lock().unwrap() = stage.client.metrics();
            session
        })
        .await;
    let (before, after) = (before.into_inner().unwrap(), stage.client.metrics());
    let questions = after.validation_questions - before.validation_questions;
    let finds = after.commands.get("find").unwrap_or(&0) - before.commands.get("find").unwrap_or(&0);
    assert_eq!((questions, finds), (0, 1), "one look and nothing else");
}

#[tokio::test]
async fn what_this_client_has_changed_elsewhere_is_no_matter() {
    let stage = Stage::start().await;
    let other = quiet::collection(&stage.client, 0).await;
    other.insert_one(&doc! {"_id": 1, "n": 0}).await.unwrap();
    stage
        .until_unasked(async || {
            let session = stage.reading().await;
            set(&other, doc! {"_id": 1}).await;
            commit_change(&stage.client, &other, &[1]).await;
            session
        })
        .await;
}

/// Changes of the same client, of the documents that were read or of a range that was.
#[tokio::test]
async fn what_this_client_has_changed_itself_is_seen() {
    let stage = Stage::start().await;
    let coll = &stage.coll;
    let session = stage.reading().await;
    commit_change(&stage.client, coll, &[2]).await;
    assert_eq!(stage.commit(session).await, CONFLICT, "a transaction");

    let session = stage.reading().await;
    coll.insert_one(&doc! {"_id": 99, "k": 99}).await.unwrap();
    assert_eq!(stage.commit(session).await, CONFLICT, "an insert");

    let session = stage.reading().await;
    coll.delete_one(doc! {"_id": 99}).await.unwrap();
    assert_eq!(stage.commit(session).await, CONFLICT, "a deletion");

    let session = stage.reading().await;
    set(coll, doc! {"_id": 1}).await;
    assert_eq!(stage.commit(session).await, CONFLICT, "an update by _id");

    let session = stage.reading().await;
    set(coll, doc! {"k": 3}).await;
    assert_eq!(stage.commit(session).await, CONFLICT, "an update by a key");

    let session = stage.reading().await;
    coll.find_one_and_update(doc! {"k": 4}, doc! {"$inc": {"n": 1}}).await.unwrap().unwrap();
    assert_eq!(stage.commit(session).await, CONFLICT, "findAndModify");

    let session = stage.reading().await;
    let stages =
        [doc! {"$match": {"_id": 1}}, doc! {"$set": {"n": 77}}, doc! {"$merge": {"into": &coll.namespace().coll}}];
    coll.aggregate(stages.to_vec()).await.unwrap().try_collect().await.unwrap();
    assert_eq!(stage.commit(session).await, CONFLICT, "$merge");

    let session = stage.reading().await;
    set(coll, doc! {"_id": 20}).await;
    assert_eq!(stage.commit(session).await, ASKED, "a plain write counts for all documents");

    let session = stage.reading().await;
    coll.drop().await.unwrap();
    assert_eq!(stage.commit(session).await, CONFLICT, "drop");
}

/// The `_id`s decide which documents share a bucket: not all of these do.
#[tokio::test]
async fn decisions_about_other_documents_are_no_matter_to_those_read_by_id() {
    let stage = Stage::start().await;
    let id = AtomicI32::new(0);
    stage
        .until_unasked(async || {
            let session = stage.reading_two().await;
            commit_change(&stage.client, &stage.coll, &[10 + id.fetch_add(1, SeqCst) % 10]).await;
            session
        })
        .await;
}

impl Stage {
    /// A transaction that has read the documents 1 and 2 by `_id`.
    async fn reading_two(&self) -> Session {
        let mut session = begun(&self.client, Isolation::Snapshot);
        for id in [1, 2] {
            assert!(self.coll.find_one(doc! {"_id": id}).session(&mut session).await.unwrap().is_some());
        }
        session
    }
}

/// The client does not learn its outcome, and it may still arrive.
#[tokio::test]
async fn a_plain_write_that_is_given_up_may_arrive_at_any_time() {
    let stage = Stage::start().await;
    // Now it has a notice, for which the one that is given up need not wait.
    set(&stage.coll, doc! {"_id": 20}).await;
    stage.until_unasked(async || stage.reading().await).await;
    let write = stage.coll.update_one(doc! {"_id": 20}, doc! {"$inc": {"n": 1}});
    stage.server.pause().unwrap();
    let given_up = tokio::time::timeout(Duration::from_millis(200), write).await;
    stage.server.resume().unwrap();
    assert!(given_up.is_err());
    stage.always_asked(async || stage.reading().await).await;
}
