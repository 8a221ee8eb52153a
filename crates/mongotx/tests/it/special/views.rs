//! A view that MongoTx has made: read, and not written.

use bson::{Document, doc};
use mongotx::Isolation;

use super::{all, assert_writes_refused};
use crate::place::Place;

/// `tests/it/aggregate/views.rs` tests what views show of transactions.
#[tokio::test]
async fn view_made_by_mongotx_is_read_and_not_written() {
    let place = Place::with("views", doc! {"viewOn": "base", "pipeline": [{"$match": {"a": 1}}]}).await;
    let base = place.coll("base");
    base.insert_one(&doc! {"_id": 1, "a": 1}).await.unwrap();
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
        let mut session = place.begin_at(isolation);
        base.insert_one(&doc! {"_id": 2, "a": 1}).session(&mut session).await.unwrap();
        let view = place.coll("c");
        let inside: Vec<Document> = all(&view, &[doc! {"$sort": {"_id": 1}}], Some(&mut session)).await;
        assert_eq!(inside, [doc! {"_id": 1, "a": 1}, doc! {"_id": 2, "a": 1}]);
        assert_eq!(view.count_documents(doc! {}).await.unwrap(), 1);
        assert_eq!(view.estimated_document_count().session(&mut session).await.unwrap(), 2);
        assert_writes_refused(&view, doc! {"a": 1}, &mut session, "it is a view").await;
        assert_eq!(view.insert_one(&doc! {"_id": 3}).await.unwrap_err().code(), Some(166));
        session.rollback().await.unwrap();
    }
    place.coll("c").drop().await.unwrap();
    assert_eq!(base.count_documents(doc! {}).await.unwrap(), 1);
}
