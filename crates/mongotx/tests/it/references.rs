//! Documents whose `_id` is a reference to another document: an object of `$ref` and `$id`.

use bson::{Bson, Document, doc};

use crate::indexes::Place;

fn reference() -> Document {
    doc! {"$ref": "others", "$id": 5}
}

/// Filters that demand the `_id` which is a reference.
fn filters() -> [Document; 4] {
    [
        doc! {"_id": reference()},
        doc! {"_id": {"$eq": reference()}},
        doc! {"_id": {"$in": [reference()]}},
        doc! {"_id": reference(), "n": 9},
    ]
}

#[tokio::test]
async fn upserts_in_a_transaction_give_the_document_the_reference_as_its_id() {
    let place = Place::new("references_upserted").await;
    for filter in filters() {
        let mut session = place.begin();
        let update = doc! {"$set": {"q": 1}};
        let upserted = place.coll.update_one(filter.clone(), update).upsert(true).session(&mut session).await.unwrap();
        assert_eq!(upserted.upserted_id, Some(Bson::Document(reference())), "{filter}");
        // The second one finds what the first has made.
        let update = doc! {"$set": {"q": 2}};
        let updated = place.coll.update_one(filter.clone(), update).upsert(true).session(&mut session).await.unwrap();
        assert_eq!((updated.matched_count, updated.upserted_id), (1, None), "{filter}");
        session.commit().await.unwrap();
        let mut expected = doc! {"_id": reference(), "q": 2};
        expected.extend(filter.get("n").map(|n| ("n".to_owned(), n.clone())));
        assert_eq!(place.stored().await, [expected], "{filter}");
        let mut session = place.begin();
        assert_eq!(place.coll.delete_one(filter.clone()).session(&mut session).await.unwrap(), 1, "{filter}");
        let new = doc! {"a": 1};
        let replaced = place.coll.replace_one(filter.clone(), &new).upsert(true).session(&mut session).await.unwrap();
        assert_eq!(replaced.upserted_id, Some(Bson::Document(reference())), "{filter}");
        session.commit().await.unwrap();
        assert_eq!(place.stored().await, [doc! {"_id": reference(), "a": 1}], "{filter}");
        place.plain.delete_many(doc! {}).await.unwrap();
    }
}

#[tokio::test]
async fn documents_with_references_as_ids_are_written_in_transactions() {
    let place = Place::new("references_written").await;
    let with_database = doc! {"$ref": "others", "$id": 6, "$db": "elsewhere"};
    let mut session = place.begin();
    place.coll.insert_one(&doc! {"_id": reference(), "n": 1}).session(&mut session).await.unwrap();
    place.coll.insert_many(&[doc! {"_id": &with_database}, doc! {"_id": 1}]).session(&mut session).await.unwrap();
    let refused = doc! {"_id": {"$ref": "others", "$id": 7, "$x": 1}};
    assert_eq!(place.coll.insert_one(&refused).session(&mut session).await.unwrap_err().code(), Some(52));
    session.commit().await.unwrap();
    assert_eq!(place.stored().await.len(), 3);
    let mut session = place.begin();
    for update in [doc! {"$inc": {"n": 1}}, doc! {"$push": {"list": 1}}] {
        let updated = place.coll.update_many(doc! {}, update).session(&mut session).await.unwrap();
        assert_eq!(updated.modified_count, 3);
    }
    place.coll.delete_one(doc! {"_id": with_database}).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    let expected = [doc! {"_id": 1, "n": 1, "list": [1]}, doc! {"_id": reference(), "n": 2, "list": [1]}];
    assert_eq!(place.stored().await, expected);
}
