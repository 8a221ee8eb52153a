//! Updates and replacements that change keys of a unique index.

use bson::{Bson, Document, doc};
use mongotx::{ClientOptions, IndexModel, Session, Step, WriteModel};

use super::{super::LONG, commands, each, keyed, keys, place, places, replace, set, set_and_push};
use crate::quiet;

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
            // Documents that stay as they were: the first goes alone, and the others lock and
            // change apart.
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

/// Documents behind one that a rival holds are given back, keys and all.
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

/// Keys that the client's last transaction has exchanged and not finished: the next one gives all
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
