//! Documents that a pipeline at repeatable read has read stay as they are.

use bson::{Bson, doc};
use mongotx::ErrorKind;

use crate::aggregate::{World, all, begun, repeatable};

/// The documents read stay until the transaction ends: rivals cannot change them, in any collection
/// that was read.
#[tokio::test]
async fn what_a_pipeline_has_read_does_not_change() {
    let world = World::filled().await;
    let join = doc! {"$lookup": {"from": "b", "localField": "to", "foreignField": "_id", "as": "x"}};
    let mut session = repeatable(&world.client);
    let first =
        all(world.coll("a").aggregate([doc! {"$match": {"_id": {"$lt": 3}}}, join.clone()]).session(&mut session))
            .await;
    assert_eq!(first.len(), 2);
    for (name, id) in [("a", 1), ("a", 2), ("b", 1), ("b", 2), ("b", 3)] {
        let mut rival = begun(&world.rival);
        let coll = world.rivals(name);
        let add = coll.update_one(doc! {"_id": id}, doc! {"$inc": {"n": 1}}).session(&mut rival);
        assert_eq!(add.await.unwrap_err().kind(), ErrorKind::Conflict, "{name} {id}");
    }
    // Not read: it does not match.
    let mut rival = begun(&world.rival);
    world.rivals("a").update_one(doc! {"_id": 3}, doc! {"$inc": {"n": 1}}).session(&mut rival).await.unwrap();
    rival.commit().await.unwrap();
    let again =
        all(world.coll("a").aggregate([doc! {"$match": {"_id": {"$lt": 3}}}, join]).session(&mut session)).await;
    assert_eq!(first, again);
    session.commit().await.unwrap();
}

/// Of a union with a filter, only what matches is locked.
#[tokio::test]
async fn a_union_locks_what_its_filter_matches() {
    let world = World::filled().await;
    let union = doc! {"$unionWith": {"coll": "b", "pipeline": [{"$match": {"n": 10}}]}};
    let mut session = repeatable(&world.client);
    let found = all(world.coll("a").aggregate([doc! {"$match": {"n": 20}}, union]).session(&mut session)).await;
    assert_eq!(found.len(), 2);
    let mut rival = begun(&world.rival);
    let add = doc! {"$inc": {"n": 1}};
    world.rivals("b").update_one(doc! {"_id": 2}, add.clone()).session(&mut rival).await.unwrap();
    let held = world.rivals("b").update_one(doc! {"_id": 1}, add).session(&mut rival).await.unwrap_err();
    assert_eq!(held.kind(), ErrorKind::Conflict);
    session.commit().await.unwrap();
}

/// Read committed allows read skew between two pipelines, repeatable read does not.
#[tokio::test]
async fn read_skew_between_two_pipelines() {
    let sum = || [doc! {"$group": {"_id": Bson::Null, "n": {"$sum": "$n"}}}];
    for (level, is_repeatable) in [("read committed", false), ("repeatable read", true)] {
        let world = World::filled().await;
        let mut reader = if is_repeatable { repeatable(&world.client) } else { begun(&world.client) };
        let a = all(world.coll("a").aggregate(sum()).session(&mut reader)).await[0].get_i32("n").unwrap();
        let mut writer = begun(&world.rival);
        let (minus, plus) = (doc! {"$inc": {"n": -5}}, doc! {"$inc": {"n": 5}});
        let moved = async {
            world.rivals("a").update_one(doc! {"_id": 1}, minus).session(&mut writer).await?;
            world.rivals("b").update_one(doc! {"_id": 1}, plus).session(&mut writer).await?;
            writer.commit().await
        };
        assert_eq!(moved.await.is_err(), is_repeatable, "{level}");
        let b = all(world.coll("b").aggregate(sum()).session(&mut reader)).await[0].get_i32("n").unwrap();
        assert_eq!(a + b, if is_repeatable { 120 } else { 125 }, "{level}");
        reader.commit().await.unwrap();
    }
}

/// Own writes and read locks of the same collections.
#[tokio::test]
async fn own_writes_are_seen_at_repeatable_read() {
    let world = World::filled().await;
    let mut session = repeatable(&world.client);
    crate::aggregate::change(&world, World::coll, &mut session).await;
    let join = doc! {"$lookup": {"from": "b", "localField": "to", "foreignField": "_id", "as": "x"}};
    let pipeline = [doc! {"$sort": {"_id": 1}}, join, doc! {"$project": {"x": "$x.n"}}];
    let found = all(world.coll("a").aggregate(pipeline).session(&mut session)).await;
    assert_eq!(found, [doc! {"_id": 1, "x": []}, doc! {"_id": 3, "x": [40]}, doc! {"_id": 4, "x": [11]}]);
    session.commit().await.unwrap();
}
