//! Upserts: the `_id` and the statement that inserts a pending document.

#![allow(clippy::unwrap_used)]

use bson::{Bson, Document, bson, doc};
use sd2v::{Error, update::*};

fn update(u: Bson) -> Update {
    Update::parse_update(u).unwrap()
}

fn set() -> Update {
    update(bson!({ "$set": { "k": 1 } }))
}

#[test]
fn upsert_id_filter_then_update_then_new() {
    let cases = [
        (doc! { "_id": 1 }, set(), Some(bson!(1))),
        (doc! { "_id": 1 }, update(bson!({ "$set": { "_id": 2 } })), Some(bson!(1))),
        (doc! { "a": 1 }, update(bson!({ "$set": { "_id": 2 } })), Some(bson!(2))),
        (doc! { "a": 1 }, update(bson!({ "$setOnInsert": { "_id": 3 } })), Some(bson!(3))),
        (doc! { "a": 1 }, set(), None),
        (doc! { "_id": { "$gt": 1 } }, set(), None),
        (doc! { "a": 1 }, Update::replacement(doc! { "_id": 4 }).unwrap(), Some(bson!(4))),
        (doc! { "_id": 4 }, Update::replacement(doc! { "_id": 4.0 }).unwrap(), Some(bson!(4))),
        (doc! { "a": 1 }, update(bson!([{ "$replaceWith": { "b": 1 } }])), None),
    ];
    for (filter, update, expected) in cases {
        assert_eq!(upsert_id(&filter, &update), Ok(expected), "{filter}");
    }
}

#[test]
fn upsert_id_that_cannot_be_derived_refused() {
    let unsupported = [
        (doc! { "_id.a": 1 }, set()),
        (doc! { "$and": [{ "_id.a": 1 }] }, set()),
        (doc! {}, update(bson!({ "$inc": { "_id": 1 } }))),
        (doc! {}, update(bson!({ "$rename": { "a": "_id" } }))),
        (doc! {}, update(bson!({ "$set": { "_id.x": 1 } }))),
        (doc! {}, update(bson!([{ "$set": { "_id": 1 } }]))),
    ];
    for (filter, update) in unsupported {
        assert!(matches!(upsert_id(&filter, &update), Err(Error::Unsupported { .. })), "{filter} {update:?}");
    }
    let twice = doc! { "_id": 1, "$and": [{ "_id": 1 }] };
    assert!(matches!(upsert_id(&twice, &set()), Err(Error::Invalid { code: 54, .. })));
    let other = Update::replacement(doc! { "_id": 5 }).unwrap();
    assert!(matches!(upsert_id(&doc! { "_id": 4 }, &other), Err(Error::Invalid { code: 66, .. })));
}

fn identity(rest: Document) -> Document {
    let mut q = doc! { "_id": { "$eq": 9 }, "_xTxId": { "$eq": "w" }, "_unsafe._id": { "$eq": 9 } };
    q.extend(rest);
    q
}

#[test]
fn rewrite_upsert_operators_insert_a_pending_document() {
    let cases = [
        (
            doc! { "_id": 9, "a": 1, "b": { "$gt": 2 } },
            bson!({ "$set": { "k": 1 } }),
            identity(doc! { "_unsafe.a": 1, "_unsafe.b": { "$gt": 2 } }),
            bson!({ "$set": { "_unsafe.k": 1 }, "$setOnInsert": { "_insert": true, "_xTxId": "w", "_slot": 9, "_id": 9 } }),
        ),
        (
            doc! { "$and": [{ "_id": 9 }, { "a": 1 }], "$or": [{ "_id": 9 }, { "b": 1 }] },
            bson!({ "$setOnInsert": { "k": 1, "_id": 9 } }),
            identity(doc! {
                "$and": [{}, { "_unsafe.a": 1 }],
                "$or": [{ "_unsafe._id": 9 }, { "_unsafe.b": 1 }],
            }),
            bson!({ "$setOnInsert": { "_unsafe.k": 1, "_id": 9, "_insert": true, "_xTxId": "w", "_slot": 9 } }),
        ),
    ];
    for (filter, u, q, expected) in cases {
        assert_eq!(rewrite_upsert(&filter, &update(u), &bson!(9), &doc! {}, &bson!("w")), Ok((q, expected)));
    }
}

#[test]
fn rewrite_upsert_pipeline_sees_an_id_only_from_the_filter() {
    let u = update(bson!([{ "$set": { "a": 1 } }]));
    let (q, stages) = rewrite_upsert(&doc! { "b": 1 }, &u, &bson!(9), &doc! {}, &bson!("w")).unwrap();
    let pending =
        doc! { "_id": { "$eq": 9 }, "_xTxId": { "$eq": "w" }, "_insert": { "$eq": true }, "_slot": { "$eq": 9 } };
    let mut expected = pending.clone();
    expected.insert("_unsafe.b", 1);
    assert_eq!((q, Ok(stages)), (expected, rewrite_update(&u)));
    let (q, _) = rewrite_upsert(&doc! { "_id": 9 }, &u, &bson!(9), &doc! {}, &bson!("w")).unwrap();
    let mut expected = pending;
    expected.insert("_unsafe._id", doc! { "$eq": 9 });
    assert_eq!(q, expected);
}

#[test]
fn rewrite_upsert_stores_the_shard_key_beside_the_id() {
    let (filter, key) = (doc! { "_id": 9, "region": 1 }, doc! { "region": 1, "owner.id": null });
    for u in [bson!({"$set": { "n": 1 }}), bson!([{ "$set": { "n": 1 } }])] {
        let (q, _) = rewrite_upsert(&filter, &update(u), &bson!(9), &key, &bson!("w")).unwrap();
        let head: Document = q.into_iter().take(4).collect();
        let expected = doc! {
            "_id": { "$eq": 9 }, "region": { "$eq": 1 }, "owner.id": { "$eq": null }, "_xTxId": { "$eq": "w" },
        };
        assert_eq!(head, expected);
    }
}

#[test]
fn rewrite_upsert_replacement_refused() {
    let u = Update::replacement(doc! { "a": 1 }).unwrap();
    assert!(matches!(
        rewrite_upsert(&doc! {}, &u, &bson!(9), &doc! {}, &bson!("w")),
        Err(Error::Invalid { code: 9, .. })
    ));
}
