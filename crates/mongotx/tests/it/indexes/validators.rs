//! Validators of collections: a write that breaks one fails at the write, not at the commit.

use bson::{Document, doc};
use mongotx::ErrorKind;

use super::Place;

async fn validated(name: &str, validator: Document) -> Place {
    let place = Place::new(name).await;
    place.db.run_command(doc! {"create": "c", "validator": validator}).await.unwrap();
    place.plain.insert_one(doc! {"_id": 1, "n": 1}).await.unwrap();
    place
}

#[tokio::test]
async fn write_that_breaks_the_validator_fails_at_the_write() {
    let schema = doc! {"$jsonSchema": {
        "required": ["n"], "properties": {"_id": {}, "n": {"bsonType": "int"}}, "additionalProperties": false,
    }};
    for validator in [schema, doc! {"n": {"$type": "int"}}, doc! {"$expr": {"$eq": [{"$type": "$n"}, "int"]}}] {
        let place = validated("validators", validator.clone()).await;
        let mut session = place.begin();
        let error = place.coll.insert_one(&doc! {"_id": 2, "n": "x"}).session(&mut session).await.unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Invalid, Some(121)), "{validator}: {error}");
        for update in [doc! {"$set": {"n": "x"}}, doc! {"$unset": {"n": 1}}] {
            let error = place.coll.update_one(doc! {"_id": 1}, update).session(&mut session).await.unwrap_err();
            assert_eq!(error.code(), Some(121), "{validator}: {error}");
        }
        place.coll.insert_one(&doc! {"_id": 3, "n": 3}).session(&mut session).await.unwrap();
        place.coll.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
        session.commit().await.unwrap();
        let mut session = place.begin();
        place.coll.delete_one(doc! {"_id": 3}).session(&mut session).await.unwrap();
        session.commit().await.unwrap();
        assert_eq!(place.stored().await, [doc! {"_id": 1, "n": 2}]);
        // Outside a transaction, with and without MongoTx.
        assert_eq!(place.coll.insert_one(&doc! {"_id": 4}).await.unwrap_err().code(), Some(121));
        assert!(place.plain.insert_one(doc! {"_id": 4}).await.is_err());
    }
}

#[tokio::test]
async fn document_older_than_the_validator_can_be_read_locked_and_rolled_back() {
    let place = Place::new("validators_old").await;
    place.plain.insert_one(doc! {"_id": 1, "old": true}).await.unwrap();
    let validator = doc! {"n": {"$exists": true}};
    place.db.run_command(doc! {"collMod": "c", "validator": validator, "validationLevel": "moderate"}).await.unwrap();
    let mut session = place.client.session();
    let options =
        mongotx::TransactionOptions { isolation: Some(mongotx::Isolation::RepeatableRead), ..Default::default() };
    session.begin_with(options).unwrap();
    assert!(place.coll.find_one(doc! {"_id": 1}).session(&mut session).await.unwrap().is_some());
    place.coll.update_one(doc! {"_id": 1}, doc! {"$set": {"more": 1}}).session(&mut session).await.unwrap();
    session.rollback().await.unwrap();
    assert_eq!(place.stored().await, [doc! {"_id": 1, "old": true}]);
}
