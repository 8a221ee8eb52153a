//! The commands of queries by place, the indexes that they use, and the queries that are refused.

use bson::{Document, doc};
use mongotx::{ErrorKind, Isolation, Verbosity};
use sd2v::{
    filter::rewrite_filter,
    geo::{GeoNear, Near},
    names::tx_id_to_bson,
};

use crate::geo::{queries::Kind, world::Scene};
use crate::random::Random;

fn near() -> Document {
    doc! {"p": {"$nearSphere": [0, 0], "$maxDistance": 1}, "k": {"$lt": 4}}
}

async fn commands(scene: &mut Scene, inside: bool) -> u64 {
    let before = scene.client.metrics().commands_sent();
    let find = scene.coll.find(near()).limit(5);
    let find = if inside { find.session(&mut scene.session) } else { find };
    find.await.unwrap().try_collect().await.unwrap();
    scene.client.metrics().commands_sent() - before
}

#[tokio::test]
async fn near_is_two_commands_when_nothing_is_pending() {
    let random = &mut Random::of_seed(500);
    let mut scene = Scene::new(random, Kind::Sphere, Isolation::ReadCommitted).await;
    commands(&mut scene, false).await;
    assert_eq!(commands(&mut scene, false).await, 2);
    assert_eq!(commands(&mut scene, true).await, 2);
    scene.write_own(random).await;
    // The write has made an index: the client looks the collection up again, once.
    commands(&mut scene, true).await;
    assert_eq!(commands(&mut scene, true).await, 3, "and a look at the own record");
    scene.end().await;
}

/// The plan of both parts of a transaction's own view.
#[tokio::test]
async fn both_versions_are_asked_through_an_index() {
    let random = &mut Random::of_seed(501);
    let mut scene = Scene::new(random, Kind::Sphere, Isolation::ReadCommitted).await;
    scene.write_own(random).await;
    let me = scene.session.id().unwrap();
    let stage = GeoNear::of_filter(&Near::parse_near("p", &doc! {"$nearSphere": [0, 0]}).unwrap(), &doc! {});
    for (pipeline, index) in [
        (stage.safe_view(Some(&me.into())), "place"),
        (stage.unsafe_view(&me.into()).unwrap(), "_mongotx_unsafe.place"),
    ] {
        assert_plan(&scene, doc! {"aggregate": "places", "pipeline": pipeline, "cursor": {}}, index).await;
    }
    for (session, index) in [(None, "place"), (Some(&mut scene.session), "_mongotx_unsafe.place")] {
        let find = scene.coll.find(near()).limit(3);
        let find = if let Some(session) = session { find.session(session) } else { find };
        let plan = find.explain(Verbosity::QueryPlanner).await.unwrap().to_string();
        assert!(plan.contains(r#""indexName": "place""#) && plan.contains(index), "{plan}");
    }
    let within = doc! {"p": {"$geoWithin": {"$centerSphere": [[0, 0], 0.01]}}};
    assert_plan(&scene, doc! {"find": "places", "filter": within.clone()}, "place").await;
    let mut others = rewrite_filter(&within).unwrap();
    others.extend(doc! {"_unsafe": {"$exists": true}, "_xTxId": {"$ne": tx_id_to_bson(me)}});
    assert_plan(&scene, doc! {"find": "places", "filter": others}, "_mongotx_unsafe.place").await;
    scene.end().await;
}

async fn assert_plan(scene: &Scene, command: Document, index: &str) {
    let explain = doc! {"explain": command, "verbosity": "queryPlanner"};
    let plan = scene.world.raw().await.database(&scene.world.db).run_command(explain).await.unwrap().to_string();
    assert!(plan.contains(&format!(r#""indexName": "{index}""#)), "{plan}");
}

#[tokio::test]
async fn without_an_index_on_unsafe_versions_the_order_is_refused_by_name() {
    let random = &mut Random::of_seed(502);
    let mut scene = Scene::new(random, Kind::Sphere, Isolation::ReadCommitted).await;
    scene.write_own(random).await;
    scene.raw.drop_index("_mongotx_unsafe.place").await.unwrap();
    let refused = scene.coll.find(near()).session(&mut scene.session).await.map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(refused.to_string().contains("_unsafe.p"), "{refused}");
    scene.raw.drop_index("place").await.unwrap();
    let refused = scene.coll.find(near()).session(&mut scene.session).await.map(drop).unwrap_err();
    assert_eq!((refused.kind(), refused.code()), (ErrorKind::Invalid, Some(291)), "as without MongoTx");
    scene.end().await;
}

#[tokio::test]
async fn count_refuses_an_order_as_the_server_does_and_distinct_takes_it() {
    let random = &mut Random::of_seed(503);
    let mut scene = Scene::new(random, Kind::Sphere, Isolation::ReadCommitted).await;
    for _ in 0..2 {
        let refused = scene.coll.count_documents(near()).session(&mut scene.session).await.unwrap_err();
        assert_eq!(refused.code(), Some(5_626_500));
        let mut values: Vec<i32> = Vec::new();
        for value in scene.coll.distinct("k", near()).session(&mut scene.session).await.unwrap() {
            values.push(value.as_i32().unwrap());
        }
        let found = scene.coll.find(near()).session(&mut scene.session).await.unwrap().try_collect().await.unwrap();
        let mut wanted: Vec<i32> = found.iter().map(|document| document.get_i32("k").unwrap()).collect();
        values.sort_unstable();
        wanted.sort_unstable();
        wanted.dedup();
        assert_eq!(values, wanted);
        scene.write_own(random).await;
    }
    scene.end().await;
}
