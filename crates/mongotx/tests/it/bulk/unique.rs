//! Statements of a bulk under a unique index: one command with a question behind each, and what
//! becomes of them where another document has the key.

use std::collections::BTreeMap;

use bson::{Bson, Document, doc};
use futures_util::future::join_all;
use mongotx::{
    Client, ClientOptions, Collection, ErrorKind, FirstWrites, IndexModel, Isolation, Session, Step,
    TransactionOptions, WriteModel,
};

use super::LONG;
use crate::quiet;

fn set(id: i32, k: i32) -> WriteModel {
    WriteModel::UpdateOne { filter: doc! {"_id": id}, update: doc! {"$set": {"k": k}}.into(), upsert: false }
}

/// A statement that takes two to lock and to change.
fn set_and_push(id: i32, k: i32) -> WriteModel {
    let update = doc! {"$set": {"k": k}, "$push": {"list": k}}.into();
    WriteModel::UpdateOne { filter: doc! {"_id": id}, update, upsert: false }
}

fn replace(id: i32, k: i32) -> WriteModel {
    WriteModel::ReplaceOne { filter: doc! {"_id": id}, replacement: doc! {"k": k, "r": 1}, upsert: false }
}

fn upsert(id: i32, k: i32) -> WriteModel {
    WriteModel::UpdateOne { filter: doc! {"_id": id}, update: doc! {"$set": {"k": k}}.into(), upsert: true }
}

fn upsert_by_key(k: i32) -> WriteModel {
    let update = doc! {"$inc": {"n": 1}}.into();
    WriteModel::UpdateOne { filter: doc! {"k": k}, update, upsert: true }
}

/// The documents 1 to `count`, each with ten times its `_id` as a unique key.
async fn keyed(client: &Client, count: i32) -> Collection<Document> {
    let coll = quiet::collection(client, 0).await;
    coll.create_index(IndexModel::new(doc! {"k": 1}).unique(true)).await.unwrap();
    for id in 1..=count {
        coll.insert_one(&doc! {"_id": id, "k": 10 * id}).await.unwrap();
    }
    assert!(client.flush(LONG).await);
    coll
}

async fn place(count: i32) -> (Client, Collection<Document>, Session) {
    let client = quiet::connect(quiet::options()).await;
    let coll = keyed(&client, count).await;
    let session = client.session_with(TransactionOptions { lock_wait: LONG, ..TransactionOptions::default() });
    (client, coll, session)
}

/// The keys by `_id`.
async fn keys(client: &Client, coll: &Collection<Document>) -> Vec<(i32, i32)> {
    assert!(client.flush(LONG).await);
    let all = coll.find(doc! {}).sort(doc! {"_id": 1}).await.unwrap().try_collect().await.unwrap();
    all.iter().map(|one| (one.get_i32("_id").unwrap(), one.get_i32("k").unwrap())).collect()
}

fn each(count: i32, k: impl Fn(i32) -> i32) -> Vec<(i32, i32)> {
    (1..=count).map(|id| (id, k(id))).collect()
}

