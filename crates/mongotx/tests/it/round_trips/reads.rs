//! Reads and queries of documents that are free, or that the transaction itself has written.

use std::collections::BTreeMap;

use bson::{Document, doc};
use mongotx::{Client, Collection, Session};

use super::{LIMIT, cost, increment, warm};
use crate::quiet::{self, commands_of};

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
async fn query_with_nothing_pending_is_one_round_trip_and_at_most_two_in_a_transaction() {
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

/// The documents that the server looked at for the last query of a database.
async fn last_examined(plain: &mongodb::Database) -> i64 {
    let profile = plain.collection::<Document>("system.profile");
    let last = profile.find_one(doc! {"command.find": "docs"}).sort(doc! {"ts": -1}).await.unwrap().unwrap();
    last.get("docsExamined").map_or(0, |count| count.as_i64().or(count.as_i32().map(i64::from)).unwrap())
}

#[tokio::test]
async fn first_document_beside_own_removals_is_found_by_the_index() {
    let (client, coll) = warm(quiet::options()).await;
    let plain = local_mongod::shared_standalone().await.unwrap().client().await.unwrap().database(&coll.namespace().db);
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
async fn query_beside_active_transactions_is_two_round_trips_and_repairs_nothing() {
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
    // Documents that are free cost what they always cost.
    let other = async { assert_eq!(coll.count_documents(doc! {"_id": {"$gt": 10}}).await.unwrap(), 54) };
    assert_eq!(cost(&client, other).await, 1);
    session.commit().await.unwrap();
    assert!(rival.flush(LIMIT).await);
    assert_eq!(coll.count_documents(doc! {"n": 2}).await.unwrap(), 4);
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
    // An answer from its own writes, and an empty one, take a look at the transaction's record; an
    // empty one takes two reads besides.
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
    // So are own writes: rivals are looked for in all collections by one command. And one look at
    // the own record.
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
