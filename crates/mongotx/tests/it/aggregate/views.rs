//! Reads of the server's views.

use bson::{Bson, Document, doc};
use mongotx::ErrorKind;

use crate::aggregate::{World, all, begun, change};

/// `big` filters `a`, `shaped` changes `big`, `joined` looks into `big` from `b`.
async fn with_views() -> World {
    let world = World::filled().await;
    let create = async |name: &str, on: &str, pipeline: Vec<Document>| {
        world.driver.run_command(doc! {"create": name, "viewOn": on, "pipeline": pipeline}).await.unwrap();
    };
    create("big", "a", vec![doc! {"$match": {"n": {"$gt": 10}}}]).await;
    create("shaped", "big", vec![doc! {"$project": {"m": {"$multiply": ["$n", 2]}}}]).await;
    let join = doc! {"$lookup": {"from": "big", "pipeline": [{"$count": "n"}], "as": "x"}};
    create("joined", "b", vec![doc! {"$match": {"_id": 1}}, join]).await;
    world
}

#[tokio::test]
async fn views_show_what_their_reader_may_see() {
    let world = with_views().await;
    let mut session = begun(&world.client);
    change(&world, World::coll, &mut session).await;
    let inside = [doc! {"_id": 1, "m": 22}, doc! {"_id": 3, "m": 60}, doc! {"_id": 4, "m": 80}];
    let outside = [doc! {"_id": 2, "m": 40}, doc! {"_id": 3, "m": 60}];
    let (shaped, sort) = (world.coll("shaped"), doc! {"_id": 1});
    let find = || shaped.find(doc! {}).sort(sort.clone());
    assert_eq!(find().await.unwrap().try_collect().await.unwrap(), outside);
    assert_eq!(find().session(&mut session).await.unwrap().try_collect().await.unwrap(), inside);
    assert_eq!(shaped.count_documents(doc! {"m": {"$gt": 30}}).await.unwrap(), 2);
    assert_eq!(shaped.count_documents(doc! {}).session(&mut session).await.unwrap(), 3);
    assert_eq!(shaped.estimated_document_count().await.unwrap(), 2);
    assert_eq!(shaped.find_one(doc! {"_id": 4}).await.unwrap(), None);
    assert_eq!(shaped.find_one(doc! {"_id": 4}).session(&mut session).await.unwrap(), Some(inside[2].clone()));
    let mut values = shaped.distinct("m", doc! {}).session(&mut session).await.unwrap();
    values.sort_by_key(|value| value.as_i32());
    assert_eq!(values, [Bson::Int32(22), Bson::Int32(60), Bson::Int32(80)]);
    let union = [doc! {"$unionWith": "shaped"}, doc! {"$match": {"m": {"$exists": true}}}, doc! {"$count": "n"}];
    assert_eq!(all(world.coll("b").aggregate(union).session(&mut session)).await, [doc! {"n": 3}]);
    let joined = all(world.coll("joined").aggregate([doc! {"$project": {"x": 1}}]).session(&mut session)).await;
    assert_eq!(joined, [doc! {"_id": 1, "x": [{"n": 3}]}]);
}

#[tokio::test]
async fn lookups_by_a_field_reach_through_views_that_only_filter() {
    let world = with_views().await;
    let join = |from: &str| doc! {"$lookup": {"from": from, "localField": "to", "foreignField": "_id", "as": "x"}};
    let ids = |from: &str| [join(from), doc! {"$sort": {"_id": 1}}, doc! {"$project": {"_id": 0, "x": "$x._id"}}];
    let found = all(world.coll("b").aggregate(ids("big"))).await;
    assert_eq!(found, [doc! {"x": [2]}, doc! {"x": [3]}, doc! {"x": []}]);
    let error = world.coll("b").aggregate([join("shaped")]).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}

#[tokio::test]
async fn views_have_their_own_collation() {
    let world = World::new().await;
    world.coll("a").insert_many(&[doc! {"_id": 1, "s": "a"}, doc! {"_id": 2, "s": "A"}]).await.unwrap();
    let loose = doc! {"locale": "en", "strength": 2};
    world
        .driver
        .run_command(doc! {"create": "v", "viewOn": "a", "pipeline": [], "collation": loose.clone()})
        .await
        .unwrap();
    assert_eq!(world.coll("v").count_documents(doc! {"s": "a"}).await.unwrap(), 2);
    let exact = doc! {"locale": "simple"};
    assert_eq!(world.coll("v").count_documents(doc! {"s": "a"}).collation(exact).await.unwrap_err().code(), Some(167));
    let union = world.coll("a").aggregate([doc! {"$unionWith": "v"}]).await.err().unwrap();
    assert_eq!(union.code(), Some(167));
}

/// A unique index is stored under another name and with one more field.
#[tokio::test]
async fn hint_for_a_view_is_one_for_the_collection_below() {
    let world = with_views().await;
    world.coll("a").create_index(mongotx::IndexModel::new(doc! {"n": 1}).unique(true)).await.unwrap();
    let (shaped, mut session) = (world.coll("shaped"), begun(&world.client));
    for hint in [Bson::from("n_1"), doc! {"n": 1}.into()] {
        let outside = shaped.count_documents(doc! {"m": {"$gt": 30}}).hint(hint.clone());
        assert_eq!(outside.await.unwrap(), 2);
        let inside = shaped.find(doc! {"m": 60}).hint(hint).session(&mut session).await.unwrap();
        assert_eq!(inside.try_collect().await.unwrap(), [doc! {"_id": 3, "m": 60}]);
    }
    let unknown = shaped.find(doc! {}).hint("nope").await.err().unwrap();
    assert_eq!(unknown.code(), Some(2), "{unknown}");
}

#[tokio::test]
async fn writes_to_views_are_refused() {
    let world = with_views().await;
    let mut session = begun(&world.client);
    let error = world.coll("big").insert_one(&doc! {"_id": 9}).session(&mut session).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains("view"), "{error}");
}
