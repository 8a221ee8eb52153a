//! Shard keys that are refused, and statements that would change one.

use std::collections::HashMap;

use bson::{Bson, Document, bson, doc};
use mongotx::{Client, ErrorKind, Modification, Namespace, Session};

use crate::sharding::place::{LIMIT, Place, begin, document, one};

const CHANGED: Option<i32> = Some(66);
const NO_KEY: Option<i32> = Some(61);

fn modification(update: Bson) -> Modification {
    match update {
        Bson::Document(operators) => operators.into(),
        Bson::Array(stages) => {
            stages.into_iter().map(|stage| stage.as_document().unwrap().clone()).collect::<Vec<Document>>().into()
        }
        other => panic!("{other}"),
    }
}

async fn update(place: &Place, client: &Client, session: &mut Session, change: Bson) -> mongotx::Result<u64> {
    let coll = place.collection(client);
    Ok(coll.update_one(doc! {"_id": 1}, modification(change)).session(session).await?.matched_count)
}

fn changes() -> Vec<Bson> {
    vec![
        bson!({"$set": {"region": 2, "n": 9}}),
        bson!({"$set": {"owner": {"id": 8}}, "$inc": {"n": 9}}),
        bson!({"$inc": {"owner.id": 1}}),
        bson!({"$unset": {"region": ""}}),
        bson!({"$rename": {"n": "region"}}),
        bson!({"$set": {"owner.id": [7]}}),
        bson!([{"$set": {"region": {"$add": ["$region", 1]}}}]),
        bson!([{"$replaceWith": {"_id": 1, "n": 9}}]),
    ]
}

#[tokio::test]
async fn change_of_the_key_is_refused_and_taken_back() {
    let place = Place::new("key_change").await;
    let client = place.client().await;
    let mut session = begin(&client);
    for written_before in [false, true] {
        if written_before {
            update(&place, &client, &mut session, bson!({"$set": {"n": 5}})).await.unwrap();
        }
        for change in changes() {
            let refused = update(&place, &client, &mut session, change.clone()).await.unwrap_err();
            let code = if change == bson!({"$set": {"owner.id": [7]}}) { NO_KEY } else { CHANGED };
            assert_eq!((refused.kind(), refused.code()), (ErrorKind::Invalid, code), "{change}: {refused}");
            let shown = place.collection(&client).find_one(doc! {"_id": 1}).session(&mut session).await.unwrap();
            let mut expected = document(1, 1, 7);
            expected.insert("n", if written_before { 5 } else { 0 });
            assert_eq!(shown, Some(expected), "{change}");
        }
    }
    session.commit().await.unwrap();
    assert!(client.flush(LIMIT).await);
    assert_eq!(place.clean().await[0], (1, 5));
}

#[tokio::test]
async fn the_same_key_again_is_no_change() {
    let place = Place::new("key_same").await;
    let client = place.client().await;
    let mut session = begin(&client);
    for change in [
        bson!({"$set": {"region": 1_i64, "n": 1}}),
        bson!({"$set": {"owner": {"id": 7, "name": "y"}}}),
        bson!([{"$set": {"region": {"$add": ["$region", 0]}}}]),
        bson!([{"$replaceWith": {"$mergeObjects": ["$$ROOT", {"n": 4}]}}]),
    ] {
        assert_eq!(update(&place, &client, &mut session, change).await.unwrap(), 1);
    }
    session.commit().await.unwrap();
    assert!(client.flush(LIMIT).await);
    assert_eq!(place.clean().await[0], (1, 4));
}

