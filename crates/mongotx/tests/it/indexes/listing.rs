//! Listing, hints and refusals of indexes: as on a plain server, whatever MongoTx stores for them.

use std::{collections::BTreeSet, time::Duration};

use bson::{Document, doc};
use mongotx::{ErrorKind, IndexModel};

use super::Place;

fn every_kind() -> Vec<IndexModel> {
    vec![
        IndexModel::new(doc! {"plain": 1}),
        IndexModel::new(doc! {"a": 1, "b": -1}).name("compound"),
        IndexModel::new(doc! {"u": 1}).unique(true),
        IndexModel::new(doc! {"s": 1}).unique(true).sparse(true),
        IndexModel::new(doc! {"s2": 1, "s3": 1}).unique(true).sparse(true),
        IndexModel::new(doc! {"p": 1}).unique(true).partial_filter(doc! {"kind": "x", "n": {"$gt": 3}}),
        IndexModel::new(doc! {"c": 1}).unique(true).collation(doc! {"locale": "en", "strength": 2}),
        IndexModel::new(doc! {"at": 1}).expire_after(Duration::from_secs(3600)),
        IndexModel::new(doc! {"loc": "2dsphere"}),
        IndexModel::new(doc! {"flat": "2d"}).option("bits", 20),
        IndexModel::new(doc! {"h": "hashed"}),
        IndexModel::new(doc! {"w.$**": 1}),
        IndexModel::new(doc! {"t": "text", "u2": "text"}).option("weights", doc! {"t": 3}),
        IndexModel::new(doc! {"m": 1}).mirrored(true),
    ]
}

fn telling(spec: &Document) -> String {
    const OPTIONS: [&str; 8] =
        ["name", "key", "unique", "sparse", "partialFilterExpression", "expireAfterSeconds", "bits", "weights"];
    let shown = OPTIONS.iter().filter_map(|option| Some((option.to_string(), spec.get(option)?.clone())));
    shown.collect::<Document>().to_string()
}

#[tokio::test]
async fn listing_shows_what_a_plain_server_would_list() {
    let place = Place::new("listing").await;
    let names = place.coll.create_indexes(every_kind()).await.unwrap();
    let plain = place.db.collection::<Document>("plain");
    let specs: Vec<Document> = every_kind()
        .into_iter()
        .zip(&names)
        .map(|(model, name)| {
            let mut spec = model.spec().clone();
            spec.insert("name", name);
            spec
        })
        .collect();
    place.db.run_command(doc! {"createIndexes": plain.name(), "indexes": specs}).await.unwrap();
    let expected = place.db.run_command(doc! {"listIndexes": "plain"}).await.unwrap();
    let batch = expected.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    let expected: BTreeSet<String> = batch.iter().map(|spec| telling(spec.as_document().unwrap())).collect();
    let listed = place.coll.list_indexes().await.unwrap();
    assert_eq!(listed.iter().map(|index| telling(index.spec())).collect::<BTreeSet<_>>(), expected);
    // Again: nothing happens. Then all go, with everything that was stored for them.
    let before = place.stored_index_names().await;
    place.coll.create_indexes(every_kind()).await.unwrap();
    assert_eq!(place.stored_index_names().await, before);
    place.coll.drop_index("u_1").await.unwrap();
    place.coll.drop_index(doc! {"at": 1}).await.unwrap();
    assert!(place.stored_index_names().await.iter().all(|name| !name.contains("u_1") && !name.contains("at_1")));
    place.coll.drop_indexes().await.unwrap();
    assert_eq!(place.coll.list_index_names().await.unwrap(), ["_id_"]);
    assert!(place.stored_index_names().await.iter().all(|name| name == "_id_" || name == "_mongotx_pending"));
}

#[tokio::test]
async fn other_index_of_the_same_name_or_key_is_refused() {
    let place = Place::new("listing_conflict").await;
    place.coll.create_index(IndexModel::new(doc! {"a": 1}).unique(true)).await.unwrap();
    let code = async |model: IndexModel| place.coll.create_index(model).await.unwrap_err().code();
    assert_eq!(code(IndexModel::new(doc! {"a": 1})).await, Some(86));
    assert_eq!(code(IndexModel::new(doc! {"a": 1}).unique(true).name("b")).await, Some(85));
    assert_eq!(code(IndexModel::new(doc! {"b": 1}).name("_mongotx_b")).await, Some(67));
    assert_eq!(code(IndexModel::new(doc! {"_unsafe.a": 1})).await, Some(2));
    let empty = place.coll.create_index(IndexModel::new(doc! {}).unique(true)).await.unwrap_err();
    assert!(empty.code() == Some(67) && !empty.to_string().contains("_unsafe"), "{empty}");
    assert_eq!(place.coll.drop_index("nothing").await.unwrap_err().code(), Some(27));
    assert_eq!(place.coll.drop_index("_id_").await.unwrap_err().code(), Some(72));
    assert_eq!(place.coll.create_indexes([]).await.unwrap_err().kind(), ErrorKind::Invalid);
}

