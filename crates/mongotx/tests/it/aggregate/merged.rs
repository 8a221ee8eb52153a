//! `$merge` by fields of a unique index, which is stored with one field more.

use std::time::Duration;

use bson::{Bson, Document, doc};
use mongotx::{IndexModel, Verbosity};

use crate::aggregate::{World, all};

/// A unique index of the target.
#[derive(Clone, Default)]
struct Index {
    key: Document,
    partial: Option<Document>,
    collation: Option<Document>,
}

impl Index {
    fn on(key: Document) -> Self {
        Self { key, ..Self::default() }
    }

    /// Makes it on the collection `plain` by the driver, and on `ours` by the library.
    async fn make(self, world: &World) {
        let mut model = IndexModel::new(self.key).name("u").unique(true);
        if let Some(filter) = self.partial {
            model = model.partial_filter(filter);
        }
        if let Some(collation) = self.collation {
            model = model.collation(collation);
        }
        let create = doc! {"createIndexes": "plain", "indexes": [model.spec().clone()]};
        world.driver.run_command(create).await.unwrap();
        world.coll("ours").create_index(model).await.unwrap();
    }
}

/// Two targets with the same documents and unique index.
async fn targets(index: Index) -> World {
    let world = World::filled().await;
    index.make(&world).await;
    for target in ["plain", "ours"] {
        let there = [doc! {"_id": "x", "n": 10, "to": 2, "s": "b"}, doc! {"_id": "y", "n": 50, "to": 9, "s": "y"}];
        world.driver.collection(target).insert_many(there).await.unwrap();
    }
    world
}

/// What is stored, with the `_id`s that were not made by chance.
async fn content(world: &World, name: &str) -> Vec<Document> {
    let mut stored = world.stored(name).await;
    stored.sort_by_key(|document| document.get_i32("n").unwrap());
    for document in &mut stored {
        if matches!(document.get("_id"), Some(Bson::ObjectId(_))) {
            document.remove("_id");
        }
    }
    stored
}

/// The error codes of the same pipeline into both targets; 0 for none.
async fn merge_into_both(
    world: &World,
    before: &[Document],
    merge: &Document,
    collation: Option<&Document>,
) -> [i32; 2] {
    let stages = |target: &str| {
        let mut merge = merge.clone();
        merge.insert("into", target);
        before.iter().cloned().chain([doc! {"$merge": merge}]).collect::<Vec<_>>()
    };
    let mut plain = doc! {"aggregate": "a", "pipeline": stages("plain"), "cursor": {}};
    let coll = world.coll("a");
    let mut ours = coll.aggregate(stages("ours"));
    if let Some(collation) = collation {
        plain.insert("collation", collation.clone());
        ours = ours.collation(collation.clone());
    }
    let plain = match world.driver.run_command(plain).await.map_err(|error| *error.kind) {
        Ok(_) => 0,
        Err(mongodb::error::ErrorKind::Command(refused)) => refused.code,
        Err(other) => panic!("{other:?}"),
    };
    let ours = ours.await.map(drop).map_or_else(|error| error.code().unwrap(), |()| 0);
    // Beside a unique index, each write is a transaction, finished after the answer.
    assert!(world.client.flush(Duration::from_secs(10)).await);
    [ours, plain]
}

#[tokio::test]
async fn merge_by_a_unique_index_does_what_the_servers_own_does() {
    let sum = Bson::Array(vec![doc! {"$set": {"sum": {"$add": ["$n", "$$new.m"]}}}.into()]);
    let ways = [
        doc! {},
        doc! {"whenMatched": "replace"},
        doc! {"whenMatched": "replace", "whenNotMatched": "discard"},
        doc! {"whenMatched": "merge", "whenNotMatched": "fail"},
        doc! {"whenMatched": "keepExisting"},
        doc! {"whenMatched": "fail"},
        doc! {"whenMatched": sum.clone()},
        doc! {"whenMatched": sum, "whenNotMatched": "discard"},
    ];
    let before = [doc! {"$project": {"_id": 0, "n": 1, "to": 1, "m": {"$multiply": ["$n", 2]}}}];
    for (key, on) in [(doc! {"n": 1}, vec!["n"]), (doc! {"n": 1, "to": -1}, vec!["to", "n"])] {
        for way in &ways {
            let world = targets(Index::on(key.clone())).await;
            let mut merge = doc! {"on": on.clone()};
            merge.extend(way.clone());
            let [ours, plain] = merge_into_both(&world, &before, &merge, None).await;
            assert_eq!(ours, plain, "{merge}");
            // How far it comes before an error is not promised.
            if plain == 0 {
                assert_eq!(content(&world, "ours").await, content(&world, "plain").await, "{merge}");
            }
        }
    }
}

/// The server looks for the documents of the target by the target's collation all the same.
#[tokio::test]
async fn merge_wants_an_index_of_the_collation_of_the_pipeline() {
    let insensitive = doc! {"locale": "en", "strength": 2};
    let world = targets(Index { collation: Some(insensitive.clone()), ..Index::on(doc! {"s": 1}) }).await;
    let before = |s: &str| [doc! {"$project": {"_id": 0, "n": 1, "s": {"$cond": [{"$eq": ["$n", 10]}, s, "$n"]}}}];
    let merge = doc! {"on": "s"};
    assert_eq!(merge_into_both(&world, &before("b"), &merge, Some(&insensitive)).await, [0, 0]);
    assert_eq!(content(&world, "ours").await, content(&world, "plain").await);
    assert_eq!(merge_into_both(&world, &before("B"), &merge, Some(&insensitive)).await, [11_000, 11_000]);
    assert_eq!(merge_into_both(&world, &before("b"), &merge, None).await, [51_183, 51_183]);
}

#[tokio::test]
async fn merge_by_fields_that_no_index_makes_unique_is_refused() {
    let partial = Index { partial: Some(doc! {"n": {"$gt": 0}}), ..Index::on(doc! {"n": 1}) };
    for (index, on) in [(partial, vec!["n"]), (Index::on(doc! {"n": 1, "to": 1}), vec!["n"])] {
        let world = targets(index).await;
        assert_eq!(merge_into_both(&world, &[], &doc! {"on": on}, None).await, [51_183, 51_183]);
    }
}

#[tokio::test]
async fn plan_of_a_merge_by_a_unique_index_is_shown() {
    let world = targets(Index::on(doc! {"n": 1})).await;
    let merge = [doc! {"$project": {"_id": 0, "n": 1}}, doc! {"$merge": {"into": "ours", "on": "n"}}];
    world.coll("a").aggregate(merge.clone()).explain(Verbosity::QueryPlanner).await.unwrap();
    let command = doc! {"aggregate": "a", "pipeline": merge.to_vec(), "cursor": {}};
    let plan = world.client.database(&world.db).explain(command.clone(), Some(Verbosity::QueryPlanner)).await.unwrap();
    assert_eq!(plan.get_document("command").unwrap().get("pipeline"), command.get("pipeline"));
    assert!(!plan.to_string().contains("_slot"), "{plan}");
    all(world.coll("a").aggregate(merge)).await;
    assert_eq!(world.stored("ours").await.len(), 4);
}