#[tokio::test]
async fn change_of_many_and_replacement_are_refused() {
    let place = Place::new("key_many").await;
    let client = place.client().await;
    let coll = place.collection(&client);
    let mut session = begin(&client);
    let many = coll.update_many(doc! {"n": 0}, doc! {"$set": {"region": 9}}).session(&mut session).await;
    assert_eq!(many.unwrap_err().code(), CHANGED);
    let replace = coll.replace_one(doc! {"_id": 2}, &doc! {"_id": 2, "n": 3}).session(&mut session).await;
    assert_eq!(replace.unwrap_err().code(), CHANGED);
    let modify = coll.find_one_and_update(doc! {"_id": 2}, doc! {"$set": {"region": 9}}).session(&mut session).await;
    assert_eq!(modify.unwrap_err().code(), CHANGED);
    coll.insert_one(&document(10, 1, 7)).session(&mut session).await.unwrap();
    let own = coll.update_one(doc! {"_id": 10}, doc! {"$set": {"region": 9}}).session(&mut session).await;
    assert_eq!(own.unwrap_err().code(), CHANGED);
    session.commit().await.unwrap();
    assert!(client.flush(LIMIT).await);
    assert!(place.clean().await.iter().all(|(_, n)| *n == 0));
    let regions: Vec<i32> = place.stored().await.iter().map(|it| it.get_i32("region").unwrap()).collect();
    assert_eq!(regions, [1, 2, 0, 1, 2, 0, 1]);
}

#[tokio::test]
async fn upsert_demands_the_key_and_keeps_it() {
    let place = Place::new("key_upsert").await;
    let client = place.client().await;
    let coll = place.collection(&client);
    let mut session = begin(&client);
    let set = doc! {"$set": {"n": 1}};
    coll.delete_one(doc! {"_id": 1}).session(&mut session).await.unwrap();
    for filter in [doc! {"_id": 30}, doc! {"_id": 30, "region": 1}, doc! {"_id": 30, "region": 1, "owner.id": [7]}] {
        let refused = coll.update_one(filter, set.clone()).upsert(true).session(&mut session).await.unwrap_err();
        assert_eq!(refused.code(), NO_KEY, "{refused}");
    }
    for change in
        [bson!({"$set": {"region": 2}}), bson!([{"$set": {"region": 2}}]), bson!({"$setOnInsert": {"owner.id": 1}})]
    {
        // Of a new `_id`, and of one that the transaction has removed.
        for id in [30, 1] {
            let upsert = coll.update_one(one(id, 1, 7), modification(change.clone())).upsert(true);
            assert_eq!(upsert.session(&mut session).await.unwrap_err().code(), CHANGED, "{change}");
        }
    }
    let replace = coll.replace_one(one(30, 1, 7), &document(30, 2, 7)).upsert(true).session(&mut session).await;
    assert_eq!(replace.unwrap_err().code(), CHANGED);
    coll.update_one(one(31, 1, 7), set).upsert(true).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    assert!(client.flush(LIMIT).await);
    assert_eq!((place.stored_one(30).await, place.clean().await.len()), (None, 6));
}

#[tokio::test]
async fn array_in_the_key_is_refused() {
    let place = Place::new("key_array").await;
    let client = place.client().await;
    let coll = place.collection(&client);
    let mut session = begin(&client);
    for document in [doc! {"_id": 40, "region": [1]}, doc! {"_id": 40, "owner": [{"id": 1}]}] {
        let refused = coll.insert_one(&document).session(&mut session).await.unwrap_err();
        assert_eq!(refused.code(), NO_KEY, "{refused}");
        assert!(coll.insert_many([&document]).session(&mut session).await.is_err());
    }
    session.commit().await.unwrap();
    assert_eq!(place.clean().await.len(), 6);
}

#[tokio::test]
async fn two_documents_with_one_id_are_refused() {
    let place = Place::new("key_twice").await;
    let client = place.client().await;
    let coll = place.collection(&client);
    let mut session = begin(&client);
    coll.delete_one(doc! {"_id": 1}).session(&mut session).await.unwrap();
    let refused = coll.insert_one(&document(1, 5, 5)).session(&mut session).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
    session.commit().await.unwrap();
    assert!(client.flush(LIMIT).await);
    assert_eq!(place.clean().await.len(), 5);
}

#[tokio::test]
async fn declared_key_that_is_none_is_refused_at_once() {
    let server = local_mongod::shared_standalone().await.unwrap();
    for bad in ["", "a..b", "$a", "_unsafe.x"] {
        let shard_keys = HashMap::from([(Namespace::parse_namespace("db.c").unwrap(), vec![bad.to_owned()])]);
        let options = mongotx::ClientOptions { shard_keys, ..crate::quiet::at_read_committed() };
        let refused = Client::connect_with(&server.uri(), options).await.err().unwrap();
        assert!(refused.kind() == ErrorKind::Invalid && refused.to_string().contains("db.c"), "{bad}: {refused}");
    }
}
