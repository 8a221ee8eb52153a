//! Upserts whose documents get keys of a unique index.

use bson::doc;
use mongotx::{ClientOptions, Step, WriteModel};

use super::{super::LONG, commands, keyed, keys, place, places, upsert, upsert_by_key};
use crate::quiet;

#[tokio::test]
async fn upserts_are_a_question_and_a_command() {
    let (client, coll, mut session) = place(5).await;
    session.begin().unwrap();
    coll.update_one(doc! {"_id": 5}, doc! {"$set": {"n": 1}}).session(&mut session).await.unwrap();
    let by_id = async {
        let all = [1, 2, 3, 11, 12, 13].map(|id| upsert(id, 10 * id + 1));
        let done = coll.bulk_write(all).session(&mut session).await.unwrap();
        assert_eq!((done.matched_count, done.upserted_ids.len()), (3, 3));
    };
    assert_eq!(quiet::commands_of(&client, by_id).await, commands(&[("update", 1), ("find", 1)]));
    session.commit().await.unwrap();
    assert!(client.flush(LONG).await);
    session.begin().unwrap();
    coll.update_one(doc! {"_id": 5}, doc! {"$set": {"n": 1}}).session(&mut session).await.unwrap();
    let by_key = async {
        let all = [11, 21, 31, 41, 42, 43].map(upsert_by_key);
        let done = coll.bulk_write(all).session(&mut session).await.unwrap();
        assert_eq!((done.matched_count, done.upserted_ids.len()), (3, 3));
        assert!(done.upserted_ids.iter().all(|(_, id)| id.as_object_id().is_some()));
    };
    assert_eq!(quiet::commands_of(&client, by_key).await, commands(&[("update", 1), ("find", 1)]));
    // Once more: they are its own now.
    let done = coll.bulk_write([41, 42, 44].map(upsert_by_key)).session(&mut session).await.unwrap();
    assert_eq!((done.matched_count, done.upserted_ids.len()), (2, 1));
    session.commit().await.unwrap();
    assert!(client.flush(LONG).await);
    let found = coll.find(doc! {"k": {"$gte": 41, "$lt": 50}}).sort(doc! {"k": 1}).await.unwrap();
    let found = found.try_collect().await.unwrap();
    let numbers = found.iter().map(|one| (one.get_i32("k").unwrap(), one.get_i32("n").unwrap()));
    assert_eq!(numbers.collect::<Vec<_>>(), [(41, 2), (42, 2), (43, 1), (44, 1)]);
}

/// The update gives the new document another key than the one that was looked for.
#[tokio::test]
async fn upserts_by_a_key_that_they_do_not_keep_go_alone() {
    let (client, coll, mut session) = place(3).await;
    let other = |k: i32, to: i32| WriteModel::UpdateOne {
        filter: doc! {"k": k},
        update: doc! {"$set": {"k": to}, "$setOnInsert": {"_id": to}}.into(),
        upsert: true,
    };
    session.begin().unwrap();
    let all = [other(41, 42), other(42, 43), other(44, 45), other(46, 10)];
    let error = coll.bulk_write(all).ordered(false).session(&mut session).await.unwrap_err();
    assert_eq!(places(&error), [(3, 11_000)], "{error}");
    session.commit().await.unwrap();
    assert_eq!(keys(&client, &coll).await, [(1, 10), (2, 20), (3, 30), (42, 43), (45, 45)]);
}

/// An upsert whose key another document has is refused at its place; what stands before it is done,
/// once, and nothing stays of it.
#[tokio::test]
async fn an_upsert_of_a_key_that_is_taken_is_refused_at_its_place() {
    for ordered in [true, false] {
        let (client, coll, mut session) = place(3).await;
        session.begin().unwrap();
        let all = [upsert(11, 110), upsert(12, 20), upsert(13, 130), upsert(1, 30), upsert(2, 21)];
        let error = coll.bulk_write(all).ordered(ordered).session(&mut session).await.unwrap_err();
        let refused = if ordered { vec![(1, 11_000)] } else { vec![(1, 11_000), (3, 11_000)] };
        assert_eq!(places(&error), refused, "{error}");
        assert_eq!(error.progress().unwrap().upserted, if ordered { 1 } else { 2 });
        session.commit().await.unwrap();
        let mut expected = vec![(1, 10), (2, if ordered { 20 } else { 21 }), (3, 30), (11, 110)];
        expected.extend((!ordered).then_some((13, 130)));
        assert_eq!(keys(&client, &coll).await, expected, "{ordered}");
    }
}

/// A client that stops between its query and its command, and another one that takes a key.
#[tokio::test]
async fn a_key_that_is_taken_behind_the_query_is_a_duplicate() {
    let gate = quiet::Gate::before(&[Step::BeforeLock]);
    let client = quiet::connect(ClientOptions { hook: Some(gate.clone()), ..quiet::options() }).await;
    let coll = keyed(&client, 3).await;
    let others = quiet::through(&quiet::connect(quiet::options()).await, &coll);
    let mut session = client.session();
    for by_key in [false, true] {
        let base = if by_key { 60 } else { 40 };
        session.begin().unwrap();
        gate.shut();
        let bulk = async {
            let some = |n: i32| if by_key { upsert_by_key(base + n) } else { upsert(base + n, base + n) };
            coll.bulk_write([1, 2, 3].map(some)).ordered(false).session(&mut session).await
        };
        let rival = async {
            gate.until_held().await;
            others.insert_one(&doc! {"_id": base + 100, "k": base + 2}).await.unwrap();
            gate.open();
        };
        let (done, ()) = tokio::time::timeout(LONG, async { tokio::join!(bulk, rival) }).await.unwrap();
        match by_key {
            // It is there now, and is changed.
            true => assert_eq!(done.unwrap().matched_count, 1),
            false => assert_eq!(places(&done.unwrap_err()), [(1, 11_000)]),
        }
        session.commit().await.unwrap();
        assert!(client.flush(LONG).await);
    }
}
