//! Queries of a client that is alone beside what its own transactions have left, or are being
//! decided (decision 0077).

use super::{ALL, LIMIT, Reader, UNFINISHED, finishing_after, set, started, until_unprobed};

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use bson::{Document, doc};
use futures_util::future::join_all;
use mongotx::{Client, ClientOptions, Collection, IndexModel, Isolation, Session, Step, TransactionOptions};
use tokio::sync::watch;

use crate::quiet::{self, Gate, commands_of};

/// A reader whose commands are counted, and whose documents stay locked when they are committed.
async fn reader(hook: Option<Arc<Gate>>) -> (local_mongod::Server, Reader) {
    let server = started().await;
    let hook = hook.map(|gate| gate as Arc<dyn mongotx::StepHook>);
    let options = ClientOptions { count_commands: true, hook, ..finishing_after(UNFINISHED) };
    let reader = Reader::on(&server, options).await.alone().await;
    (server, reader)
}

/// Does something again until it answers true: a machine that stands still loses the lease.
async fn until_leased(reader: &Reader, mut is_done: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_done().await {
        assert!(begun.elapsed() < LIMIT, "never under a lease: {:?}", reader.client.metrics());
        assert!(reader.client.flush(LIMIT).await);
        until_unprobed(&reader.client, &reader.coll).await;
    }
}

async fn commit(reader: &Reader, ids: impl IntoIterator<Item = i32>, n: i32) {
    let mut session = reader.client.session();
    session.begin().unwrap();
    for id in ids {
        set(&reader.coll, &mut session, id, n).await;
    }
    session.commit().await.unwrap();
}

async fn change(reader: &Reader, id: i32, update: Document) {
    let mut session = reader.client.session();
    session.begin().unwrap();
    reader.coll.update_one(doc! {"_id": id}, update).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
}

/// `_id` and `n` of the documents whose key is at most this, by the key.
async fn up_to(coll: &Collection<Document>, k: i32) -> Vec<(i32, i32)> {
    let found = coll.find(doc! {"k": {"$lte": k}}).sort(doc! {"k": 1}).limit(50).await.unwrap();
    let found = found.try_collect().await.unwrap();
    found.iter().map(|one| (one.get_i32("_id").unwrap(), one.get_i32("n").unwrap())).collect()
}

#[tokio::test]
async fn what_is_left_is_shown_where_it_is_by_one_command() {
    let (_server, reader) = reader(None).await;
    let coll = &reader.coll;
    let one = BTreeMap::from([("find".to_owned(), 1)]);
    let mut n = 0;
    until_leased(&reader, async || {
        n += 1;
        commit(&reader, [1, 3], n).await;
        let sent = commands_of(&reader.client, async {
            assert_eq!(up_to(coll, 4).await, [(1, n), (2, 0), (3, n), (4, 0)]);
        });
        let whole = sent.await == one;
        let sent = commands_of(&reader.client, async {
            let shown = coll.find(doc! {"k": 3}).projection(doc! {"n": 1}).await.unwrap();
            assert_eq!(shown.try_collect().await.unwrap(), [doc! {"_id": 3, "n": n}]);
        });
        let projected = sent.await == one;
        let sent = commands_of(&reader.client, async {
            let hidden = coll.find(doc! {"k": {"$in": [1, 2]}}).projection(doc! {"k": 0}).sort(doc! {"k": -1});
            let hidden = hidden.await.unwrap().try_collect().await.unwrap();
            assert_eq!(hidden, [doc! {"_id": 2, "n": 0}, doc! {"_id": 1, "n": n}]);
        });
        whole && projected && sent.await == one
    })
    .await;
}

/// Changes of transactions that are not decided are not shown; versions that they have taken over
/// are.
#[tokio::test]
async fn of_documents_that_are_taken_over_the_committed_version_is_shown() {
    let (_server, reader) = reader(None).await;
    let unprobed = reader.client.metrics().unprobed;
    for n in 1..=20 {
        commit(&reader, [1, 2], n).await;
        let mut open = reader.client.session();
        open.begin().unwrap();
        set(&reader.coll, &mut open, 1, -n).await;
        assert_eq!(up_to(&reader.coll, 3).await, [(1, n), (2, n), (3, 0)]);
        open.rollback().await.unwrap();
        assert_eq!(up_to(&reader.coll, 3).await, [(1, n), (2, n), (3, 0)]);
    }
    assert!(reader.client.metrics().unprobed > unprobed, "none of that was under the lease");
}

