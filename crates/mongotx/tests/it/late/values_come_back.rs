//! A validation whose second read takes long, while values come back: the answers are those that
//! were read, and of no one moment all the same. Only the looks at the change stamps can show that.

use std::net::SocketAddr;

use bson::{Document, doc};
use mongotx::{Client, Collection, ErrorKind, Isolation, Session, TransactionOptions};

use super::{LIMIT, proxy::Proxy};
use crate::quiet;

/// Both documents are given the value in one transaction: they are never different.
async fn set_both(client: &Client, colls: &[Collection<Document>; 2], n: i32) {
    let mut session = client.session();
    session.begin().unwrap();
    for coll in colls {
        coll.update_one(doc! {"_id": 1}, doc! {"$set": {"n": n}}).session(&mut session).await.unwrap();
    }
    session.commit().await.unwrap();
    assert!(client.flush(LIMIT).await, "not finished in time");
}

async fn count(coll: &Collection<Document>, session: &mut Session) -> u64 {
    coll.count_documents(doc! {"n": 2}).session(session).await.unwrap()
}

async fn torn_twice_in_the_same_way(isolation: Isolation) {
    let server = local_mongod::shared_standalone().await.unwrap();
    let writer = quiet::connect(quiet::options()).await;
    let written = [quiet::collection(&writer, 1).await, quiet::collection(&writer, 1).await];
    let proxy = Proxy::to(SocketAddr::from(([127, 0, 0, 1], server.port()))).await;
    let reader = Client::connect_with(&proxy.uri(), quiet::options()).await.unwrap();
    let read = written.each_ref().map(|coll| quiet::through(&reader, coll));
    let options = TransactionOptions { isolation: Some(isolation), ..TransactionOptions::default() };
    let mut session = reader.session_with(options);
    session.begin().unwrap();
    assert_eq!(count(&read[0], &mut session).await, 0);
    set_both(&writer, &written, 2).await;
    assert_eq!(count(&read[1], &mut session).await, 1, "it has seen two moments");
    set_both(&writer, &written, 1).await;
    // At snapshot the look and the first read pass. At serializable a probe for rivals precedes
    // each read.
    proxy.hold_after(if isolation == Isolation::Serializable { 4 } else { 2 });
    let committing = tokio::spawn(async move { session.commit().await });
    tokio::time::timeout(LIMIT, proxy.until_held()).await.unwrap();
    set_both(&writer, &written, 2).await;
    proxy.deliver().await;
    let refused = committing.await.unwrap().expect_err("what was read was never so");
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_torn_twice_in_the_same_way_is_not_committed_at_snapshot() {
    torn_twice_in_the_same_way(Isolation::Snapshot).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_torn_twice_in_the_same_way_is_not_committed_at_serializable() {
    torn_twice_in_the_same_way(Isolation::Serializable).await;
}
