//! Filters: input and output, side by side.

#![allow(clippy::unwrap_used)]

use bson::{Bson, Document, Regex, doc, raw::cstr};
use sd2v::{Error, filter::*};

fn pattern() -> Bson {
    Bson::RegularExpression(Regex { pattern: cstr!("^a").to_owned(), options: cstr!("i").to_owned() })
}

#[test]
fn rewrite_field_prefixed() {
    let cases = [
        (doc! {}, doc! {}),
        (doc! { "a": 1 }, doc! { "_unsafe.a": 1 }),
        (doc! { "_id": 1, "a.b.0": { "$gt": 1 } }, doc! { "_unsafe._id": 1, "_unsafe.a.b.0": { "$gt": 1 } }),
        (doc! { "": 1 }, doc! { "_unsafe.": 1 }),
        (doc! { "a": pattern() }, doc! { "_unsafe.a": pattern() }),
        (doc! { "a": null }, doc! { "_unsafe.a": null }),
    ];
    check_table(&cases);
}

#[test]
fn rewrite_operator_below_field_unchanged() {
    let cases = [
        (
            doc! { "a": { "$elemMatch": { "_unsafe": 1, "$or": [{ "x": 1 }] } } },
            doc! { "_unsafe.a": { "$elemMatch": { "_unsafe": 1, "$or": [{ "x": 1 }] } } },
        ),
        (
            doc! { "a": { "$not": { "$in": [1, pattern()] } } },
            doc! { "_unsafe.a": { "$not": { "$in": [1, pattern()] } } },
        ),
        (
            doc! { "loc": { "$geoWithin": { "$center": [[0, 0], 1] } } },
            doc! { "_unsafe.loc": { "$geoWithin": { "$center": [[0, 0], 1] } } },
        ),
    ];
    check_table(&cases);
}

#[test]
fn rewrite_logical_recursed() {
    let cases = [
        (
            doc! { "$and": [{ "a": 1 }, { "$nor": [{ "b": 1 }, { "$or": [{ "c": 1 }] }] }] },
            doc! { "$and": [{ "_unsafe.a": 1 }, { "$nor": [{ "_unsafe.b": 1 }, { "$or": [{ "_unsafe.c": 1 }] }] }] },
        ),
        (doc! { "$or": 5 }, doc! { "$or": 5 }),
        (doc! { "$or": [5] }, doc! { "$or": [5] }),
        (doc! { "$comment": "x", "$sampleRate": 0.5 }, doc! { "$comment": "x", "$sampleRate": 0.5 }),
        (doc! { "$alwaysTrue": 1, "$alwaysFalse": 1 }, doc! { "$alwaysTrue": 1, "$alwaysFalse": 1 }),
    ];
    check_table(&cases);
}

#[test]
fn rewrite_expr_and_schema_reach_the_unsafe_version() {
    let cases = [
        (
            doc! { "$expr": { "$gt": ["$a", "$$ROOT.b"] } },
            doc! { "$expr": { "$let": {
                "vars": { "CURRENT": "$_unsafe" },
                "in": { "$gt": ["$a", "$$ROOT._unsafe.b"] },
            } } },
        ),
        (doc! { "$expr": true }, doc! { "$expr": true }),
        (
            doc! { "$jsonSchema": { "required": ["a"] } },
            doc! { "$jsonSchema": { "required": ["_unsafe"], "properties": { "_unsafe": { "required": ["a"] } } } },
        ),
        (doc! { "$jsonSchema": 5 }, doc! { "$jsonSchema": 5 }),
    ];
    check_table(&cases);
}

fn check_table(cases: &[(Document, Document)]) {
    for (filter, expected) in cases {
        assert_eq!(rewrite_filter(filter).as_ref(), Ok(expected), "{filter}");
    }
}

#[test]
fn check_reserved_name_refused() {
    let cases = [
        (doc! { "_unsafe": 1 }, "_unsafe"),
        (doc! { "_unsafe.a": 1 }, "_unsafe"),
        (doc! { "$or": [{ "a": 1 }, { "$nor": [{ "_xTxId.c": 1 }] }] }, "_xTxId"),
        (doc! { "$expr": "$_sTxIds" }, "_sTxIds"),
        (doc! { "$expr": { "$eq": ["$$ROOT._insert", true] } }, "_insert"),
        (doc! { "$and": [{ "$expr": { "$not": "$$CURRENT._remove.x" } }] }, "_remove"),
        (doc! { "$jsonSchema": { "required": ["_xTxId"] } }, "_xTxId"),
        (doc! { "$jsonSchema": { "not": { "properties": { "_unsafe": {} } } } }, "_unsafe"),
        (doc! { "$jsonSchema": { "anyOf": [{ "dependencies": { "a": ["_insert"] } }] } }, "_insert"),
    ];
    for (filter, name) in cases {
        match check_filter(&filter) {
            Err(Error::Reserved { field, .. }) => assert_eq!(field, name, "{filter}"),
            other => panic!("{filter}: {other:?}"),
        }
        assert!(matches!(rewrite_filter(&filter), Err(Error::Reserved { .. })), "{filter}");
    }
}

