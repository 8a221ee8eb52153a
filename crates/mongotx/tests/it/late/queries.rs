//! Queries that are sent as two `find`s in one write: which transactions have something pending,
//! and the answer (decision 0058).

use std::net::SocketAddr;

use bson::{Document, doc};
use mongotx::{Client, ClientOptions, Collection, Session, Step};

use super::{LIMIT, proxy::Proxy};
use crate::quiet::{self, Gate};

/// Limit of pending documents that the first of them lists.
const LISTED: i32 = 90;

/// `_id`s of the documents whose `n` is this, in their order.
async fn found(coll: &Collection<Document>, n: i32) -> Vec<i32> {
    let found = coll.find(doc! {"n": n}).sort(doc! {"_id": 1}).await.unwrap().try_collect().await.unwrap();
    found.iter().map(|document| document.get_i32("_id").unwrap()).collect()
}

async fn set_two(coll: &Collection<Document>, ids: std::ops::RangeInclusive<i32>, session: &mut Session) {
    let filter = doc! {"_id": {"$gte": ids.start(), "$lte": ids.end()}};
    let done = coll.update_many(filter, doc! {"$set": {"n": 2}}).session(session).await.unwrap();
    assert_eq!(done.modified_count, u64::from(ids.end().abs_diff(*ids.start())) + 1);
}

/// A client that has changed one document, has committed, and leaves that unfinished.
async fn commits_and_never_finishes(coll: &Collection<Document>, id: i32) -> Client {
    let gate = Gate::before(&[Step::BeforeFinish]);
    gate.shut();
    let options = ClientOptions { hook: Some(gate), ..quiet::options() };
    let client = quiet::connect(options).await;
    let coll = quiet::through(&client, coll);
    let mut session = client.session();
    session.begin().unwrap();
    set_two(&coll, id..=id, &mut session).await;
    session.commit().await.unwrap();
    client
}

/// More documents are pending than the probe lists, and some of the others are decided.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_decided_is_seen_behind_more_pending_documents_than_are_listed() {
    let reader = quiet::connect(quiet::options()).await;
    let coll = quiet::collection(&reader, LISTED + 20).await;
    // The pending documents of a collection are found in the order of their clients: one before,
    // one after the many.
    let _before = commits_and_never_finishes(&coll, LISTED + 10).await;
    let rival = quiet::connect(quiet::options()).await;
    let mut open = rival.session();
    open.begin().unwrap();
    set_two(&quiet::through(&rival, &coll), 1..=LISTED + 1, &mut open).await;
    let _after = commits_and_never_finishes(&coll, LISTED + 11).await;
    assert_eq!(found(&coll, 2).await, [LISTED + 10, LISTED + 11]);
    open.commit().await.unwrap();
    assert_eq!(found(&coll, 2).await.len(), 93);
}

/// The future is dropped when the first one is answered, and the second one is on its way: no query
/// takes its answer for another one's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn query_that_is_dropped_between_its_two_answers_disturbs_no_other() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let written = quiet::collection(&quiet::connect(quiet::options()).await, 3).await;
    let proxy = Proxy::to(SocketAddr::from(([127, 0, 0, 1], server.port()))).await;
    let client = Client::connect_with(&format!("{}&maxPoolSize=1", proxy.uri()), quiet::options()).await.unwrap();
    let coll = quiet::through(&client, &written);
    assert_eq!(found(&coll, 1).await, [1, 2, 3]);
    proxy.hold_after(1);
    let held = tokio::select! {
        held = tokio::time::timeout(LIMIT, proxy.until_held()) => held.unwrap(),
        _ = found(&coll, 1) => panic!("the answer was not held"),
    };
    assert_eq!(held, "find", "the answer");
    let next = tokio::time::timeout(LIMIT, found(&coll, 2)).await;
    assert_eq!(next.expect("it waits for a query that was dropped"), Vec::<i32>::new());
    proxy.deliver().await;
    assert_eq!((found(&coll, 2).await, found(&coll, 1).await), (Vec::new(), vec![1, 2, 3]));
}
