//! The estimated number of documents: what is acknowledged counts, finished or not.

use std::time::Duration;

use bson::doc;
use mongotx::ClientOptions;

use crate::quiet;

#[tokio::test]
async fn what_is_removed_and_not_finished_is_not_counted() {
    let client = quiet::connect(ClientOptions { finish_delay: Duration::from_secs(10), ..quiet::options() }).await;
    let other = quiet::connect(quiet::options()).await;
    for by_itself in [true, false] {
        let coll = quiet::collection(&client, 10).await;
        coll.delete_many(doc! {"_id": {"$gt": 3}}).await.unwrap();
        let counting = if by_itself { coll } else { quiet::through(&other, &coll) };
        assert_eq!(counting.estimated_document_count().await.unwrap(), 3, "by itself: {by_itself}");
    }
}

#[tokio::test]
async fn what_is_not_committed_is_not_counted() {
    let client = quiet::connect(quiet::options()).await;
    let coll = quiet::collection(&client, 10).await;
    let mut session = client.session();
    session.begin().unwrap();
    coll.insert_many(&[doc! {"_id": 11}, doc! {"_id": 12}]).session(&mut session).await.unwrap();
    coll.delete_one(doc! {"_id": 1}).session(&mut session).await.unwrap();
    assert_eq!(coll.estimated_document_count().await.unwrap(), 10);
    assert_eq!(coll.estimated_document_count().session(&mut session).await.unwrap(), 11);
}
