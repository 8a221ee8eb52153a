//! Looks that are sent behind reads, in the same write, by a transaction that others of its client
//! wait for: they count if all of the reads were answered before, and else another one is sent.

use std::future::IntoFuture;

use bson::{Document, doc};
use futures_util::future;
use mongotx::{Client, Collection, Isolation, Session, TransactionOptions};

use crate::quiet;

const LONG: std::time::Duration = std::time::Duration::from_secs(60);

fn begun(client: &Client) -> Session {
    let isolation = Some(Isolation::Snapshot);
    let mut session =
        client.session_with(TransactionOptions { isolation, lock_wait: LONG, ..TransactionOptions::default() });
    session.begin().unwrap();
    session
}

async fn change(coll: &Collection<Document>, id: i32, session: &mut Session) {
    let done = coll.update_one(doc! {"_id": id}, doc! {"$inc": {"changed": 1}}).session(session).await;
    assert_eq!(done.unwrap().modified_count, 1);
}

/// Documents that the transaction and the one that waits for it change: none of what is read.
async fn others(client: &Client) -> Collection<Document> {
    let coll = client.database(&local_mongod::unique_db("behind")).collection("others");
    coll.insert_many(&[doc! {"_id": 1}, doc! {"_id": 2}]).await.unwrap();
    coll
}

/// The looks that have counted in the commit of a transaction, after it has read, for which another
/// one waits.
async fn looks_behind(client: &Client, mut reader: Session) -> u64 {
    let others = others(client).await;
    change(&others, 1, &mut reader).await;
    let mut waiter = begun(client);
    change(&others, 2, &mut waiter).await;
    // It waits without a command, because both are of one client.
    let update = others.update_one(doc! {"_id": 1}, doc! {"$inc": {"changed": 1}});
    let mut waiting = update.session(&mut waiter).into_future();
    assert!(future::poll_immediate(&mut waiting).await.is_none());
    let before = client.metrics().looks_behind;
    reader.commit().await.unwrap();
    let counted = client.metrics().looks_behind - before;
    assert_eq!(waiting.await.unwrap().modified_count, 1);
    waiter.commit().await.unwrap();
    assert!(client.flush(LONG).await);
    counted
}

async fn read(coll: &Collection<Document>, filter: Document, session: &mut Session) -> usize {
    coll.find(filter).session(session).await.unwrap().try_collect().await.unwrap().len()
}

#[tokio::test]
async fn look_behind_a_question_that_is_answered_at_once_counts() {
    let client = quiet::connect(quiet::options()).await;
    let coll = quiet::collection(&client, 3).await;
    let mut reader = begun(&client);
    assert_eq!(read(&coll, doc! {"n": 1}, &mut reader).await, 3);
    assert_eq!(looks_behind(&client, reader).await, 1);
}

#[tokio::test]
async fn look_behind_an_answer_in_several_batches_does_not_count() {
    let client = quiet::connect(quiet::options()).await;
    let coll = quiet::collection(&client, 1_001).await;
    let mut reader = begun(&client);
    assert_eq!(read(&coll, doc! {"n": 1}, &mut reader).await, 1_001);
    assert_eq!(looks_behind(&client, reader).await, 0);
}

#[tokio::test]
async fn look_behind_questions_of_two_databases_does_not_count() {
    let client = quiet::connect(quiet::options()).await;
    let mut reader = begun(&client);
    for coll in [quiet::collection(&client, 3).await, quiet::collection(&client, 3).await] {
        assert_eq!(read(&coll, doc! {"n": 1}, &mut reader).await, 3);
    }
    assert_eq!(looks_behind(&client, reader).await, 0);
}

/// Another client holds a document: the read that checks whether it still does comes when the
/// answer is there.
#[tokio::test]
async fn look_before_somebody_was_asked_about_does_not_count() {
    let client = quiet::connect(quiet::options()).await;
    let coll = quiet::collection(&client, 3).await;
    let rival = quiet::connect(quiet::options()).await;
    let mut holder = begun(&rival);
    change(&quiet::through(&rival, &coll), 2, &mut holder).await;
    let mut reader = begun(&client);
    for id in [1, 2, 3] {
        assert_eq!(read(&coll, doc! {"_id": id}, &mut reader).await, 1);
    }
    assert_eq!(looks_behind(&client, reader).await, 0);
    holder.rollback().await.unwrap();
}

/// Another client holds a document that a query has to see: the query is sent by itself.
#[tokio::test]
async fn look_before_a_part_that_is_left_does_not_count() {
    let client = quiet::connect(quiet::options()).await;
    let coll = quiet::collection(&client, 3).await;
    let rival = quiet::connect(quiet::options()).await;
    let mut holder = begun(&rival);
    change(&quiet::through(&rival, &coll), 2, &mut holder).await;
    let mut reader = begun(&client);
    assert_eq!(read(&coll, doc! {"n": 1}, &mut reader).await, 3);
    assert_eq!(looks_behind(&client, reader).await, 0);
    holder.rollback().await.unwrap();
}
