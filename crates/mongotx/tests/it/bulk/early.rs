//! Bulks that end early: a statement is refused, matches nothing, meets a rival or another name of
//! the same document. What stands before it is done once, and nothing of what stands behind it.

use std::collections::BTreeMap;

use bson::{Bson, Document, doc};
use mongotx::{Client, ClientOptions, Collection, IndexModel, Step, TransactionOptions, WriteModel};

use super::{LONG, add, add_by_key, numbers, place};
use crate::quiet;

/// A number of another type names the same document: what the transaction has written to it stays,
/// and is built upon.
#[tokio::test]
async fn own_documents_are_known_by_numbers_of_every_type() {
    let client = quiet::connect(quiet::options()).await;
    let coll = quiet::collection(&client, 0).await;
    coll.create_index(IndexModel::new(doc! {"w": 1, "i": 1}).unique(true)).await.unwrap();
    let documents: Vec<Document> = (1..=4).map(|id| doc! {"_id": id, "w": 1, "i": id, "n": 0}).collect();
    coll.insert_many(&documents).await.unwrap();
    let decimal: bson::Decimal128 = "2".parse().unwrap();
    let mut session = client.session();
    session.begin().unwrap();
    for own in [doc! {"_id": 1_i64}, doc! {"_id": decimal}] {
        let done = coll.update_one(own, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
        assert_eq!(done.matched_count, 1);
        let by_key = [add_by_key(1, 1, 10), add_by_key(1, 2, 10), add_by_key(1, 3, 10)];
        let done = coll.bulk_write(by_key).session(&mut session).await.unwrap();
        assert_eq!((done.matched_count, done.modified_count), (3, 3));
        let by_id = [add(1, 100), add(2, 100), add(3, 100)];
        let done = coll.bulk_write(by_id).session(&mut session).await.unwrap();
        assert_eq!((done.matched_count, done.modified_count), (3, 3));
        let done = coll.update_many(doc! {}, doc! {"$inc": {"n": 1000}}).session(&mut session).await.unwrap();
        assert_eq!((done.matched_count, done.modified_count), (4, 4));
    }
    session.commit().await.unwrap();
    assert_eq!(numbers(&client, &coll).await, [2221, 2221, 2220, 2000]);
}

/// Documents locked behind a statement that matched nothing are given back, and changed once,
/// whatever type of number names them.
#[tokio::test]
async fn what_is_given_back_is_known_by_numbers_of_every_type() {
    let client = quiet::connect(quiet::options()).await;
    let coll = quiet::collection(&client, 3).await;
    let decimal: bson::Decimal128 = "4".parse().unwrap();
    coll.insert_one(&doc! {"_id": decimal, "n": 1}).await.unwrap();
    let by = |id: bson::Bson| {
        let update = doc! {"$inc": {"n": 1}}.into();
        WriteModel::UpdateOne { filter: doc! {"_id": id}, update, upsert: false }
    };
    let remove = |id: bson::Bson| WriteModel::DeleteOne { filter: doc! {"_id": id} };
    let mut session = client.session();
    session.begin().unwrap();
    let all = [by(50.into()), by(1.0.into()), by(2_i64.into()), by(4.into()), by(1.into())];
    let done = coll.bulk_write(all).session(&mut session).await.unwrap();
    assert_eq!((done.matched_count, done.modified_count), (4, 4));
    session.commit().await.unwrap();
    assert_eq!(numbers(&client, &coll).await, [3, 2, 1, 2]);
    session.begin().unwrap();
    let all = [remove(50.into()), remove(1.0.into()), remove(4_i64.into()), remove(1.into())];
    assert_eq!(coll.bulk_write(all).session(&mut session).await.unwrap().deleted_count, 2);
    session.commit().await.unwrap();
    assert_eq!(numbers(&client, &coll).await, [2, 1]);
}

#[tokio::test]
async fn what_the_server_refuses_is_refused_at_its_place() {
    let (client, coll, mut session) = place().await;
    coll.create_index(IndexModel::new(doc! {"k": 1}).unique(true).sparse(true)).await.unwrap();
    for id in 1..=3 {
        coll.update_one(doc! {"_id": id}, doc! {"$set": {"k": id}}).await.unwrap();
    }
    let by = |filter: Document| WriteModel::UpdateOne { filter, update: doc! {"$inc": {"n": 1}}.into(), upsert: false };
    session.begin().unwrap();
    let all = [by(doc! {"k": 1}), by(doc! {"k": 2}), by(doc! {"k": 3, "x": {"$regex": "("}})];
    let refused = coll.bulk_write(all).session(&mut session).await.unwrap_err();
    assert_eq!(refused.write_errors().iter().map(|error| error.index).collect::<Vec<_>>(), [2]);
    assert_eq!(refused.progress().unwrap().modified, 2);
    session.commit().await.unwrap();
    assert_eq!(numbers(&client, &coll).await, [2, 2, 1, 1, 1, 1]);
}

#[tokio::test]
async fn ordered_updates_after_a_refused_one_are_not_made() {
    let (client, coll, mut session) = place().await;
    coll.update_one(doc! {"_id": 3}, doc! {"$set": {"n": "three"}}).await.unwrap();
    for ordered in [true, false] {
        session.begin().unwrap();
        let all = [add(1, 1), add(2, 1), add(3, 1), add(4, 1), add(5, 1)];
        let refused = coll.bulk_write(all).ordered(ordered).session(&mut session).await.unwrap_err();
        assert_eq!(refused.write_errors().iter().map(|error| error.index).collect::<Vec<_>>(), [2]);
        assert_eq!(refused.progress().unwrap().modified, if ordered { 2 } else { 4 });
        session.commit().await.unwrap();
    }
    assert_eq!(numbers(&client, &coll).await, [3, 3, -1, 2, 2, 1]);
}

#[tokio::test]
async fn updates_that_match_nothing_or_change_nothing_are_counted_as_such() {
    let (client, coll, mut session) = place().await;
    session.begin().unwrap();
    let same = WriteModel::UpdateOne { filter: doc! {"_id": 2}, update: doc! {"$set": {"n": 1}}.into(), upsert: false };
    let done = coll.bulk_write([add(1, 1), same, add(77, 1), add(3, 1)]).session(&mut session).await.unwrap();
    assert_eq!((done.matched_count, done.modified_count), (3, 2));
    session.commit().await.unwrap();
    assert_eq!(numbers(&client, &coll).await, [2, 1, 2, 1, 1, 1]);
}

/// A transaction that waits for the second must not hold the third: the rival wants that next.
#[tokio::test]
async fn what_comes_after_a_locked_document_is_given_back() {
    let (client, coll, mut session) = place().await;
    let other = quiet::connect(quiet::options()).await;
    let theirs = quiet::through(&other, &coll);
    let mut rival = other.session_with(TransactionOptions { lock_wait: LONG, ..TransactionOptions::default() });
    rival.begin().unwrap();
    theirs.update_one(doc! {"_id": 2}, doc! {"$inc": {"n": 10}}).session(&mut rival).await.unwrap();
    session.begin().unwrap();
    let bulk = async { coll.bulk_write([add(1, 1), add(2, 1), add(3, 1)]).session(&mut session).await.unwrap() };
    let rivals = async {
        quiet::until_waiting(&client, 1).await;
        theirs.update_one(doc! {"_id": 3}, doc! {"$inc": {"n": 10}}).session(&mut rival).await.unwrap();
        rival.commit().await.unwrap();
    };
    let (done, ()) = tokio::time::timeout(LONG, async { tokio::join!(bulk, rivals) }).await.unwrap();
    assert_eq!((done.matched_count, done.modified_count), (3, 3));
    session.commit().await.unwrap();
    assert!(other.flush(LONG).await);
    assert_eq!(numbers(&client, &coll).await, [2, 12, 12, 1, 1, 1]);
}

/// The second does not match: the others are sent together again, without a read that checks
/// whether the transaction still holds them.
#[tokio::test]
async fn what_comes_after_a_document_that_does_not_match_is_sent_together() {
    let (client, coll, mut session) = place().await;
    let unmatched = |id: i32| {
        let update = doc! {"$inc": {"n": 1}}.into();
        WriteModel::UpdateOne { filter: doc! {"_id": id, "n": 99}, update, upsert: false }
    };
    session.begin().unwrap();
    coll.bulk_write([add(5, 1), add(6, 1)]).session(&mut session).await.unwrap();
    let bulk = async {
        let all = [add(1, 1), unmatched(2), add(3, 1), add(4, 1)];
        let done = coll.bulk_write(all).session(&mut session).await.unwrap();
        assert_eq!((done.matched_count, done.modified_count), (3, 3));
    };
    let sent = quiet::commands_of(&client, bulk).await;
    // All four; what was locked behind the second is given back; the second alone, in one statement
    // and in two; the last two. One read finds out which are held, and another why the second is
    // not.
    let expected = BTreeMap::from([("update".to_owned(), 5), ("find".to_owned(), 2)]);
    assert_eq!(sent, expected);
    session.commit().await.unwrap();
    assert_eq!(numbers(&client, &coll).await, [2, 1, 2, 2, 2, 2]);
}

/// A bulk of which many do not match: most are sent one by one in the end, and not again and again
/// with all that are behind them.
#[tokio::test]
async fn bulk_that_ends_early_again_and_again_is_not_sent_as_often() {
    let client = quiet::connect(quiet::options()).await;
    let coll = quiet::collection(&client, 60).await;
    let mut session = client.session();
    session.begin().unwrap();
    let all = (1..=60).map(|id| {
        let filter = if id % 2 == 0 {
            doc! {"_id": id, "n": 99}
        } else {
            doc! {"_id": id}
        };
        WriteModel::UpdateOne { filter, update: doc! {"$inc": {"n": 1}}.into(), upsert: false }
    });
    let bulk = async {
        let done = coll.bulk_write(all).session(&mut session).await.unwrap();
        assert_eq!((done.matched_count, done.modified_count), (30, 30));
    };
    let given_back = quiet::commands_of(&client, bulk).await.get("update").copied().unwrap_or(0);
    // One for each that matches, two for each that does not, and two more for each of four that end
    // early.
    assert!(given_back <= 30 + 60 + 8 + 2, "{given_back}");
    session.commit().await.unwrap();
    assert_eq!(numbers(&client, &coll).await.iter().sum::<i32>(), 90);
}

/// Two names of one document: the one that matches has changed it, once.
#[tokio::test]
async fn equal_ids_of_other_types_are_distinguished_in_one_bulk() {
    let decimal: Bson = "1".parse::<bson::Decimal128>().unwrap().into();
    for [stored, other] in [[1.into(), decimal], [doc! {"a": 1}.into(), doc! {"a": 1.0}.into()]] {
        let (client, coll, mut session) = place().await;
        coll.delete_many(doc! {}).await.unwrap();
        coll.insert_many(&[doc! {"_id": &stored, "n": 1}, doc! {"_id": 2, "n": 1}]).await.unwrap();
        assert!(client.flush(LONG).await);
        session.begin().unwrap();
        let update = |id: &Bson, n: i32| {
            let update = doc! {"$inc": {"m": 1}}.into();
            WriteModel::UpdateOne { filter: doc! {"_id": id, "n": n}, update, upsert: false }
        };
        let all = [update(&stored, 99), update(&other, 1), update(&2.into(), 99)];
        let done = coll.bulk_write(all).session(&mut session).await.unwrap();
        assert_eq!((done.matched_count, done.modified_count), (1, 1), "{stored}");
        session.commit().await.unwrap();
        assert!(client.flush(LONG).await);
        let found = coll.find_one(doc! {"_id": &stored}).await.unwrap().unwrap();
        assert_eq!(found.get_i32("m").unwrap(), 1, "{stored}");
    }
}

/// The server gives a bulk up when it has done a part of it: nothing of that is done again, and
/// nothing of it stays.
#[tokio::test]
async fn bulk_that_the_server_interrupts_is_not_done_twice() {
    let options = local_mongod::ServerOptions::standalone().arg("--setParameter").arg("enableTestCommands=1");
    let server = options.start().await.unwrap();
    let admin = server.client().await.unwrap().database("admin");
    let client = Client::connect_with(&server.uri(), quiet::options()).await.unwrap();
    let coll: Collection<Document> = client.database("bulks").collection("c");
    coll.insert_many(&[1, 2, 3, 4].map(|id| doc! {"_id": id, "n": 1})).await.unwrap();
    for outside in [false, true] {
        // A bulk within a transaction waits before its third document, one outside before the last.
        let hang =
            doc! {"configureFailPoint": "hangDuringBatchUpdate", "mode": {"skip": 2}, "data": {"nss": "bulks.c"}};
        let mut session = client.session();
        session.begin().unwrap();
        coll.update_one(doc! {"_id": 4}, doc! {"$inc": {"n": 10}}).session(&mut session).await.unwrap();
        let entered = admin.run_command(hang).await.unwrap().get_i32("count").unwrap();
        // Of two shapes, so that each is a statement of its own.
        let other = WriteModel::UpdateOne {
            filter: doc! {"_id": 3},
            update: doc! {"$inc": {"n": 1, "m": 1}}.into(),
            upsert: false,
        };
        let all = [add(1, 1), add(2, 1), other];
        let bulk = coll.bulk_write(all);
        let killing = async {
            let wait =
                doc! {"waitForFailPoint": "hangDuringBatchUpdate", "timesEntered": entered + 1, "maxTimeMS": 60_000};
            admin.run_command(wait).await.unwrap();
            let mine = doc! {"$match": {"ns": "bulks.c", "op": {"$in": ["command", "update"]}, "failpointMsg": {"$exists": true}}};
            let mut found = admin.aggregate(vec![doc! {"$currentOp": {}}, mine]).await.unwrap();
            assert!(found.advance().await.unwrap(), "it waits");
            let op = found.deserialize_current().unwrap().get("opid").unwrap().clone();
            admin.run_command(doc! {"killOp": 1, "op": op}).await.unwrap();
            admin.run_command(doc! {"configureFailPoint": "hangDuringBatchUpdate", "mode": "off"}).await.unwrap();
        };
        let done = match outside {
            false => tokio::join!(bulk.session(&mut session), killing).0,
            true => tokio::join!(bulk, killing).0,
        };
        let error = done.unwrap_err();
        assert_eq!(error.code(), Some(11_601), "{error}");
        match outside {
            false => assert!(session.commit().await.is_err(), "its effect is not known"),
            true => session.commit().await.unwrap(),
        }
        // The rest of it is undone before the next one is counted.
        assert!(client.flush(LONG).await);
    }
    assert_eq!(numbers(&client, &coll).await, [1, 1, 1, 11]);
}

/// The server gives the one statement of a bulk up when it has locked some of its documents.
#[tokio::test]
async fn statement_that_the_server_interrupts_in_the_middle_leaves_nothing() {
    let options = local_mongod::ServerOptions::standalone().arg("--setParameter").arg("enableTestCommands=1");
    let server = options.arg("--setParameter").arg("internalQueryExecYieldIterations=1").start().await.unwrap();
    let admin = server.client().await.unwrap().database("admin");
    let gate = quiet::Gate::before(&[Step::BeforeUndo]);
    let with_gate = ClientOptions { hook: Some(gate.clone()), ..quiet::options() };
    let client = Client::connect_with(&server.uri(), with_gate).await.unwrap();
    let coll: Collection<Document> = client.database("bulks").collection("c");
    coll.insert_many(&[1, 2, 3, 4].map(|id| doc! {"_id": id, "n": 1})).await.unwrap();
    let mut session = client.session();
    session.begin().unwrap();
    coll.update_one(doc! {"_id": 4}, doc! {"$inc": {"n": 10}}).session(&mut session).await.unwrap();
    let hang =
        doc! {"configureFailPoint": "setYieldAllLocksHang", "mode": {"skip": 2}, "data": {"namespace": "bulks.c"}};
    let entered = admin.run_command(hang).await.unwrap().get_i32("count").unwrap();
    gate.shut();
    let bulk = coll.bulk_write([add(3, 1), add(2, 1), add(1, 1)]).session(&mut session);
    let killing = async {
        let wait = doc! {"waitForFailPoint": "setYieldAllLocksHang", "timesEntered": entered + 1, "maxTimeMS": 60_000};
        admin.run_command(wait).await.unwrap();
        let mine = doc! {"$match": {"ns": "bulks.c", "op": {"$in": ["command", "update"]}}};
        let mut found = admin.aggregate(vec![doc! {"$currentOp": {}}, mine]).await.unwrap();
        assert!(found.advance().await.unwrap(), "it waits");
        let op = found.deserialize_current().unwrap().get("opid").unwrap().clone();
        admin.run_command(doc! {"killOp": 1, "op": op}).await.unwrap();
        admin.run_command(doc! {"configureFailPoint": "setYieldAllLocksHang", "mode": "off"}).await.unwrap();
    };
    let (done, ()) = tokio::join!(bulk, killing);
    assert_eq!(done.unwrap_err().code(), Some(11_601));
    let stored = server.client().await.unwrap().database("bulks").collection::<Document>("c");
    let locked = stored.count_documents(doc! {"_xTxId": {"$exists": true}, "_id": {"$lt": 4}}).await.unwrap();
    assert!((1..3).contains(&locked), "{locked}");
    gate.open();
    assert!(session.commit().await.is_err(), "its effect is not known");
    assert!(client.flush(LONG).await);
    assert_eq!(numbers(&client, &coll).await, [1, 1, 1, 1]);
    coll.update_many(doc! {}, doc! {"$inc": {"n": 1}}).await.unwrap();
    assert_eq!(numbers(&client, &coll).await, [2, 2, 2, 2], "none of them is held");
}

/// Changes a document under its `_id`, and then under another one that is equal to it: by
/// `findAndModify`, or by an update, of a document that was read before or not.
async fn change_under_equal_ids(client: &Client, coll: &Collection<Document>, first: Bson, other: Bson) {
    let (own, equal) = (doc! {"_id": first.clone()}, doc! {"_id": other.clone()});
    for (is_read, is_shown) in [(false, true), (true, true), (true, false)] {
        let what = format!("{other}, read before: {is_read}, findAndModify: {is_shown}");
        coll.delete_many(doc! {}).await.unwrap();
        coll.insert_one(&doc! {"_id": first.clone(), "n": 0, "log": []}).await.unwrap();
        let mut session = client.session();
        session.begin().unwrap();
        if is_read {
            coll.find_one(own.clone()).session(&mut session).await.unwrap().unwrap();
        }
        let pushed = coll.update_one(own.clone(), doc! {"$push": {"log": 1}}).session(&mut session).await.unwrap();
        assert_eq!(pushed.modified_count, 1, "{what}");
        let more = doc! {"$inc": {"n": 1}};
        if is_shown {
            let before = coll.find_one_and_update(equal.clone(), more).session(&mut session).await.unwrap().unwrap();
            assert_eq!(before.get_array("log").unwrap().len(), 1, "{what}: {before}");
        } else {
            let done = coll.update_one(equal.clone(), more).session(&mut session).await.unwrap();
            assert_eq!((done.matched_count, done.modified_count), (1, 1), "{what}");
        }
        session.commit().await.unwrap();
        let stored = coll.find_one(doc! {}).await.unwrap().unwrap();
        assert_eq!(stored, doc! {"_id": first.clone(), "n": 1, "log": [1]}, "{what}");
    }
}

#[tokio::test]
async fn one_document_under_equal_ids_of_two_types_is_changed_each_time() {
    let client = quiet::connect(quiet::options()).await;
    let coll = quiet::collection(&client, 0).await;
    let decimal: bson::Decimal128 = "1".parse().unwrap();
    for other in [Bson::Int64(1), Bson::Double(1.0), Bson::Decimal128(decimal)] {
        change_under_equal_ids(&client, &coll, Bson::Int32(1), other.clone()).await;
        change_under_equal_ids(&client, &coll, doc! {"a": 1}.into(), doc! {"a": other}.into()).await;
    }
}
