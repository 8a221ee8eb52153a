//! `$geoNear` on stored documents: input and output, side by side.

#![allow(clippy::unwrap_used)]

use bson::{Document, doc};
use protocol::{ClientId, TxId};
use sd2v::{
    Error,
    geo::{GeoNear, Near},
    names::{RESERVED, tx_id_to_bson},
};

fn me() -> TxId {
    TxId { client: ClientId([7; 12]), seq: 3 }
}

fn stage() -> Document {
    doc! {
        "near": [1, 2], "spherical": true, "maxDistance": 3, "distanceMultiplier": 2,
        "distanceField": "d.x", "includeLocs": "l", "key": "p", "query": { "a": 1 },
    }
}

#[test]
fn safe_view_asks_the_users_field_and_hides_locks() {
    let stages = GeoNear::parse_geo_near(&stage()).unwrap().safe_view(None);
    let asked = doc! { "$geoNear": {
        "near": [1, 2], "spherical": true, "maxDistance": 3, "distanceMultiplier": 2, "key": "p",
        "query": { "$and": [{ "_insert": { "$exists": false } }, { "a": 1 }] }, "distanceField": "d.x", "includeLocs": "l",
    } };
    assert_eq!(stages, [asked, doc! { "$unset": RESERVED.to_vec() }]);
}

#[test]
fn own_view_unites_both_versions() {
    let stages = GeoNear::parse_geo_near(&stage()).unwrap().own_view("c", &me().into(), Some(5)).unwrap();
    let others = doc! { "_xTxId": { "$ne": tx_id_to_bson(me()) } };
    let query = stages[0].get_document("$geoNear").unwrap().get_document("query").unwrap();
    assert_eq!(query, &doc! { "$and": [{ "_insert": { "$exists": false } }, others, { "a": 1 }] });
    let distance = doc! { "$set": { "_unsafe": { "$meta": "geoNearDistance" } } };
    assert_eq!(stages[2..4], [doc! { "$limit": 5_i64 }, distance.clone()]);
    let mine = doc! {
        "_xTxId": tx_id_to_bson(me()), "_unsafe": { "$exists": true }, "_remove": { "$exists": false },
    };
    let asked = doc! { "$geoNear": {
        "near": [1, 2], "spherical": true, "maxDistance": 3, "distanceMultiplier": 2, "key": "_unsafe.p",
        "query": { "$and": [mine, { "_unsafe.a": 1 }] }, "distanceField": "_unsafe.d.x", "includeLocs": "_unsafe.l",
    } };
    let visible = doc! { "$replaceWith": { "$mergeObjects": [{ "_id": "$_id" }, "$_unsafe"] } };
    let pipeline = [asked, visible, doc! { "$limit": 5_i64 }, distance].to_vec();
    assert_eq!(stages[4..], [doc! { "$unionWith": { "coll": "c", "pipeline": pipeline } }]);
}

#[test]
fn a_query_on_whole_documents_is_asked_behind_the_locks() {
    let query = doc! { "a": 1, "$expr": { "$eq": [{ "$size": { "$objectToArray": "$$ROOT" } }, 2] } };
    let near = Near::parse_near("p", &doc! { "$near": [1, 2] }).unwrap();
    let stages = GeoNear::of_filter(&near, &query).safe_view(None);
    assert_eq!(stages[2], doc! { "$match": query });
    assert!(!stages[0].to_string().contains("$$ROOT") && stages[0].to_string().contains("\"a\""));
}

#[test]
fn a_stage_without_key_is_the_servers_on_safe_versions_only() {
    let mut stage = stage();
    stage.remove("key");
    let near = GeoNear::parse_geo_near(&stage).unwrap();
    assert!(!near.safe_view(None)[0].to_string().contains("key"));
    assert!(matches!(near.own_view("c", &me().into(), None), Err(Error::Invalid { code: 2, .. })));
}

#[test]
fn parse_geo_near_reserved_names_and_second_orders_are_refused() {
    for (option, value) in [("key", "_unsafe.p"), ("distanceField", "_xTxId"), ("includeLocs", "_insert.a")] {
        let mut stage = stage();
        stage.insert(option, value);
        assert!(matches!(GeoNear::parse_geo_near(&stage), Err(Error::Reserved { .. })), "{option}");
    }
    for query in [doc! { "q": { "$near": [1, 2] } }, doc! { "$text": { "$search": "a" } }] {
        let mut stage = stage();
        stage.insert("query", query);
        assert!(matches!(GeoNear::parse_geo_near(&stage), Err(Error::Invalid { code: 2, .. })));
    }
}
