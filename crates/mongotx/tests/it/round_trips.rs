//! How many commands each case costs: the table "Round trips to reach" of the protocol.
//!
//! Counted by the driver's command monitoring, which feeds `client.metrics().commands`; one test compares that with what
//! the server itself has counted. Registration and look-ups that are made once (or once a minute) come before.

use crate::quiet;

use std::{collections::BTreeMap, future::Future, sync::Arc, time::Duration};

use bson::{Bson, Document, doc};
use futures_util::{TryStreamExt, future::join_all};
use mongotx::{Client, ClientOptions, Collection, Isolation, ReturnDocument, Session, Step};
use quiet::{Both, Gate, commands_of};

const LIMIT: Duration = Duration::from_secs(10);

/// A client that has done everything once, and its collection.
async fn warm(options: ClientOptions) -> (Client, Collection<Document>) {
    let client = quiet::connect(options).await;
    let coll = quiet::collection(&client, 64).await;
    warm_up(&client, &coll).await;
    (client, coll)
}

async fn warm_up(client: &Client, coll: &Collection<Document>) {
    let mut session = client.session();
    session.begin().unwrap();
    increment(&mut session, coll, 64).await;
    session.commit().await.unwrap();
    assert_eq!(coll.find(doc! {"n": 2}).await.unwrap().try_collect().await.unwrap().len(), 1);
    assert!(client.flush(LIMIT).await);
}

async fn increment(session: &mut Session, coll: &Collection<Document>, id: i32) {
    let done = coll.update_one(doc! {"_id": id}, doc! {"$inc": {"n": 1}}).session(session).await.unwrap();
    assert_eq!(done.matched_count, 1);
}

async fn cost<T>(client: &Client, work: impl Future<Output = T>) -> u64 {
    commands_of(client, work).await.values().sum()
}

#[tokio::test]
async fn read_by_id_of_a_clean_document_is_one_command() {
    let (client, coll) = warm(quiet::options()).await;
    let read = async { assert!(coll.find_one(doc! {"_id": 1}).await.unwrap().is_some()) };
    assert_eq!(cost(&client, read).await, 1);
    let narrowed = async { assert!(coll.find_one(doc! {"_id": 1, "n": 1}).await.unwrap().is_some()) };
    assert_eq!(cost(&client, narrowed).await, 1);
    let missing = async { assert!(coll.find_one(doc! {"_id": 1000}).await.unwrap().is_none()) };
    assert_eq!(cost(&client, missing).await, 1);
}

#[tokio::test]
async fn query_with_nothing_pending_is_one_command_and_at_most_two_in_a_transaction() {
    let (client, coll) = warm(quiet::options()).await;
    let query = async { assert_eq!(coll.find(doc! {"n": 1}).await.unwrap().try_collect().await.unwrap().len(), 63) };
    assert_eq!(cost(&client, query).await, 1);
    let count = async { assert_eq!(coll.count_documents(doc! {"n": 1}).await.unwrap(), 63) };
    assert_eq!(cost(&client, count).await, 1);
    let mut session = client.session();
    session.begin().unwrap();
    let inside = async {
        let found = coll.find(doc! {"n": 1}).session(&mut session).await.unwrap();
        assert_eq!(found.try_collect().await.unwrap().len(), 63);
    };
    assert!(cost(&client, inside).await <= 2);
}

#[tokio::test]
async fn read_of_a_few_ids_is_one_find_and_sees_what_is_committed() {
    let (client, coll) = warm(quiet::options()).await;
    let ids = doc! {"_id": {"$in": [1, 2, 3, 1000]}};
    let read = |filter: Document| async {
        coll.find(filter).sort(doc! {"_id": 1}).await.unwrap().try_collect().await.unwrap()
    };
    let clean = async { assert_eq!(read(ids.clone()).await.len(), 3) };
    assert_eq!(commands_of(&client, clean).await, BTreeMap::from([("find".to_owned(), 1)]));
    let narrowed = async { assert_eq!(read(doc! {"_id": {"$in": [1, 2, 64]}, "n": 1}).await.len(), 2) };
    assert_eq!(cost(&client, narrowed).await, 1);
    let rival = quiet::connect(quiet::options()).await;
    let mut session = rival.session();
    session.begin().unwrap();
    let theirs = quiet::through(&rival, &coll);
    increment(&mut session, &theirs, 2).await;
    theirs.insert_one(&doc! {"_id": 1000, "n": 7}).session(&mut session).await.unwrap();
    let before = [doc! {"_id": 1, "n": 1}, doc! {"_id": 2, "n": 1}, doc! {"_id": 3, "n": 1}];
    assert_eq!(read(ids.clone()).await, before);
    session.commit().await.unwrap();
    let after = [doc! {"_id": 1, "n": 1}, doc! {"_id": 2, "n": 2}, doc! {"_id": 3, "n": 1}, doc! {"_id": 1000, "n": 7}];
    assert_eq!(read(ids).await, after);
    assert_eq!(read(doc! {"_id": {"$in": [1, 2]}, "n": 2}).await, [doc! {"_id": 2, "n": 2}]);
}

