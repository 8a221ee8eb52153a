//! The `$geoNear` stage on stored documents: distances, locations and order in both views.

use bson::{Document, doc};
use futures_util::TryStreamExt;
use mongotx::Isolation;
use sd2v::geo::{GeoNear, hide_distance, only_geo_field, sort_by_distance};

use crate::{
    compare::CLOSE,
    queries::{Kind, Measure, Query, geo_json},
    random::Random,
    view::{View, nearest, number},
    world::Scene,
};

/// What the user's stage says, for a query of the others.
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

async fn check(scene: &Scene, pipeline: Vec<Document>, view: &View, query: &Query) {
    let answer: Vec<Document> = scene.raw.aggregate(pipeline).await.unwrap().try_collect().await.unwrap();
    let wanted = nearest(view, query);
    assert_eq!(answer.len(), wanted.len(), "{query:?}");
    for (mut document, (distance, _)) in answer.into_iter().zip(wanted) {
        let Some(bson::Bson::Document(found)) = document.remove("found") else { panic!("{document}") };
        assert!((number(found.get("at").unwrap()) - 2.0 * distance).abs() <= CLOSE * distance.max(1.0), "{query:?}");
        assert_eq!(found.get("place"), document.get("p"));
        assert_eq!(view.get(&document.get_i32("_id").unwrap()), Some(&document), "{query:?}");
    }
}

#[tokio::test]
async fn stage_gives_distances_in_both_views() {
    for (seed, kind) in [(300, Kind::Sphere), (301, Kind::Plane)] {
        let random = &mut Random::of_seed(seed);
        let mut scene = Scene::new(random, kind, Isolation::ReadCommitted).await;
        scene.let_rivals_in(random).await;
        scene.write_own(random).await;
        let me = scene.session.id().unwrap();
        let indexes = scene.raw.list_indexes().await.unwrap().try_collect::<Vec<_>>().await.unwrap();
        let indexes: Vec<Document> = indexes.iter().map(|index| doc! {"key": index.keys.clone()}).collect();
        let key = only_geo_field(&indexes).unwrap();
        for _ in 0..20 {
            let query = Query::random(random, kind);
            let stage = GeoNear::parse_geo_near(&stage_of(&query), Some(&key)).unwrap();
            check(&scene, stage.safe_view(None), &scene.committed, &query).await;
            let mut own = stage.own_view("places", me, None).unwrap();
            own.extend([sort_by_distance(), hide_distance()]);
            check(&scene, own, &scene.own, &query).await;
        }
        scene.end().await;
    }
}
