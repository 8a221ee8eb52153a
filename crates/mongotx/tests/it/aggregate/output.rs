//! The stages `$out` and `$merge`.

use std::time::Duration;

use bson::{Document, doc};
use mongotx::{ClientOptions, ErrorKind};

use crate::aggregate::{World, all, begun, change};
use crate::quiet;

#[tokio::test]
async fn out_replaces_a_collection_by_clean_documents() {
    let world = World::filled().await;
    let mut session = begun(&world.rival);
    change(&world, World::rivals, &mut session).await;
    let answer = all(world.coll("a").aggregate([doc! {"$match": {"_id": {"$gt": 1}}}, doc! {"$out": "c"}])).await;
    assert_eq!(answer, Vec::<Document>::new());
    let expected = [doc! {"_id": 2, "n": 20, "to": 3}, doc! {"_id": 3, "n": 30, "to": 4}];
    assert_eq!(world.stored("c").await, expected);
}

#[tokio::test]
async fn out_waits_for_locked_documents_of_its_target() {
    let mut world = World::filled().await;
    let options = ClientOptions { write_wait: Duration::from_millis(50), ..quiet::options() };
    world.client = quiet::connect(options).await;
    let mut session = begun(&world.rival);
    world.rivals("b").update_one(doc! {"_id": 1}, doc! {"$set": {"n": 11}}).session(&mut session).await.unwrap();
    let coll = world.coll("a");
    let out = || coll.aggregate([doc! {"$out": "b"}]);
    let error = out().await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    session.commit().await.unwrap();
    all(out()).await;
    assert_eq!(world.stored("b").await, world.stored("a").await);
}

/// Every way to merge, against the server's own on plain collections.
#[tokio::test]
async fn merge_does_what_the_servers_own_does() {
    let pipeline = vec![doc! {"$set": {"m": {"$multiply": ["$n", 2]}, "n": "$$REMOVE"}}];
    let change = |stage: Document| vec![stage].into_iter().map(bson::Bson::Document).collect::<Vec<_>>();
    let ways = [
        doc! {},
        doc! {"whenMatched": "replace"},
        doc! {"whenMatched": "replace", "whenNotMatched": "discard"},
        doc! {"whenMatched": "replace", "whenNotMatched": "fail"},
        doc! {"whenMatched": "merge", "whenNotMatched": "discard"},
        doc! {"whenMatched": "merge", "whenNotMatched": "fail"},
        doc! {"whenMatched": "keepExisting"},
        doc! {"whenMatched": "keepExisting", "whenNotMatched": "discard"},
        doc! {"whenMatched": "fail"},
        doc! {"whenMatched": change(doc! {"$set": {"sum": {"$add": ["$n", "$$new.m"]}}})},
        doc! {"whenMatched": change(doc! {"$set": {"sum": "$$new.m"}}), "whenNotMatched": "discard"},
        doc! {"whenMatched": change(doc! {"$set": {"sum": "$$new.m"}}), "whenNotMatched": "fail"},
        doc! {"whenMatched": change(doc! {"$set": {"sum": {"$add": ["$n", "$$twice"]}}}), "let": {"twice": {"$multiply": ["$m", 2]}}},
        doc! {"whenMatched": change(doc! {"$set": {"none": "$$none"}}), "let": {"none": "$nothing"}},
        doc! {"on": "n"},
        doc! {"on": ["k", "_id"], "whenMatched": "replace"},
        doc! {"whenMatched": "fail", "whenNotMatched": "discard"},
    ];
    for way in ways {
        let world = World::filled().await;
        for target in ["plain", "ours"] {
            let there = [doc! {"_id": 1, "n": 10, "k": 1}, doc! {"_id": 2, "n": 5, "k": 2}];
            world.driver.collection(target).insert_many(there).await.unwrap();
            let unique = mongodb::options::IndexOptions::builder().unique(true).build();
            let index = mongodb::IndexModel::builder().keys(doc! {"k": 1, "_id": 1}).options(unique).build();
            world.driver.collection::<Document>(target).create_index(index).await.unwrap();
        }
        let mut user = pipeline.clone();
        if way.contains_key("on") {
            user.push(doc! {"$set": {"k": "$_id"}});
        }
        let into = |target: &str| {
            let mut merge = doc! {"into": target};
            merge.extend(way.clone());
            user.iter().cloned().chain([doc! {"$merge": merge}]).collect::<Vec<_>>()
        };
        let plain = world.driver.collection::<Document>("a").aggregate(into("plain")).await.map(drop);
        let ours = world.coll("a").aggregate(into("ours")).await.map(drop);
        let code = |error: mongodb::error::Error| match *error.kind {
            mongodb::error::ErrorKind::Command(refused) => refused.code,
            other => panic!("{other:?}"),
        };
        let plain = plain.map_err(code);
        assert_eq!(ours.map_err(|error| error.code().unwrap()), plain, "{way}");
        // How far it comes before an error is not promised.
        if plain.is_err() {
            continue;
        }
        // Beside a unique index, each of its writes is a transaction, finished after the answer.
        assert!(world.client.flush(Duration::from_secs(10)).await);
        assert_eq!(world.stored("ours").await, world.stored("plain").await, "{way}");
    }
}

#[tokio::test]
async fn merge_waits_for_a_locked_document_and_writes_over_none() {
    let mut world = World::filled().await;
    let options = ClientOptions { write_wait: Duration::from_millis(50), ..quiet::options() };
    world.client = quiet::connect(options).await;
    let mut session = begun(&world.rival);
    let set = doc! {"$set": {"x": 1}};
    world.rivals("b").update_one(doc! {"_id": 1}, set).session(&mut session).await.unwrap();
    let merge = [doc! {"$match": {"_id": 1}}, doc! {"$project": {"y": "$n"}}, doc! {"$merge": "b"}];
    let error = world.coll("a").aggregate(merge.clone()).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    session.commit().await.unwrap();
    all(world.coll("a").aggregate(merge)).await;
    assert_eq!(world.stored("b").await[0], doc! {"_id": 1, "n": 10, "to": 2, "x": 1, "y": 10});
}

#[tokio::test]
async fn merge_into_another_database() {
    let world = World::filled().await;
    let other = format!("{}_other", world.db);
    all(world.coll("a").aggregate([doc! {"$merge": {"into": {"db": &other, "coll": "c"}}}])).await;
    let merged = world.client.database(&other).collection::<Document>("c");
    assert_eq!(merged.count_documents(doc! {}).await.unwrap(), 3);
}