#[tokio::test]
async fn the_nearest_are_shown_as_they_were_committed() {
    let (_server, reader) = reader(None).await;
    let coll = &reader.coll;
    coll.create_index(IndexModel::new(doc! {"place": "2dsphere"})).await.unwrap();
    for id in 1..=ALL {
        let place = doc! {"type": "Point", "coordinates": [f64::from(id) / 100.0, 0.0]};
        coll.update_one(doc! {"_id": id}, doc! {"$set": {"place": place}}).await.unwrap();
    }
    let near = doc! {"place": {"$near": {"$geometry": {"type": "Point", "coordinates": [0.0, 0.0]}}}};
    let nearest = async || {
        let found = coll.find(near.clone()).limit(3).await.unwrap().try_collect().await.unwrap();
        found.iter().map(|one| (one.get_i32("_id").unwrap(), one.get_i32("n").unwrap())).collect::<Vec<_>>()
    };
    let mut n = 0;
    until_leased(&reader, async || {
        n += 1;
        commit(&reader, [2], n).await;
        let sent = commands_of(&reader.client, async { assert_eq!(nearest().await, [(1, 0), (2, n), (3, 0)]) });
        sent.await == BTreeMap::from([("find".to_owned(), 1)])
    })
    .await;
    // A document that has moved is found where it is now.
    let place = doc! {"type": "Point", "coordinates": [0.0, 0.0]};
    change(&reader, 9, doc! {"$set": {"place": place}}).await;
    assert_eq!(nearest().await, [(9, 0), (1, 0), (2, n)]);
}

/// Changes that make a difference to which documents are found are finished first.
#[tokio::test]
async fn changes_of_what_is_asked_for_are_seen() {
    let (_server, reader) = reader(None).await;
    let Reader { client, coll } = &reader;
    let ids = async |filter: Document, sort: Document| {
        let found = coll.find(filter).sort(sort).limit(30).await.unwrap().try_collect().await.unwrap();
        found.iter().map(|one| one.get_i32("_id").unwrap()).collect::<Vec<_>>()
    };
    for round in 0..5 {
        let (n, k) = (100 + round, 1_000 + round);
        commit(&reader, [1], n).await;
        assert_eq!(ids(doc! {"n": n}, doc! {}).await, [1], "the filter");
        assert_eq!(ids(doc! {"n": {"$gte": 100}}, doc! {"n": -1}).await, [1]);
        assert_eq!(ids(doc! {"k": {"$lte": 2}}, doc! {"n": -1}).await, [1, 2], "the order");
        // An index that the server may use, although the query does not name its field.
        change(&reader, 2, doc! {"$set": {"k": k}}).await;
        assert_eq!(ids(doc! {"n": 0, "_id": {"$lte": 3}}, doc! {"_id": 1}).await, [2, 3]);
        assert_eq!(ids(doc! {"k": {"$gte": k}}, doc! {"k": 1}).await, [2]);
        change(&reader, 2, doc! {"$set": {"k": 2}}).await;
        let mut session = client.session();
        session.begin().unwrap();
        coll.insert_one(&doc! {"_id": 50, "k": 50, "n": 0}).session(&mut session).await.unwrap();
        coll.delete_one(doc! {"_id": 3}).session(&mut session).await.unwrap();
        session.commit().await.unwrap();
        assert_eq!(ids(doc! {"k": {"$in": [3, 50]}}, doc! {}).await, [50]);
        session.begin().unwrap();
        coll.insert_one(&doc! {"_id": 3, "k": 3, "n": 0}).session(&mut session).await.unwrap();
        coll.delete_one(doc! {"_id": 50}).session(&mut session).await.unwrap();
        session.commit().await.unwrap();
        assert_eq!(ids(doc! {"k": {"$in": [3, 50]}}, doc! {}).await, [3]);
        assert_eq!(coll.count_documents(doc! {"n": n}).await.unwrap(), 1);
        until_unprobed(client, coll).await;
    }
}

