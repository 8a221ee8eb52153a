//! `$out` and `$merge` with reserved names in their results: both are refused, and the target stays
//! as it was.

use bson::{Bson, Document, doc};

use super::{NAMES, Place, assert_refused, value_of};

async fn outcome(place: &Place, pipeline: Vec<Document>) -> mongotx::Result<Vec<Document>> {
    match place.coll("c").aggregate(pipeline).await {
        Ok(cursor) => cursor.try_collect().await,
        Err(error) => Err(error),
    }
}

/// The stages that bring the name up, each before the stage that writes.
fn fronts(name: &str) -> [Vec<Document>; 3] {
    let only = doc! {"$match": {"_id": name}};
    [
        vec![only.clone(), doc! {"$replaceWith": "$nested"}],
        vec![only.clone(), doc! {"$replaceRoot": {"newRoot": {"$arrayToObject": "$pairs"}}}],
        vec![only, doc! {"$replaceWith": {"$mergeObjects": [{"_id": 1}, "$nested"]}}, doc! {"$set": {"b": 1}}],
    ]
}

#[tokio::test]
async fn out_leaves_its_target_as_it_was() {
    let place = Place::filled().await;
    place.plain("target").insert_one(doc! {"_id": 1, "there": true}).await.unwrap();
    for name in NAMES {
        for front in fronts(name) {
            for target in ["target", "c", "new"] {
                let pipeline = front.iter().cloned().chain([doc! {"$out": target}]).collect();
                let error = outcome(&place, pipeline).await.unwrap_err();
                assert_refused(&error, name, &format!("{front:?} to {target}"));
            }
        }
    }
    assert_eq!(place.stored("target").await, [doc! {"_id": 1, "there": true}]);
    assert_eq!(place.stored("c").await.len(), NAMES.len());
    assert_eq!(place.stored("new").await, Vec::<Document>::new());
}

#[tokio::test]
async fn merge_leaves_its_target_as_it_was() {
    let place = Place::filled().await;
    place.plain("target").insert_one(doc! {"_id": 1, "there": true}).await.unwrap();
    let change = |stage: Document| Bson::Array(vec![stage.into()]);
    for name in NAMES {
        for front in fronts(name) {
            for matched in ["replace", "merge", "keepExisting", "fail"].map(Bson::from) {
                let merge = doc! {"$merge": {"into": "target", "whenMatched": matched}};
                let pipeline = front.iter().cloned().chain([merge.clone()]).collect();
                let error = outcome(&place, pipeline).await.unwrap_err();
                assert_refused(&error, name, &format!("{front:?}, {merge}"));
            }
        }
        let keep = doc! {"$set": {"_id": 1}};
        for stage in [
            doc! {"$replaceWith": {"$mergeObjects": ["$$ROOT", "$$new.nested"]}},
            doc! {"$replaceWith": "$$given"},
            doc! {"$replaceWith": {"$arrayToObject": "$$new.pairs"}},
        ] {
            let merge = doc! {"$merge": {
                "into": "target", "whenMatched": change(stage), "let": {"given": {"$literal": {name: value_of(name)}}, "new": "$$ROOT"},
            }};
            let pipeline = vec![doc! {"$match": {"_id": name}}, keep.clone(), merge.clone()];
            let error = outcome(&place, pipeline).await.unwrap_err();
            assert_refused(&error, name, &merge.to_string());
        }
    }
    assert_eq!(place.stored("target").await, [doc! {"_id": 1, "there": true}]);
}

/// In collections where nothing is ever locked, such a name would still hide what the application
/// stores.
#[tokio::test]
async fn special_collections_take_no_reserved_name() {
    let place = Place::new().await;
    let database = place.client.database(place.db.name());
    database.create_collection("c").option("capped", true).option("size", 65536_i64).await.unwrap();
    database.create_collection("series").option("timeseries", doc! {"timeField": "at"}).await.unwrap();
    let coll = place.coll("c");
    for name in NAMES {
        let document = doc! {"_id": 1, "at": bson::DateTime::now(), name: value_of(name)};
        for coll in [coll.clone(), place.coll("series")] {
            assert_refused(&coll.insert_one(&document).await.unwrap_err(), name, &coll.namespace().to_string());
        }
    }
    coll.insert_one(&doc! {"_id": 1, "nested": {"_remove": true}}).await.unwrap();
    let up = vec![doc! {"$replaceWith": {"$mergeObjects": ["$$ROOT", "$nested"]}}];
    assert_refused(&coll.update_one(doc! {"_id": 1}, up.clone()).await.unwrap_err(), "_remove", "capped");
    assert_refused(&coll.find_one_and_update(doc! {"_id": 1}, up).await.unwrap_err(), "_remove", "capped");
    assert_eq!(place.stored("c").await, [doc! {"_id": 1, "nested": {"_remove": true}}]);
    assert_eq!(place.stored("series").await, Vec::<Document>::new());
}