/// What an index is made with, after one on the same field was made with something else.
fn pairs() -> Vec<[Document; 2]> {
    let en = |more: Document| {
        let mut collation = doc! {"locale": "en"};
        collation.extend(more);
        doc! {"collation": collation}
    };
    let partial = |filter: Document| doc! {"unique": true, "partialFilterExpression": filter};
    vec![
        [doc! {}, doc! {"expireAfterSeconds": 5}],
        [doc! {"expireAfterSeconds": 5}, doc! {}],
        [doc! {"expireAfterSeconds": 5}, doc! {"expireAfterSeconds": 6}],
        [doc! {"expireAfterSeconds": 5}, doc! {"expireAfterSeconds": 5.0}],
        [doc! {"expireAfterSeconds": 5}, doc! {"expireAfterSeconds": 6, "name": "other"}],
        [doc! {}, doc! {"unique": true}],
        [doc! {"unique": true}, doc! {}],
        [doc! {"unique": true}, doc! {"unique": 1}],
        [doc! {"unique": true}, doc! {"unique": true, "background": true}],
        [doc! {"unique": true}, doc! {"unique": true, "sparse": true}],
        [doc! {"unique": true}, doc! {"unique": true, "name": "other"}],
        [doc! {"unique": true}, doc! {"name": "other"}],
        [doc! {"sparse": true}, doc! {"sparse": false}],
        [doc! {}, doc! {"hidden": true}],
        [doc! {}, en(doc! {})],
        [en(doc! {}), en(doc! {"strength": 3})],
        [en(doc! {}), en(doc! {"strength": 2})],
        [en(doc! {"strength": 2}), en(doc! {})],
        [en(doc! {"caseFirst": "upper"}), en(doc! {})],
        [en(doc! {"alternate": "shifted", "maxVariable": "space"}), en(doc! {"alternate": "shifted"})],
        [doc! {"collation": {"locale": "da"}}, doc! {"collation": {"locale": "da"}}],
        [partial(doc! {"a": 1}), partial(doc! {"a": 1.0})],
        [partial(doc! {"a": 1}), partial(doc! {"a": 2})],
    ]
}

#[tokio::test]
async fn index_that_is_there_with_other_options_is_refused_as_by_the_server() {
    let place = Place::new("listing_options").await;
    let ours = place.client.database(place.db.name());
    let collated = doc! {"collation": {"locale": "en"}};
    for (number, pair) in pairs().into_iter().enumerate() {
        for (default, options) in [doc! {}, collated.clone()].into_iter().enumerate() {
            let mut codes = Vec::new();
            for side in ["plain", "ours"] {
                let name = format!("{side}_{number}_{default}");
                let mut create = doc! {"create": &name};
                create.extend(options.clone());
                place.db.run_command(create).await.unwrap();
                for with in &pair {
                    let mut spec = doc! {"key": {"k": 1}, "name": "k_1"};
                    spec.extend(with.clone());
                    codes.push(if side == "plain" {
                        let create = doc! {"createIndexes": &name, "indexes": [spec]};
                        place.db.run_command(create).await.err().and_then(|error| code_of_command(&error))
                    } else {
                        let model = spec.into_iter().filter(|(option, _)| option != "key");
                        let model = model.fold(IndexModel::new(doc! {"k": 1}), |model, (option, value)| {
                            model.option(&option, value)
                        });
                        let made = ours.collection::<Document>(&name).create_index(model).await;
                        made.err().and_then(|error| error.code())
                    });
                }
            }
            assert_eq!(codes[..2], codes[2..], "{pair:?}, default collation {options}");
        }
    }
}

fn code_of_command(error: &mongodb::error::Error) -> Option<i32> {
    match error.kind.as_ref() {
        mongodb::error::ErrorKind::Command(refused) => Some(refused.code),
        _ => None,
    }
}