#[test]
fn check_nested_reserved_name_is_an_ordinary_field() {
    let cases = [
        doc! { "a._unsafe": 1 },
        doc! { "a": { "_unsafe": 1 } },
        doc! { "$expr": "$a._unsafe" },
        doc! { "$expr": { "$eq": ["$a", { "$literal": "$_unsafe" }] } },
        doc! { "$jsonSchema": { "properties": { "a": { "required": ["_unsafe"] } } } },
        doc! { "_unsafer": 1 },
    ];
    for filter in cases {
        assert_eq!(check_filter(&filter), Ok(()), "{filter}");
    }
}

#[test]
fn check_what_cannot_be_rewritten_refused_by_name() {
    let cases = [
        (doc! { "$where": "1" }, "$where"),
        (doc! { "$and": [{ "$text": { "$search": "x" } }] }, "$text"),
        (doc! { "a": { "$near": [0, 0] } }, "$near"),
        (doc! { "a": { "$maxDistance": 1, "$nearSphere": [0, 0] } }, "$nearSphere"),
        (doc! { "$or": [{ "a": { "$not": { "$geoNear": [0, 0] } } }] }, "$geoNear"),
    ];
    for (filter, name) in cases {
        match check_filter(&filter) {
            Err(Error::Unsupported { construct, .. }) => assert_eq!(construct, name),
            other => panic!("{filter}: {other:?}"),
        }
    }
}

#[test]
fn rewrite_unknown_operator_refused_check_leaves_it_to_the_server() {
    let filter = doc! { "$_internalThing": 1 };
    assert_eq!(check_filter(&filter), Ok(()));
    assert!(matches!(rewrite_filter(&filter), Err(Error::Unsupported { .. })));
}

#[test]
fn sees_lock_fields_whole_document_or_schema() {
    assert!(sees_lock_fields(&doc! { "$expr": { "$eq": ["$$ROOT", {}] } }));
    assert!(sees_lock_fields(&doc! { "$or": [{ "$jsonSchema": {} }] }));
    assert!(!sees_lock_fields(&doc! { "a": 1, "$expr": { "$eq": ["$$ROOT.a", { "$literal": "$$ROOT" }] } }));
}

#[test]
fn pinned_ids_lists_the_only_possible_ids() {
    let cases = [
        (doc! { "_id": 1 }, Some(vec![Bson::Int32(1)])),
        (doc! { "_id": { "x": 1 }, "a": 2 }, Some(vec![doc! { "x": 1 }.into()])),
        (doc! { "_id": { "$eq": "k" } }, Some(vec!["k".into()])),
        (doc! { "_id": { "$in": [1, "k"] } }, Some(vec![Bson::Int32(1), "k".into()])),
        (doc! { "_id": { "$in": [] } }, Some(vec![])),
        (doc! { "$and": [{ "a": 1 }, { "_id": 7 }] }, Some(vec![Bson::Int32(7)])),
        (doc! { "_id": { "$gt": 1 }, "$and": [{ "_id": 7 }] }, Some(vec![Bson::Int32(7)])),
        (doc! { "$or": [{ "_id": 7 }] }, None),
        (doc! { "_id": null }, None),
        (doc! { "_id": pattern() }, None),
        (doc! { "_id": [1] }, None),
        (doc! { "_id": { "$in": [1, pattern()] } }, None),
        (doc! { "_id": { "$in": [1, null] } }, None),
        (doc! { "_id": { "$in": [1], "$gt": 0 } }, None),
        (doc! { "_id": { "$ref": "c", "$id": 1 } }, None),
        (doc! { "_id": { "$gt": 1 } }, None),
        (doc! { "_id.x": 1 }, None),
        (doc! { "_id": { "$in": vec![1; 1001] } }, None),
    ];
    for (filter, expected) in cases {
        assert_eq!(pinned_ids(&filter), expected, "{filter}");
    }
}

#[test]
fn is_only_id_and_without_id_tell_the_rest() {
    let cases = [
        (doc! { "_id": 1 }, true, Some(doc! {})),
        (doc! { "_id": { "$in": [1, 2] } }, true, Some(doc! {})),
        (doc! { "_id": 1, "a": 2 }, false, Some(doc! { "a": 2 })),
        (doc! { "_id": { "$gt": 1 }, "a": 2 }, false, None),
        (doc! { "$and": [{ "_id": 1 }] }, false, None),
        (doc! {}, false, None),
    ];
    for (filter, only, rest) in cases {
        assert_eq!((is_only_id(&filter), without_id(&filter)), (only, rest), "{filter}");
    }
}

#[test]
fn equality_id_is_what_an_upsert_takes() {
    let cases = [
        (doc! { "_id": 1 }, Some(Bson::Int32(1))),
        (doc! { "_id": null }, Some(Bson::Null)),
        (doc! { "_id": { "$eq": 3, "$gt": 1 } }, Some(Bson::Int32(3))),
        (doc! { "_id": { "$in": [4] } }, Some(Bson::Int32(4))),
        (doc! { "_id": { "$in": [4, 5] } }, None),
        (doc! { "_id": { "$in": [pattern()] } }, None),
        (doc! { "_id": { "$all": [4] } }, Some(Bson::Int32(4))),
        (doc! { "_id": pattern() }, None),
        (doc! { "$and": [{ "$or": [{ "_id": 6 }] }] }, Some(Bson::Int32(6))),
        (doc! { "$or": [{ "_id": 6 }, { "a": 1 }] }, None),
    ];
    for (filter, expected) in cases {
        assert_eq!(equality_id(&filter), expected, "{filter}");
    }
}
