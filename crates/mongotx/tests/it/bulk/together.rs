//! Statements that share one command: changes of every kind by `_id`, and removals beside them.

use std::collections::BTreeMap;

use bson::{Document, doc};
use mongotx::{Isolation, TransactionOptions, WriteModel};

use super::{LONG, add, lists, numbers, place, push, replace};
use crate::quiet;

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

/// Changes that one statement cannot make take two for each document, and one command for all.
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
        // No transaction holds what stands behind it.
        if ordered {
            theirs.update_one(doc! {"_id": 4}, doc! {"$inc": {"n": 1}}).await.unwrap();
        }
        session.commit().await.unwrap();
        let pushed = |id: i32| if id == 3 || (ordered && id > 3) || id == 6 { vec![] } else { vec![id] };
        assert_eq!(lists(&client, &coll).await, (1..=6).map(pushed).collect::<Vec<_>>(), "{ordered}");
    }
}

/// A rival holds the third document. Documents that stay as they were stand on both sides of it, so
/// that the totals do not show which ones stand in front: all of it is given back, and made one by
/// one.
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