#[tokio::test]
async fn query_of_a_collection_that_the_transaction_has_written_to_is_one_command_and_a_look_at_its_record() {
    let (client, coll) = warm(quiet::options()).await;
    let mut session = client.session();
    session.begin().unwrap();
    increment(&mut session, &coll, 1).await;
    let query = async {
        let found = coll.find(doc! {"n": 2}).sort(doc! {"_id": -1}).session(&mut session).await.unwrap();
        assert_eq!(found.try_collect().await.unwrap(), [doc! {"_id": 64, "n": 2}, doc! {"_id": 1, "n": 2}]);
    };
    assert_eq!(cost(&client, query).await, 2);
    // The lock of a document that is named by its `_id` says by itself that the transaction stands.
    let fetch = async {
        let found = coll.find_one(doc! {"_id": 1}).session(&mut session).await.unwrap();
        assert_eq!(found.unwrap(), doc! {"_id": 1, "n": 2});
    };
    assert_eq!(cost(&client, fetch).await, 1);
    let again = async { increment(&mut session, &coll, 1).await };
    assert_eq!(cost(&client, again).await, 1);
}

/// The documents that the server looked at for the last aggregation of a database.
async fn last_examined(plain: &mongodb::Database) -> i64 {
    let profile = plain.collection::<Document>("system.profile");
    let last = profile.find_one(doc! {"command.aggregate": "docs"}).sort(doc! {"ts": -1}).await.unwrap().unwrap();
    last.get("docsExamined").map_or(0, |count| count.as_i64().or(count.as_i32().map(i64::from)).unwrap())
}

