//! Stored bookkeeping does not grow (P7, P11): after 100,000 transactions there is one small record
//! and clean documents; a record stays small while a long transaction keeps its numbers, and when
//! most transactions are rolled back.

use crate::common;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use bson::{Document, doc};
use mongotx::{Client, Collection, Session};
use tokio::task::JoinSet;

use common::{LIMIT, until, verify::is_clean, world::World};

/// Number of transactions; `MONGOTX_GROWTH` may set another.
const TRANSACTIONS: usize = 5_000;
const TASKS: usize = 128;
/// A record of 1,000 listed numbers takes a little more than 20 bytes for each.
const RECORD_BYTES: usize = 64 * 1024;

async fn increment(coll: &Collection<Document>, session: &mut Session, id: i32) {
    coll.update_one(doc! {"_id": id}, doc! {"$inc": {"n": 1}}).session(session).await.unwrap();
}

/// One document's transactions, one after the other; every 50th is rolled back.
async fn increase(client: Client, coll: Collection<Document>, id: i32, left: Arc<AtomicUsize>) -> i32 {
    let (mut session, mut committed) = (client.session(), 0);
    while let Ok(n) = left.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1)) {
        session.begin().unwrap();
        increment(&coll, &mut session, id).await;
        if n % 50 == 0 {
            session.rollback().await.unwrap();
        } else {
            session.commit().await.unwrap();
            committed += 1;
        }
    }
    committed
}

