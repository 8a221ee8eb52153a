//! Random text searches, compared with the same ones on a plain copy of the documents.

use bson::{Document, doc};
use futures_util::TryStreamExt;
use mongotx::{Isolation, Session};

use crate::random::Random;
use crate::text::scene::{Scene, words};

#[derive(Clone, Debug)]
struct Search {
    filter: Document,
    sort: Document,
    projection: Option<Document>,
    skip: u64,
    limit: i64,
}

fn search(random: &mut Random) -> Search {
    let mut terms = words(random);
    if random.chance(30) {
        terms = format!("{terms} -{}", random.pick(&["tea", "pie", "running"]));
    }
    if random.chance(25) {
        terms = format!("{terms} \"{}\"", random.pick(&["green tea", "apple", "tea the"]));
    }
    let mut text = doc! {"$search": terms};
    for option in ["$caseSensitive", "$diacriticSensitive"] {
        text.extend(random.maybe(20, |_| (option.to_owned(), true.into())));
    }
    text.extend(random.maybe(20, |random| ("$language".to_owned(), (*random.pick(&["de", "none", "french"])).into())));
    let filter = match random.below(4) {
        0 => doc! {"$text": text, "k": {"$lt": 2}},
        1 => doc! {"$and": [{"$text": text}, {"$or": [{"k": 1}, {"_id": {"$gt": 15}}]}]},
        2 => doc! {"$text": text, "$expr": {"$lt": [{"$size": {"$objectToArray": "$$ROOT"}}, 4]}},
        _ => doc! {"$text": text},
    };
    let score = doc! {"$meta": "textScore"};
    let sort = match random.below(3) {
        0 => doc! {"score": score.clone(), "_id": 1},
        1 => doc! {"k": -1, "score": score.clone(), "_id": -1},
        _ => doc! {"_id": 1},
    };
    let projections = [
        doc! {"score": score.clone()},
        doc! {"score": score.clone(), "s": 1},
        doc! {"s": 1, "x": {"score": score.clone()}},
        doc! {"d": 0, "score": score},
        doc! {"s": 1},
    ];
    // Results that are sorted by score show it.
    let projection = match sort.contains_key("score") {
        true => Some(projections[random.below(4)].clone()),
        false => random.maybe(80, |random| random.pick(&projections).clone()),
    };
    let skip = random.below(3) as u64;
    Search { filter, sort, projection, skip, limit: random.between(0, 8).into() }
}

async fn compare(scene: &Scene, session: Option<&mut Session>, search: &Search) -> usize {
    let Search { filter, sort, projection, skip, limit } = search;
    let mut plain = scene.plain.find(filter.clone()).sort(sort.clone()).skip(*skip).limit(*limit);
    let mut ours = scene.ours.find(filter.clone()).sort(sort.clone()).skip(*skip).limit(*limit as u64);
    if let Some(projection) = projection {
        plain = plain.projection(projection.clone());
        ours = ours.projection(projection.clone());
    }
    let wanted: Vec<Document> = plain.await.unwrap().try_collect().await.unwrap();
    let ours = if let Some(session) = session { ours.session(session) } else { ours };
    let found = ours.await.unwrap_or_else(|error| panic!("{search:?}: {error}")).try_collect().await.unwrap();
    assert_eq!(found.len(), wanted.len(), "{search:?}\nfound {found:?}\nwanted {wanted:?}");
    for (mut found, mut wanted) in found.into_iter().zip(wanted.clone()) {
        let tied = match (take_score(&mut found), take_score(&mut wanted)) {
            (Some(ours), Some(theirs)) => {
                // Scores are sums, and the server adds in the order in which it finds the words.
                assert!((ours - theirs).abs() < 1e-9, "{search:?}\nfound {found} {ours}\nwanted {wanted} {theirs}");
                sort.contains_key("score")
            }
            (None, None) => false,
            scores => panic!("{search:?}: {scores:?}"),
        };
        assert!(tied && found.get("_id") != wanted.get("_id") || found == wanted, "{search:?}\n{found}\n{wanted}");
    }
    wanted.len()
}

fn take_score(document: &mut Document) -> Option<f64> {
    let nested = document.get_document_mut("x").ok().and_then(|nested| nested.remove("score"));
    nested.or_else(|| document.remove("score")).and_then(|score| score.as_f64())
}

async fn compare_counts(scene: &Scene, session: &mut Session, filter: &Document) {
    let count = scene.ours.count_documents(filter.clone()).session(session).await.unwrap();
    assert_eq!(count, scene.plain.count_documents(filter.clone()).await.unwrap(), "{filter}");
    let mut values = scene.ours.distinct("k", filter.clone()).session(session).await.unwrap();
    values.sort_by_key(|value| value.as_i32());
    let mut wanted = scene.plain.distinct("k", filter.clone()).await.unwrap();
    wanted.sort_by_key(|value| value.as_i32());
    assert_eq!(values, wanted, "{filter}");
}

async fn compare_searches(seeds: std::ops::Range<u64>, isolation: Isolation) {
    let mut found = 0;
    for seed in seeds {
        let random = &mut Random::of_seed(seed);
        let mut scene = Scene::new(random).await;
        if isolation == Isolation::RepeatableRead {
            scene.roll_rival_back().await;
        }
        let mut session = scene.begin(isolation);
        for round in 0..4 {
            // Repeatable readers keep others from committing.
            if round == 0 || isolation == Isolation::ReadCommitted {
                scene.commit_unfinished(random).await;
            }
            for _ in 0..4 {
                let search = search(random);
                if round == 0 {
                    found += compare(&scene, None, &search).await;
                }
                found += compare(&scene, Some(&mut session), &search).await;
            }
            compare_counts(&scene, &mut session, &search(random).filter).await;
            scene.write_own(random, &mut session).await;
        }
        session.rollback().await.unwrap();
        scene.end().await;
    }
    assert!(found > 50, "hardly anything is found: {found}");
}

#[tokio::test]
async fn searches_find_what_the_plain_driver_finds() {
    compare_searches(600..605, Isolation::ReadCommitted).await;
}

#[tokio::test]
async fn searches_at_repeatable_read_find_what_the_plain_driver_finds() {
    compare_searches(610..612, Isolation::RepeatableRead).await;
}