/// A transaction is decided between the permit and the query, or between the query and the look at
/// what has begun meanwhile: its two documents are shown as before it or as after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_decided_meanwhile_is_shown_as_a_whole() {
    for step in [Step::BeforeQueryBeside, Step::AfterQueryBeside] {
        for is_finished in [false, true] {
            let gate = Gate::before(&[step]);
            let (_server, reader) = reader(Some(gate.clone())).await;
            let mut n = 0;
            until_leased(&reader, async || {
                n += 1;
                // Something is left: otherwise the query goes in the usual way.
                commit(&reader, [5], n).await;
                let (before, in_vain) = (up_to(&reader.coll, 2).await[0].1, reader.client.metrics().unprobed_in_vain);
                gate.shut();
                let asking = tokio::spawn({
                    let coll = reader.coll.clone();
                    async move { up_to(&coll, 2).await }
                });
                let held = tokio::time::timeout(Duration::from_secs(2), gate.until_held()).await.is_ok();
                if held {
                    commit(&reader, [1, 2], n).await;
                    assert!(!is_finished || reader.client.flush(LIMIT).await);
                }
                gate.open();
                let seen = asking.await.unwrap();
                let whole = |n: i32| vec![(1, n), (2, n)];
                assert!(seen == whole(before) || seen == whole(n), "{step:?}, finished {is_finished}: {seen:?}");
                held && reader.client.metrics().unprobed_in_vain > in_vain
            })
            .await;
        }
    }
}

/// One document may be shown as a later transaction has left it: that is the state of a moment,
/// too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_document_that_is_changed_meanwhile_does_no_harm() {
    let gate = Gate::before(&[Step::BeforeQueryBeside]);
    let (_server, reader) = reader(Some(gate.clone())).await;
    let mut n = 0;
    until_leased(&reader, async || {
        n += 1;
        commit(&reader, [5], n).await;
        gate.shut();
        let before = reader.client.metrics();
        let asking = tokio::spawn({
            let coll = reader.coll.clone();
            async move { up_to(&coll, 2).await }
        });
        let held = tokio::time::timeout(Duration::from_secs(2), gate.until_held()).await.is_ok();
        if held {
            commit(&reader, [1, 7], n).await;
        }
        gate.open();
        let seen = asking.await.unwrap();
        assert!(seen.iter().all(|(id, seen)| *seen == 0 || *id == 1 && *seen <= n), "{seen:?}");
        let after = reader.client.metrics();
        held && (after.unprobed, after.unprobed_in_vain) == (before.unprobed + 1, before.unprobed_in_vain)
    })
    .await;
}

/// The server has decided, and the client does not know it: the query waits for the outcome, which
/// somebody may have been shown. A read that may be a little old does not go back behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_being_decided_is_waited_for() {
    let gate = Gate::before(&[Step::AfterDecision]);
    let (_server, reader) = reader(Some(gate.clone())).await;
    let a_little_old = async || {
        let found = reader.coll.find(doc! {"k": {"$lte": 2}}).sort(doc! {"k": 1}).max_staleness(LIMIT).await.unwrap();
        let found = found.try_collect().await.unwrap();
        found.iter().map(|one| one.get_i32("n").unwrap()).collect::<Vec<_>>()
    };
    let mut n = 0;
    until_leased(&reader, async || {
        assert_eq!(a_little_old().await, [n, 0]);
        n += 1;
        gate.shut();
        let deciding = tokio::spawn({
            let (client, coll) = (reader.client.clone(), reader.coll.clone());
            async move { commit(&Reader { client, coll }, [1, 7], n).await }
        });
        gate.until_held().await;
        let unprobed = reader.client.metrics().unprobed;
        assert_eq!(up_to(&reader.coll, 2).await, [(1, n), (2, 0)]);
        let was_beside = reader.client.metrics().unprobed > unprobed;
        assert!(!was_beside || a_little_old().await == [n, 0], "it goes back behind what was shown");
        let by_id = reader.coll.find_one(doc! {"_id": 1}).await.unwrap().unwrap();
        assert_eq!(by_id.get_i32("n").unwrap(), n, "the record says so");
        gate.open();
        deciding.await.unwrap();
        was_beside
    })
    .await;
}

