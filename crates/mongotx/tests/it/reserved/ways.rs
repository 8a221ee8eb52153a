//! Writes of every form that would bring a reserved name to the top level: all are refused. Nested
//! fields of such names are the application's own.

use bson::{Document, doc};
use mongotx::{Error, Modification, Session, WriteModel};

use super::{NAMES, Place, assert_refused, value_of};

type Outcomes = Vec<(&'static str, Result<(), Error>)>;

/// Pipelines that bring a name to the top level without spelling it.
fn pipelines() -> Vec<Vec<Document>> {
    vec![
        vec![doc! {"$replaceWith": "$nested"}],
        vec![doc! {"$replaceRoot": {"newRoot": "$nested"}}],
        vec![doc! {"$replaceWith": {"$mergeObjects": ["$$ROOT", "$nested"]}}],
        vec![doc! {"$replaceWith": {"$arrayToObject": "$pairs"}}],
        vec![doc! {"$replaceWith": {"$ifNull": ["$missing", "$nested"]}}, doc! {"$set": {"b": 1}}],
        vec![doc! {"$replaceWith": {"$setField": {"field": "b", "input": "$nested", "value": 1}}}],
        vec![doc! {"$set": {"b": "$nested"}}, doc! {"$replaceWith": {"$mergeObjects": ["$b", {"c": 1}]}}],
        vec![doc! {"$replaceWith": "$$given"}],
    ]
}

macro_rules! within {
    ($action:expr, $session:expr) => {
        match $session.as_deref_mut() {
            Some(session) => $action.session(session).await.map(drop),
            None => $action.await.map(drop),
        }
    };
}

/// Every way to send this pipeline to the document of this name, and what became of it.
async fn send(place: &Place, name: &str, pipeline: &[Document], mut session: Option<&mut Session>) -> Outcomes {
    let coll = place.coll("c");
    let (filter, stages, given) = (doc! {"_id": name}, pipeline.to_vec(), doc! {"given": {name: value_of(name)}});
    let mut done = Vec::new();
    let one = coll.update_one(filter.clone(), stages.clone()).let_vars(given.clone());
    done.push(("update_one", within!(one, session)));
    let many = coll.update_many(filter.clone(), stages.clone()).let_vars(given.clone());
    done.push(("update_many", within!(many, session)));
    let shown = coll.find_one_and_update(filter.clone(), stages.clone()).let_vars(given.clone());
    done.push(("find_one_and_update", within!(shown, session)));
    let only = doc! {"pairs.k": name};
    let sorted = coll.find_one_and_update(only, stages.clone()).sort(doc! {"_id": 1}).let_vars(given.clone());
    done.push(("find_one_and_update, sorted", within!(sorted, session)));
    if !pipeline.contains(&doc! {"$replaceWith": "$$given"}) {
        let update = Modification::Pipeline(stages.clone());
        let model = WriteModel::UpdateOne { filter: filter.clone(), update, upsert: false };
        done.push(("bulk_write", within!(coll.bulk_write([model]), session)));
    }
    done
}

/// The same of upserts that find no document.
async fn upsert(place: &Place, name: &str, mut session: Option<&mut Session>) -> Outcomes {
    let coll = place.coll("c");
    let given = doc! {"given": {name: value_of(name)}};
    let from_variable = vec![doc! {"$replaceWith": "$$given"}];
    let from_filter = vec![doc! {"$replaceWith": "$from"}];
    let nowhere = doc! {"_id": "new", "from": {name: value_of(name)}};
    let mut done = Vec::new();
    let update = coll.update_one(doc! {"_id": "new"}, from_variable.clone()).upsert(true).let_vars(given.clone());
    done.push(("upsert from a variable", within!(update, session)));
    let update = coll.update_one(doc! {"k": "new"}, from_variable.clone()).upsert(true).let_vars(given.clone());
    done.push(("upsert without _id", within!(update, session)));
    let update = coll.update_one(nowhere.clone(), from_filter.clone()).upsert(true);
    done.push(("upsert from the filter", within!(update, session)));
    let update = coll.update_many(nowhere.clone(), from_filter.clone()).upsert(true);
    done.push(("upsert of many", within!(update, session)));
    let update = coll.find_one_and_update(nowhere, from_filter).upsert(true);
    done.push(("find_one_and_update, upsert", within!(update, session)));
    done
}

/// A command that has the name in it is refused without the server.
async fn spell(place: &Place, name: &str, mut session: Option<&mut Session>) -> Outcomes {
    let coll = place.coll("c");
    let (filter, value, set) = (doc! {"_id": name}, value_of(name), doc! {"$set": {"b": 1}});
    let changes = [
        doc! {"$set": {name: value.clone()}},
        doc! {"$set": {format!("{name}.x"): 1}},
        doc! {"$setOnInsert": {name: value.clone()}},
        doc! {"$rename": {"nested": name}},
        doc! {"$push": {name: 1}},
        doc! {"$currentDate": {name: true}},
    ];
    let mut done = Vec::new();
    for change in changes {
        done.push(("operators", within!(coll.update_one(filter.clone(), change.clone()).upsert(true), session)));
        let shown = coll.find_one_and_update(filter.clone(), change);
        done.push(("find_one_and_update", within!(shown, session)));
    }
    let document = doc! {"a": 1, name: value.clone()};
    done.push(("replacement", within!(coll.replace_one(filter.clone(), &document).upsert(true), session)));
    done.push(("find_one_and_replace", within!(coll.find_one_and_replace(filter, &document), session)));
    done.push(("insert", within!(coll.insert_one(&document), session)));
    done.push(("insert_many", within!(coll.insert_many([&document]), session)));
    let model = WriteModel::InsertOne { document: document.clone() };
    done.push(("bulk_write", within!(coll.bulk_write([model]), session)));
    for filter in [doc! {name: value.clone()}, doc! {"$and": [{name: {"$eq": value.clone()}}]}] {
        done.push(("filter", within!(coll.update_one(filter, set.clone()).upsert(true), session)));
    }
    let literal = vec![doc! {"$replaceWith": {"$literal": document}}];
    done.push(("literal", within!(coll.update_one(doc! {}, literal), session)));
    done
}

fn assert_all_refused(outcomes: Outcomes, name: &str, how: &str) {
    for (way, outcome) in outcomes {
        let way = format!("{way}, {name}, {how}");
        match outcome {
            Ok(()) => panic!("{way}: it was done"),
            Err(error) => assert_refused(&error, name, &way),
        }
    }
}

#[tokio::test]
async fn outside_transactions_nothing_is_stored() {
    let place = Place::filled().await;
    let before = place.stored("c").await;
    for name in NAMES {
        for pipeline in pipelines() {
            let outcomes = send(&place, name, &pipeline, None).await;
            assert_all_refused(outcomes, name, &format!("{pipeline:?}"));
            assert_eq!(place.stored("c").await, before, "{name}, {pipeline:?}");
        }
        assert_all_refused(upsert(&place, name, None).await, name, "upsert");
        assert_all_refused(spell(&place, name, None).await, name, "spelled");
        assert_eq!(place.stored("c").await, before, "{name}");
    }
}

/// A refusal leaves the transaction open, and what it commits has no such field.
#[tokio::test]
async fn inside_transactions_nothing_is_stored() {
    let place = Place::filled().await;
    let before = place.stored("c").await;
    for name in NAMES {
        let mut session = place.begin();
        for pipeline in pipelines() {
            let outcomes = send(&place, name, &pipeline, Some(&mut session)).await;
            assert_all_refused(outcomes, name, &format!("{pipeline:?}"));
        }
        assert_all_refused(upsert(&place, name, Some(&mut session)).await, name, "upsert");
        assert_all_refused(spell(&place, name, Some(&mut session)).await, name, "spelled");
        let set = vec![doc! {"$set": {"n": {"$literal": {name: 1}}}}];
        place.coll("c").update_one(doc! {"_id": name}, set).session(&mut session).await.unwrap();
        session.commit().await.unwrap();
    }
    let expected: Vec<Document> = before
        .into_iter()
        .map(|mut document| {
            let name = document.get_str("_id").unwrap().to_owned();
            document.insert("n", doc! {name: 1});
            document
        })
        .collect();
    assert_eq!(place.stored("c").await, expected);
}

/// Nested, the names are fields like others: written, read and changed.
#[tokio::test]
async fn nested_names_are_the_applications_own() {
    let place = Place::filled().await;
    let coll = place.coll("c");
    for name in NAMES {
        let path = format!("nested.{name}");
        coll.update_one(doc! {"_id": name}, vec![doc! {"$set": {&path: 1}}]).await.unwrap();
        let same = vec![doc! {"$replaceWith": {"$mergeObjects": ["$$ROOT", {"nested": {name: 2}}]}}];
        let done = coll.update_one(doc! {"_id": name, &path: 1}, same).await.unwrap();
        assert_eq!((done.matched_count, done.modified_count), (1, 1), "{name}");
        let nothing = vec![doc! {"$set": {&path: 2}}];
        let done = coll.update_one(doc! {"_id": name}, nothing).await.unwrap();
        assert_eq!((done.matched_count, done.modified_count), (1, 0), "{name}");
        let found = coll.find_one(doc! {"_id": name}).await.unwrap().unwrap();
        assert_eq!(found.get_document("nested").unwrap(), &doc! {name: 2});
    }
}
