//! The first steps of every application: insert, update, read, commit, roll back, conflict.

use bson::{Document, doc};
use mongotx::{Client, Collection, ErrorKind, Outcome, Session};

async fn connect() -> Client {
    let server = local_mongod::shared_standalone().await.unwrap();
    Client::connect_with(&server.uri(), crate::quiet::at_read_committed()).await.unwrap()
}

async fn all(coll: &Collection<Document>) -> Vec<Document> {
    coll.find(doc! {}).sort(doc! {"_id": 1}).await.unwrap().try_collect().await.unwrap()
}

#[tokio::test]
async fn commit_makes_all_writes_visible_and_leaves_clean_documents() {
    let client = connect().await;
    let db = local_mongod::unique_db("smoke");
    let coll: Collection<Document> = client.database(&db).collection("a");
    coll.insert_many(&[doc! {"_id": 1, "n": 1}, doc! {"_id": 2, "n": 2}, doc! {"_id": 3, "n": 3}]).await.unwrap();
    let mut session = client.session();
    session.begin().unwrap();
    let done = coll.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 10}}).session(&mut session).await.unwrap();
    assert_eq!((done.matched_count, done.modified_count), (1, 1));
    coll.update_many(doc! {"n": {"$gt": 1}}, doc! {"$push": {"tags": "x"}}).session(&mut session).await.unwrap();
    assert_eq!(coll.delete_one(doc! {"_id": 3}).session(&mut session).await.unwrap(), 1);
    coll.insert_one(&doc! {"_id": 4, "n": 4}).session(&mut session).await.unwrap();

    let mine: Vec<Document> =
        coll.find(doc! {}).sort(doc! {"n": -1}).session(&mut session).await.unwrap().try_collect().await.unwrap();
    assert_eq!(
        mine,
        [doc! {"_id": 1, "n": 11, "tags": ["x"]}, doc! {"_id": 4, "n": 4}, doc! {"_id": 2, "n": 2, "tags": ["x"]}]
    );
    assert_eq!(all(&coll).await, [doc! {"_id": 1, "n": 1}, doc! {"_id": 2, "n": 2}, doc! {"_id": 3, "n": 3}]);
    assert_eq!(coll.count_documents(doc! {}).await.unwrap(), 3);

    let id = session.id().unwrap();
    session.commit().await.unwrap();
    let after =
        [doc! {"_id": 1, "n": 11, "tags": ["x"]}, doc! {"_id": 2, "n": 2, "tags": ["x"]}, doc! {"_id": 4, "n": 4}];
    assert_eq!(all(&coll).await, after);
    assert_eq!(client.outcome(id).await.unwrap(), Outcome::Committed);
    assert!(client.flush(std::time::Duration::from_secs(10)).await);
    assert!(client.locked_documents(coll.namespace(), 10).await.unwrap().is_empty());
    let raw = local_mongod::shared_standalone().await.unwrap().client().await.unwrap();
    let mut stored = Vec::new();
    let mut cursor = raw.database(&db).collection::<Document>("a").find(doc! {}).sort(doc! {"_id": 1}).await.unwrap();
    while cursor.advance().await.unwrap() {
        stored.push(cursor.deserialize_current().unwrap());
    }
    assert_eq!(stored, after);
    client.shutdown().await.unwrap();
}

#[tokio::test]
async fn rollback_leaves_nothing() {
    let client = connect().await;
    let coll: Collection<Document> = client.database(&local_mongod::unique_db("smoke")).collection("a");
    coll.insert_one(&doc! {"_id": 1, "n": 1}).await.unwrap();
    let mut session = client.session();
    session.begin().unwrap();
    coll.update_one(doc! {"_id": 1}, doc! {"$set": {"n": 5}}).session(&mut session).await.unwrap();
    coll.insert_one(&doc! {"_id": 2}).session(&mut session).await.unwrap();
    session.rollback().await.unwrap();
    assert_eq!(all(&coll).await, [doc! {"_id": 1, "n": 1}]);
    assert!(client.locked_documents(coll.namespace(), 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn conflict_names_document_and_rival() {
    let client = connect().await;
    let coll: Collection<Document> = client.database(&local_mongod::unique_db("smoke")).collection("a");
    coll.insert_one(&doc! {"_id": 1, "n": 1}).await.unwrap();
    let (mut first, mut second) = (client.session(), client.session());
    first.begin().unwrap();
    second.begin().unwrap();
    coll.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut first).await.unwrap();
    let error = coll.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut second).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Conflict, Some(112)));
    let conflict = error.conflict().unwrap();
    assert_eq!((&conflict.namespace, Some(conflict.rival)), (coll.namespace(), first.id()));
    first.commit().await.unwrap();
    assert_eq!(all(&coll).await, [doc! {"_id": 1, "n": 2}]);
}

async fn increment(session: &mut Session, coll: &Collection<Document>) -> mongotx::Result<()> {
    let found = coll.find_one(doc! {"_id": 1}).session(session).await?.unwrap();
    let n = found.get_i32("n").unwrap();
    let done = coll.update_one(doc! {"_id": 1, "n": n}, doc! {"$set": {"n": n + 1}}).session(session).await?;
    if done.matched_count == 1 {
        return Ok(());
    }
    coll.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(session).await.map(drop)
}

#[tokio::test]
async fn with_transaction_retries_until_all_increments_are_in() {
    let client = connect().await;
    let coll: Collection<Document> = client.database(&local_mongod::unique_db("smoke")).collection("a");
    coll.insert_one(&doc! {"_id": 1, "n": 0}).await.unwrap();
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let (client, coll) = (client.clone(), coll.clone());
        tasks.push(tokio::spawn(async move {
            let mut session = client.session();
            for _ in 0..10 {
                session
                    .run_transaction(coll.clone(), |session, coll| Box::pin(increment(session, coll)))
                    .await
                    .unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(all(&coll).await, [doc! {"_id": 1, "n": 80}]);
    println!("{:?}", client.metrics());
}
