//! Finds, compared with the brute-force answer.

use bson::{Document, doc};
use mongotx::{Isolation, Session};

use crate::geo::{
    earth::{Point, radians},
    queries::{Kind, Query, geo_json, point},
    view::{View, distance, nearest, place},
    world::Scene,
};
use crate::random::Random;

/// Half a millimetre, as a part of the earth's radius.
pub(crate) const CLOSE: f64 = 1e-10;

async fn ask(scene: &Scene, session: Option<&mut Session>, query: &Query) -> Vec<Document> {
    let mut find = scene.coll.find(query.filter.clone()).skip(query.skip).limit(query.limit);
    if query.by_id {
        find = find.sort(doc! {"_id": -1});
    }
    if let Some(session) = session {
        find = find.session(session);
    }
    find.await.unwrap_or_else(|error| panic!("{query:?}: {error}")).try_collect().await.unwrap()
}

fn ids(documents: &[Document]) -> Vec<i32> {
    documents.iter().map(|document| document.get_i32("_id").unwrap()).collect()
}

/// The answer is the nearest documents in their order, as the application wrote them. Equal
/// distances have no order.
fn check(answer: &[Document], view: &View, query: &Query) {
    let mut all = nearest(view, query);
    if query.by_id {
        all.sort_by_key(|(_, document)| -document.get_i32("_id").unwrap());
    }
    let end = if query.limit > 0 { query.skip as usize + query.limit as usize } else { usize::MAX };
    let wanted: Vec<_> = all.iter().take(end).skip(query.skip as usize).collect();
    let what = || format!("{query:?}\nanswer {:?}\nwanted {:?}", ids(answer), wanted);
    assert_eq!(answer.len(), wanted.len(), "{}", what());
    for (document, (wanted, same)) in answer.iter().zip(&wanted) {
        assert_eq!(view.get(&document.get_i32("_id").unwrap()), Some(document), "{}", what());
        let found = distance(query.measure, place(document).unwrap(), query.centre);
        assert!((found - *wanted).abs() <= CLOSE * wanted.max(1.0), "{}", what());
        assert!(!query.by_id || document == same, "{}", what());
    }
    let mut distinct = ids(answer);
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), answer.len(), "{}", what());
}

type Inside = Box<dyn Fn(Point) -> bool>;

/// `$geoWithin` and `$geoIntersects`, which need no order.
async fn check_within(scene: &mut Scene, random: &mut Random) {
    let (centre, radius) = (point(random), f64::from(random.between(10, 100)) / 100.0);
    let [x, y] = point(random);
    let (width, height) = (f64::from(random.between(5, 40)), f64::from(random.between(5, 40)));
    let same = scene.own.values().filter_map(place).nth(random.below(20)).unwrap();
    let mut cases: Vec<(Document, Inside)> = vec![
        (
            doc! {"p": {"$geoWithin": {"$centerSphere": [centre.to_vec(), radius]}}},
            Box::new(move |p| radians(p, centre) <= radius),
        ),
        (
            doc! {"p": {"$geoWithin": {"$box": [[x, y], [x + width, y + height]]}}},
            Box::new(move |p| (x..=x + width).contains(&p[0]) && (y..=y + height).contains(&p[1])),
        ),
    ];
    if scene.kind == Kind::Sphere {
        cases.push((doc! {"p": {"$geoIntersects": {"$geometry": geo_json(same)}}}, Box::new(move |p| p == same)));
    }
    for (filter, inside) in cases {
        let wanted = |view: &View| -> Vec<i32> {
            view.iter().filter(|(_, document)| place(document).is_some_and(&*inside)).map(|(id, _)| *id).collect()
        };
        let by_id = doc! {"_id": 1};
        let outside = scene.coll.find(filter.clone()).sort(by_id.clone()).await.unwrap().try_collect().await.unwrap();
        assert_eq!(ids(&outside), wanted(&scene.committed), "outside: {filter}");
        let find = scene.coll.find(filter.clone()).sort(by_id).session(&mut scene.session);
        assert_eq!(ids(&find.await.unwrap().try_collect().await.unwrap()), wanted(&scene.own), "inside: {filter}");
        let count = scene.coll.count_documents(filter.clone()).session(&mut scene.session).await.unwrap();
        assert_eq!(count as usize, wanted(&scene.own).len(), "count: {filter}");
    }
}

async fn compare_places(kind: Kind, isolation: Isolation, seeds: std::ops::Range<u64>) {
    let read_committed = isolation == Isolation::ReadCommitted;
    for seed in seeds {
        let random = &mut Random::of_seed(seed);
        let mut scene = Scene::new(random, kind, isolation).await;
        if read_committed {
            scene.let_rivals_in(random).await;
        }
        for round in 0..6 {
            // Repeatable reads block writers, and wait for them.
            if read_committed || round == 0 {
                scene.commit_unfinished(random).await;
            }
            for _ in 0..4 {
                let query = Query::random(random, kind);
                let outside = ask(&scene, None, &query).await;
                check(&outside, &scene.committed, &query);
                let mut session = std::mem::replace(&mut scene.session, scene.client.session());
                let inside = ask(&scene, Some(&mut session), &query).await;
                scene.session = session;
                check(&inside, &scene.own, &query);
            }
            check_within(&mut scene, random).await;
            scene.write_own(random).await;
        }
        scene.end().await;
    }
}

#[tokio::test]
async fn near_on_a_sphere_is_what_brute_force_finds() {
    compare_places(Kind::Sphere, Isolation::ReadCommitted, 0..3).await;
}

#[tokio::test]
async fn near_on_a_plane_is_what_brute_force_finds() {
    compare_places(Kind::Plane, Isolation::ReadCommitted, 100..103).await;
}

#[tokio::test]
async fn near_at_repeatable_read_is_what_brute_force_finds() {
    compare_places(Kind::Sphere, Isolation::RepeatableRead, 200..202).await;
    compare_places(Kind::Plane, Isolation::RepeatableRead, 202..204).await;
}
