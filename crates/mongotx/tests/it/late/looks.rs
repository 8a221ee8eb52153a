//! A look at the change stamps that the network swallows: it keeps no other transaction of the
//! client waiting, nor does the future that was dropped while it waited for the answer.

use std::{future::IntoFuture, net::SocketAddr};

use bson::{Document, doc};
use futures_util::future;
use mongotx::{Client, Collection, ErrorKind, Isolation, Session, TransactionOptions};

use super::{LIMIT, proxy::Proxy};
use crate::quiet;

/// A transaction that has read two documents, so that it takes looks to validate it.
async fn has_read_two(client: &Client, coll: &Collection<Document>) -> Session {
    let options = TransactionOptions { isolation: Some(Isolation::Snapshot), ..TransactionOptions::default() };
    let mut session = client.session_with(options);
    session.begin().unwrap();
    for id in [1, 2] {
        assert!(coll.find_one(doc! {"_id": id}).session(&mut session).await.unwrap().is_some());
    }
    session
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_that_is_swallowed_or_dropped_keeps_none_waiting() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let written = quiet::collection(&quiet::connect(quiet::options()).await, 2).await;
    let proxy = Proxy::to(SocketAddr::from(([127, 0, 0, 1], server.port()))).await;
    let client = Client::connect_with(&proxy.uri(), quiet::options()).await.unwrap();
    let coll = quiet::through(&client, &written);
    let mut sessions = [has_read_two(&client, &coll).await, has_read_two(&client, &coll).await];
    let [first, second] = &mut sessions;
    proxy.hold_after(0);
    {
        let validating = first.validate();
        tokio::pin!(validating);
        let held = tokio::select! {
            held = proxy.until_held() => held,
            _ = &mut validating => panic!("the look was not held"),
        };
        assert_eq!(held, "find", "the look");
        // A look that is not shared, with the first one still waiting.
        let beside = tokio::time::timeout(LIMIT, second.validate()).await;
        beside.expect("it waits for a look that is swallowed").unwrap();
    }
    // The first one is dropped now.
    let afterwards = tokio::time::timeout(LIMIT, second.validate()).await;
    afterwards.expect("it waits for a look that was dropped").unwrap();
    proxy.deliver().await;
    second.commit().await.unwrap();
}

/// Where others of its client wait for a transaction, its last look is sent behind the reads, in
/// the same write. A decision of a rival between the two is seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decision_between_a_question_and_the_look_behind_it_is_seen() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let rival = quiet::connect(quiet::options()).await;
    let rivals = quiet::collection(&rival, 4).await;
    let proxy = Proxy::to(SocketAddr::from(([127, 0, 0, 1], server.port()))).await;
    let client = Client::connect_with(&proxy.uri(), quiet::options()).await.unwrap();
    let coll = quiet::through(&client, &rivals);
    let options = TransactionOptions { isolation: Some(Isolation::Snapshot), ..TransactionOptions::default() };
    let mut session = client.session_with(options);
    session.begin().unwrap();
    let found = coll.find(doc! {"n": 1, "_id": {"$lt": 4}}).session(&mut session).await.unwrap();
    assert_eq!(found.try_collect().await.unwrap().len(), 3);
    let change = |field: &str| doc! {"$set": {field: 1}};
    coll.update_one(doc! {"_id": 3}, change("first")).session(&mut session).await.unwrap();
    let mut behind = client.session_with(TransactionOptions { lock_wait: LIMIT, ..TransactionOptions::default() });
    behind.begin().unwrap();
    coll.update_one(doc! {"_id": 4}, change("second")).session(&mut behind).await.unwrap();
    // It waits for the first one, which is of the same client, without a command.
    let mut waiting = coll.update_one(doc! {"_id": 3}, change("second")).session(&mut behind).into_future();
    assert!(future::poll_immediate(&mut waiting).await.is_none());

    let asked_of = &rivals.namespace().coll;
    assert_eq!(asked_of, "docs");
    proxy.hold_behind("docs", "txs");
    let meanwhile = async {
        assert_eq!(tokio::time::timeout(LIMIT, proxy.until_held()).await.unwrap(), "find", "the look");
        let mut session = rival.session();
        session.begin().unwrap();
        rivals.insert_one(&doc! {"_id": 0, "n": 1}).session(&mut session).await.unwrap();
        session.commit().await.unwrap();
        proxy.deliver().await;
    };
    let (committed, ()) = tokio::join!(session.commit(), meanwhile);
    assert_eq!(committed.unwrap_err().kind(), ErrorKind::Conflict);
    let metrics = client.metrics();
    assert_eq!((metrics.validation_questions, metrics.validations_disturbed), (2, 1));
    assert_eq!(metrics.looks_behind, 1, "the one that has shown it");
    waiting.await.unwrap();
    behind.commit().await.unwrap();
    assert_eq!(rivals.count_documents(doc! {"first": 1}).await.unwrap(), 0);
    assert_eq!(rivals.count_documents(doc! {"second": 1}).await.unwrap(), 2);
}
