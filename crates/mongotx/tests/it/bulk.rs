//! Updates of several documents that a bulk write sends together: in order, whatever becomes of
//! them.

use crate::quiet;

use std::{collections::BTreeMap, time::Duration};

use bson::{Bson, Document, doc};
use mongotx::{
    Client, ClientOptions, Collection, IndexModel, Isolation, Session, Step, TransactionOptions, WriteModel,
};

const LONG: Duration = Duration::from_secs(30);

fn add(id: i32, amount: i32) -> WriteModel {
    WriteModel::UpdateOne { filter: doc! {"_id": id}, update: doc! {"$inc": {"n": amount}}.into(), upsert: false }
}

async fn place() -> (Client, Collection<Document>, Session) {
    let client = quiet::connect(quiet::options()).await;
    let coll = quiet::collection(&client, 6).await;
    let session = client.session_with(TransactionOptions { lock_wait: LONG, ..TransactionOptions::default() });
    (client, coll, session)
}

async fn numbers(client: &Client, coll: &Collection<Document>) -> Vec<i32> {
    assert!(client.flush(LONG).await);
    let all = coll.find(doc! {}).sort(doc! {"_id": 1}).await.unwrap().try_collect().await.unwrap();
    all.iter().map(|document| document.get_i32("n").unwrap_or(-1)).collect()
}

