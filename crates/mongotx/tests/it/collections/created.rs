//! Collections made and changed with options: validators, expiry, kinds of collections, and what is
//! refused. They are listed as a plain server lists them.

use std::time::Duration;

use bson::{Bson, Document, doc};
use mongotx::{CollectionInfo, IndexModel};

use crate::place::Place;

fn info(all: &[CollectionInfo], name: &str) -> CollectionInfo {
    all.iter().find(|info| info.name == name).unwrap().clone()
}

#[tokio::test]
async fn validator_is_stored_wrapped_and_listed_as_it_was_given() {
    let place = Place::new("created_validator").await;
    let validator = doc! {"n": {"$gt": 0}};
    place.ours.create_collection("c").option("validator", validator.clone()).await.unwrap();
    let stored = place.plain.run_command(doc! {"listCollections": 1, "filter": {"name": "c"}}).await.unwrap();
    let stored = stored.get_document("cursor").unwrap().get_array("firstBatch").unwrap()[0].as_document().unwrap();
    let stored = stored.get_document("options").unwrap().get_document("validator").unwrap();
    assert_eq!(sd2v::validator::unwrap(stored), Some(validator.clone()));
    let listed = place.ours.list_collections().await.unwrap();
    assert_eq!(info(&listed, "c").options, doc! {"validator": validator});
    // The validator judges from the first write on, in a transaction and outside.
    let mut session = place.begin();
    for n in [0, 1] {
        let outside = place.coll("c").insert_one(&doc! {"_id": n, "n": n}).await;
        let inside = place.coll("c").insert_one(&doc! {"_id": n + 10, "n": n}).session(&mut session).await;
        let expected = if n == 0 { Err(Some(121)) } else { Ok(()) };
        assert_eq!(outside.map(drop).map_err(|error| error.code()), expected);
        assert_eq!(inside.map(drop).map_err(|error| error.code()), expected);
    }
    session.commit().await.unwrap();
    assert_eq!(place.stored("c").await, [doc! {"_id": 1, "n": 1}, doc! {"_id": 11, "n": 1}]);
}

#[tokio::test]
async fn validator_that_is_changed_is_stored_wrapped_and_judges_at_once() {
    let place = Place::new("changed_validator").await;
    place.coll("c").insert_one(&doc! {"_id": 1, "n": 0}).await.unwrap();
    let mut session = place.begin();
    place.coll("c").insert_one(&doc! {"_id": 2, "n": 0}).session(&mut session).await.unwrap();
    let validator = doc! {"n": {"$gt": 0}};
    place.ours.modify_collection("c").option("validator", validator.clone()).await.unwrap();
    let listed = info(&place.ours.list_collections().await.unwrap(), "c").options;
    assert_eq!(listed.get_document("validator").unwrap(), &validator);
    let refused = place.coll("c").insert_one(&doc! {"_id": 3, "n": 0}).session(&mut session).await;
    assert_eq!(refused.map_err(|error| error.code()).err(), Some(Some(121)));
    // Documents that were written before are not judged.
    session.commit().await.unwrap();
    assert_eq!(place.stored("c").await, [doc! {"_id": 1, "n": 0}, doc! {"_id": 2, "n": 0}]);
    place.ours.modify_collection("c").option("validator", doc! {}).await.unwrap();
    place.coll("c").insert_one(&doc! {"_id": 3, "n": 0}).await.unwrap();
}

/// The server never removes what a transaction holds: the expiry is on an index of its own,
/// whatever is changed.
#[tokio::test]
async fn expiry_that_is_changed_stays_on_the_index_of_unlocked_documents() {
    let place = Place::new("changed_index").await;
    place.coll("c").create_index(IndexModel::new(doc! {"at": 1}).expire_after(Duration::from_secs(60))).await.unwrap();
    place.coll("c").create_index(IndexModel::new(doc! {"b": 1}).unique(true)).await.unwrap();
    let change = |index: Document| place.ours.modify_collection("c").option("index", index);
    let changed = change(doc! {"name": "at_1", "expireAfterSeconds": 70, "hidden": true}).await.unwrap();
    let wanted = doc! {"hidden_old": false, "hidden_new": true, "expireAfterSeconds_old": 60_i64, "expireAfterSeconds_new": 70_i64};
    assert_eq!(changed, wanted);
    change(doc! {"keyPattern": {"b": 1}, "expireAfterSeconds": 80}).await.unwrap();
    let stored = place.plain.run_command(doc! {"listIndexes": "c"}).await.unwrap();
    let stored = stored.get_document("cursor").unwrap().get_array("firstBatch").unwrap().clone();
    let stored = stored.iter().map(|index| index.as_document().unwrap());
    let of = |index: &Document| {
        let name = index.get_str("name").unwrap().to_owned();
        (name, index.get("expireAfterSeconds").cloned(), index.get_bool("hidden").is_ok_and(|hidden| hidden))
    };
    let expires = |name: &str, seconds: i64| (name.to_owned(), Some(Bson::Int64(seconds)), false);
    let plain = |name: &str, hidden: bool| (name.to_owned(), None, hidden);
    let mut found: Vec<_> = stored.map(of).map(|(name, expiry, hidden)| (name, expiry.map(long), hidden)).collect();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    found.retain(|(name, ..)| name != "_mongotx_pending");
    let wanted = [
        plain("_id_", false),
        expires("_mongotx_ttl.at_1", 70),
        expires("_mongotx_ttl.b_1", 80),
        plain("_mongotx_unique.b_1", false),
        plain("_mongotx_unsafe.b_1", false),
        plain("at_1", true),
    ];
    assert_eq!(found, wanted);
}

