//! Several clients at once, whose bulks want the same keys.

use bson::{Document, doc};
use futures_util::future::join_all;
use mongotx::{Client, Collection, ErrorKind, Isolation, Session, TransactionOptions, WriteModel};

use super::{super::LONG, keys, place, set};
use crate::quiet;

/// Documents and keys of all clients, and rounds of each.
const SHARED: usize = 12;
const ROUNDS: usize = 14;

/// A client that upserts some keys by `_id` and by key, in bulks, and counts what was committed.
async fn upsert_beside_others(client: Client, coll: Collection<Document>, number: usize, isolation: Isolation) -> i64 {
    let options = TransactionOptions { isolation: Some(isolation), ..TransactionOptions::default() };
    let (mut session, mut added) = (client.session_with(options), 0);
    for round in 0..ROUNDS {
        for attempt in 0.. {
            assert!(attempt < 1_000, "client {number}, round {round}");
            session.begin().unwrap();
            let key = |place: usize| ((number * 5 + round * 7 + place) % SHARED) as i32;
            let models = (0..5).map(|place| match (number + round) % 3 {
                // Each key belongs to one `_id`.
                0 => WriteModel::UpdateOne {
                    filter: doc! {"_id": key(place)},
                    update: doc! {"$set": {"k": key(place)}, "$inc": {"n": 1}}.into(),
                    upsert: true,
                },
                _ => WriteModel::UpdateOne {
                    filter: doc! {"k": key(place)},
                    update: doc! {"$setOnInsert": {"_id": key(place)}, "$inc": {"n": 1}}.into(),
                    upsert: true,
                },
            });
            let done = match coll.bulk_write(models).ordered(round % 2 == 0).session(&mut session).await {
                Ok(done) => {
                    assert_eq!(done.matched_count + done.upserted_ids.len() as u64, 5);
                    session.commit().await
                }
                Err(error) => Err(error),
            };
            match done {
                Ok(()) => {
                    added += 5;
                    break;
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
            }
            session.rollback().await.ok();
            tokio::time::sleep(std::time::Duration::from_millis((number * 3 + attempt % 7) as u64)).await;
        }
    }
    added
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_upsert_the_same_keys_make_each_once_and_lose_nothing() {
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot] {
        let (client, coll, _) = place(0).await;
        let mut others = Vec::new();
        for number in 0..4 {
            let client = quiet::connect(quiet::options()).await;
            let coll = quiet::through(&client, &coll);
            others.push(tokio::spawn(upsert_beside_others(client, coll, number, isolation)));
        }
        let added = tokio::time::timeout(LONG * 5, join_all(others)).await.expect("they end");
        let added: i64 = added.into_iter().map(|one| one.unwrap()).sum();
        let found = keys(&client, &coll).await;
        assert_eq!(found, (0..SHARED as i32).map(|id| (id, id)).collect::<Vec<_>>());
        let all = coll.find(doc! {}).await.unwrap().try_collect().await.unwrap();
        assert_eq!(all.iter().map(|one| i64::from(one.get_i32("n").unwrap())).sum::<i64>(), added);
    }
}

/// Three documents pass their keys on, in one command, and the first takes the last key behind it.
async fn pass_on(coll: &Collection<Document>, session: &mut Session, ids: [i32; 3], spare: i32) -> mongotx::Result<()> {
    let mut keys = Vec::new();
    for id in ids {
        let found = coll.find_one(doc! {"_id": id}).session(session).await?;
        keys.push(found.unwrap().get_i32("k").unwrap());
    }
    let [a, b, c] = ids;
    let all = [set(a, spare), set(b, keys[0]), set(c, keys[1]), set(a, keys[2])];
    coll.bulk_write(all).session(session).await?;
    session.commit().await
}

/// Keys that several clients pass on by bulks stay unique, and none is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_exchange_keys_by_bulks_keep_them() {
    const DOCUMENTS: i32 = 7;
    let (client, coll, _) = place(DOCUMENTS).await;
    let exchange = async |number: i32| {
        let client = quiet::connect(quiet::options()).await;
        let coll = quiet::through(&client, &coll);
        let isolation = Some(if number == 0 { Isolation::Serializable } else { Isolation::Snapshot });
        let mut session = client.session_with(TransactionOptions { isolation, ..TransactionOptions::default() });
        for round in 0..12 {
            let ids = [0, 2, 3].map(|place| 1 + (number * 2 + round * 3 + place) % DOCUMENTS);
            for attempt in 0.. {
                assert!(attempt < 1_000, "client {number}, round {round}");
                session.begin().unwrap();
                match pass_on(&coll, &mut session, ids, -number - 1).await {
                    Ok(()) => break,
                    // A key that was read may have moved on since.
                    Err(error) if error.code() == Some(11_000) => {}
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
                }
                session.rollback().await.ok();
                tokio::time::sleep(std::time::Duration::from_millis((number * 3 + attempt % 5) as u64)).await;
            }
        }
    };
    let all = join_all((0..3).map(exchange));
    tokio::time::timeout(LONG * 3, all).await.expect("they end");
    let mut found: Vec<i32> = keys(&client, &coll).await.into_iter().map(|(_, k)| k).collect();
    found.sort_unstable();
    assert_eq!(found, (1..=DOCUMENTS).map(|id| 10 * id).collect::<Vec<_>>());
}
