//! The indexes that the server uses for what MongoTx sends.

use bson::{Bson, Document, doc};
use mongotx::Verbosity;

use crate::aggregate::{World, begun};

/// The names of the plan's stages on the user's documents, wherever they stand; probes of pending
/// documents apart.
fn stages(explained: &Document) -> Vec<String> {
    let mut found = Vec::new();
    collect(&Bson::Document(explained.clone()), &mut found);
    found
}

fn collect(value: &Bson, found: &mut Vec<String>) {
    match value {
        Bson::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Bson::Document(fields) => {
            if let Ok(stage) = fields.get_str("stage") {
                let index = fields.get_str("indexName").unwrap_or_default();
                found.push(format!("{stage} {index}").trim_end().to_owned());
            }
            if fields.contains_key("$sort") {
                found.push("SORT".to_owned());
            }
            let parts = fields.iter().filter(|(name, _)| *name != "command" && *name != "rejectedPlans");
            parts.for_each(|(_, value)| collect(value, found));
        }
        _ => {}
    }
}

/// 400 documents and an index on `a` and `b`, and one on `c`.
async fn indexed() -> World {
    let world = World::new().await;
    let documents = (0..400).map(|id| doc! {"_id": id, "a": id % 20, "b": id, "c": id});
    world.driver.collection("a").insert_many(documents).await.unwrap();
    for keys in [doc! {"a": 1, "b": 1}, doc! {"c": 1}] {
        let index = mongodb::IndexModel::builder().keys(keys).build();
        world.driver.collection::<Document>("a").create_index(index).await.unwrap();
    }
    world
}

/// Filters, sorts, and the index that is to be used.
fn queries() -> [(Document, Document, &'static str); 5] {
    [
        (doc! {"c": 5}, doc! {}, "c_1"),
        (doc! {"c": {"$gte": 390}}, doc! {}, "c_1"),
        (doc! {"c": {"$gte": 300}}, doc! {"c": -1}, "c_1"),
        (doc! {"a": 3}, doc! {"b": 1}, "a_1_b_1"),
        (doc! {"a": 3, "b": {"$gt": 200}}, doc! {"b": -1}, "a_1_b_1"),
    ]
}

fn pipeline(filter: &Document, sort: &Document) -> Vec<Document> {
    let sort = (!sort.is_empty()).then(|| doc! {"$sort": sort.clone()});
    let tail = [doc! {"$limit": 10}, doc! {"$set": {"x": "$$ROOT"}}];
    [doc! {"$match": filter.clone()}].into_iter().chain(sort).chain(tail).collect()
}

fn check(what: &str, explained: &Document, index: &str, may_sort: bool) {
    let stages = stages(explained);
    let has = |stage: &str| stages.iter().any(|found| found.starts_with(stage));
    assert!(stages.contains(&format!("IXSCAN {index}")), "{what}: {stages:?}");
    assert!(!has("COLLSCAN"), "{what}: {stages:?}");
    assert!(may_sort || !has("SORT"), "{what}: {stages:?}");
}

async fn check_all(world: &World, when: &str) {
    let coll = world.coll("a");
    for (filter, sort, index) in queries() {
        let what = format!("{when}, {filter} {sort}");
        let find = coll.find(filter.clone()).sort(sort.clone()).limit(10);
        check(&what, &find.explain(Verbosity::QueryPlanner).await.unwrap(), index, false);
        let aggregate = coll.aggregate(pipeline(&filter, &sort));
        check(&what, &aggregate.explain(Verbosity::ExecutionStats).await.unwrap(), index, false);
    }
}

#[tokio::test]
async fn safe_views_use_the_index_and_do_not_sort_with_and_without_pending_documents() {
    let world = indexed().await;
    check_all(&world, "nothing pending").await;
    let mut session = begun(&world.rival);
    for id in [3, 5, 395] {
        let change = world.rivals("a");
        change.update_one(doc! {"_id": id}, doc! {"$inc": {"b": 1}}).session(&mut session).await.unwrap();
    }
    world.rivals("a").insert_one(&doc! {"_id": 1000, "a": 3, "c": 399}).session(&mut session).await.unwrap();
    check_all(&world, "a rival is active").await;
}

/// After an own write the safe part of a sorted top still comes from the index; its few documents
/// are sorted again.
#[tokio::test]
async fn own_view_of_a_sorted_top_uses_the_index() {
    let world = indexed().await;
    let mut session = begun(&world.client);
    let coll = world.coll("a");
    coll.update_one(doc! {"_id": 3}, doc! {"$inc": {"b": 1}}).session(&mut session).await.unwrap();
    for (filter, sort, index) in queries().into_iter().filter(|(_, sort, _)| !sort.is_empty()) {
        let what = format!("{filter} {sort}");
        let find = coll.find(filter.clone()).sort(sort.clone()).limit(10).session(&mut session);
        let find = find.explain(Verbosity::ExecutionStats).await.unwrap();
        let aggregate = coll.aggregate(pipeline(&filter, &sort)).session(&mut session);
        let aggregate = aggregate.explain(Verbosity::ExecutionStats).await.unwrap();
        for explained in [find, aggregate] {
            check(&what, &explained, index, true);
            let examined = number_under("totalDocsExamined", &Bson::Document(explained)).unwrap();
            assert!(examined <= 15, "{what}: {examined} documents for 10");
        }
    }
}

/// The first number of this name.
fn number_under(name: &str, value: &Bson) -> Option<i64> {
    match value {
        Bson::Array(items) => items.iter().find_map(|item| number_under(name, item)),
        Bson::Document(fields) => match fields.get(name) {
            Some(Bson::Int32(number)) => Some(i64::from(*number)),
            Some(Bson::Int64(number)) => Some(*number),
            _ => fields.values().find_map(|value| number_under(name, value)),
        },
        _ => None,
    }
}

#[tokio::test]
async fn explain_of_one_id_of_views_and_of_output() {
    let world = indexed().await;
    world.driver.run_command(doc! {"create": "v", "viewOn": "a", "pipeline": [{"$match": {"a": 3}}]}).await.unwrap();
    let by_id = world.coll("a").find(doc! {"_id": 1}).explain(Verbosity::QueryPlanner).await.unwrap();
    assert!(stages(&by_id).iter().any(|stage| stage == "IDHACK"), "{by_id}");
    let view = world.coll("v").find(doc! {"b": {"$gt": 200}}).explain(Verbosity::AllPlansExecution).await.unwrap();
    check("a view", &view, "a_1_b_1", true);
    let coll = world.coll("a");
    let out = coll.aggregate([doc! {"$match": {"c": 1}}, doc! {"$out": "copy"}]);
    check("$out", &out.explain(Verbosity::QueryPlanner).await.unwrap(), "c_1", true);
    assert_eq!(world.coll("copy").count_documents(doc! {}).await.unwrap(), 0);
}
