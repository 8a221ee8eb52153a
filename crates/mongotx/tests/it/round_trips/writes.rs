//! Writes of one and of many documents, each alone.

use std::collections::BTreeMap;

use bson::{Bson, Document, doc};
use futures_util::TryStreamExt;
use mongotx::ReturnDocument;

use super::{LIMIT, cost, increment, warm};
use crate::quiet::{self, commands_of};

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
    let server = local_mongod::shared_standalone().await.unwrap();
    let plain = server.client().await.unwrap().database(&coll.namespace().db).collection::<Document>("plain");
    let lines = doc! {"a": 1, "x": {"y": [{"z": 1, "w": 2}, 3, [{"z": 4}]]}, "lines": [{"n": 1, "t": "a"}, {"t": "b"}]};
    let mut session = client.session();
    session.begin().unwrap();
    increment(&mut session, &first, 1).await;
    // Look-ups about the collection that are made once are made here.
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
    // The query, the statement; which were not changed, and that one: locked, and set to what it
    // was.
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
async fn inserts_under_unique_indexes_take_their_question_along() {
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
    let expected = BTreeMap::from([("insert".to_owned(), 1), ("find".to_owned(), 1)]);
    assert_eq!(commands_of(&client, many).await, expected);
    let along = client.metrics().sent_along;
    let one = doc! {"order": 4, "line": 1, "code": "y"};
    let one = async { drop(coll.insert_one(&one).session(&mut session).await.unwrap()) };
    assert_eq!(commands_of(&client, one).await, expected);
    assert_eq!(client.metrics().sent_along, along + 1);
    // What is too long for one write is asked about by itself.
    let more = async { drop(coll.insert_many(&some(6, 300)).session(&mut session).await.unwrap()) };
    assert_eq!(commands_of(&client, more).await, BTreeMap::from([("insert".to_owned(), 1), ("find".to_owned(), 1)]));
    assert_eq!(client.metrics().sent_along, along + 1);
    for taken in [doc! {"order": 1, "line": 5, "code": "z"}, doc! {"order": 9, "line": 5, "code": "1-7"}] {
        let refused = coll.insert_one(&taken).session(&mut session).await.unwrap_err();
        assert_eq!(refused.code(), Some(11000), "{taken}");
    }
    let mut eight = lines(5);
    eight[7].insert("code", "1-1");
    let refused = coll.insert_many(&eight).session(&mut session).await.unwrap_err();
    assert_eq!(refused.progress().unwrap().inserted, 7, "{refused}");
    session.commit().await.unwrap();
    assert_eq!(coll.count_documents(doc! {}).await.unwrap(), 10 + 1 + 10 + 1 + 300 + 7);
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
async fn one_document_write_outside_a_transaction_is_one_command() {
    let (client, coll) = warm(quiet::options()).await;
    let by_id = doc! {"_id": 1};
    // The first one stores a notice before, and makes sure of the index that removes it.
    assert_eq!(cost(&client, async { coll.insert_one(&doc! {"_id": 99}).await.unwrap() }).await, 3);
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