/// Transactions that move an amount between two documents, and queries of all documents: the sum is
/// always the same, if the query was answered without a probe. (With one, a query at read committed
/// may show a part of what is decided meanwhile.) A client that only reads finishes what it meets.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_are_right_beside_transfers() {
    for delay in [Duration::from_millis(1), UNFINISHED] {
        let server = started().await;
        let reader = Reader::on(&server, finishing_after(delay)).await.alone().await;
        let beside = Client::connect_with(&server.uri(), quiet::options()).await.unwrap();
        let (stop, stopped) = watch::channel(false);
        let transfers = (0..2).map(|task| {
            let (client, coll, stopped) = (reader.client.clone(), reader.coll.clone(), stopped.clone());
            tokio::spawn(async move { transfer(&client, &coll, task, &stopped).await })
        });
        let transfers: Vec<_> = transfers.collect();
        let only_reads = tokio::spawn({
            let (coll, stopped) = (quiet::through(&beside, &reader.coll), stopped.clone());
            async move {
                while !*stopped.borrow() {
                    sum(&coll, ALL).await;
                }
            }
        });
        let (begun, unprobed) = (Instant::now(), reader.client.metrics().unprobed);
        let mut asked = 0;
        let is_leased = || reader.client.metrics().unprobed >= unprobed + 20;
        while asked < 400 || !is_leased() {
            let is_in_time = is_leased() || begun.elapsed() < LIMIT;
            assert!(is_in_time, "never under a lease: {:?}", reader.client.metrics());
            let before = reader.client.metrics().unprobed;
            let sum = sum(&reader.coll, ALL).await;
            let is_beside = reader.client.metrics().unprobed > before;
            assert!(sum == 0 || !is_beside, "{sum} after {asked} queries, finishing after {delay:?}");
            asked += 1;
        }
        stop.send_replace(true);
        join_all(transfers).await.into_iter().for_each(|done| done.unwrap());
        only_reads.await.unwrap();
        assert_eq!(sum(&reader.coll, ALL).await, 0);
    }
}

async fn sum(coll: &Collection<Document>, k: i32) -> i32 {
    up_to(coll, k).await.iter().map(|(_, n)| n).sum()
}

/// Moves amounts until it is stopped. Some are rolled back.
async fn transfer(client: &Client, coll: &Collection<Document>, task: i32, stopped: &watch::Receiver<bool>) {
    let mut session = client.session();
    let mut n = task;
    while !*stopped.borrow() {
        n += 7;
        let (from, to) = (n % ALL + 1, (n * 3 + task) % ALL + 1);
        if from != to && moved(coll, &mut session, from, to, n % 5 == 0).await.is_err() {
            drop(session.rollback().await);
        }
        // Queries are to find moments in which nothing is decided, too.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn moved(
    coll: &Collection<Document>,
    session: &mut Session,
    from: i32,
    to: i32,
    is_taken_back: bool,
) -> mongotx::Result<()> {
    session.begin_with(TransactionOptions { isolation: Some(Isolation::ReadCommitted), ..Default::default() })?;
    for (id, amount) in [(from, -1), (to, 1)] {
        coll.update_one(doc! {"_id": id}, doc! {"$inc": {"n": amount}}).session(session).await?;
    }
    if is_taken_back { session.rollback().await } else { session.commit().await }
}

/// By `_id` alone, also what has been inserted and removed is seen where it is.
#[tokio::test]
async fn by_id_what_has_come_and_gone_is_seen_by_one_command() {
    let (_server, reader) = reader(None).await;
    let coll = &reader.coll;
    let ids = async |limit: u64| {
        let found = coll.find(doc! {"_id": {"$gte": 0}}).sort(doc! {"_id": 1}).limit(limit).await.unwrap();
        let found = found.try_collect().await.unwrap();
        found.iter().map(|one| one.get_i32("_id").unwrap()).collect::<Vec<_>>()
    };
    until_leased(&reader, async || {
        let mut session = reader.client.session();
        session.begin().unwrap();
        coll.delete_one(doc! {"_id": 2}).session(&mut session).await.unwrap();
        coll.insert_one(&doc! {"_id": 0, "k": 0, "n": 0}).session(&mut session).await.unwrap();
        session.commit().await.unwrap();
        let mut open = reader.client.session();
        open.begin().unwrap();
        coll.delete_one(doc! {"_id": 3}).session(&mut open).await.unwrap();
        coll.insert_one(&doc! {"_id": 1_000, "k": 0, "n": 0}).session(&mut open).await.unwrap();
        let sent = commands_of(&reader.client, async { assert_eq!(ids(3).await, [0, 1, 3]) }).await;
        let all: Vec<i32> = [0, 1].into_iter().chain(3..=ALL).collect();
        assert_eq!(ids(50).await, all);
        open.rollback().await.unwrap();
        assert_eq!(ids(50).await, all);
        session.begin().unwrap();
        coll.delete_one(doc! {"_id": 0}).session(&mut session).await.unwrap();
        coll.insert_one(&doc! {"_id": 2, "k": 2, "n": 0}).session(&mut session).await.unwrap();
        session.commit().await.unwrap();
        assert_eq!(ids(50).await, (1..=ALL).collect::<Vec<_>>());
        sent == BTreeMap::from([("find".to_owned(), 1)])
    })
    .await;
    // More has gone than the query has to spare.
    reader.coll.delete_many(doc! {"_id": {"$lt": ALL}}).await.unwrap();
    assert_eq!(ids(1).await, [ALL]);
}

/// Documents that come where a query by `_id` does not look are no matter, however many they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_outside_the_range_makes_no_difference() {
    let gate = Gate::before(&[Step::BeforeQueryBeside]);
    let (_server, reader) = reader(Some(gate.clone())).await;
    let mut next = 10_000;
    for (is_outside, filter) in [(true, doc! {"$gte": 1, "$lte": 5}), (false, doc! {"$gte": 1})] {
        until_leased(&reader, async || {
            // Something is left, so that a query is sent beside it.
            commit(&reader, [7], next).await;
            gate.shut();
            let before = reader.client.metrics();
            let asking = tokio::spawn({
                let (coll, filter) = (reader.coll.clone(), filter.clone());
                async move {
                    let found = coll.find(doc! {"_id": filter}).sort(doc! {"_id": 1}).limit(80).await.unwrap();
                    found.try_collect().await.unwrap()
                }
            });
            let held = tokio::time::timeout(Duration::from_secs(2), gate.until_held()).await.is_ok();
            let mut session = reader.client.session();
            session.begin().unwrap();
            let more = [next, next + 1].map(|id| doc! {"_id": id, "k": 0, "n": 0});
            reader.coll.insert_many(&more).session(&mut session).await.unwrap();
            session.commit().await.unwrap();
            next += 2;
            gate.open();
            assert!(asking.await.unwrap().len() >= 5);
            let after = reader.client.metrics();
            let in_vain = u64::from(!is_outside);
            held && (after.unprobed, after.unprobed_in_vain)
                == (before.unprobed + 1 - in_vain, before.unprobed_in_vain + in_vain)
        })
        .await;
    }
}

