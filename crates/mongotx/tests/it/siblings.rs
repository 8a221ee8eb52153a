//! Transactions of one client that want the same document: the second one fails or waits, without a
//! command.

use crate::quiet;

use std::{
    future::IntoFuture,
    time::{Duration, Instant},
};

use bson::{Document, doc};
use futures_util::future::join;
use mongotx::{Client, Collection, ErrorKind, Session, TransactionOptions};
use quiet::{collection, connect, options};

const LONG: Duration = Duration::from_secs(20);

struct Siblings {
    client: Client,
    coll: Collection<Document>,
    first: Session,
    second: Session,
}

/// Two sessions of one client; the first has written document 1, the second, which waits for locks
/// for `wait` at most, document 2.
async fn two(wait: Duration) -> Siblings {
    let client = connect(options()).await;
    let coll = collection(&client, 3).await;
    let begun = || {
        let options = TransactionOptions { lock_wait: wait, ..TransactionOptions::default() };
        let mut session = client.session_with(options);
        session.begin().unwrap();
        session
    };
    let (mut first, mut second) = (begun(), begun());
    coll.update_one(doc! {"_id": 1}, set(10)).session(&mut first).await.unwrap();
    coll.update_one(doc! {"_id": 2}, set(20)).session(&mut second).await.unwrap();
    Siblings { client, coll, first, second }
}

fn set(n: i32) -> Document {
    doc! {"$set": {"n": n}}
}

async fn n_of(coll: &Collection<Document>, id: i32) -> i32 {
    coll.find_one(doc! {"_id": id}).await.unwrap().unwrap().get_i32("n").unwrap()
}

#[tokio::test]
async fn a_conflict_between_siblings_sends_nothing_but_the_rollback() {
    let Siblings { client, coll, mut first, mut second } = two(Duration::ZERO).await;
    let finds = |client: &Client| client.metrics().commands.get("find").copied().unwrap_or(0);
    let (updates, before) = (client.metrics().commands["update"], finds(&client));
    let error = coll.update_one(doc! {"_id": 1}, set(11)).session(&mut second).await.unwrap_err();
    assert_eq!((error.kind(), error.conflict().unwrap().rival), (ErrorKind::Conflict, first.id().unwrap()));
    // One to undo document 2, and at most one for the record.
    let sent = client.metrics().commands["update"] - updates;
    assert!(sent <= 2 && finds(&client) == before, "{sent} updates, {} finds", finds(&client) - before);
    first.commit().await.unwrap();
    assert_eq!((n_of(&coll, 1).await, n_of(&coll, 2).await), (10, 1));
}

#[tokio::test]
async fn who_waits_goes_on_with_what_the_sibling_committed_or_did_not() {
    for commits in [true, false] {
        let Siblings { client, coll, mut first, mut second } = two(LONG).await;
        let add = doc! {"$inc": {"n": 1}};
        let waiting = async { coll.update_one(doc! {"_id": 1}, add).session(&mut second).await.unwrap() };
        let ending = async { if commits { first.commit().await.unwrap() } else { first.rollback().await.unwrap() } };
        let (updated, ()) = join(waiting, ending).await;
        assert_eq!(updated.matched_count, 1);
        second.commit().await.unwrap();
        client.flush(LONG).await;
        assert_eq!(n_of(&coll, 1).await, if commits { 11 } else { 2 });
    }
}

#[tokio::test]
async fn of_two_siblings_that_would_wait_for_each_other_one_fails_at_once() {
    let Siblings { coll, mut first, mut second, .. } = two(Duration::from_secs(600)).await;
    let start = Instant::now();
    let one = async {
        let done = coll.update_one(doc! {"_id": 2}, set(12)).session(&mut first).await;
        if done.is_ok() { first.commit().await } else { done.map(|_| ()) }
    };
    let other = async {
        let done = coll.update_one(doc! {"_id": 1}, set(21)).session(&mut second).await;
        if done.is_ok() { second.commit().await } else { done.map(|_| ()) }
    };
    let (one, other) = join(one, other).await;
    assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
    let refused = one.err().or(other.err()).unwrap();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert!(refused.to_string().contains("waits for this one"), "{refused}");
    assert!(start.elapsed() < Duration::from_secs(300), "found, not waited for: {:?}", start.elapsed());
}

#[tokio::test]
async fn a_document_that_a_sibling_has_only_inserted_is_not_there() {
    let Siblings { coll, mut first, mut second, .. } = two(LONG).await;
    coll.insert_one(&doc! {"_id": 7, "n": 0}).session(&mut first).await.unwrap();
    coll.update_one(doc! {"_id": 7}, set(1)).session(&mut first).await.unwrap();
    let seen = coll.update_one(doc! {"_id": 7}, set(2)).session(&mut second).await.unwrap();
    assert_eq!(seen.matched_count, 0);
    first.commit().await.unwrap();
    second.commit().await.unwrap();
    assert_eq!(n_of(&coll, 7).await, 1);
}

#[tokio::test]
async fn a_document_that_does_not_exist_has_no_holder() {
    let Siblings { coll, mut first, mut second, .. } = two(Duration::ZERO).await;
    for session in [&mut first, &mut second] {
        assert_eq!(coll.update_one(doc! {"_id": 99}, set(1)).session(session).await.unwrap().matched_count, 0);
    }
    first.commit().await.unwrap();
    second.commit().await.unwrap();
}

/// An update whose future is dropped while it waits, or a session that is dropped, leaves the way
/// free.
#[tokio::test]
async fn who_gives_up_blocks_no_other() {
    let Siblings { client, coll, mut first, mut second } = two(LONG).await;
    let waiting = coll.update_one(doc! {"_id": 1}, set(11)).session(&mut second).into_future();
    assert!(tokio::time::timeout(Duration::from_millis(20), waiting).await.is_err());
    first.commit().await.unwrap();
    drop(second);
    let mut third = client.session_with(TransactionOptions { lock_wait: LONG, ..TransactionOptions::default() });
    third.begin().unwrap();
    for id in [1, 2] {
        coll.update_one(doc! {"_id": id}, set(30)).session(&mut third).await.unwrap();
    }
    third.commit().await.unwrap();
    client.flush(LONG).await;
    assert_eq!((n_of(&coll, 1).await, n_of(&coll, 2).await), (30, 30));
}
