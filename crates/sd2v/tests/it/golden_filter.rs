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
fn scripts_are_guarded_rewritten_and_left_out_where_they_could_fail() {
    let filter = with_scripts_as_expressions(doc! { "a": 1, "$where": "this.a" });
    assert_eq!(check_filter(&filter), Ok(()));
    assert!(!sees_lock_fields(&filter) && !has_expression(&filter));
    assert!(guard_filter(&filter).to_string().contains("\"$_insert\""));
    assert!(rewrite_filter(&filter).unwrap().to_string().contains("\"$$ROOT._unsafe\""));
    assert_eq!(weakened(&filter), doc! { "$and": [{ "a": 1 }] });
    let pending = sd2v::view::pending_filter(&filter, None, false).unwrap().to_string();
    assert!(!pending.contains("$function") && pending.contains("_unsafe.a"), "{pending}");
}

#[test]
fn check_order_by_distance_anywhere_but_on_top_refused_as_the_server_does() {
    for filter in [
        doc! { "a": { "$near": [0, 0] } },
        doc! { "b": 1, "$and": [{ "$and": [{ "a": { "$nearSphere": [0, 0], "$maxDistance": 1 } }] }] },
        doc! { "$or": [{ "a": { "$geoNear": [0, 0] } }] },
    ] {
        assert_eq!(check_filter(&filter), Ok(()), "{filter}");
    }
    for filter in [
        doc! { "a": { "$maxDistance": 1, "$nearSphere": [0, 0] } },
        doc! { "a": { "$not": { "$geoNear": [0, 0] } } },
        doc! { "a": { "$elemMatch": { "$near": [0, 0] } } },
        doc! { "$or": [{ "a": { "$near": [0, 0] } }, { "b": 1 }] },
        doc! { "$nor": [{ "a": { "$near": [0, 0] } }] },
    ] {
        assert!(matches!(check_filter(&filter), Err(Error::Invalid { code: 2, .. })), "{filter}");
    }
}

#[test]
fn rewrite_what_only_an_index_answers_refused_by_name() {
    let cases = [
        (doc! { "$and": [{ "$text": { "$search": "x" } }] }, "$text"),
        (doc! { "a": { "$near": [0, 0] } }, "an order by distance"),
    ];
    for (filter, name) in cases {
        match rewrite_filter(&filter) {
            Err(Error::Unsupported { construct, .. }) => assert_eq!(construct, name),
            other => panic!("{filter}: {other:?}"),
        }
    }
}

#[test]
fn parts_are_taken_from_conjunctions_only() {
    let near = doc! { "$near": [1, 2], "$maxDistance": 3 };
    let filter = doc! { "a": 1, "$and": [{ "p": near }, { "b": 2, "$or": [{ "$text": { "$search": "x" } }] }, {}] };
    assert!(matches!(parts(&filter), Err(Error::Invalid { code: 2, .. })), "both");
    let one = doc! { "a": 1, "$and": [{ "$text": { "$search": "x" } }, { "b": 2 }] };
    let taken = parts(&one).unwrap();
    assert_eq!((taken.text, taken.buried_text), (Some(doc! { "$search": "x" }.into()), false));
    assert_eq!(taken.rest, doc! { "a": 1, "$and": [{ "b": 2 }] });
    let buried = doc! { "a": 1, "$or": [{ "$text": { "$search": "x" } }, { "b": 2 }] };
    assert_eq!(weakened(&buried), doc! { "a": 1 });
    assert!(matches!(lock_condition(&buried), Err(Error::Unsupported { .. })));
    let twice = doc! { "p": { "$near": [1, 2] }, "q": { "$near": [1, 2] } };
    assert!(matches!(parts(&twice), Err(Error::Invalid { code: 2, .. })));
}

#[test]
fn lock_condition_asks_for_the_bounds_instead_of_the_order() {
    let filter = doc! { "a": 1, "p": { "$near": [1, 2], "$maxDistance": 3 } };
    let LockCondition { rest, text } = lock_condition(&filter).unwrap();
    assert_eq!(text, None);
    assert_eq!(rest.get_array("$and").unwrap()[0], doc! { "a": 1 }.into());
    assert!(rewrite_filter(&rest).unwrap().to_string().contains("_unsafe.p"));
    assert!(!rest.to_string().contains("$near"));
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