/// The server has no limit of names, and what MongoTx adds to one needs none.
#[tokio::test]
async fn names_of_indexes_may_be_long() {
    let place = Place::new("listing_long").await;
    let key: Document = (0..6).map(|n| (format!("averylongfieldname.sub{n}.value"), 1.into())).collect();
    let long = "n".repeat(2_000);
    let models = [
        IndexModel::new(key),
        IndexModel::new(doc! {"u": 1}).unique(true).name(&long),
        IndexModel::new(doc! {"at": 1}).expire_after(Duration::from_secs(3600)).name(&long.to_uppercase()),
    ];
    let names = place.coll.create_indexes(models.clone()).await.unwrap();
    assert!(names[0].len() > 150 && names[1..] == [long.clone(), long.to_uppercase()], "{names:?}");
    place.coll.insert_one(&doc! {"_id": 1, "u": 1}).await.unwrap();
    let mut session = place.begin();
    let twice = place.coll.insert_one(&doc! {"_id": 2, "u": 1}).session(&mut session).await.unwrap_err();
    super::assert_duplicate(&twice, doc! {"u": 1}, doc! {"u": 1});
    drop(session);
    assert_eq!(place.coll.create_indexes(models).await.unwrap(), names);
    place.coll.drop_index(long).await.unwrap();
    assert_eq!(place.coll.list_index_names().await.unwrap().len(), 3);
}

#[tokio::test]
async fn key_of_several_indexes_drops_none_of_them() {
    let place = Place::new("listing_ambiguous").await;
    let of = |field: &str, name: &str| IndexModel::new(doc! {field: 1}).name(name);
    let models = [
        of("k", "unique").unique(true),
        of("k", "plain"),
        of("l", "collated").collation(doc! {"locale": "en"}),
        of("l", "by bytes"),
        of("m", "partial").partial_filter(doc! {"q": 1}),
        of("m", "sparse").sparse(true),
    ];
    place.coll.create_indexes(models).await.unwrap();
    let before = place.stored_index_names().await;
    for field in ["k", "l", "m"] {
        let error = place.coll.drop_index(doc! {field: 1}).await.unwrap_err();
        assert_eq!(error.code(), Some(181), "{error}");
    }
    assert_eq!(place.stored_index_names().await, before);
    // The name says which one is meant, and then the key does.
    place.coll.drop_index("plain").await.unwrap();
    place.coll.drop_index(doc! {"k": 1}).await.unwrap();
    let names = place.coll.list_index_names().await.unwrap();
    assert_eq!(names, ["_id_", "collated", "by bytes", "partial", "sparse"]);
}

#[tokio::test]
async fn hint_by_name_or_key_finds_a_unique_index() {
    let place = Place::new("listing_hint").await;
    place.coll.create_index(IndexModel::new(doc! {"a": 1}).unique(true)).await.unwrap();
    place.coll.insert_one(&doc! {"_id": 1, "a": 5}).await.unwrap();
    let mut session = place.begin();
    for own in [false, true] {
        if own {
            place.coll.insert_one(&doc! {"_id": 2, "a": 6}).session(&mut session).await.unwrap();
        }
        let by_name = place.coll.find(doc! {"a": 5}).hint("a_1").session(&mut session).await.unwrap();
        assert_eq!(by_name.try_collect().await.unwrap().len(), 1);
        let by_key = place.coll.find_one(doc! {"a": 5}).hint(doc! {"a": 1}).session(&mut session).await.unwrap();
        assert_eq!(by_key, Some(doc! {"_id": 1, "a": 5}));
    }
    let update = place.coll.update_one(doc! {"a": 5}, doc! {"$set": {"b": 1}}).hint(doc! {"a": 1});
    assert_eq!(update.session(&mut session).await.unwrap().modified_count, 1);
    let deleted = place.coll.delete_one(doc! {"a": 5}).hint("a_1").session(&mut session).await.unwrap();
    assert_eq!(deleted, 1);
    session.commit().await.unwrap();
}

/// The server gets the same key twice.
#[tokio::test]
async fn hint_by_the_key_of_an_expiring_index_means_one() {
    let place = Place::new("listing_hint_ttl").await;
    place.coll.create_index(IndexModel::new(doc! {"at": 1}).expire_after(Duration::from_secs(3600))).await.unwrap();
    place.coll.insert_one(&doc! {"_id": 1, "at": 5}).await.unwrap();
    for hint in [bson::Bson::from(doc! {"at": 1}), "at_1".into()] {
        assert_eq!(place.coll.find_one(doc! {"at": 5}).hint(hint).await.unwrap(), Some(doc! {"_id": 1, "at": 5}));
    }
}
