//! The versions that a pipeline sees.

use std::time::Duration;

use bson::{Bson, Document, doc};
use mongotx::{ClientOptions, IndexModel, Isolation, Session, Step, TransactionOptions};

use crate::aggregate::{World, all, begun, change};

/// Name of a case, its stages, its answer on the documents as they were, and on the changed ones.
type Case = (&'static str, Vec<Document>, Vec<Document>, Vec<Document>);

/// Pipelines on `a`, each with what it answers of the documents as they were, and of the changed
/// ones.
fn cases() -> Vec<Case> {
    let sum = doc! {"$group": {"_id": Bson::Null, "n": {"$sum": "$n"}}};
    let sum_of = |n: i32| vec![doc! {"_id": Bson::Null, "n": n}];
    let ids = doc! {"$project": {"ids": {"$sortArray": {"input": "$x._id", "sortBy": 1}}}};
    let links =
        |to: [(i32, Vec<i32>); 3]| to.into_iter().map(|(id, ids)| doc! {"_id": id, "ids": ids}).collect::<Vec<_>>();
    let by_id = doc! {"$sort": {"_id": 1}};
    let lookup = doc! {"from": "b", "localField": "to", "foreignField": "_id", "as": "x"};
    let by_n = doc! {"from": "b", "localField": "n", "foreignField": "n", "as": "x"};
    let whole = doc! {"from": "b", "pipeline": [{"$match": {"n": {"$lt": 25}}}], "as": "x"};
    let mut sorted = lookup.clone();
    sorted.insert("pipeline", vec![doc! {"$sort": {"n": 1}}, doc! {"$limit": 1}]);
    let lookups = |lookup: Document| vec![by_id.clone(), doc! {"$lookup": lookup}, ids.clone()];
    vec![
        ("group", vec![sum.clone()], sum_of(60), sum_of(81)),
        ("match", vec![doc! {"$match": {"n": {"$gt": 10}}}, sum.clone()], sum_of(50), sum_of(81)),
        (
            "top",
            vec![doc! {"$sort": {"n": -1}}, doc! {"$skip": 1}, doc! {"$limit": 1}, sum.clone()],
            sum_of(20),
            sum_of(30),
        ),
        ("union", vec![doc! {"$unionWith": "b"}, sum.clone()], sum_of(120), sum_of(162)),
        (
            "union of some",
            vec![doc! {"$unionWith": {"coll": "b", "pipeline": [{"$match": {"n": 40}}]}}, sum.clone()],
            sum_of(60),
            sum_of(121),
        ),
        (
            "facet",
            vec![doc! {"$facet": {"x": [by_id.clone()]}}, doc! {"$unwind": "$x"}, doc! {"$replaceWith": "$x"}, sum],
            sum_of(60),
            sum_of(81),
        ),
        (
            "lookup by _id",
            lookups(lookup),
            links([(1, vec![2]), (2, vec![3]), (3, vec![])]),
            links([(1, vec![]), (3, vec![4]), (4, vec![1])]),
        ),
        (
            "lookup by a changed field",
            lookups(by_n),
            links([(1, vec![1]), (2, vec![2]), (3, vec![3])]),
            links([(1, vec![1]), (3, vec![3]), (4, vec![4])]),
        ),
        (
            "lookup by a pipeline",
            lookups(whole),
            links([(1, vec![1, 2]), (2, vec![1, 2]), (3, vec![1, 2])]),
            links([(1, vec![1]), (3, vec![1]), (4, vec![1])]),
        ),
        (
            "lookup by both",
            lookups(sorted),
            links([(1, vec![2]), (2, vec![3]), (3, vec![])]),
            links([(1, vec![]), (3, vec![4]), (4, vec![1])]),
        ),
    ]
}

/// Only reads: nothing here can be done to a collection with own writes.
fn search() -> (Vec<Document>, Vec<Document>, Vec<Document>) {
    let search = doc! {"from": "b", "startWith": "$to", "connectFromField": "to", "connectToField": "_id", "as": "x"};
    let pipeline = vec![
        doc! {"$match": {"_id": 1}},
        doc! {"$graphLookup": search},
        doc! {"$project": {"x": {"$sortArray": {"input": "$x", "sortBy": {"_id": 1}}}}},
    ];
    let document = |id: i32, n: i32, to: i32| doc! {"_id": id, "n": n, "to": to};
    let before = vec![doc! {"_id": 1, "x": [document(2, 20, 3), document(3, 30, 4)]}];
    (pipeline, before, vec![doc! {"_id": 1, "x": []}])
}

#[tokio::test]
async fn own_writes_are_seen_inside_and_not_outside() {
    let world = World::filled().await;
    let mut session = begun(&world.client);
    change(&world, World::coll, &mut session).await;
    for (name, pipeline, before, after) in cases() {
        assert_eq!(all(world.coll("a").aggregate(pipeline.clone()).session(&mut session)).await, after, "{name}");
        assert_eq!(all(world.coll("a").aggregate(pipeline.clone())).await, before, "{name}");
        assert_eq!(all(world.rivals("a").aggregate(pipeline)).await, before, "{name}");
    }
    let (pipeline, before, after) = search();
    assert_eq!(all(world.rivals("a").aggregate(pipeline.clone())).await, before);
    session.commit().await.unwrap();
    assert_eq!(all(world.rivals("a").aggregate(pipeline)).await, after);
}

#[tokio::test]
async fn what_a_rival_has_committed_is_seen_before_it_is_finished() {
    for (name, pipeline, _, after) in cases() {
        let mut world = World::filled().await;
        let gate = crate::quiet::Gate::before(&[Step::BeforeFinish]);
        gate.shut();
        world.rival =
            crate::quiet::connect(ClientOptions { hook: Some(gate.clone()), ..crate::quiet::options() }).await;
        let mut session = begun(&world.rival);
        change(&world, World::rivals, &mut session).await;
        session.commit().await.unwrap();
        assert!(world.stored("b").await.iter().any(|document| document.contains_key("_unsafe")), "nothing is pending");
        assert_eq!(all(world.coll("a").aggregate(pipeline)).await, after, "{name}");
        gate.open();
    }
}

/// A collection that the transaction has written to is joined with one that only a rival has
/// written to.
#[tokio::test]
async fn own_writes_and_a_rivals_are_distinguished_in_one_pipeline() {
    let world = World::filled().await;
    let (mut mine, mut theirs) = (begun(&world.client), begun(&world.rival));
    world.coll("a").update_one(doc! {"_id": 1}, doc! {"$set": {"n": 1}}).session(&mut mine).await.unwrap();
    world.rivals("b").update_one(doc! {"_id": 1}, doc! {"$set": {"n": 2}}).session(&mut theirs).await.unwrap();
    let pipeline =
        [doc! {"$match": {"_id": 1}}, doc! {"$unionWith": {"coll": "b", "pipeline": [{"$match": {"_id": 1}}]}}];
    let numbers = async |session: &mut Session| -> Vec<i32> {
        let found = all(world.coll("a").aggregate(pipeline.clone()).session(session)).await;
        found.iter().map(|document| document.get_i32("n").unwrap()).collect()
    };
    assert_eq!(numbers(&mut mine).await, [1, 10]);
    theirs.commit().await.unwrap();
    assert_eq!(numbers(&mut mine).await, [1, 2]);
}

#[tokio::test]
async fn answers_never_carry_reserved_fields() {
    let world = World::filled().await;
    let mut session = begun(&world.rival);
    change(&world, World::rivals, &mut session).await;
    let pipelines = [
        vec![],
        vec![doc! {"$set": {"all": "$$ROOT"}}],
        vec![doc! {"$group": {"_id": 1, "all": {"$push": "$$ROOT"}}}],
        vec![doc! {"$facet": {"x": [{"$match": {}}]}}],
        vec![doc! {"$lookup": {"from": "b", "localField": "_id", "foreignField": "_id", "as": "x"}}],
        vec![
            doc! {"$graphLookup": {"from": "b", "startWith": 1, "connectFromField": "to", "connectToField": "_id", "as": "x"}},
        ],
        vec![doc! {"$unionWith": "b"}, doc! {"$group": {"_id": 1, "all": {"$push": "$$ROOT"}}}],
        vec![doc! {"$redact": "$$DESCEND"}],
        vec![doc! {"$replaceWith": {"x": {"$objectToArray": "$$CURRENT"}}}],
        vec![doc! {"$setWindowFields": {"sortBy": {"_id": 1}, "output": {"all": {"$push": "$$ROOT"}}}}],
    ];
    for pipeline in pipelines {
        let answer = format!("{:?}", all(world.coll("a").aggregate(pipeline.clone())).await);
        for name in ["_unsafe", "_xTxId", "_sTxIds", "_insert", "_remove"] {
            assert!(!answer.contains(name), "{pipeline:?} shows {name}: {answer}");
        }
    }
}

#[tokio::test]
async fn database_pipelines_read_collections_on_their_way() {
    let world = World::filled().await;
    let mut session = begun(&world.client);
    change(&world, World::coll, &mut session).await;
    let database = world.client.database(&world.db);
    let pipeline = [
        doc! {"$documents": [{"k": 2}, {"k": 4}]},
        doc! {"$lookup": {"from": "a", "localField": "k", "foreignField": "_id", "as": "x"}},
        doc! {"$project": {"k": 1, "n": "$x.n"}},
    ];
    let outside = all(database.aggregate(pipeline.clone())).await;
    assert_eq!(outside, [doc! {"k": 2, "n": [20]}, doc! {"k": 4, "n": []}]);
    let inside = all(database.aggregate(pipeline).session(&mut session)).await;
    assert_eq!(inside, [doc! {"k": 2, "n": []}, doc! {"k": 4, "n": [40]}]);
    let current = [doc! {"$currentOp": {}}, doc! {"$limit": 1}];
    assert_eq!(all(world.client.database("admin").aggregate(current)).await.len(), 1);
}

#[tokio::test]
async fn statistics_run_as_they_are_and_hide_indexes_of_mongotx() {
    let world = World::filled().await;
    assert_eq!(world.coll("a").count_documents(doc! {"n": 10}).await.unwrap(), 1);
    let names = world.driver.collection::<Document>("a").list_index_names().await.unwrap();
    assert!(names.iter().any(|name| name.starts_with("_mongotx_")), "{names:?}");
    let shown = all(world.coll("a").aggregate([doc! {"$indexStats": {}}])).await;
    let shown: Vec<&str> = shown.iter().map(|index| index.get_str("name").unwrap()).collect();
    assert_eq!(shown, ["_id_"]);
    world.coll("a").create_index(IndexModel::new(doc! {"n": 1, "to": -1}).unique(true).name("u")).await.unwrap();
    let sorted = [doc! {"$indexStats": {}}, doc! {"$sort": {"name": 1}}];
    let shown = all(world.coll("a").aggregate(sorted)).await;
    assert_eq!(shown.len(), 2);
    assert_eq!(shown[1].get_str("name").unwrap(), "u");
    let spec = shown[1].get_document("spec").unwrap();
    for shown in [&shown[1], spec] {
        assert_eq!(shown.get_document("key").unwrap().to_string(), r#"{ "n": 1, "to": -1 }"#);
    }
    assert_eq!(spec.get_str("name").unwrap(), "u");
    let stats = all(world.coll("a").aggregate([doc! {"$collStats": {"count": {}}}])).await;
    assert_eq!(stats[0].get_i32("count").unwrap(), 3);
}

#[tokio::test]
async fn options_reach_the_server() {
    let world = World::filled().await;
    world.coll("a").insert_one(&doc! {"_id": 5, "s": "A"}).await.unwrap();
    let mut session = begun(&world.client);
    world.coll("a").insert_one(&doc! {"_id": 6, "s": "a"}).session(&mut session).await.unwrap();
    let coll = world.coll("a");
    let by_s = || coll.aggregate([doc! {"$match": {"s": "a"}}]);
    assert_eq!(all(by_s()).await.len(), 0);
    assert_eq!(all(by_s().collation(doc! {"locale": "en", "strength": 2})).await.len(), 1);
    let both = by_s().collation(doc! {"locale": "en", "strength": 2}).session(&mut session);
    assert_eq!(all(both).await.len(), 2);
    let with_variable =
        coll.aggregate([doc! {"$match": {"$expr": {"$eq": ["$n", "$$ten"]}}}]).let_vars(doc! {"ten": 10});
    assert_eq!(all(with_variable).await.len(), 1);
    assert_eq!(coll.aggregate([]).hint("no_such_index").await.err().unwrap().code(), Some(2));
    let typed = coll.aggregate([doc! {"$project": {"_id": 0, "n": 1}}, doc! {"$match": {"n": 10}}]).batch_size(1);
    let typed = typed.comment("why").allow_disk_use(false).with_type::<std::collections::BTreeMap<String, i32>>();
    assert_eq!(typed.await.unwrap().next().await.unwrap().unwrap()["n"], 10);
}

/// No reader meets an error in a version that is not committed.
#[tokio::test]
async fn an_expression_that_fails_on_a_rivals_version_does_not_fail_the_reader() {
    let world = World::new().await;
    world.coll("a").insert_many(&[doc! {"_id": 1, "t": [2]}, doc! {"_id": 2, "t": [1]}]).await.unwrap();
    let mut session = begun(&world.rival);
    let broken = doc! {"$set": {"t": 1}};
    world.rivals("a").update_one(doc! {"_id": 1}, broken).session(&mut session).await.unwrap();
    let filter = doc! {"$expr": {"$in": [1, "$t"]}};
    assert_eq!(all(world.coll("a").aggregate([doc! {"$match": filter.clone()}])).await.len(), 1);
    assert_eq!(world.coll("a").count_documents(filter.clone()).await.unwrap(), 1);
    assert_eq!(world.coll("a").find(filter).await.unwrap().try_collect().await.unwrap().len(), 1);
}

/// Nor in what is not the latest any more.
#[tokio::test]
async fn an_expression_that_fails_on_a_former_version_does_not_fail_the_reader() {
    let mut world = World::new().await;
    let gate = crate::quiet::Gate::before(&[Step::BeforeFinish]);
    gate.shut();
    world.rival = crate::quiet::connect(ClientOptions { hook: Some(gate.clone()), ..crate::quiet::options() }).await;
    let inverse = doc! {"_id": 1, "x": {"$divide": [1, "$n"]}};
    for way in ["find", "find one", "aggregate"] {
        let (ours, theirs) = (world.coll(way), world.rivals(way));
        ours.insert_many(&[doc! {"_id": 1, "n": 1}, doc! {"_id": 2, "n": 0}]).await.unwrap();
        assert!(world.client.flush(Duration::from_secs(10)).await);
        let mut session = begun(&world.rival);
        theirs.delete_one(doc! {"_id": 2}).session(&mut session).await.unwrap();
        session.commit().await.unwrap();
        let found = match way {
            "find one" => {
                let gone = ours.find(doc! {"_id": 2}).projection(inverse.clone());
                assert_eq!(gone.await.unwrap().next().await.unwrap(), None);
                continue;
            }
            "find" => ours.find(doc! {}).projection(inverse.clone()).await.unwrap().try_collect().await.unwrap(),
            _ => all(ours.aggregate([doc! {"$project": inverse.clone()}])).await,
        };
        assert_eq!(found, [doc! {"_id": 1, "x": 1.0}], "{way}");
    }
    gate.open();
}

/// By itself the other collection compares strings in another way than the pipeline does.
#[tokio::test]
async fn a_union_with_a_collection_of_another_collation_is_whole() {
    let client = crate::quiet::connect(crate::quiet::options()).await;
    let a = crate::quiet::collection(&client, 1).await;
    let database = client.database(&a.namespace().db);
    let create = database.create_collection("b").option("collation", doc! {"locale": "en", "strength": 2});
    create.await.unwrap();
    let b = database.collection::<Document>("b");
    b.insert_one(&doc! {"_id": 7, "s": "a"}).await.unwrap();
    let union = doc! {"$unionWith": {"coll": "b", "pipeline": [{"$match": {"s": {"$ne": "A"}}}]}};
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Snapshot, Isolation::Serializable]
    {
        let options = TransactionOptions { isolation: Some(isolation), ..TransactionOptions::default() };
        let mut session = client.session_with(options);
        session.begin().unwrap();
        let found = a.aggregate([doc! {"$match": {"_id": 1}}, union.clone()]).session(&mut session).await.unwrap();
        let ids: Vec<i32> =
            found.try_collect().await.unwrap().iter().map(|found| found.get_i32("_id").unwrap()).collect();
        assert_eq!(ids, [1, 7], "{isolation:?}");
        session.rollback().await.unwrap();
    }
}