/// Documents that are inserted and removed in pairs, and queries by `_id`: each pair is there or
/// not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pairs_come_and_go_together() {
    const PAIRS: i32 = 40;
    const OWN: i32 = 5_000;
    let server = started().await;
    for delay in [Duration::from_millis(1), UNFINISHED] {
        let reader = Reader::on(&server, finishing_after(delay)).await.alone().await;
        let (stop, stopped) = watch::channel(false);
        let tasks = (0..2).map(|task| {
            let (client, coll, stopped) = (reader.client.clone(), reader.coll.clone(), stopped.clone());
            tokio::spawn(async move {
                let mut session = client.session();
                for n in 0.. {
                    if *stopped.borrow() {
                        return;
                    }
                    let pair = 2 * (PAIRS / 2 * task + n % (PAIRS / 2));
                    drop(turned(&coll, &mut session, [1_000 + pair, 1_001 + pair]).await);
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            })
        });
        let tasks: Vec<_> = tasks.collect();
        let (begun, unprobed) = (Instant::now(), reader.client.metrics().unprobed);
        let mut asked = 0;
        let is_leased = || reader.client.metrics().unprobed >= unprobed + 20;
        while asked < 300 || !is_leased() {
            let is_in_time = is_leased() || begun.elapsed() < LIMIT;
            assert!(is_in_time, "never under a lease: {:?}", reader.client.metrics());
            // All of them, or the first ones from one on: then others lie outside.
            let (first, limit) = if asked % 2 == 0 { (1_000, 80) } else { (1_000 + asked % (2 * PAIRS) / 2 * 2, 4) };
            // In a transaction that has inserted a document, too, which stands behind all others.
            let mut session = reader.client.session();
            let is_own_view = asked % 3 == 0 && limit == 80;
            if is_own_view {
                session.begin().unwrap();
                reader.coll.insert_one(&doc! {"_id": OWN, "k": OWN, "n": 0}).session(&mut session).await.unwrap();
            }
            let before = reader.client.metrics().unprobed;
            let find = reader.coll.find(doc! {"_id": {"$gte": first}}).sort(doc! {"_id": 1}).limit(limit + 1);
            let find = if is_own_view { find.session(&mut session) } else { find };
            let found = find.await.unwrap().try_collect().await.unwrap();
            let mut ids: Vec<i32> = found.iter().map(|one| one.get_i32("_id").unwrap()).collect();
            if is_own_view {
                assert_eq!(ids.pop(), Some(OWN));
                session.rollback().await.unwrap();
            }
            ids.truncate(limit as usize);
            let is_whole = |pair: &[i32]| pair.len() == 2 && pair[0] % 2 == 0 && pair[1] == pair[0] + 1;
            // Other queries may be carried out in parts of the server's time, and show half of what
            // is committed meanwhile.
            let is_beside = reader.client.metrics().unprobed > before;
            let is_right = !is_beside || ids.chunks(2).all(is_whole);
            assert!(is_right, "{ids:?} after {asked} queries, finishing after {delay:?}");
            asked += 1;
        }
        stop.send_replace(true);
        join_all(tasks).await.into_iter().for_each(|done| done.unwrap());
        reader.client.shutdown().await.unwrap();
    }
}