fn commands(some: &[(&str, u64)]) -> BTreeMap<String, u64> {
    some.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

fn places(error: &mongotx::Error) -> Vec<(usize, i32)> {
    error.write_errors().iter().map(|error| (error.index, error.code)).collect()
}

#[tokio::test]
async fn changes_of_keys_are_one_command() {
    let (client, coll, mut session) = place(10).await;
    for (change, can_stay) in [(set as fn(i32, i32) -> WriteModel, true), (set_and_push, false), (replace, false)] {
        // Keys that stay as they are, and others.
        for moved in [0, 1] {
            session.begin().unwrap();
            coll.insert_one(&doc! {"_id": 50, "k": 5}).session(&mut session).await.unwrap();
            let bulk = async {
                let all = (1..=10).map(|id| change(id, 10 * id + moved));
                let done = coll.bulk_write(all).session(&mut session).await.unwrap();
                let is_unchanged = moved == 0 && can_stay;
                assert_eq!((done.matched_count, done.modified_count), (10, if is_unchanged { 0 } else { 10 }));
                is_unchanged
            };
            let mut is_unchanged = false;
            let sent = quiet::commands_of(&client, async { is_unchanged = bulk.await }).await;
            // What stays as it was: the first goes alone, and the others lock and change apart.
            assert!(if is_unchanged { sent["update"] <= 4 } else { sent == commands(&[("update", 1)]) }, "{sent:?}");
            session.rollback().await.unwrap();
        }
    }
    assert_eq!(keys(&client, &coll).await, each(10, |id| 10 * id));
}

/// In their order: each document gets the key that the one before it has given up.
#[tokio::test]
async fn keys_that_statements_before_have_given_up_are_free() {
    for change in [set, set_and_push, replace] {
        let (client, coll, mut session) = place(4).await;
        session.begin().unwrap();
        coll.insert_one(&doc! {"_id": 5, "k": 50}).session(&mut session).await.unwrap();
        let chain = async {
            let all = [change(1, 11), change(2, 10), change(3, 20), change(4, 30)];
            let done = coll.bulk_write(all).session(&mut session).await.unwrap();
            assert_eq!((done.matched_count, done.modified_count), (4, 4));
        };
        assert_eq!(quiet::commands_of(&client, chain).await, commands(&[("update", 1)]));
        session.commit().await.unwrap();
        assert_eq!(keys(&client, &coll).await, [(1, 11), (2, 10), (3, 20), (4, 30), (5, 50)]);
    }
}

/// The other way round the first one is a duplicate, as it is one by one.
#[tokio::test]
async fn keys_that_statements_behind_give_up_are_taken() {
    for change in [set, set_and_push, replace] {
        for ordered in [true, false] {
            let (client, coll, mut session) = place(4).await;
            session.begin().unwrap();
            let all = [change(1, 11), change(3, 20), change(2, 21), change(4, 41)];
            let error = coll.bulk_write(all).ordered(ordered).session(&mut session).await.unwrap_err();
            assert_eq!(places(&error), [(1, 11_000)], "{error}");
            assert_eq!(error.progress().unwrap().matched, if ordered { 1 } else { 3 });
            session.commit().await.unwrap();
            let expected = if ordered { [11, 20, 30, 40] } else { [11, 21, 30, 41] };
            assert_eq!(keys(&client, &coll).await, each(4, |id| expected[id as usize - 1]), "{ordered}");
        }
    }
}

/// Two statements of the same bulk want one key: the second is refused by the mirrored index.
#[tokio::test]
async fn a_key_that_two_statements_want_is_the_first_ones() {
    for change in [set, set_and_push, replace] {
        for ordered in [true, false] {
            let (client, coll, mut session) = place(3).await;
            session.begin().unwrap();
            let all = [change(1, 7), change(2, 7), change(3, 8)];
            let error = coll.bulk_write(all).ordered(ordered).session(&mut session).await.unwrap_err();
            assert_eq!(places(&error), [(1, 11_000)], "{error}");
            session.commit().await.unwrap();
            let third = if ordered { 30 } else { 8 };
            assert_eq!(keys(&client, &coll).await, [(1, 7), (2, 20), (3, third)], "{ordered}");
        }
    }
}

/// What stands behind a document that a rival holds is given back, keys and all.
#[tokio::test]
async fn what_stands_behind_a_document_that_is_held_is_given_back() {
    let (client, coll, mut session) = place(4).await;
    let other = quiet::connect(quiet::options()).await;
    let theirs = quiet::through(&other, &coll);
    let mut rival = other.session();
    rival.begin().unwrap();
    theirs.update_one(doc! {"_id": 2}, doc! {"$set": {"n": 1}}).session(&mut rival).await.unwrap();
    session.begin().unwrap();
    let bulk = async {
        let all = [set(1, 11), set(2, 21), set(3, 31), set(4, 41)];
        coll.bulk_write(all).session(&mut session).await.unwrap()
    };
    let rivals = async {
        quiet::until_waiting(&client, 1).await;
        // The key of the third is free for others, and the document too.
        theirs.insert_one(&doc! {"_id": 6, "k": 31}).await.unwrap();
        theirs.delete_one(doc! {"_id": 6}).await.unwrap();
        theirs.update_one(doc! {"_id": 3}, doc! {"$set": {"n": 1}}).await.unwrap();
        rival.commit().await.unwrap();
    };
    let (done, ()) = tokio::time::timeout(LONG, async { tokio::join!(bulk, rivals) }).await.unwrap();
    assert_eq!((done.matched_count, done.modified_count), (4, 4));
    session.commit().await.unwrap();
    assert!(other.flush(LONG).await);
    assert_eq!(keys(&client, &coll).await, each(4, |id| 10 * id + 1));
}

/// A rival has a key that a statement wants: pending, or about to be given up. The statement waits.
#[tokio::test]
async fn a_key_that_a_rival_holds_is_waited_for() {
    for (theirs_to, committed, index) in
        [(31, true, Some(2)), (31, false, None), (55, true, None), (55, false, Some(2))]
    {
        let (client, coll, mut session) = place(5).await;
        let other = quiet::connect(quiet::options()).await;
        let theirs = quiet::through(&other, &coll);
        let mut rival = other.session();
        rival.begin().unwrap();
        theirs.update_one(doc! {"_id": 5}, doc! {"$set": {"k": theirs_to}}).session(&mut rival).await.unwrap();
        session.begin().unwrap();
        // Their new key, or the one that they have had.
        let wanted = if theirs_to == 31 { 31 } else { 50 };
        let bulk = async {
            let all = [set(1, 11), set(2, 21), set(3, wanted), set(4, 41)];
            coll.bulk_write(all).ordered(false).session(&mut session).await
        };
        let rivals = async {
            quiet::until_waiting(&client, 1).await;
            match committed {
                true => rival.commit().await.unwrap(),
                false => rival.rollback().await.unwrap(),
            };
        };
        let (done, ()) = tokio::time::timeout(LONG, async { tokio::join!(bulk, rivals) }).await.unwrap();
        let refused = done.as_ref().err().map(places).unwrap_or_default();
        assert_eq!(
            refused,
            index.map(|index| (index, 11_000)).into_iter().collect::<Vec<_>>(),
            "{theirs_to} {committed}"
        );
        session.commit().await.unwrap();
        assert!(other.flush(LONG).await);
        let third = if index.is_some() { 30 } else { wanted };
        let fifth = if committed { theirs_to } else { 50 };
        assert_eq!(keys(&client, &coll).await, [(1, 11), (2, 21), (3, third), (4, 41), (5, fifth)]);
    }
}

/// Keys that the update does not say are compared one by one, as before.
#[tokio::test]
async fn keys_that_depend_on_the_document_go_alone() {
    let (client, coll, mut session) = place(4).await;
    let add = |id: i32, by: i32| WriteModel::UpdateOne {
        filter: doc! {"_id": id},
        update: doc! {"$inc": {"k": by}}.into(),
        upsert: false,
    };
    session.begin().unwrap();
    let error = coll.bulk_write([add(1, 1), add(2, 10), add(3, 1)]).ordered(false).session(&mut session).await;
    assert_eq!(places(&error.unwrap_err()), [(1, 11_000)]);
    session.commit().await.unwrap();
    assert_eq!(keys(&client, &coll).await, [(1, 11), (2, 20), (3, 31), (4, 40)]);
}

/// Indexes of several fields, partial and sparse ones, arrays, and strings that a collation makes
/// equal.
#[tokio::test]
async fn keys_of_every_kind_of_index_are_compared() {
    let collation = doc! {"locale": "en", "strength": 2};
    let one = |field: &str| IndexModel::new(doc! {field: 1}).unique(true);
    let indexes = [
        (IndexModel::new(doc! {"a": 1, "b": 1}).unique(true), doc! {"a": 1, "b": 2}, doc! {"a": 1, "b": 3}),
        (one("a").sparse(true), doc! {"a": 1}, doc! {"b": 1}),
        (one("a"), doc! {"a": Bson::Null}, doc! {"a": 2}),
        (one("a"), doc! {"b": 1}, doc! {"a": 2}),
        (one("a"), doc! {"a": [1, 2]}, doc! {"a": [3, 4]}),
        (one("a.x"), doc! {"a": {"x": 1}}, doc! {"a": {"x": 2}}),
        (one("a").collation(collation), doc! {"a": "x"}, doc! {"a": "y"}),
        (one("a").partial_filter(doc! {"b": {"$gt": 5}}), doc! {"a": 1, "b": 6}, doc! {"a": 1, "b": 1}),
    ];
    for (index, taken, free) in indexes {
        let client = quiet::connect(quiet::options()).await;
        let coll = quiet::collection(&client, 0).await;
        let with = |id: i32, fields: &Document| {
            let mut document = doc! {"_id": id};
            document.extend(fields.clone());
            document
        };
        coll.create_index(index).await.unwrap();
        let other = |id: i32| match taken.get("a") {
            Some(Bson::Document(_)) => doc! {"a": {"x": 100 + id}},
            _ => doc! {"a": 100 + id},
        };
        coll.insert_many(&[with(1, &other(1)), with(2, &other(2)), with(3, &taken)]).await.unwrap();
        assert!(client.flush(LONG).await);
        let mut again = taken.clone();
        if again.get("a") == Some(&"x".into()) {
            again.insert("a", "X");
        }
        let replace = |id: i32, fields: &Document| WriteModel::ReplaceOne {
            filter: doc! {"_id": id},
            replacement: fields.clone(),
            upsert: true,
        };
        let mut session = client.session();
        for (first, second) in [(1, 2), (11, 12)] {
            session.begin().unwrap();
            coll.insert_one(&with(7, &other(7))).session(&mut session).await.unwrap();
            let error = coll
                .bulk_write([replace(first, &free), replace(second, &again)])
                .session(&mut session)
                .await
                .expect_err("a duplicate");
            assert_eq!(places(&error), [(1, 11_000)], "{taken}");
            let done = coll.bulk_write([8, 9].map(|id| replace(id, &other(id)))).session(&mut session);
            assert_eq!(done.await.unwrap().upserted_ids.len(), 2, "{taken}");
            session.rollback().await.unwrap();
        }
        assert!(client.flush(LONG).await);
    }
}

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

/// Outside transactions: one transaction of all, in which each is refused or done as it is alone.
#[tokio::test]
async fn writes_outside_are_one_transaction() {
    let (client, coll, _) = place(10).await;
    let told = |first: &FirstWrites| -> Vec<(usize, Option<i32>)> {
        first.not_done.iter().map(|(place, error)| (*place, error.as_ref().and_then(mongotx::Error::code))).collect()
    };
    let sent = quiet::commands_of(&client, async {
        let all: Vec<WriteModel> = (1..=10).map(|id| set(id, 10 * id + 1)).collect();
        let first = coll.write_first(&all, true).await.unwrap();
        assert_eq!((first.taken, first.result.modified_count, first.not_done.len()), (10, 10, 0));
        assert!(client.flush(LONG).await);
    });
    // The statements, the decision, the finishing, and what keeps the record short.
    let sent = sent.await.values().sum::<u64>();
    assert!(sent <= 6, "{sent}");
    for ordered in [true, false] {
        let (base, all) = (if ordered { 100 } else { 200 }, |base: i32| {
            vec![upsert(base, base), upsert(base + 1, 21), upsert(base + 2, base + 2), upsert(1, base + 3)]
        });
        let first = coll.write_first(&all(base), ordered).await.unwrap();
        assert_eq!((first.taken, told(&first)), (if ordered { 2 } else { 4 }, vec![(1, Some(11_000))]));
        let ids: Vec<(usize, Bson)> = first.result.upserted_ids.clone();
        let expected = if ordered { vec![(0, base.into())] } else { vec![(0, base.into()), (2, (base + 2).into())] };
        assert_eq!((ids, first.result.matched_count), (expected, u64::from(!ordered)));
    }
    // A rival is in the way: nothing is done, and none is taken.
    let other = quiet::connect(quiet::options()).await;
    let theirs = quiet::through(&other, &coll);
    let mut rival = other.session();
    rival.begin().unwrap();
    theirs.update_one(doc! {"_id": 5}, doc! {"$set": {"n": 1}}).session(&mut rival).await.unwrap();
    let before = coll.find_one(doc! {"_id": 4}).await.unwrap();
    let first = coll.write_first(&[set(4, 400), set(5, 500)], true).await.unwrap();
    assert_eq!((first.taken, first.not_done.len(), first.failed.is_none()), (0, 0, true));
    assert_eq!(client.metrics().waits, 0, "it holds what others may want");
    rival.rollback().await.unwrap();
    assert!(client.flush(LONG).await);
    assert_eq!(coll.find_one(doc! {"_id": 4}).await.unwrap(), before);
}

/// Keys that a bulk has given to documents are known to what reads and writes by key behind it.
#[tokio::test]
async fn keys_that_a_bulk_has_changed_are_those_of_the_transaction() {
    let (client, coll, mut session) = place(4).await;
    session.begin().unwrap();
    coll.bulk_write([set(1, 11), set(2, 10)]).session(&mut session).await.unwrap();
    let by_key = async |k: i32, session: &mut Session| {
        let found = coll.find_one(doc! {"k": k}).session(session).await.unwrap();
        found.map(|found| found.get_i32("_id").unwrap())
    };
    for (k, id) in [(10, Some(2)), (11, Some(1)), (20, None), (30, Some(3))] {
        assert_eq!(by_key(k, &mut session).await, id, "{k}");
    }
    let add =
        |k: i32| WriteModel::UpdateOne { filter: doc! {"k": k}, update: doc! {"$inc": {"n": k}}.into(), upsert: false };
    let done = coll.bulk_write([10, 11, 20, 30].map(add)).session(&mut session).await.unwrap();
    assert_eq!(done.matched_count, 3);
    session.commit().await.unwrap();
    assert!(client.flush(LONG).await);
    for (id, n) in [(1, 11), (2, 10), (3, 30)] {
        assert_eq!(coll.find_one(doc! {"_id": id}).await.unwrap().unwrap().get_i32("n").unwrap(), n, "{id}");
    }
}

/// What the last transaction of the client has exchanged, and not finished: the next one gives all
/// of it other keys.
#[tokio::test]
async fn keys_that_are_committed_and_not_finished_are_moved_on() {
    for change in [set, set_and_push, replace] {
        let gate = quiet::Gate::before(&[Step::BeforeFinish]);
        let client = quiet::connect(ClientOptions { hook: Some(gate.clone()), ..quiet::options() }).await;
        let coll = keyed(&client, 3).await;
        let mut session = client.session();
        gate.shut();
        session.begin().unwrap();
        coll.bulk_write([set(1, 5), set(2, 10), set(1, 20)]).session(&mut session).await.unwrap();
        session.commit().await.unwrap();
        session.begin().unwrap();
        let all = [change(1, 30), change(3, 20), change(2, 11)];
        let error = coll.bulk_write(all).ordered(false).session(&mut session).await.unwrap_err();
        assert_eq!(places(&error), [(0, 11_000), (1, 11_000)], "{error}");
        session.commit().await.unwrap();
        gate.open();
        assert_eq!(keys(&client, &coll).await, [(1, 20), (2, 11), (3, 30)]);
    }
}

/// The future of such writes is dropped at every step: all of them are done in the end or none, and
/// nothing stays locked.
#[tokio::test]
async fn writes_outside_that_are_dropped_are_done_as_a_whole_or_not_at_all() {
    for step in [Step::BeforeLock, Step::AfterLock, Step::BeforeDecision, Step::AfterDecision, Step::BeforeFinish] {
        let gate = quiet::Gate::before(&[step]);
        let client = quiet::connect(ClientOptions { hook: Some(gate.clone()), ..quiet::options() }).await;
        let coll = keyed(&client, 4).await;
        gate.shut();
        let all = [set(1, 11), set(2, 10), set(3, 31), upsert(7, 70)];
        tokio::select! {
            first = coll.write_first(&all, true) => assert_eq!((step, first.unwrap().taken), (Step::BeforeFinish, 4)),
            () = gate.until_held() => {}
        }
        gate.open();
        let done = [(1, 11), (2, 10), (3, 31), (4, 40), (7, 70)];
        let begun = std::time::Instant::now();
        loop {
            let found = keys(&client, &coll).await;
            let is_done = matches!(step, Step::BeforeDecision | Step::AfterDecision | Step::BeforeFinish);
            if found == done || !is_done && found == each(4, |id| 10 * id) {
                break;
            }
            // What is requested is decided a moment later.
            assert!(begun.elapsed() < LONG, "{step:?}: {found:?}");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        for id in 1..=4 {
            coll.update_one(doc! {"_id": id}, doc! {"$set": {"n": 1}}).await.unwrap();
        }
        client.shutdown().await.unwrap();
    }
}

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