#[tokio::test]
async fn updates_by_id_are_one_command_until_one_is_not_for_one_statement() {
    let (client, coll, mut session) = place().await;
    session.begin().unwrap();
    coll.update_one(doc! {"_id": 6}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
    let before: u64 = client.metrics().commands.values().sum();
    let done = coll.bulk_write([add(1, 1), add(2, 2), add(3, 3)]).session(&mut session).await.unwrap();
    assert_eq!((done.matched_count, done.modified_count), (3, 3));
    assert_eq!(client.metrics().commands.values().sum::<u64>() - before, 1);
    // One of them again, and one that is held: each takes the way of single documents, after those
    // before it.
    let done = coll.bulk_write([add(4, 1), add(5, 1), add(1, 1), add(6, 1)]).session(&mut session).await.unwrap();
    assert_eq!((done.matched_count, done.modified_count), (4, 4));
    session.commit().await.unwrap();
    assert_eq!(numbers(&client, &coll).await, [3, 3, 4, 2, 2, 3]);
}

#[tokio::test]
async fn removals_are_sent_with_the_updates_beside_them() {
    let (client, coll, mut session) = place().await;
    let remove = |id: i32| WriteModel::DeleteOne { filter: doc! {"_id": id} };
    session.begin().unwrap();
    let together = async {
        let done = coll.bulk_write([add(1, 1), remove(2), add(3, 3), remove(4)]).session(&mut session).await.unwrap();
        assert_eq!((done.matched_count, done.modified_count, done.deleted_count), (2, 2, 2));
    };
    // The first write of a transaction puts it into a record that is there.
    let sent = quiet::commands_of(&client, together).await;
    assert_eq!(sent.get("update"), Some(&1), "{sent:?}");
    // One that is gone, one that was changed, and one that is not there.
    let done = coll.bulk_write([remove(2), remove(1), remove(50), remove(5)]).session(&mut session).await.unwrap();
    assert_eq!(done.deleted_count, 2);
    assert_eq!(coll.count_documents(doc! {}).session(&mut session).await.unwrap(), 2);
    session.rollback().await.unwrap();
    assert_eq!(numbers(&client, &coll).await, [1; 6]);
    session.begin().unwrap();
    coll.bulk_write([remove(1), remove(2), add(3, 3)]).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    assert_eq!(numbers(&client, &coll).await, [4, 1, 1, 1]);
}

fn push(id: i32) -> WriteModel {
    WriteModel::UpdateOne { filter: doc! {"_id": id}, update: doc! {"$push": {"list": id}}.into(), upsert: false }
}

fn replace(id: i32, n: i32) -> WriteModel {
    WriteModel::ReplaceOne { filter: doc! {"_id": id}, replacement: doc! {"n": n}, upsert: false }
}

/// The list of each document, which has its `_id` once for each time that it was pushed.
async fn lists(client: &Client, coll: &Collection<Document>) -> Vec<Vec<i32>> {
    assert!(client.flush(LONG).await);
    let all = coll.find(doc! {}).sort(doc! {"_id": 1}).await.unwrap().try_collect().await.unwrap();
    let list = |one: &Document| one.get_array("list").map_or_else(|_| Vec::new(), |list| list.clone());
    all.iter().map(|one| list(one).iter().filter_map(Bson::as_i32).collect()).collect()
}

/// What one statement cannot do takes two for each document, and one command for all.
#[tokio::test]
async fn changes_of_every_kind_are_one_command() {
    let (client, coll, mut session) = place().await;
    let many = |id: i32, update: Document| WriteModel::UpdateMany {
        filter: doc! {"_id": id},
        update: update.into(),
        upsert: false,
    };
    let pipeline = |id: i32| WriteModel::UpdateOne {
        filter: doc! {"_id": id, "n": 1},
        update: vec![doc! {"$set": {"n": {"$multiply": ["$n", 10]}}}].into(),
        upsert: false,
    };
    session.begin().unwrap();
    coll.update_one(doc! {"_id": 6}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
    let together = async {
        let remove = WriteModel::DeleteMany { filter: doc! {"_id": 5} };
        let all = [push(1), replace(2, 7), pipeline(3), many(4, doc! {"$inc": {"n": 1}}), remove];
        let done = coll.bulk_write(all).session(&mut session).await.unwrap();
        assert_eq!((done.matched_count, done.modified_count, done.deleted_count), (4, 4, 1));
    };
    let sent = quiet::commands_of(&client, together).await;
    assert_eq!(sent, BTreeMap::from([("update".to_owned(), 1)]));
    session.commit().await.unwrap();
    assert_eq!(numbers(&client, &coll).await, [1, 7, 10, 2, 2]);
    assert_eq!(lists(&client, &coll).await[0], [1]);
}

/// Of documents that have already what they are to be given, none is sent alone but the first.
#[tokio::test]
async fn documents_that_stay_as_they_are_go_together() {
    let (client, coll, mut session) = place().await;
    let set = |id: i32, n: i32| WriteModel::UpdateOne {
        filter: doc! {"_id": id},
        update: doc! {"$set": {"n": n}}.into(),
        upsert: false,
    };
    session.begin().unwrap();
    let sets = async {
        let all = [set(1, 1), set(2, 1), set(3, 5), set(4, 1), set(5, 1), set(6, 6)];
        let done = coll.bulk_write(all).session(&mut session).await.unwrap();
        assert_eq!((done.matched_count, done.modified_count), (6, 2));
    };
    let sent = quiet::commands_of(&client, sets).await;
    // All; what was locked behind the first is given back; the first in one statement, and in two;
    // the others in two each.
    assert_eq!(sent.get("update"), Some(&5), "{sent:?}");
    session.rollback().await.unwrap();
    session.begin().unwrap();
    let replaced = async {
        let all = [replace(1, 1), replace(2, 2), replace(3, 1)];
        let done = coll.bulk_write(all).session(&mut session).await.unwrap();
        assert_eq!((done.matched_count, done.modified_count), (3, 1));
    };
    let sent = quiet::commands_of(&client, replaced).await;
    assert_eq!(sent.get("update"), Some(&1), "{sent:?}");
    session.commit().await.unwrap();
    assert_eq!(numbers(&client, &coll).await, [1, 2, 1, 1, 1, 1]);
}

/// A change that the server refuses: its document was locked, and is given back; what stands before
/// it is done, once.
#[tokio::test]
async fn change_that_is_refused_behind_its_lock_is_not_made() {
    for ordered in [true, false] {
        let (client, coll, mut session) = place().await;
        let other = quiet::connect(quiet::options()).await;
        let theirs = quiet::through(&other, &coll);
        coll.update_one(doc! {"_id": 3}, doc! {"$set": {"list": "none"}}).await.unwrap();
        session.begin().unwrap();
        let all = [push(1), push(2), push(3), push(4), push(5)];
        let refused = coll.bulk_write(all).ordered(ordered).session(&mut session).await.unwrap_err();
        assert_eq!(refused.write_errors().iter().map(|error| error.index).collect::<Vec<_>>(), [2]);
        let done = refused.progress().unwrap();
        let expected = if ordered { 2 } else { 4 };
        assert_eq!((done.matched, done.modified), (expected, expected));
        // Nobody holds what stands behind it.
        if ordered {
            theirs.update_one(doc! {"_id": 4}, doc! {"$inc": {"n": 1}}).await.unwrap();
        }
        session.commit().await.unwrap();
        let pushed = |id: i32| if id == 3 || (ordered && id > 3) || id == 6 { vec![] } else { vec![id] };
        assert_eq!(lists(&client, &coll).await, (1..=6).map(pushed).collect::<Vec<_>>(), "{ordered}");
    }
}

/// A rival holds the third document. What has stayed as it was stands on both sides of it, so that
/// the totals do not tell what stands in front: all of it is given back, and made one by one.
#[tokio::test]
async fn numbers_that_the_totals_do_not_tell_are_found_out() {
    for (before, behind, modified) in [(1, 5, 2), (5, 1, 2), (1, 1, 1), (5, 5, 3)] {
        let (client, coll, mut session) = place().await;
        let other = quiet::connect(quiet::options()).await;
        let theirs = quiet::through(&other, &coll);
        let mut rival = other.session();
        rival.begin().unwrap();
        theirs.update_one(doc! {"_id": 2}, doc! {"$inc": {"n": 10}}).session(&mut rival).await.unwrap();
        session.begin().unwrap();
        let bulk = async {
            let all = [replace(1, before), replace(2, 5), replace(3, behind)];
            coll.bulk_write(all).session(&mut session).await.unwrap()
        };
        let rivals = async {
            quiet::until_waiting(&client, 1).await;
            theirs.update_one(doc! {"_id": 3}, doc! {"$set": {"m": 1}}).await.unwrap();
            theirs.update_one(doc! {"_id": 3}, doc! {"$unset": {"m": 1}}).await.unwrap();
            rival.commit().await.unwrap();
        };
        let (done, ()) = tokio::time::timeout(LONG, async { tokio::join!(bulk, rivals) }).await.unwrap();
        assert_eq!((done.matched_count, done.modified_count), (3, modified), "{before} {behind}");
        session.commit().await.unwrap();
        assert!(other.flush(LONG).await);
        assert_eq!(numbers(&client, &coll).await, [before, 5, behind, 1, 1, 1]);
    }
}

/// The place in an array that the filter has found is found in the copy.
#[tokio::test]
async fn places_in_arrays_are_those_of_the_copy() {
    let (client, coll, mut session) = place().await;
    for id in 1..=3 {
        coll.update_one(doc! {"_id": id}, doc! {"$set": {"list": [1, 2, 3]}}).await.unwrap();
    }
    session.begin().unwrap();
    let positional = |id: i32| WriteModel::UpdateOne {
        filter: doc! {"_id": id, "list": 2},
        update: doc! {"$set": {"list.$": 20}}.into(),
        upsert: false,
    };
    let sent = quiet::commands_of(&client, async {
        let done = coll.bulk_write([1, 2, 3].map(positional)).session(&mut session).await.unwrap();
        assert_eq!((done.matched_count, done.modified_count), (3, 3));
    });
    assert_eq!(sent.await.get("update"), Some(&1));
    session.commit().await.unwrap();
    assert_eq!(lists(&client, &coll).await[..3], [[1, 20, 3], [1, 20, 3], [1, 20, 3]]);
}

/// Values that the filter demands beside the `_id` are demanded by an expression where that means
/// the same, and by the filter where it does not.
#[tokio::test]
async fn values_beside_the_id_are_demanded_as_filters_mean_them() {
    let (client, coll, mut session) = place().await;
    let was: Vec<bson::Bson> =
        vec![5.into(), 5_i64.into(), 5.0.into(), bson::bson!([4, 5]), bson::Bson::Null, "5".into()];
    for (id, was) in (1..).zip(&was) {
        coll.update_one(doc! {"_id": id}, doc! {"$set": {"was": was.clone()}}).await.unwrap();
    }
    let demanded = |wanted: &bson::Bson| -> Vec<WriteModel> {
        let filter = |id: i32| doc! {"_id": id, "was": wanted.clone()};
        let update = || doc! {"$inc": {"n": 1}}.into();
        (1..=6).map(|id| WriteModel::UpdateOne { filter: filter(id), update: update(), upsert: false }).collect()
    };
    let cases: [(bson::Bson, [i32; 6]); 4] = [
        (5.into(), [2, 2, 2, 2, 1, 1]),
        (bson::Bson::Null, [1, 1, 1, 1, 2, 1]),
        ("5".into(), [1, 1, 1, 1, 1, 2]),
        (bson::bson!([4, 5]), [1, 1, 1, 2, 1, 1]),
    ];
    for (wanted, expected) in cases {
        for bulk in [true, false] {
            session.begin().unwrap();
            let mut matched = 0;
            let models = demanded(&wanted);
            let runs: Vec<&[WriteModel]> = if bulk { vec![&models] } else { models.chunks(1).collect() };
            for run in runs {
                matched += coll.bulk_write(run.to_vec()).session(&mut session).await.unwrap().matched_count;
            }
            let found = coll.find(doc! {}).sort(doc! {"_id": 1}).session(&mut session).await.unwrap();
            let found: Vec<i32> =
                found.try_collect().await.unwrap().iter().map(|document| document.get_i32("n").unwrap()).collect();
            session.rollback().await.unwrap();
            assert_eq!(found, expected, "{wanted}, bulk: {bulk}");
            assert_eq!(matched, expected.iter().filter(|n| **n == 2).count() as u64, "{wanted}, bulk: {bulk}");
        }
    }
    assert!(client.flush(LONG).await);
}

fn add_by_key(warehouse: i32, item: impl Into<bson::Bson>, amount: i32) -> WriteModel {
    let filter = doc! {"w": warehouse, "i": item.into()};
    WriteModel::UpdateOne { filter, update: doc! {"$inc": {"n": amount}}.into(), upsert: false }
}

#[tokio::test]
async fn updates_by_the_keys_of_a_unique_index_are_two_commands() {
    let client = quiet::connect(quiet::options()).await;
    let coll = quiet::collection(&client, 0).await;
    coll.create_index(IndexModel::new(doc! {"w": 1, "i": 1}).unique(true)).await.unwrap();
    let documents: Vec<Document> = (1..=6).map(|i| doc! {"_id": 10 - i, "w": 1, "i": i, "n": 1}).collect();
    coll.insert_many(&documents).await.unwrap();
    assert!(client.flush(LONG).await);
    let mut session = client.session();
    session.begin().unwrap();
    coll.update_one(doc! {"_id": 4}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
    let together = async {
        // A number of another type is the same key.
        let all = [add_by_key(1, 1, 1), add_by_key(1, 2.0, 2), add_by_key(1, 3_i64, 3)];
        let done = coll.bulk_write(all).session(&mut session).await.unwrap();
        assert_eq!((done.matched_count, done.modified_count), (3, 3));
    };
    let sent = BTreeMap::from([("find".to_owned(), 1), ("update".to_owned(), 1)]);
    assert_eq!(quiet::commands_of(&client, together).await, sent);
    // One that is held, one that is not there, and one twice: each takes the way of single
    // documents.
    let all =
        [add_by_key(1, 4, 4), add_by_key(1, 6, 10), add_by_key(2, 4, 1), add_by_key(1, 5, 5), add_by_key(1, 5, 6)];
    let done = coll.bulk_write(all).session(&mut session).await.unwrap();
    assert_eq!((done.matched_count, done.modified_count), (4, 4));
    session.commit().await.unwrap();
    // Written by `_id`, from the last key to the first.
    assert_eq!(numbers(&client, &coll).await, [12, 12, 5, 4, 3, 2]);
}

async fn add_both(coll: &Collection<Document>, session: &mut Session, items: [i32; 2]) {
    let done = coll.bulk_write(items.map(|item| add_by_key(1, item, 1))).session(session).await.unwrap();
    assert_eq!(done.modified_count, 2);
}

#[tokio::test]
async fn updates_by_keys_that_the_transaction_has_read_are_one_command() {
    let client = quiet::connect(quiet::options()).await;
    let coll = quiet::collection(&client, 0).await;
    coll.create_index(IndexModel::new(doc! {"w": 1, "i": 1}).unique(true)).await.unwrap();
    let documents: Vec<Document> = (1..=6).map(|i| doc! {"_id": i, "w": 1, "i": i, "n": 1}).collect();
    coll.insert_many(&documents).await.unwrap();
    assert!(client.flush(LONG).await);
    let rival = quiet::connect(quiet::options()).await;
    let theirs = quiet::through(&rival, &coll);
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot] {
        let options = TransactionOptions { isolation: Some(isolation), ..TransactionOptions::default() };
        let mut session = client.session_with(options);
        session.begin().unwrap();
        coll.update_one(doc! {"_id": 6}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
        let find = coll.find(doc! {"w": 1, "i": {"$in": [1, 2, 3, 4]}}).projection(doc! {"w": 1, "i": 1});
        assert_eq!(find.session(&mut session).await.unwrap().try_collect().await.unwrap().len(), 4);
        let hidden = coll.find_one(doc! {"w": 1, "i": 5}).projection(doc! {"_id": 0}).session(&mut session);
        assert!(hidden.await.unwrap().is_some());
        let sent = quiet::commands_of(&client, add_both(&coll, &mut session, [2, 1])).await;
        assert_eq!(sent, BTreeMap::from([("update".to_owned(), 1)]), "{isolation:?}");
        let sent = quiet::commands_of(&client, add_both(&coll, &mut session, [3, 5])).await;
        let asked = BTreeMap::from([("find".to_owned(), 1), ("update".to_owned(), 1)]);
        assert_eq!(sent, asked, "{isolation:?}: the answer has not shown where the last one is");
        session.commit().await.unwrap();
    }
    // The document that has the key by now is changed, not the one that had it when it was read.
    let mut session = client.session();
    session.begin().unwrap();
    let read = coll.find(doc! {"w": 1}).session(&mut session).await.unwrap();
    assert_eq!(read.try_collect().await.unwrap().len(), 6);
    for (id, to) in [(1, 7), (4, 1)] {
        theirs.update_one(doc! {"_id": id}, doc! {"$set": {"i": to}}).await.unwrap();
    }
    assert!(rival.flush(LONG).await);
    let all = [add_by_key(1, 1, 10), add_by_key(1, 2, 10), add_by_key(1, 4, 10)];
    let done = coll.bulk_write(all).session(&mut session).await.unwrap();
    assert_eq!((done.matched_count, done.modified_count), (2, 2), "nobody has the last key");
    session.commit().await.unwrap();
    assert_eq!(numbers(&client, &coll).await, [3, 13, 3, 11, 3, 3]);
}

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

/// The place where a document was a moment ago does not matter: the statement's condition counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn updates_by_keys_that_are_moved_meanwhile_change_what_has_the_key() {
    let gate = quiet::Gate::before(&[Step::BeforeLock]);
    let client = quiet::connect(ClientOptions { hook: Some(gate.clone()), ..quiet::options() }).await;
    let coll = quiet::collection(&client, 0).await;
    coll.create_index(IndexModel::new(doc! {"w": 1, "i": 1}).unique(true)).await.unwrap();
    coll.insert_many(&[doc! {"_id": 1, "w": 1, "i": 1, "n": 0}, doc! {"_id": 2, "w": 1, "i": 2, "n": 0}])
        .await
        .unwrap();
    assert!(client.flush(LONG).await);
    let rival = quiet::connect(quiet::options()).await;
    let theirs = quiet::through(&rival, &coll);
    gate.shut();
    let (ours, bulk) = (coll.clone(), client.clone());
    let added = tokio::spawn(async move {
        let mut session = bulk.session();
        session.begin().unwrap();
        let done = ours.bulk_write([add_by_key(1, 1, 1), add_by_key(1, 2, 1)]).session(&mut session).await.unwrap();
        session.commit().await.unwrap();
        done.matched_count
    });
    gate.until_held().await;
    for (id, to) in [(1, 3), (2, 1)] {
        theirs.update_one(doc! {"_id": id}, doc! {"$set": {"i": to}}).await.unwrap();
    }
    assert!(rival.flush(LONG).await);
    gate.open();
    assert_eq!(added.await.unwrap(), 1, "one has the first key, nobody the second");
    assert_eq!(numbers(&client, &coll).await, [0, 1]);
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

/// The second does not match: the others are sent together again, and nobody is asked whether the
/// transaction still holds them.
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
    // and in two; the last two. Which are held is asked once, and then why the second is not.
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
async fn equal_ids_of_other_types_are_told_apart_in_one_bulk() {
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
    let options = testkit::ServerOptions::standalone().arg("--setParameter").arg("enableTestCommands=1");
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
        let bulk = coll.bulk_write([add(1, 1), add(2, 1), add(3, 1)]);
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
            false => assert!(session.commit().await.is_err(), "nobody knows what it has done"),
            true => session.commit().await.unwrap(),
        }
        // The rest of it is undone before the next one is counted.
        assert!(client.flush(LONG).await);
    }
    assert_eq!(numbers(&client, &coll).await, [1, 1, 1, 11]);
}

/// A change that leaves every document as it is: that it is locked modifies it only as stored.
#[tokio::test]
async fn change_to_the_same_document_counts_as_none() {
    let (client, coll, mut session) = place().await;
    let same = |id: i32| WriteModel::UpdateOne {
        filter: doc! {"_id": id},
        update: vec![doc! {"$replaceWith": "$$ROOT"}].into(),
        upsert: false,
    };
    session.begin().unwrap();
    for (all, modified) in [([same(1), same(2)], 0), ([add(3, 1), same(4)], 1), ([same(5), replace(6, 2)], 1)] {
        let done = coll.bulk_write(all).session(&mut session).await.unwrap();
        assert_eq!((done.matched_count, done.modified_count), (2, modified));
    }
    session.commit().await.unwrap();
    assert_eq!(numbers(&client, &coll).await, [1, 1, 2, 1, 1, 2]);

    // By itself, of a document that was read.
    let isolation = Some(Isolation::Snapshot);
    let mut session = client.session_with(TransactionOptions { isolation, ..TransactionOptions::default() });
    session.begin().unwrap();
    assert!(coll.find_one(doc! {"_id": 1}).session(&mut session).await.unwrap().is_some());
    let same = vec![doc! {"$replaceWith": "$$ROOT"}];
    let done = coll.update_one(doc! {"_id": 1}, same).session(&mut session).await.unwrap();
    assert_eq!((done.matched_count, done.modified_count), (1, 0));
    session.commit().await.unwrap();
}

/// A command that is full is followed by the next one; what did not fit does not go alone.
#[tokio::test]
async fn documents_that_one_command_has_no_room_for_go_together_in_the_next() {
    let client = quiet::connect(quiet::options()).await;
    let coll = quiet::collection(&client, 60).await;
    let mut session = client.session();
    session.begin().unwrap();
    let long = "x".repeat(200 * 1024);
    let replace = |id: i32| WriteModel::ReplaceOne {
        filter: doc! {"_id": id},
        replacement: doc! {"n": id, "long": &long},
        upsert: false,
    };
    let sent = quiet::commands_of(&client, async {
        let done = coll.bulk_write((1..=60).map(replace)).session(&mut session).await.unwrap();
        assert_eq!((done.matched_count, done.modified_count), (60, 60));
    });
    // 20 of them are just below 4 MiB.
    assert_eq!(sent.await, BTreeMap::from([("update".to_owned(), 3)]));
    session.rollback().await.unwrap();
}