/// Inserts both documents, or removes both if they are there.
async fn turned(coll: &Collection<Document>, session: &mut Session, ids: [i32; 2]) -> mongotx::Result<()> {
    session.begin()?;
    let is_there = coll.find_one(doc! {"_id": ids[0]}).session(&mut *session).await?.is_some();
    for id in ids {
        if is_there {
            coll.delete_one(doc! {"_id": id}).session(&mut *session).await?;
        } else {
            coll.insert_one(&doc! {"_id": id, "k": id, "n": 0}).session(&mut *session).await?;
        }
    }
    session.commit().await
}

/// An answer may be longer than what the server sends together by itself.
#[tokio::test]
async fn long_answers_come_together() {
    let (_server, reader) = reader(None).await;
    let coll = &reader.coll;
    let more: Vec<Document> = (100..400).map(|id| doc! {"_id": id, "k": id, "n": 0}).collect();
    coll.insert_many(&more).await.unwrap();
    let mut n = 0;
    until_leased(&reader, async || {
        n += 1;
        commit(&reader, [150], n).await;
        let sent = commands_of(&reader.client, async {
            for field in ["_id", "k"] {
                let found = coll.find(doc! {field: {"$gte": 100}}).sort(doc! {field: 1}).limit(250).await.unwrap();
                let found = found.try_collect().await.unwrap();
                assert_eq!(found.len(), 250);
                assert_eq!(found[50], doc! {"_id": 150, "k": 150, "n": n});
            }
        });
        sent.await == BTreeMap::from([("find".to_owned(), 2)])
    })
    .await;
}

/// A transaction sees its own inserts, changes and removals among what others have left, by the
/// query and the look at its own record.
#[tokio::test]
async fn a_transaction_sees_its_own_documents_by_one_query() {
    let (_server, reader) = reader(None).await;
    let coll = &reader.coll;
    let two = BTreeMap::from([("find".to_owned(), 1), ("aggregate".to_owned(), 1)]);
    let mut n = 0;
    until_leased(&reader, async || {
        n += 1;
        commit(&reader, [2, 3], n).await;
        let mut session = reader.client.session();
        session.begin().unwrap();
        coll.insert_one(&doc! {"_id": 0, "k": 0, "n": -n}).session(&mut session).await.unwrap();
        set(coll, &mut session, 3, -n).await;
        coll.find_one_and_update(doc! {"_id": 4}, doc! {"$set": {"n": 0}}).session(&mut session).await.unwrap();
        coll.delete_one(doc! {"_id": 5}).session(&mut session).await.unwrap();
        let mut seen = Vec::new();
        let sent = commands_of(&reader.client, async {
            let found = coll.find(doc! {"_id": {"$lte": 6}}).sort(doc! {"_id": -1}).limit(6).session(&mut session);
            seen = found.await.unwrap().try_collect().await.unwrap();
        });
        let is_one_query = sent.await == two;
        let with = |id: i32, n: i32| doc! {"_id": id, "k": id, "n": n};
        assert_eq!(seen, [with(6, 0), with(4, 0), with(3, -n), with(2, n), with(1, 0), with(0, -n)]);
        session.rollback().await.unwrap();
        is_one_query
    })
    .await;
}
