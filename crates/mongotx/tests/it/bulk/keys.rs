//! Updates by keys of unique indexes: two commands, or one where the documents are known.

use std::collections::BTreeMap;

use bson::{Document, doc};
use mongotx::{ClientOptions, Collection, IndexModel, Isolation, Session, Step, TransactionOptions};

use super::{LONG, add_by_key, numbers};
use crate::quiet;

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
        let hidden = coll.find(doc! {"w": 1, "i": {"$in": [5]}}).projection(doc! {"_id": 0}).session(&mut session);
        assert_eq!(hidden.await.unwrap().try_collect().await.unwrap().len(), 1);
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
    assert_eq!((done.matched_count, done.modified_count), (2, 2), "no document has the last key");
    session.commit().await.unwrap();
    assert_eq!(numbers(&client, &coll).await, [3, 13, 3, 11, 3, 3]);
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
    assert_eq!(added.await.unwrap(), 1, "one document has the first key, none the second");
    assert_eq!(numbers(&client, &coll).await, [0, 1]);
}
