//! `_id`s that a collation calls equal are different documents.

use bson::{Document, doc};
use mongotx::{Client, Collection, Isolation, TransactionOptions};

#[tokio::test]
async fn collation_update_many_changes_each_document_once() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let client = Client::connect_with(&server.uri(), crate::quiet::at_read_committed()).await.unwrap();
    let loose = doc! {"locale": "en", "strength": 1};
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
        let coll: Collection<Document> = client.database(&local_mongod::unique_db("collations")).collection("a");
        let ids = ["a", "A", r"x\Ey.*", r"X\Ey.*", "á"];
        coll.insert_many(&ids.map(|id| doc! {"_id": id, "s": "word", "n": 0})).await.unwrap();
        let mut session =
            client.session_with(TransactionOptions { isolation: Some(isolation), ..TransactionOptions::default() });
        session.begin().unwrap();
        let word = doc! {"s": "WORD"};
        let found = coll.find(word.clone()).collation(loose.clone()).session(&mut session).await.unwrap();
        assert_eq!(found.try_collect().await.unwrap().len(), ids.len());
        let change = doc! {"$inc": {"n": 1}};
        let done = coll.update_many(word.clone(), change.clone()).collation(loose.clone()).session(&mut session);
        assert_eq!(done.await.unwrap().modified_count, ids.len() as u64);
        coll.find_one_and_update(word.clone(), change.clone())
            .sort(doc! {"n": 1})
            .collation(loose.clone())
            .session(&mut session)
            .await
            .unwrap();
        session.commit().await.unwrap();
        coll.update_many(word.clone(), change.clone()).collation(loose.clone()).await.unwrap();
        for _ in 0..3 {
            coll.find_one_and_update(word.clone(), change.clone())
                .sort(doc! {"n": 1})
                .collation(loose.clone())
                .await
                .unwrap();
        }
        let mut n: Vec<i32> = Vec::new();
        for document in coll.find(doc! {}).await.unwrap().try_collect().await.unwrap() {
            n.push(document.get_i32("n").unwrap());
        }
        n.sort();
        // Twice all of them, and four times the one with the fewest changes.
        assert_eq!(n, [2, 3, 3, 3, 3]);
    }
}
