//! The `$geoNear` stage on stored documents: distances, locations and order in both views.

use bson::{Document, doc};
use futures_util::TryStreamExt;
use mongotx::Isolation;

use crate::geo::{
    compare::CLOSE,
    queries::{Kind, Measure, Query, geo_json},
    view::{View, nearest, number},
    world::Scene,
};
use crate::random::Random;

/// The stage `$geoNear` that means the same as a query.
fn stage_of(query: &Query) -> Document {
    let mut stage = match query.measure {
        Measure::Metres => doc! {"near": geo_json(query.centre)},
        Measure::Radians => doc! {"near": query.centre.to_vec(), "spherical": true},
        Measure::Plane => doc! {"near": query.centre.to_vec()},
    };
    stage.extend(doc! {"distanceField": "found.at", "includeLocs": "found.place", "distanceMultiplier": 2});
    stage.extend(query.min.map(|min| ("minDistance".to_owned(), min.into())));
    stage.extend(query.max.map(|max| ("maxDistance".to_owned(), max.into())));
    stage.extend(query.below.map(|below| ("query".to_owned(), doc! {"k": {"$lt": below}}.into())));
    stage
}

fn check(answer: Vec<Document>, view: &View, query: &Query) {
    let wanted = nearest(view, query);
    assert_eq!(answer.len(), wanted.len(), "{query:?}");
    for (mut document, (distance, _)) in answer.into_iter().zip(wanted) {
        let Some(bson::Bson::Document(found)) = document.remove("found") else { panic!("{document}") };
        assert!((number(found.get("at").unwrap()) - 2.0 * distance).abs() <= CLOSE * distance.max(1.0), "{query:?}");
        assert_eq!(found.get("place"), document.get("p"));
        assert_eq!(view.get(&document.get_i32("_id").unwrap()), Some(&document), "{query:?}");
    }
}

async fn distances_in_both_views(seed: u64, kind: Kind, isolation: Isolation) {
    let random = &mut Random::of_seed(seed);
    let mut scene = Scene::new(random, kind, isolation).await;
    if isolation == Isolation::ReadCommitted {
        scene.let_rivals_in(random).await;
    }
    scene.commit_unfinished(random).await;
    for round in 0..20 {
        let query = Query::random(random, kind);
        let stage = doc! {"$geoNear": stage_of(&query)};
        let outside = scene.coll.aggregate([stage.clone()]).await.unwrap().try_collect().await.unwrap();
        check(outside, &scene.committed, &query);
        let inside = scene.coll.aggregate([stage.clone()]).session(&mut scene.session).await.unwrap();
        check(inside.try_collect().await.unwrap(), &scene.own, &query);
        let counting = scene.coll.aggregate([stage, doc! {"$count": "n"}]).session(&mut scene.session);
        let counted = counting.await.unwrap().try_collect().await.unwrap();
        let counted = counted.first().map_or(0, |counted| counted.get_i32("n").unwrap());
        assert_eq!(counted as usize, nearest(&scene.own, &query).len(), "{query:?}");
        if round % 5 == 2 {
            scene.write_own(random).await;
        }
    }
    scene.end().await;
}

#[tokio::test]
async fn stage_gives_distances_in_both_views() {
    distances_in_both_views(300, Kind::Sphere, Isolation::ReadCommitted).await;
    distances_in_both_views(301, Kind::Plane, Isolation::ReadCommitted).await;
    distances_in_both_views(302, Kind::Sphere, Isolation::RepeatableRead).await;
}

#[tokio::test]
async fn stage_without_key_means_the_applications_index() {
    let random = &mut Random::of_seed(310);
    let mut scene = Scene::new(random, Kind::Sphere, Isolation::ReadCommitted).await;
    scene.write_own(random).await;
    let near = doc! {"$geoNear": {"near": {"type": "Point", "coordinates": [0, 0]}, "distanceField": "d"}};
    let plain: Result<Vec<Document>, _> =
        async { scene.raw.aggregate([near.clone()]).await?.try_collect().await }.await;
    assert!(plain.is_err(), "the server sees the index on unsafe versions, too");
    assert!(!scene.coll.aggregate([near.clone()]).await.unwrap().try_collect().await.unwrap().is_empty());
    // One more, and it is not clear which is meant.
    scene.raw.create_index(mongodb::IndexModel::builder().keys(doc! {"q": "2dsphere"}).build()).await.unwrap();
    let other = scene.world.client(60_000).await;
    let refused = scene.world.collection(&other, "places").aggregate([near]).await.map(drop).unwrap_err();
    assert_eq!(refused.code(), Some(27), "{refused}");
    scene.end().await;
}