fn long(value: Bson) -> Bson {
    value.as_i32().map_or(value, |n| Bson::Int64(n.into()))
}

#[tokio::test]
async fn an_index_does_not_become_unique_and_mongotxs_own_are_not_changed() {
    let place = Place::new("changed_unique").await;
    place.coll("c").create_index(IndexModel::new(doc! {"b": 1}).unique(true)).await.unwrap();
    let change = |index: Document| place.ours.modify_collection("c").option("index", index);
    for option in ["unique", "prepareUnique"] {
        let error = change(doc! {"name": "b_1", option: true}).await.unwrap_err();
        assert_eq!(error.kind(), mongotx::ErrorKind::Unsupported);
        assert!(error.message().contains(option), "{error}");
    }
    for own in [doc! {"name": "_mongotx_unique.b_1"}, doc! {"keyPattern": {"b": 1, "_slot": 1}}] {
        let mut hidden = own;
        hidden.insert("hidden", true);
        assert_eq!(change(hidden).await.unwrap_err().code(), Some(27));
    }
}

#[tokio::test]
async fn every_kind_is_listed_as_a_plain_server_lists_it() {
    let place = Place::new("created_kinds").await;
    let kinds = [
        ("plain", doc! {}),
        ("capped", doc! {"capped": true, "size": 4096_i64, "max": 10}),
        ("collated", doc! {"collation": {"locale": "en", "strength": 2}}),
        ("clustered", doc! {"clusteredIndex": {"key": {"_id": 1}, "unique": true}}),
        ("series", doc! {"timeseries": {"timeField": "at", "metaField": "m"}}),
        ("view", doc! {"viewOn": "plain", "pipeline": [{"$match": {"n": 1}}]}),
        ("checked", doc! {"validator": {"n": {"$type": "int"}}, "validationLevel": "moderate"}),
    ];
    let other = Place::new("created_kinds_plain").await;
    for (name, options) in &kinds {
        let creating = place.ours.create_collection(name);
        options
            .iter()
            .fold(creating, |creating, (option, value)| creating.option(option, value.clone()))
            .await
            .unwrap();
        let mut command = doc! {"create": name};
        command.extend(options.clone());
        other.plain.run_command(command).await.unwrap();
    }
    place.plain.create_collection("_mongotx_text.000000000000000000000000.1").await.unwrap();
    let sorted = |mut all: Vec<CollectionInfo>| {
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    };
    let listed = place.ours.list_collections().await.unwrap();
    assert!(listed.len() > kinds.len(), "with what the server adds for time series and views");
    assert_eq!(sorted(listed.clone()), sorted(other.ours.list_collections().await.unwrap()));
    assert_eq!((info(&listed, "view").kind.as_str(), info(&listed, "series").kind.as_str()), ("view", "timeseries"));
    let mut names = place.ours.list_collection_names().await.unwrap();
    names.sort();
    assert_eq!(names, sorted(listed).into_iter().map(|info| info.name).collect::<Vec<_>>());
}

#[tokio::test]
async fn made_while_a_transaction_is_open_it_stays_when_that_is_rolled_back() {
    let place = Place::new("created_open").await;
    for commit in [false, true] {
        let name = if commit { "committed" } else { "rolled_back" };
        let mut session = place.begin();
        place.coll("other").insert_one(&doc! {"_id": name}).session(&mut session).await.unwrap();
        place.ours.create_collection(name).await.unwrap();
        assert!(place.plain.list_collection_names().await.unwrap().contains(&name.to_owned()), "at once");
        place.coll(name).insert_one(&doc! {"_id": 1}).session(&mut session).await.unwrap();
        if commit { session.commit().await } else { session.rollback().await }.unwrap();
        let expected = if commit { vec![doc! {"_id": 1}] } else { Vec::new() };
        assert_eq!(place.stored(name).await, expected);
        assert!(place.ours.list_collection_names().await.unwrap().contains(&name.to_owned()));
    }
}

#[tokio::test]
async fn what_cannot_be_made_is_refused() {
    let place = Place::new("created_refused").await;
    let code = async |name: &str, options: Document| {
        let creating = place.ours.create_collection(name);
        let creating =
            options.iter().fold(creating, |creating, (option, value)| creating.option(option, value.clone()));
        creating.await.unwrap_err().code()
    };
    place.ours.create_collection("c").await.unwrap();
    assert_eq!(code("c", doc! {}).await, Some(48));
    assert_eq!(code("_mongotx_text.x", doc! {}).await, Some(73));
    assert_eq!(code("d", doc! {"create": "e"}).await, Some(72));
    assert_eq!(code("d", doc! {"capped": true}).await, Some(72));
    assert_eq!(code("d", doc! {"validator": 1}).await, Some(14));
    assert_eq!(code("d", doc! {"validator": {"_unsafe.a": 1}}).await, Some(2));
    assert_eq!(place.ours.list_collection_names().await.unwrap(), ["c"]);
}