#[tokio::test]
async fn first_document_beside_own_removals_is_found_by_the_index() {
    let (client, coll) = warm(quiet::options()).await;
    let plain = testkit::shared_standalone().await.unwrap().client().await.unwrap().database(&coll.namespace().db);
    plain.run_command(doc! {"profile": 2}).await.unwrap();
    let mut session = client.session();
    session.begin().unwrap();
    for id in [1, 2, 4] {
        coll.delete_one(doc! {"_id": id}).session(&mut session).await.unwrap();
    }
    let first = async |session: &mut Session, filter: Document| {
        let found = coll.find(filter).sort(doc! {"_id": 1}).limit(2).session(session).await.unwrap();
        let found = found.try_collect().await.unwrap();
        found.iter().map(|document| document.get_i32("_id").unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(first(&mut session, doc! {"n": 1}).await, [3, 5]);
    let examined = last_examined(&plain).await;
    assert!(examined < 20, "{examined} documents of 64 were looked at");
    assert_eq!(first(&mut session, doc! {"_id": {"$gt": 3}}).await, [5, 6]);
    coll.insert_one(&doc! {"_id": 0, "n": 1}).session(&mut session).await.unwrap();
    assert_eq!(first(&mut session, doc! {"n": 1}).await, [0, 3], "what it has inserted is seen, too");
    session.commit().await.unwrap();
    plain.run_command(doc! {"profile": 0}).await.unwrap();
}

#[tokio::test]
async fn query_beside_active_transactions_is_two_commands_and_repairs_nothing() {
    let (client, coll) = warm(quiet::options()).await;
    let rival = quiet::connect(quiet::options()).await;
    let mut session = rival.session();
    session.begin().unwrap();
    for id in 1..=3 {
        increment(&mut session, &quiet::through(&rival, &coll), id).await;
    }
    for filter in [doc! {"n": 1}, doc! {}] {
        let read = async {
            let found = coll.find(filter).await.unwrap().try_collect().await.unwrap();
            assert!(found.iter().filter(|document| document.get_i32("n").unwrap() == 1).count() == 63);
        };
        assert_eq!(cost(&client, read).await, 2, "the query, and what became of the rival");
    }
    // Documents that nobody holds cost what they always cost.
    let other = async { assert_eq!(coll.count_documents(doc! {"_id": {"$gt": 10}}).await.unwrap(), 54) };
    assert_eq!(cost(&client, other).await, 1);
    session.commit().await.unwrap();
    assert!(rival.flush(LIMIT).await);
    assert_eq!(coll.count_documents(doc! {"n": 2}).await.unwrap(), 4);
}

#[tokio::test]
async fn find_and_modify_by_id_in_a_transaction_is_one_command() {
    let (client, coll) = warm(quiet::options()).await;
    let mut session = client.session();
    session.begin().unwrap();
    increment(&mut session, &coll, 9).await;
    let after = async {
        let update = doc! {"$inc": {"n": 1}};
        let action = coll.find_one_and_update(doc! {"_id": 1}, update).return_document(ReturnDocument::After);
        assert_eq!(action.session(&mut session).await.unwrap().unwrap(), doc! {"_id": 1, "n": 2});
    };
    assert_eq!(cost(&client, after).await, 1);
    let before = async {
        let action = coll.find_one_and_update(doc! {"_id": 2}, doc! {"$set": {"n": 5}}).projection(doc! {"_id": 0});
        assert_eq!(action.session(&mut session).await.unwrap().unwrap(), doc! {"n": 1});
    };
    assert_eq!(cost(&client, before).await, 1);
    let removed = async {
        let action = coll.find_one_and_delete(doc! {"_id": 3});
        assert_eq!(action.session(&mut session).await.unwrap().unwrap(), doc! {"_id": 3, "n": 1});
    };
    assert_eq!(cost(&client, removed).await, 1);
    session.commit().await.unwrap();
    assert!(client.flush(LIMIT).await);
    let now = coll.find(doc! {"_id": {"$lte": 3}}).sort(doc! {"_id": 1}).await.unwrap().try_collect().await.unwrap();
    assert_eq!(now, [doc! {"_id": 1, "n": 2}, doc! {"_id": 2, "n": 5}]);
}

/// Fields at any depth are picked by the server itself, from the version that is shown, in the one
/// command.
#[tokio::test]
async fn find_one_and_update_that_shows_nested_fields_is_one_command() {
    let (client, first) = warm(quiet::options()).await;
    let coll = quiet::collection(&client, 0).await;
    let server = testkit::shared_standalone().await.unwrap();
    let plain = server.client().await.unwrap().database(&coll.namespace().db).collection::<Document>("plain");
    let lines = doc! {"a": 1, "x": {"y": [{"z": 1, "w": 2}, 3, [{"z": 4}]]}, "lines": [{"n": 1, "t": "a"}, {"t": "b"}]};
    let mut session = client.session();
    session.begin().unwrap();
    increment(&mut session, &first, 1).await;
    // What is asked once about a collection is asked here.
    coll.insert_one(&doc! {"_id": 0}).await.unwrap();
    plain.insert_one(&doc! {"_id": 0, "a": 1}).await.unwrap();
    coll.update_one(doc! {"_id": 0}, doc! {"$inc": {"a": 1}}).session(&mut session).await.unwrap();
    let projections = [
        doc! {"lines.n": 1},
        doc! {"_id": 0, "lines.n": 1, "a": true},
        doc! {"x.y.z": 1, "none.of.it": 1},
        doc! {"_id": 1, "x.y": 1},
    ];
    let mut id = 0;
    for (projection, after) in projections.iter().flat_map(|projection| [(projection, false), (projection, true)]) {
        id += 1;
        let mut document = doc! {"_id": id};
        document.extend(lines.clone());
        coll.insert_one(&document).await.unwrap();
        plain.insert_one(&document).await.unwrap();
        let update = doc! {"$inc": {"a": 1}};
        let by = doc! {"_id": id};
        let after = if after { ReturnDocument::After } else { ReturnDocument::Before };
        let which = if after == ReturnDocument::After {
            mongodb::options::ReturnDocument::After
        } else {
            mongodb::options::ReturnDocument::Before
        };
        let expected = plain.find_one_and_update(by.clone(), update.clone()).return_document(which);
        let expected = expected.projection(projection.clone()).await.unwrap();
        // Read before, so that the whole document has to be compared: still right, in more
        // commands.
        let was_read = id % 3 == 0;
        if was_read {
            coll.find_one(by.clone()).session(&mut session).await.unwrap();
        }
        let ours = async {
            let action = coll.find_one_and_update(by, update).return_document(after).projection(projection.clone());
            assert_eq!(action.session(&mut session).await.unwrap(), expected, "{projection}, {after:?}");
        };
        let commands = cost(&client, ours).await;
        assert!(commands == 1 || was_read, "{projection}, {after:?}: {commands} commands");
    }
    let colliding =
        coll.find_one_and_update(doc! {"_id": 1}, doc! {"$inc": {"a": 1}}).projection(doc! {"x": 1, "x.y": 1});
    let refused = colliding.return_document(ReturnDocument::After).session(&mut session).await.unwrap_err();
    assert_eq!(refused.code(), Some(31_249), "{refused}");
    session.commit().await.unwrap();
    assert!(client.flush(LIMIT).await);
    let ours = coll.find(doc! {}).sort(doc! {"_id": 1}).await.unwrap().try_collect().await.unwrap();
    let theirs: Vec<Document> = plain.find(doc! {}).sort(doc! {"_id": 1}).await.unwrap().try_collect().await.unwrap();
    assert_eq!(ours, theirs);
}

#[tokio::test]
async fn increment_of_a_field_that_is_missing_is_one_command() {
    let (client, coll) = warm(quiet::options()).await;
    let mut session = client.session();
    session.begin().unwrap();
    increment(&mut session, &coll, 9).await;
    let missing = async {
        let update = doc! {"$inc": {"new": 2_i64, "other": 1}, "$set": {"n": 7}};
        assert_eq!(coll.update_one(doc! {"_id": 1}, update).session(&mut session).await.unwrap().modified_count, 1);
    };
    assert_eq!(commands_of(&client, missing).await, BTreeMap::from([("update".to_owned(), 1)]));
    coll.update_one(doc! {"_id": 2}, doc! {"$set": {"new": Bson::Null}}).await.unwrap();
    let null = coll.update_one(doc! {"_id": 2}, doc! {"$inc": {"new": 1}}).session(&mut session).await.unwrap_err();
    assert_eq!(null.code(), Some(14), "as the server's: {null}");
    session.commit().await.unwrap();
    let now = coll.find_one(doc! {"_id": 1}).await.unwrap().unwrap();
    assert_eq!(now, doc! {"_id": 1, "n": 7, "new": 2_i64, "other": 1});
}

#[tokio::test]
async fn update_of_many_is_the_query_and_one_command_for_a_batch() {
    let (client, coll) = warm(quiet::options()).await;
    let mut session = client.session();
    session.begin().unwrap();
    let all = async {
        let update = doc! {"$set": {"n": 2}};
        let done = coll.update_many(doc! {"_id": {"$gt": 20}}, update).session(&mut session).await.unwrap();
        // One has that value already.
        assert_eq!((done.matched_count, done.modified_count), (44, 43));
    };
    // The query, the statement; which were not changed, and that one: locked, and set to what it was.
    assert_eq!(cost(&client, all).await, 5);
    let others = async {
        let done = coll.update_many(doc! {"_id": {"$lte": 20}}, doc! {"$inc": {"n": 1}}).session(&mut session);
        assert_eq!(done.await.unwrap().modified_count, 20);
    };
    // In a collection that it has written to the record is looked at, too.
    assert_eq!(cost(&client, others).await, 3);
    session.commit().await.unwrap();
    assert_eq!(coll.count_documents(doc! {"n": 2}).await.unwrap(), 64);
}

#[tokio::test]
async fn update_of_many_meets_a_rival_and_changes_each_document_once() {
    let (client, coll) = warm(quiet::options()).await;
    let other = quiet::connect(quiet::options()).await;
    let theirs = quiet::through(&other, &coll);
    let (mut session, mut rival) = (client.session(), other.session());
    rival.begin().unwrap();
    increment(&mut rival, &theirs, 3).await;
    session.begin().unwrap();
    let add = || coll.update_many(doc! {"_id": {"$lte": 5}}, doc! {"$inc": {"n": 10}});
    assert_eq!(add().session(&mut session).await.unwrap_err().kind(), mongotx::ErrorKind::Conflict);
    rival.commit().await.unwrap();
    // Whether or not the rival has finished.
    session.begin().unwrap();
    assert_eq!(add().session(&mut session).await.unwrap().modified_count, 5);
    assert_eq!(add().session(&mut session).await.unwrap().modified_count, 5);
    session.commit().await.unwrap();
    let now = coll.find(doc! {"_id": {"$lte": 5}}).sort(doc! {"_id": 1}).await.unwrap().try_collect().await.unwrap();
    let expected: Vec<Document> =
        [21, 21, 22, 21, 21].into_iter().zip(1..).map(|(n, id)| doc! {"_id": id, "n": n}).collect();
    assert_eq!(now, expected);
}

#[tokio::test]
async fn a_few_inserts_under_unique_indexes_are_one_command_and_more_are_two() {
    let client = quiet::connect(quiet::options()).await;
    let coll = quiet::collection(&client, 0).await;
    for key in [doc! {"order": 1, "line": 1}, doc! {"code": 1}] {
        coll.create_index(mongotx::IndexModel::new(key).unique(true)).await.unwrap();
    }
    let some = |order: i32, count: i32| -> Vec<Document> {
        (1..=count).map(|line| doc! {"order": order, "line": line, "code": format!("{order}-{line}")}).collect()
    };
    let lines = |order: i32| some(order, 10);
    coll.insert_many(&lines(1)).await.unwrap();
    assert!(client.flush(LIMIT).await);
    let mut session = client.session();
    session.begin().unwrap();
    coll.insert_one(&doc! {"order": 2, "line": 1, "code": "x"}).session(&mut session).await.unwrap();
    let many = async { drop(coll.insert_many(&lines(3)).session(&mut session).await.unwrap()) };
    let expected = BTreeMap::from([("update".to_owned(), 1)]);
    assert_eq!(commands_of(&client, many).await, expected);
    let one = doc! {"order": 4, "line": 1, "code": "y"};
    let one = async { drop(coll.insert_one(&one).session(&mut session).await.unwrap()) };
    assert_eq!(commands_of(&client, one).await, expected);
    let more = async { drop(coll.insert_many(&some(6, 17)).session(&mut session).await.unwrap()) };
    let expected = BTreeMap::from([("insert".to_owned(), 1), ("find".to_owned(), 1)]);
    assert_eq!(commands_of(&client, more).await, expected);
    for taken in [doc! {"order": 1, "line": 5, "code": "z"}, doc! {"order": 9, "line": 5, "code": "1-7"}] {
        let refused = coll.insert_one(&taken).session(&mut session).await.unwrap_err();
        assert_eq!(refused.code(), Some(11000), "{taken}");
    }
    let mut eight = lines(5);
    eight[7].insert("code", "1-1");
    let refused = coll.insert_many(&eight).session(&mut session).await.unwrap_err();
    assert_eq!(refused.progress().unwrap().inserted, 7, "{refused}");
    session.commit().await.unwrap();
    assert_eq!(coll.count_documents(doc! {}).await.unwrap(), 10 + 1 + 10 + 1 + 17 + 7);
}

#[tokio::test]
async fn read_by_a_unique_key_beside_own_writes_is_one_command() {
    let client = quiet::connect(quiet::options()).await;
    let coll = quiet::collection(&client, 9).await;
    for id in 1..=9 {
        coll.update_one(doc! {"_id": id}, doc! {"$set": {"k": id}}).await.unwrap();
    }
    coll.create_index(mongotx::IndexModel::new(doc! {"k": 1}).unique(true)).await.unwrap();
    warm_up_keyed(&client, &coll).await;
    let mut session = client.session();
    session.begin().unwrap();
    increment(&mut session, &coll, 1).await;
    let others = async {
        let found = coll.find_one(doc! {"k": 2}).projection(doc! {"n": 1}).session(&mut session).await.unwrap();
        assert_eq!(found, Some(doc! {"_id": 2, "n": 1}));
    };
    assert_eq!(cost(&client, others).await, 1);
    // What it answers from its own writes, and that there is nothing, takes a look at its record; that there is nothing is asked
    // in two steps besides.
    for (k, n, commands) in [(1, Some(2), 2), (77, None, 3)] {
        let own = async {
            let found = coll.find_one(doc! {"k": k}).session(&mut session).await.unwrap();
            assert_eq!(found.map(|found| found.get_i32("n").unwrap()), n);
        };
        assert_eq!(cost(&client, own).await, commands, "{k}");
    }
    coll.insert_one(&doc! {"_id": 10, "k": 10}).session(&mut session).await.unwrap();
    let changed = async { assert!(coll.find_one(doc! {"k": 3}).session(&mut session).await.unwrap().is_some()) };
    assert_eq!(cost(&client, changed).await, 2, "a document of its own may have had the key");
    session.commit().await.unwrap();
}

async fn warm_up_keyed(client: &Client, coll: &Collection<Document>) {
    assert!(client.flush(LIMIT).await);
    let mut session = client.session();
    session.begin().unwrap();
    increment(&mut session, coll, 9).await;
    assert!(coll.find_one(doc! {"k": 9}).session(&mut session).await.unwrap().is_some());
    session.rollback().await.unwrap();
}

#[tokio::test]
async fn read_for_update_is_one_command_and_keeps_rivals_away() {
    let (client, coll) = warm(quiet::options()).await;
    let mut session = client.session();
    session.begin().unwrap();
    let read = async {
        let same = vec![doc! {"$replaceWith": "$$ROOT"}];
        let found = coll.find_one_and_update(doc! {"_id": 1}, same).session(&mut session).await.unwrap();
        assert_eq!(found.unwrap(), doc! {"_id": 1, "n": 1});
    };
    assert_eq!(commands_of(&client, read).await, BTreeMap::from([("findAndModify".to_owned(), 1)]));
    let other = quiet::connect(quiet::options()).await;
    let mut rival = other.session();
    rival.begin().unwrap();
    let theirs = quiet::through(&other, &coll);
    let refused = theirs.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut rival).await.unwrap_err();
    assert_eq!(refused.kind(), mongotx::ErrorKind::Conflict);
    coll.update_one(doc! {"_id": 1}, doc! {"$set": {"n": 2}}).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    assert_eq!(coll.find_one(doc! {"_id": 1}).await.unwrap().unwrap(), doc! {"_id": 1, "n": 2});
}

#[tokio::test]
async fn aggregation_with_nothing_pending_is_one_command_however_many_collections_it_reads() {
    let (client, coll) = warm(quiet::options()).await;
    let copy = client.database(&coll.namespace().db).collection::<Document>("copy");
    copy.insert_one(&doc! {"_id": 1}).await.unwrap();
    let of = |pipeline: Vec<Document>, count: usize| {
        let coll = coll.clone();
        async move { assert_eq!(coll.aggregate(pipeline).await.unwrap().try_collect().await.unwrap().len(), count) }
    };
    let alone = vec![doc! {"$match": {"n": 1}}, doc! {"$sort": {"_id": 1}}, doc! {"$set": {"x": "$$ROOT"}}];
    let join = doc! {"$lookup": {"from": "copy", "localField": "_id", "foreignField": "_id", "as": "x"}};
    let joined = vec![join, doc! {"$unionWith": "copy"}];
    for (pipeline, count) in [(alone, 63), (joined, 65)] {
        of(pipeline.clone(), count).await;
        assert_eq!(commands_of(&client, of(pipeline, count)).await, BTreeMap::from([("aggregate".to_owned(), 1)]));
    }
    // A hint binds the answer only: one command more.
    let hinted = async { drop(coll.aggregate([doc! {"$match": {"n": 1}}]).hint("_id_").await.unwrap()) };
    assert_eq!(cost(&client, hinted).await, 2);
    // So are own writes: rivals are looked for in all collections by one command. And one look at the own record.
    let join = || doc! {"$lookup": {"from": "copy", "localField": "_id", "foreignField": "_id", "as": "x"}};
    let mut session = client.session();
    session.begin().unwrap();
    increment(&mut session, &coll, 1).await;
    let inside = async {
        let found = coll.aggregate([join(), doc! {"$unionWith": "copy"}]).session(&mut session).await.unwrap();
        assert_eq!(found.try_collect().await.unwrap().len(), 65);
    };
    assert_eq!(cost(&client, inside).await, 3);
    session.commit().await.unwrap();
}

#[tokio::test]
async fn one_document_write_outside_a_transaction_is_one_command() {
    let (client, coll) = warm(quiet::options()).await;
    let by_id = doc! {"_id": 1};
    assert_eq!(cost(&client, async { coll.insert_one(&doc! {"_id": 100}).await.unwrap() }).await, 1);
    assert_eq!(cost(&client, async { coll.insert_one(&doc! {"n": 100}).await.unwrap() }).await, 1);
    let update = coll.update_one(by_id.clone(), doc! {"$inc": {"n": 1}});
    assert_eq!(cost(&client, async { assert_eq!(update.await.unwrap().matched_count, 1) }).await, 1);
    let replacement = doc! {"n": 5};
    let replace = coll.replace_one(by_id.clone(), &replacement);
    assert_eq!(cost(&client, async { assert_eq!(replace.await.unwrap().matched_count, 1) }).await, 1);
    let modify = coll.find_one_and_update(by_id.clone(), doc! {"$inc": {"n": 1}});
    assert_eq!(cost(&client, async { assert!(modify.await.unwrap().is_some()) }).await, 1);
    let delete = coll.delete_one(by_id);
    assert_eq!(cost(&client, async { assert_eq!(delete.await.unwrap(), 1) }).await, 1);
}

#[tokio::test]
async fn transaction_of_k_updates_alone_is_k_and_one_commands_and_one_to_finish() {
    let gate = Gate::before(&[Step::BeforeFinish]);
    let (client, coll) = warm(ClientOptions { hook: Some(gate.clone()), ..quiet::options() }).await;
    for k in [1, 2, 5] {
        gate.shut();
        let mut session = client.session();
        let transaction = async {
            session.begin().unwrap();
            for id in 1..=k {
                increment(&mut session, &coll, id).await;
            }
            session.commit().await.unwrap();
        };
        let before_the_answer = commands_of(&client, transaction).await;
        assert_eq!(before_the_answer, BTreeMap::from([("update".to_owned(), k as u64 + 1)]), "k = {k}");
        let after_it = async {
            gate.open();
            assert!(client.flush(LIMIT).await);
        };
        assert_eq!(cost(&client, after_it).await, 1, "k = {k}");
    }
}

/// Documents that are committed and wait to be finished: the new version comes along with the old one, and nothing is finished for it.
#[tokio::test]
async fn fields_of_documents_that_wait_to_be_finished_are_one_command() {
    let gate = Gate::before(&[Step::BeforeFinish]);
    let (client, coll) = warm(ClientOptions { hook: Some(gate.clone()), ..quiet::options() }).await;
    gate.shut();
    let mut session = client.session();
    session.begin().unwrap();
    coll.update_one(doc! {"_id": 1}, doc! {"$set": {"n": 5, "m": 6}}).session(&mut session).await.unwrap();
    coll.delete_one(doc! {"_id": 2}).session(&mut session).await.unwrap();
    coll.insert_one(&doc! {"_id": 70, "n": 7}).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    for (shown, fields) in [
        (doc! {"n": 1}, doc! {"_id": 1, "n": 5}),
        (doc! {"_id": 0, "m": 1, "n": 1}, doc! {"n": 5, "m": 6}),
        (doc! {"_id": 1}, doc! {"_id": 1}),
        (doc! {"n": 0}, doc! {"_id": 1, "m": 6}),
        (doc! {}, doc! {"_id": 1, "n": 5, "m": 6}),
    ] {
        let one = async {
            let found = coll.find_one(doc! {"_id": 1}).projection(shown.clone()).await.unwrap();
            assert_eq!(found.as_ref(), Some(&fields), "{shown}");
        };
        assert_eq!(commands_of(&client, one).await, BTreeMap::from([("find".to_owned(), 1)]), "{shown}");
        let few = async {
            let all = coll.find(doc! {"_id": {"$in": [1, 2]}}).projection(shown.clone()).await.unwrap();
            assert_eq!(all.try_collect().await.unwrap(), [fields], "{shown}");
        };
        assert_eq!(commands_of(&client, few).await, BTreeMap::from([("find".to_owned(), 1)]), "{shown}");
    }
    let others = async {
        for (id, found) in [(2, None), (70, Some(doc! {"_id": 70, "n": 7}))] {
            let shown = coll.find_one(doc! {"_id": id}).projection(doc! {"n": 1}).await.unwrap();
            assert_eq!(shown, found);
        }
    };
    assert_eq!(commands_of(&client, others).await, BTreeMap::from([("find".to_owned(), 2)]));
    gate.open();
    assert!(client.flush(LIMIT).await);
}

/// At snapshot, so they are at the validation.
#[tokio::test]
async fn validation_of_fields_of_documents_that_wait_to_be_finished_is_two_commands() {
    let gate = Gate::before(&[Step::BeforeFinish]);
    let options = ClientOptions { hook: Some(gate.clone()), isolation: Isolation::Snapshot, ..quiet::options() };
    let (client, coll) = warm(options).await;
    gate.shut();
    let mut writer = client.session();
    writer.begin().unwrap();
    increment(&mut writer, &coll, 1).await;
    writer.commit().await.unwrap();
    let mut session = client.session();
    let transaction = async {
        session.begin().unwrap();
        for id in [1, 2] {
            let read = coll.find_one(doc! {"_id": id}).projection(doc! {"n": 1}).session(&mut session).await.unwrap();
            assert_eq!(read, Some(doc! {"_id": id, "n": 3 - id}));
        }
        increment(&mut session, &coll, 3).await;
        session.commit().await.unwrap();
    };
    let sent = commands_of(&client, transaction).await;
    // Two reads, a look before and one after the question, which is one aggregation; a lock and the decision.
    let finds = sent.get("find").copied().unwrap_or_default();
    assert!((3..=4).contains(&finds), "{sent:?}");
    assert_eq!((sent.get("aggregate"), sent.get("update")), (Some(&1), Some(&2)), "{sent:?}");
    gate.open();
    assert!(client.flush(LIMIT).await);
}

/// What both versions of a held document show alike is so whatever becomes of the transaction that holds it. No record is read for it
/// (that is an aggregation), neither by a read nor by a validation, which is one aggregation itself.
#[tokio::test]
async fn fields_that_a_rival_leaves_as_they_are_are_read_and_validated_without_its_record() {
    let (rivals, theirs) = warm(quiet::options()).await;
    for (isolation, aggregations) in [(Isolation::ReadCommitted, None), (Isolation::Snapshot, Some(&1))] {
        let client = quiet::connect(ClientOptions { isolation, ..quiet::options() }).await;
        let coll = quiet::through(&client, &theirs);
        theirs.update_one(doc! {"_id": 64}, doc! {"$set": {"n": 1}}).await.unwrap();
        warm_up(&client, &coll).await;
        let mut rival = rivals.session();
        rival.begin().unwrap();
        for id in [1, 2] {
            let change = doc! {"$inc": {"other": 5}};
            theirs.update_one(doc! {"_id": id}, change).session(&mut rival).await.unwrap();
        }
        let mut session = client.session();
        let transaction = async {
            session.begin().unwrap();
            for id in [1, 2] {
                let read =
                    coll.find_one(doc! {"_id": id}).projection(doc! {"n": 1}).session(&mut session).await.unwrap();
                assert_eq!(read, Some(doc! {"_id": id, "n": 1}));
            }
            if isolation == Isolation::ReadCommitted {
                let few = coll.find(doc! {"_id": {"$in": [1, 2]}}).projection(doc! {"n": 1}).session(&mut session);
                let few = few.await.unwrap().try_collect().await.unwrap();
                assert_eq!(few, [doc! {"_id": 1, "n": 1}, doc! {"_id": 2, "n": 1}]);
            }
            increment(&mut session, &coll, 64).await;
            session.commit().await.unwrap();
        };
        let sent = commands_of(&client, transaction).await;
        assert_eq!(sent.get("aggregate"), aggregations, "{sent:?}");
        rival.rollback().await.unwrap();
        assert!(client.flush(LIMIT).await && rivals.flush(LIMIT).await);
    }
}

/// A rival that changes what is shown, inserts or removes it is asked about.
#[tokio::test]
async fn fields_that_a_rival_changes_are_those_of_the_version_that_counts() {
    let (rivals, theirs) = warm(quiet::options()).await;
    let client = quiet::connect(quiet::options()).await;
    let coll = quiet::through(&client, &theirs);
    let mut rival = rivals.session();
    rival.begin().unwrap();
    increment(&mut rival, &theirs, 1).await;
    theirs.delete_one(doc! {"_id": 2}).session(&mut rival).await.unwrap();
    theirs.insert_one(&doc! {"_id": 70, "n": 7}).session(&mut rival).await.unwrap();
    let shown = async |fields: Document| {
        let all = coll.find(doc! {"_id": {"$in": [1, 2, 70]}}).projection(fields.clone()).await.unwrap();
        let together: Vec<Document> = all.try_collect().await.unwrap();
        let mut alone = Vec::new();
        for id in [1, 2, 70] {
            alone.extend(coll.find_one(doc! {"_id": id}).projection(fields.clone()).await.unwrap());
        }
        assert_eq!(together, alone);
        alone
    };
    assert_eq!(shown(doc! {"n": 1}).await, [doc! {"_id": 1, "n": 1}, doc! {"_id": 2, "n": 1}]);
    // The `_id` is in what an inserted document has of either version.
    assert_eq!(shown(doc! {"_id": 1}).await, [doc! {"_id": 1}, doc! {"_id": 2}]);
    rival.commit().await.unwrap();
    assert_eq!(shown(doc! {"n": 1}).await, [doc! {"_id": 1, "n": 2}, doc! {"_id": 70, "n": 7}]);
    assert_eq!(shown(doc! {"_id": 1}).await, [doc! {"_id": 1}, doc! {"_id": 70}]);
}

#[tokio::test]
async fn read_only_transaction_at_read_committed_is_its_reads() {
    let (client, coll) = warm(quiet::options()).await;
    let mut session = client.session();
    let transaction = async {
        session.begin().unwrap();
        for id in 1..=3 {
            coll.find_one(doc! {"_id": id}).session(&mut session).await.unwrap();
        }
        session.commit().await.unwrap();
    };
    assert_eq!(commands_of(&client, transaction).await, BTreeMap::from([("find".to_owned(), 3)]));
    assert!(client.flush(LIMIT).await);
}

/// The record's writer is held at its first decision until everybody has asked for a commit.
#[tokio::test]
async fn commits_of_32_at_a_time_share_two_record_writes_and_two_to_finish() {
    let (decision, finish) = (Gate::before(&[Step::BeforeDecision]), Gate::before(&[Step::BeforeFinish]));
    let hook = Arc::new(Both(decision.clone(), finish.clone()));
    let (client, coll) = warm(ClientOptions { hook: Some(hook), ..quiet::options() }).await;
    let mut sessions: Vec<Session> = (0..32).map(|_| client.session()).collect();
    for (at, session) in sessions.iter_mut().enumerate() {
        session.begin().unwrap();
        increment(session, &coll, at as i32 + 1).await;
    }
    decision.shut();
    finish.shut();
    let before = client.metrics();
    let mut commits = Box::pin(join_all(sessions.iter_mut().map(Session::commit)));
    tokio::select! {
        biased;
        _ = &mut commits => panic!("committed without a decision"),
        () = decision.until_held() => {}
    }
    decision.open();
    commits.await.into_iter().for_each(|done| done.unwrap());
    finish.open();
    assert!(client.flush(LIMIT).await);
    let after = client.metrics();
    let record_writes = after.record_writes - before.record_writes;
    let all = after.commands_sent() - before.commands_sent();
    let to_finish = all - record_writes;
    println!("32 commits: {record_writes} record writes, {to_finish} commands to finish");
    assert!(record_writes <= 2, "{record_writes}");
    assert!(to_finish <= 2, "{to_finish}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_of_32_tasks_cost_no_more_than_alone() {
    const TASKS: i32 = 32;
    const EACH: i32 = 10;
    const K: u64 = 2;
    let (client, _) = warm(quiet::options()).await;
    // A document for each update: nobody meets what is not finished yet.
    let coll = quiet::collection(&client, TASKS * EACH * K as i32).await;
    warm_up(&client, &coll).await;
    let before = client.metrics();
    let tasks = (0..TASKS).map(|task| {
        let (client, coll) = (client.clone(), coll.clone());
        tokio::spawn(async move {
            let mut session = client.session();
            for at in 0..EACH {
                session.begin().unwrap();
                let first = 2 * (task * EACH + at) + 1;
                increment(&mut session, &coll, first).await;
                increment(&mut session, &coll, first + 1).await;
                session.commit().await.unwrap();
            }
        })
    });
    join_all(tasks).await.into_iter().for_each(|task| task.unwrap());
    assert!(client.flush(LIMIT).await);
    let after = client.metrics();
    let transactions = (TASKS * EACH) as u64;
    let record_writes = after.record_writes - before.record_writes;
    let others = after.commands_sent() - before.commands_sent() - record_writes - transactions * K;
    let each = |count: u64| count as f64 / transactions as f64;
    println!("{TASKS} tasks, k = {K}: record writes {:.2}, after the answer {:.2}", each(record_writes), each(others));
    assert!(record_writes <= 2 * transactions, "decisions are shared: {record_writes}");
    assert!(others <= transactions, "finishing is shared: {others}");
}

/// Commands that the server has counted since it was started, by name.
async fn counted_by_server(server: &mongodb::Client) -> BTreeMap<String, u64> {
    let status = server.database("admin").run_command(doc! {"serverStatus": 1}).await.unwrap();
    let commands = status.get_document("metrics").unwrap().get_document("commands").unwrap();
    let total = |stats: &Bson| stats.as_document()?.get_i64("total").ok().map(|total| total as u64);
    commands.iter().filter_map(|(name, stats)| Some((name.clone(), total(stats)?))).collect()
}

#[tokio::test]
async fn commands_counted_are_those_that_the_server_has_counted() {
    let server = testkit::Server::standalone().await.unwrap();
    let plain = server.client().await.unwrap();
    let client = Client::connect_with(&server.uri(), quiet::options()).await.unwrap();
    let coll = quiet::collection(&client, 64).await;
    let before = counted_by_server(&plain).await;
    let sent = commands_of(&client, async {
        warm_up(&client, &coll).await;
        coll.find_one_and_update(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).await.unwrap();
        coll.delete_many(doc! {"n": 1}).await.unwrap();
        coll.insert_one(&doc! {"_id": 1000}).await.unwrap();
        assert!(client.flush(LIMIT).await);
    })
    .await;
    let after = counted_by_server(&plain).await;
    for name in ["aggregate", "delete", "find", "findAndModify", "insert", "update"] {
        let counted = after[name] - before[name];
        assert_eq!(sent.get(name).copied().unwrap_or(0), counted, "{name}");
    }
}
