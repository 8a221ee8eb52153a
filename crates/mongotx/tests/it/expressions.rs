//! `$expr` is evaluated on documents as the application wrote them: never on a document that only
//! waits to be inserted, nor with the locks beside its fields.

use bson::{Document, doc};
use mongotx::{Client, Collection, Isolation, Session, TransactionOptions};

/// A collection of one document, and an open transaction that has read it and inserted another.
async fn one_and_a_pending_one(isolation: Isolation) -> (Collection<Document>, Session) {
    let server = local_mongod::shared_standalone().await.unwrap();
    let client = Client::connect_with(&server.uri(), crate::quiet::at_read_committed()).await.unwrap();
    let coll: Collection<Document> = client.database(&local_mongod::unique_db("expressions")).collection("a");
    coll.insert_one(&doc! {"_id": 1, "t": [1], "n": 1}).await.unwrap();
    let mut session =
        client.session_with(TransactionOptions { isolation: Some(isolation), ..TransactionOptions::default() });
    session.begin().unwrap();
    coll.find_one(doc! {"_id": 1}).session(&mut session).await.unwrap();
    coll.insert_one(&doc! {"_id": 2, "t": [1, 2], "n": 1}).session(&mut session).await.unwrap();
    (coll, session)
}

/// Expressions each of which fails where `t` is missing.
fn risky(n: i32) -> [Document; 3] {
    let is_in = doc! {"$expr": {"$in": [n, "$t"]}};
    [is_in.clone(), doc! {"$or": [is_in.clone(), {"none": 1}]}, doc! {"$nor": [{"$nor": [is_in]}]}]
}

#[tokio::test]
async fn expression_pending_insert_is_not_asked_outside() {
    let (coll, _session) = one_and_a_pending_one(Isolation::ReadCommitted).await;
    for filter in risky(1) {
        assert_eq!(coll.count_documents(filter.clone()).await.unwrap(), 1, "{filter}");
        assert_eq!(coll.find(filter.clone()).await.unwrap().try_collect().await.unwrap().len(), 1, "{filter}");
        assert_eq!(coll.distinct("n", filter.clone()).await.unwrap().len(), 1, "{filter}");
        let done = coll.update_one(filter.clone(), doc! {"$inc": {"n": 1}}).await.unwrap();
        assert_eq!(done.matched_count, 1, "{filter}");
        let done = coll.update_many(filter.clone(), doc! {"$inc": {"n": 1}}).await.unwrap();
        assert_eq!(done.matched_count, 1, "{filter}");
    }
    for filter in risky(2) {
        assert_eq!(coll.find_one(filter.clone()).await.unwrap(), None, "{filter}");
        assert_eq!(coll.delete_one(filter.clone()).await.unwrap(), 0, "{filter}");
        assert_eq!(coll.find_one_and_delete(filter.clone()).await.unwrap(), None, "{filter}");
    }
}

#[tokio::test]
async fn expression_own_view_is_asked_of_both_versions() {
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
        let (coll, mut session) = one_and_a_pending_one(isolation).await;
        for filter in risky(1) {
            let found = coll.find(filter.clone()).session(&mut session).await.unwrap().try_collect().await.unwrap();
            assert_eq!(found.len(), 2, "{filter}");
            let done = coll.update_many(filter.clone(), doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
            assert_eq!(done.matched_count, 2, "{filter}");
        }
        for filter in risky(7) {
            let mut of_one = doc! {"_id": 1};
            of_one.extend(filter);
            let done = coll.update_one(of_one, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
            assert_eq!(done.matched_count, 0);
        }
    }
}

#[tokio::test]
async fn filter_of_whole_document_does_not_see_an_own_read_lock() {
    let fields = |n: i32| doc! {"$expr": {"$eq": [{"$size": {"$objectToArray": "$$ROOT"}}, n]}};
    let (coll, mut session) = one_and_a_pending_one(Isolation::RepeatableRead).await;
    for filter in [fields(3), doc! {"$jsonSchema": {"maxProperties": 3}}] {
        let done = coll.update_one(filter.clone(), doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
        assert_eq!(done.matched_count, 1, "{filter}");
        let done = coll.update_many(filter.clone(), doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
        assert_eq!(done.matched_count, 2, "{filter}");
    }
    let mut four = doc! {"_id": 1};
    four.extend(fields(4));
    assert_eq!(coll.delete_one(four).session(&mut session).await.unwrap(), 0);
    let three = doc! {"$jsonSchema": {"maxProperties": 3}};
    assert_eq!(coll.delete_many(three).session(&mut session).await.unwrap(), 2);
}
