//! A look at the change stamps that the network swallows: who shares the looks of the client is not
//! kept waiting by it, nor by the future that was dropped while it waited for its answer.

use std::net::SocketAddr;

use bson::{Document, doc};
use mongotx::{Client, Collection, Isolation, Session, TransactionOptions};

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
async fn a_look_that_is_swallowed_or_dropped_keeps_nobody_waiting() {
    let server = testkit::shared_standalone().await.unwrap();
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
