//! Documents that an index cannot hold are refused by the server at the write, not when they are
//! finished.

use bson::{Document, doc};
use mongotx::{ErrorKind, IndexModel};

use super::Place;

#[tokio::test]
async fn document_that_an_index_cannot_hold_is_refused_at_the_write() {
    let cases: [(Document, Document, i32); 5] = [
        (doc! {"a": 1, "b": 1}, doc! {"a": [1], "b": [2]}, 171),
        (doc! {"a": "2dsphere"}, doc! {"a": {"type": "Point", "coordinates": [500, 0]}}, 16755),
        (doc! {"a": "2d"}, doc! {"a": [1000, 0]}, 13027),
        (doc! {"a": "hashed"}, doc! {"a": [1]}, 16766),
        (doc! {"a": 1, "b": "2dsphere"}, doc! {"a": 1, "b": "nowhere"}, 16755),
    ];
    for (keys, bad, code) in cases {
        let place = Place::new("refusals").await;
        place.coll.create_index(IndexModel::new(keys.clone())).await.unwrap();
        place.coll.insert_one(&doc! {"_id": 1}).await.unwrap();
        let mut session = place.begin();
        let mut inserted = bad.clone();
        inserted.insert("_id", 2);
        let error = place.coll.insert_one(&inserted).session(&mut session).await.unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Invalid, Some(code)), "{keys}: {error}");
        let update = place.coll.update_one(doc! {"_id": 1}, doc! {"$set": bad.clone()});
        let error = update.session(&mut session).await.unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Invalid, Some(code)), "{keys}: {error}");
        place.coll.update_one(doc! {"_id": 1}, doc! {"$set": {"ok": true}}).session(&mut session).await.unwrap();
        session.commit().await.unwrap();
        assert_eq!(place.stored().await, [doc! {"_id": 1, "ok": true}], "{keys}");
    }
}
