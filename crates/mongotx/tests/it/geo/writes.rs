//! Updates and deletes of what is nearest, inside and outside transactions.

use bson::{Document, doc};
use mongotx::{ErrorKind, Isolation};

use crate::geo::{
    queries::{Kind, Query},
    view::{View, nearest},
    world::Scene,
};
use crate::random::Random;

fn id(document: &Document) -> i32 {
    document.get_i32("_id").unwrap()
}

fn first(view: &View, query: &Query) -> Option<i32> {
    nearest(view, query).first().map(|(_, document)| id(document))
}

async fn in_own_view(seed: u64, kind: Kind, isolation: Isolation) {
    let random = &mut Random::of_seed(seed);
    let mut scene = Scene::new(random, kind, isolation).await;
    scene.commit_unfinished(random).await;
    let (mut changed, mut removed) = (0, 0);
    for round in 0..12 {
        let query = Query::random(random, kind);
        let (coll, session) = (scene.coll.clone(), &mut scene.session);
        let nearest_id = first(&scene.own, &query);
        match round % 4 {
            0 => {
                let update = doc! {"$inc": {"n": 1}};
                let done = coll.update_one(query.filter.clone(), update).session(session).await.unwrap();
                assert_eq!(done.matched_count, u64::from(nearest_id.is_some()), "{query:?}");
                if let Some(document) = nearest_id.and_then(|id| scene.own.get_mut(&id)) {
                    let n = document.get_i32("n").unwrap_or(0);
                    document.insert("n", n + 1);
                    changed += 1;
                }
            }
            1 => {
                let ids: Vec<i32> = nearest(&scene.own, &query).iter().map(|(_, document)| id(document)).collect();
                let update = doc! {"$set": {"k": round}};
                let done = coll.update_many(query.filter.clone(), update).session(session).await.unwrap();
                assert_eq!(done.matched_count as usize, ids.len(), "{query:?}");
                ids.iter().for_each(|id| drop(scene.own.get_mut(id).unwrap().insert("k", round)));
                changed += ids.len();
            }
            2 => {
                let found = coll.find_one_and_delete(query.filter.clone()).session(session).await.unwrap();
                assert_eq!(found, nearest_id.and_then(|id| scene.own.remove(&id)), "{query:?}");
                removed += usize::from(found.is_some());
            }
            _ => {
                let done = coll.delete_one(query.filter.clone()).session(session).await.unwrap();
                assert_eq!(done, u64::from(nearest_id.is_some_and(|id| scene.own.remove(&id).is_some())), "{query:?}");
                removed += done as usize;
            }
        }
    }
    assert!(changed > 10 && removed > 2, "{changed} changed, {removed} removed");
    scene.session.commit().await.unwrap();
    let mut stored: View = View::new();
    for document in scene.coll.find(doc! {}).await.unwrap().try_collect().await.unwrap() {
        stored.insert(id(&document), document);
    }
    assert_eq!(stored, scene.own);
    scene.session.begin().unwrap();
    scene.end().await;
}

#[tokio::test]
async fn writes_by_place_change_what_is_nearest() {
    in_own_view(400, Kind::Sphere, Isolation::ReadCommitted).await;
    in_own_view(401, Kind::Plane, Isolation::ReadCommitted).await;
    in_own_view(402, Kind::Sphere, Isolation::RepeatableRead).await;
}

#[tokio::test]
async fn outside_a_transaction_the_nearest_is_written_and_none_behind_it() {
    let random = &mut Random::of_seed(410);
    let scene = Scene::new(random, Kind::Sphere, Isolation::ReadCommitted).await;
    let at = |x: f64| doc! {"p": {"$nearSphere": [x, 0.0]}, "mark": {"$exists": true}};
    scene
        .raw
        .insert_many([doc! {"_id": 901, "p": [1, 0], "mark": 1}, doc! {"_id": 902, "p": [2, 0], "mark": 1}])
        .await
        .unwrap();
    assert_eq!(scene.coll.update_one(at(1.9), doc! {"$set": {"mark": 2}}).await.unwrap().matched_count, 1);
    assert_eq!(scene.coll.find_one(doc! {"_id": 902}).await.unwrap().unwrap().get_i32("mark").ok(), Some(2));
    let upsert = scene.coll.update_one(
        doc! {"p": {"$near": {"$geometry": {"type": "Point", "coordinates": [0, 0]}, "$maxDistance": 1}}, "mark": 77},
        doc! {"$set": {"a": 1}},
    );
    let made = upsert.upsert(true).await.unwrap().upserted_id.unwrap();
    let made = scene.coll.find_one(doc! {"_id": made}).await.unwrap().unwrap();
    assert_eq!((made.get_i32("mark").ok(), made.get_i32("a").ok(), made.contains_key("p")), (Some(77), Some(1), false));
    let mut holder = scene.client.session();
    holder.begin().unwrap();
    scene.coll.update_one(doc! {"_id": 902}, doc! {"$set": {"mark": 3}}).session(&mut holder).await.unwrap();
    let mut other = scene.client.session();
    other.begin().unwrap();
    let refused = scene.coll.delete_one(at(1.9)).session(&mut other).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "the second nearest is not taken instead");
    holder.rollback().await.unwrap();
    let gone = scene.coll.find_one_and_delete(at(1.9)).await.unwrap().unwrap();
    assert_eq!(id(&gone), 902);
    assert_eq!(scene.coll.delete_one(at(1.9)).await.unwrap(), 1);
    assert_eq!(scene.coll.delete_one(at(1.9)).await.unwrap(), 0);
    scene.end().await;
}