/// Returns the size of the largest record ever seen, in bytes, and the highest number of records,
/// when it is stopped.
async fn watch(world: World, stop: Arc<AtomicBool>) -> (usize, usize) {
    let (mut bytes, mut records) = (0, 0);
    while !stop.load(SeqCst) {
        let stored = world.stored(&world.tx_db(), "txs").await;
        records = records.max(stored.len());
        bytes = stored.iter().map(|record| record.to_vec().unwrap().len()).max().unwrap_or(0).max(bytes);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    (bytes, records)
}

struct Growth {
    world: World,
    client: Client,
    coll: Collection<Document>,
}

impl Growth {
    async fn set_up(documents: i32) -> Self {
        let server = local_mongod::shared_standalone().await.unwrap();
        let world = World::new(&server.uri(), "growth");
        let client = world.client(3_000).await;
        let coll = world.collection(&client, "a");
        let documents: Vec<Document> = (0..documents).map(|id| doc! {"_id": id, "n": 0}).collect();
        world.raw().await.database(&world.db).collection("a").insert_many(documents).await.unwrap();
        Self { world, client, coll }
    }

    /// Runs that many transactions on that many documents; returns how many committed.
    async fn run(&self, transactions: usize, documents: i32) -> i32 {
        let left = Arc::new(AtomicUsize::new(transactions));
        let mut tasks = JoinSet::new();
        for id in 0..documents {
            tasks.spawn(increase(self.client.clone(), self.coll.clone(), id, Arc::clone(&left)));
        }
        tasks.join_all().await.into_iter().sum()
    }

    /// Every document is clean, and the numbers in them are those of the committed transactions.
    async fn assert_clean(&self, committed: i32) {
        assert!(self.client.flush(LIMIT).await);
        let documents = self.world.stored(&self.world.db, "a").await;
        assert!(documents.iter().all(is_clean), "{:?}", documents.iter().find(|document| !is_clean(document)));
        assert_eq!(documents.iter().map(|document| document.get_i32("n").unwrap()).sum::<i32>(), committed);
    }

    /// Nothing is listed any more, in at most one record that is not closed.
    async fn assert_records_settle(&self) {
        until("the records are settled", async || {
            let records = self.client.clients().await.unwrap();
            let open: Vec<_> = records.iter().filter(|record| !record.closed).collect();
            (open.len() <= 1 && records.iter().all(|record| record.committed.is_empty())).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_transactions_leave_small_records_and_clean_documents() {
    let total = std::env::var("MONGOTX_GROWTH").ok().and_then(|n| n.parse().ok()).unwrap_or(TRANSACTIONS);
    let growth = Growth::set_up(TASKS as i32).await;
    let stop = Arc::new(AtomicBool::new(false));
    let watcher = tokio::spawn(watch(growth.world.clone(), Arc::clone(&stop)));
    let begun = std::time::Instant::now();
    let committed = growth.run(total, TASKS as i32).await;
    println!("{total} transactions in {:?}", begun.elapsed());
    growth.assert_clean(committed).await;
    growth.assert_records_settle().await;
    stop.store(true, SeqCst);
    let (bytes, records) = watcher.await.unwrap();
    println!("the largest record had {bytes} bytes; there were {records}");
    assert!(bytes < RECORD_BYTES, "{bytes}");
    // A thousand rolled-back numbers make a new one; the old one is closed.
    assert!(records <= 2 + total / 50 / 500, "{records}");
    growth.client.shutdown().await.unwrap();
    let left = growth.world.stored(&growth.world.tx_db(), "txs").await;
    assert!(left.iter().all(|record| record.contains_key("closedAt")), "{left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_transaction_does_not_make_its_record_grow() {
    let growth = Growth::set_up(40).await;
    let mut long = growth.client.session();
    long.begin().unwrap();
    increment(&growth.coll, &mut long, 39).await;
    let first = long.id().unwrap().client;
    let committed = growth.run(2_500, 32).await;
    let stored = growth.world.stored(&growth.world.tx_db(), "txs").await;
    let largest = stored.iter().map(|record| record.to_vec().unwrap().len()).max().unwrap();
    assert!(largest < RECORD_BYTES, "{largest}");
    let records = growth.client.clients().await.unwrap();
    assert!(records.len() > 1 && records.iter().any(|record| record.id == first && !record.closed));
    assert_eq!(growth.coll.find_one(doc! {"_id": 39}).await.unwrap(), Some(doc! {"_id": 39, "n": 0}));
    long.commit().await.unwrap();
    growth.assert_clean(committed + 1).await;
    growth.assert_records_settle().await;
    let records = growth.client.clients().await.unwrap();
    assert!(records.iter().any(|record| record.id == first && record.closed), "{records:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_aborts_are_kept_apart_in_small_records() {
    let growth = Growth::set_up(32).await;
    let mut tasks = JoinSet::new();
    for id in 0..32 {
        let (client, coll) = (growth.client.clone(), growth.coll.clone());
        tasks.spawn(async move {
            let mut session = client.session();
            for _ in 0..80 {
                session.begin().unwrap();
                increment(&coll, &mut session, id).await;
                session.rollback().await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    growth.assert_clean(0).await;
    growth.client.shutdown().await.unwrap();
    let stored = growth.world.stored(&growth.world.tx_db(), "txs").await;
    let largest = stored.iter().map(|record| record.to_vec().unwrap().len()).max().unwrap();
    assert!(stored.len() > 1 && largest < RECORD_BYTES, "{} records, {largest} bytes", stored.len());
    growth.assert_records_settle().await;
}

/// Single calls leave nothing: those on several documents are transactions, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_outside_transactions_leave_nothing() {
    let growth = Growth::set_up(20).await;
    for n in 0..20 {
        growth.coll.update_many(doc! {"_id": {"$lt": 10}}, doc! {"$inc": {"n": 1}}).await.unwrap();
        growth.coll.update_one(doc! {"_id": n}, doc! {"$inc": {"n": 1}}).await.unwrap();
        growth.coll.insert_one(&doc! {"_id": 100 + n, "n": 0}).await.unwrap();
    }
    assert_eq!(growth.coll.delete_many(doc! {"_id": {"$gte": 100}}).await.unwrap(), 20);
    growth.assert_clean(20 * 10 + 20).await;
    growth.client.shutdown().await.unwrap();
    growth.assert_records_settle().await;
    let left = growth.world.stored(&growth.world.tx_db(), "txs").await;
    assert!(left.iter().all(|record| record.contains_key("closedAt")), "{left:?}");
}
