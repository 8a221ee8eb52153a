//! Commits that run at the same time, and documents that change twice while one of them is read.

use std::{sync::Arc, time::Duration};

use bson::{Document, doc};
use mongotx::{Client, ClientOptions, Collection, ErrorKind, Isolation, Session, Step, TransactionOptions};

use crate::quiet::{self, Gate};

const LIMIT: Duration = Duration::from_secs(60);

/// A client that stops at a gate, and the collection through it.
async fn gated(step: Step, count: i32) -> (Arc<Gate>, Client, Collection<Document>) {
    let gate = Gate::before(&[step]);
    let client = quiet::connect(ClientOptions { hook: Some(gate.clone()), ..quiet::options() }).await;
    let coll = quiet::collection(&client, count).await;
    (gate, client, coll)
}

fn begun(client: &Client, isolation: Isolation) -> Session {
    let options = TransactionOptions { isolation: Some(isolation), ..TransactionOptions::default() };
    let mut session = client.session_with(options);
    session.begin().unwrap();
    session
}

/// Reads both documents and writes one of them.
async fn read_both_write(coll: &Collection<Document>, session: &mut Session, id: i32) -> mongotx::Result<()> {
    for id in [1, 2] {
        coll.find_one(doc! {"_id": id}).session(session).await?;
    }
    coll.update_one(doc! {"_id": id}, doc! {"$set": {"n": 9}}).session(session).await.map(drop)
}

/// Two transactions that each read what the other writes; the first has validated when the second
/// does so. What the second commit answers, and the first.
async fn overlap(isolation: Isolation) -> (mongotx::Result<()>, mongotx::Result<()>) {
    let (gate, client, coll) = gated(Step::AfterValidation, 2).await;
    let rival = quiet::connect(quiet::options()).await;
    let others = quiet::through(&rival, &coll);
    let (mut first, mut second) = (begun(&client, isolation), begun(&rival, isolation));
    read_both_write(&coll, &mut first, 1).await.unwrap();
    read_both_write(&others, &mut second, 2).await.unwrap();
    gate.shut();
    let committing = tokio::spawn(async move { first.commit().await });
    tokio::time::timeout(LIMIT, gate.until_held()).await.unwrap();
    let second = second.commit().await;
    gate.open();
    (second, committing.await.unwrap())
}

#[tokio::test]
async fn write_skew_of_commits_that_overlap_is_allowed_at_snapshot() {
    let (second, first) = overlap(Isolation::Snapshot).await;
    second.unwrap();
    first.unwrap();
}

#[tokio::test]
async fn write_skew_of_commits_that_overlap_is_forbidden_at_serializable() {
    let (second, first) = overlap(Isolation::Serializable).await;
    let refused = second.and(first).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert!(refused.contains_label("TransientTransactionError"));
}

/// Between the fetch of a document that a rival has locked and the reading of the rival's status,
/// the rival changes it again and commits.
async fn read_between(change: Document) -> (Option<Document>, Option<Document>) {
    let (gate, _client, coll) = gated(Step::BeforeStatus, 1).await;
    let rival = quiet::connect(quiet::options()).await;
    let others = quiet::through(&rival, &coll);
    let mut writer = begun(&rival, Isolation::ReadCommitted);
    others.update_one(doc! {"_id": 1}, doc! {"$set": {"n": 2}}).session(&mut writer).await.unwrap();
    gate.shut();
    let reading = tokio::spawn(async move { coll.find_one(doc! {"_id": 1}).await.unwrap() });
    tokio::time::timeout(LIMIT, gate.until_held()).await.unwrap();
    others.update_one(doc! {"_id": 1}, change).session(&mut writer).await.unwrap();
    writer.commit().await.unwrap();
    gate.open();
    (reading.await.unwrap(), others.find_one(doc! {"_id": 1}).await.unwrap())
}

#[tokio::test]
async fn what_is_written_over_before_its_commit_is_never_read() {
    let (read, last) = read_between(doc! {"$set": {"n": 3}}).await;
    assert_eq!(read, last);
    assert_eq!(last, Some(doc! {"_id": 1, "n": 3}));
}

#[tokio::test]
async fn validate_tells_before_the_commit_what_has_changed() {
    let client = quiet::connect(quiet::options()).await;
    let coll = quiet::collection(&client, 2).await;
    let mut session = begun(&client, Isolation::Snapshot);
    for id in [1, 2] {
        coll.find_one(doc! {"_id": id}).session(&mut session).await.unwrap();
    }
    session.validate().await.unwrap();
    coll.update_one(doc! {"_id": 1}, doc! {"$set": {"n": 5}}).await.unwrap();
    assert_eq!(session.validate().await.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(session.commit().await.unwrap_err().kind(), ErrorKind::Closed);
}

/// A document whose `_id` is an equal number of another type, within a document.
#[tokio::test]
async fn an_id_that_is_spelled_otherwise_is_no_conflict() {
    let client = quiet::connect(quiet::options()).await;
    let coll = quiet::collection(&client, 1).await;
    coll.insert_one(&doc! {"_id": {"a": 1.0}, "n": 1}).await.unwrap();
    let mut session = begun(&client, Isolation::Snapshot);
    let by_id = || doc! {"_id": {"a": 1}};
    assert!(coll.find_one(by_id()).session(&mut session).await.unwrap().is_some());
    coll.find_one(doc! {"_id": 1}).session(&mut session).await.unwrap();
    coll.update_one(by_id(), doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
}
