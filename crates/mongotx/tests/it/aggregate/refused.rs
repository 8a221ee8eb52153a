//! Stages that are refused, by name, and leave the transaction as it is.

use bson::{Document, doc};
use mongotx::ErrorKind;

use crate::aggregate::{World, all, begun, change};

#[tokio::test]
async fn refusals_name_the_stage_and_the_transaction_goes_on() {
    let world = World::filled().await;
    let mut session = begun(&world.client);
    change(&world, World::coll, &mut session).await;
    let search = doc! {"from": "b", "startWith": "$to", "connectFromField": "to", "connectToField": "_id", "as": "x"};
    let cases: [(Vec<Document>, &str, ErrorKind); 8] = [
        (vec![doc! {"$out": "c"}], "$out", ErrorKind::Unsupported),
        (vec![doc! {"$merge": "c"}], "$merge", ErrorKind::Unsupported),
        (vec![doc! {"$changeStream": {}}], "$changeStream", ErrorKind::Unsupported),
        (vec![doc! {"$graphLookup": search}], "$graphLookup", ErrorKind::Unsupported),
        (vec![doc! {"$geoNear": {"near": [0, 0], "distanceField": "d"}}], "$geoNear", ErrorKind::Invalid),
        (vec![doc! {"$match": {"$text": {"$search": "a"}}}], "$text", ErrorKind::Unsupported),
        (vec![doc! {"$set": {"_insert": 1}}], "_insert", ErrorKind::Invalid),
        (vec![doc! {"$merge": "c"}, doc! {"$limit": 1}], "$merge", ErrorKind::Invalid),
    ];
    for (pipeline, name, kind) in cases {
        let error = world.coll("a").aggregate(pipeline).session(&mut session).await.err().unwrap();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
    // Under a collation, different documents may have equal `_id`s.
    let join = doc! {"$lookup": {"from": "b", "localField": "to", "foreignField": "_id", "as": "x"}};
    let coll = world.coll("a");
    let collated = coll.aggregate([join]).collation(doc! {"locale": "en", "strength": 1});
    let error = collated.session(&mut session).await.err().unwrap();
    assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains("collation"), "{error}");
    assert_eq!(all(world.coll("a").aggregate([]).session(&mut session)).await.len(), 3);
    session.commit().await.unwrap();
}

#[tokio::test]
async fn text_and_near_search_committed_versions() {
    let world = World::new().await;
    for (keys, name) in [(doc! {"s": "text"}, "words"), (doc! {"p": "2dsphere"}, "places")] {
        let index = mongodb::IndexModel::builder().keys(keys).build();
        world.driver.collection::<Document>(name).create_index(index).await.unwrap();
    }
    let point = doc! {"type": "Point", "coordinates": [1, 1]};
    world.coll("words").insert_one(&doc! {"_id": 1, "s": "one word"}).await.unwrap();
    world.coll("places").insert_one(&doc! {"_id": 1, "p": point.clone()}).await.unwrap();
    let words = [doc! {"$match": {"$text": {"$search": "word"}, "_id": 1}}, doc! {"$count": "n"}];
    assert_eq!(all(world.coll("words").aggregate(words)).await, [doc! {"n": 1}]);
    let near = [
        doc! {"$geoNear": {"near": point, "distanceField": "d", "key": "p", "query": {"_id": 1}}},
        doc! {"$count": "n"},
    ];
    assert_eq!(all(world.coll("places").aggregate(near)).await, [doc! {"n": 1}]);
}

#[tokio::test]
async fn too_much_to_lock_is_refused_with_the_limit() {
    let world = World::filled().await;
    let options = mongotx::ClientOptions { max_documents: 4, ..crate::quiet::options() };
    let client = crate::quiet::connect(options).await;
    let coll = client.database(&world.db).collection::<Document>("a");
    let mut session = crate::aggregate::repeatable(&client);
    let error = coll.aggregate([doc! {"$unionWith": "b"}]).session(&mut session).await.err().unwrap();
    assert!(error.to_string().contains("at most 4 documents"), "{error}");
}
