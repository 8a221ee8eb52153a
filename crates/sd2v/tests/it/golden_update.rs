//! Updates of a locked document: input and output, side by side.

#![allow(clippy::unwrap_used)]

use bson::{Bson, Document, Timestamp, bson, doc};
use sd2v::{Error, update::*};

fn update(u: Bson) -> Update {
    Update::parse_update(u).unwrap()
}

fn rewritten(u: Bson) -> Bson {
    rewrite_update(&update(u)).unwrap()
}

#[test]
fn parse_other_forms_refused() {
    let cases = [bson!({}), bson!([]), bson!(1), bson!([1]), bson!({ "a": 1 }), bson!({ "$set": { "a": 1 }, "b": 1 })];
    for u in cases {
        assert!(matches!(Update::parse_update(u), Err(Error::Invalid { code: 9, .. })));
    }
    assert!(matches!(Update::replacement(doc! { "$set": 1 }), Err(Error::Invalid { code: 9, .. })));
    assert!(Update::replacement(doc! {}).is_ok());
}

#[test]
fn operators_paths_prefixed_values_kept() {
    let cases = [
        (bson!({ "$set": { "a.b": "$c" } }), bson!({ "$set": { "_unsafe.a.b": "$c" } })),
        (bson!({ "$set": {} }), bson!({ "$set": {} })),
        (bson!({ "$set": 5 }), bson!({ "$set": 5 })),
        (bson!({ "$foo": { "a": 1 } }), bson!({ "$foo": { "_unsafe.a": 1 } })),
        (bson!({ "$inc": { "a.$[x].b": 1 } }), bson!({ "$inc": { "_unsafe.a.$[x].b": 1 } })),
        (bson!({ "$set": { "a.$": 1, "b.$[]": 2 } }), bson!({ "$set": { "_unsafe.a.$": 1, "_unsafe.b.$[]": 2 } })),
        (bson!({ "$setOnInsert": { "a": 1 } }), bson!({ "$setOnInsert": { "_unsafe.a": 1 } })),
        (
            bson!({ "$rename": { "a": "b.c", "d": 5 } }),
            bson!({ "$rename": { "_unsafe.a": "_unsafe.b.c", "_unsafe.d": 5 } }),
        ),
        (bson!({ "$pull": { "a": { "_unsafe": 1 } } }), bson!({ "$pull": { "_unsafe.a": { "_unsafe": 1 } } })),
        (
            bson!({ "$push": { "a": { "$each": [{ "x": 1 }], "$sort": { "x": 1 }, "$slice": -5, "$position": 0 } } }),
            bson!({ "$push": { "_unsafe.a": { "$each": [{ "x": 1 }], "$sort": { "x": 1 }, "$slice": -5, "$position": 0 } } }),
        ),
        (bson!({ "$unset": { "$x": 1 } }), bson!({ "$unset": { "_unsafe.$x": 1 } })),
    ];
    for (u, expected) in cases {
        assert_eq!(rewritten(u), expected);
    }
}

#[test]
fn operators_id_and_leading_positional_left_for_the_server_to_refuse() {
    let cases = [
        bson!({ "$set": { "_id": 2, "_id.x": 1 } }),
        bson!({ "$unset": { "_id": 1 } }),
        bson!({ "$rename": { "_id": "_id.x" } }),
        bson!({ "$set": { "$": 1, "$[]": 1, "$[i].x": 1 } }),
    ];
    for u in cases {
        assert_eq!(rewritten(u.clone()), u);
    }
    assert_eq!(rewritten(bson!({ "$rename": { "a": "_id" } })), bson!({ "$rename": { "_unsafe.a": "_id" } }));
}

#[test]
fn replacement_id_first_and_literal() {
    let u = Update::replacement(doc! { "a": "$b" }).unwrap();
    let expected = bson!([{ "$set": {
        "_unsafe": { "$mergeObjects": [{ "_id": "$_id" }, { "$literal": { "a": "$b" } }] },
    } }]);
    assert_eq!(rewrite_update(&u), Ok(expected));
}

#[test]
fn replacement_with_id_sets_it_for_the_server_to_refuse() {
    let text = Update::replacement(doc! { "a": 1, "_id": "k" }).unwrap();
    let merged = |own: Document| bson!({ "$mergeObjects": [{ "_id": "$_id" }, { "$literal": own }] });
    let expected = bson!([{ "$set": { "_unsafe": merged(doc! { "a": 1, "_id": "k" }), "_id": { "$literal": "k" } } }]);
    assert_eq!(rewrite_update(&text), Ok(expected));

    let number = Update::replacement(doc! { "_id": 1.0 }).unwrap();
    let kept = bson!({ "$cond": [{ "$eq": ["$_id", { "$literal": 1.0 }] }, "$_id", { "$literal": 1.0 }] });
    let expected = bson!([{ "$set": { "_unsafe": merged(doc! { "_id": 1.0 }), "_id": kept } }]);
    assert_eq!(rewrite_update(&number), Ok(expected));
}

#[test]
fn replacement_empty_timestamp_or_dollar_field_refused() {
    let empty = Timestamp { time: 0, increment: 0 };
    let u = Update::replacement(doc! { "a": empty }).unwrap();
    assert!(matches!(rewrite_update(&u), Err(Error::Unsupported { .. })));
    let nested = Update::replacement(doc! { "a": { "b": empty } }).unwrap();
    assert!(rewrite_update(&nested).is_ok());
    let dollar = Update::replacement(doc! { "a": 1, "$b": 1 }).unwrap();
    assert!(matches!(rewrite_update(&dollar), Err(Error::Invalid { code: 52, .. })));
}

/// The user's stages, between those that change the root and back.
fn user_stages(u: Bson) -> Vec<Bson> {
    let Bson::Array(mut stages) = rewritten(u) else { panic!("a pipeline stays one") };
    let root = bson!({ "$replaceWith": { "$mergeObjects": ["$_unsafe", { "_remove": "$$ROOT" }] } });
    assert_eq!(stages.remove(0), root);
    let restored = bson!([
        { "$replaceWith": { "stored": "$_remove", "changed": "$$ROOT" } },
        { "$unset": "changed._remove" },
        { "$replaceWith": { "$mergeObjects": [
            "$stored",
            { "_unsafe": { "$mergeObjects": [{ "_id": "$stored._id" }, "$changed"] } },
        ] } },
        { "$set": { "_id": { "$cond": [
            { "$and": [{ "$isNumber": "$_id" }, { "$eq": ["$_id", "$_unsafe._id"] }] },
            "$_id",
            "$_unsafe._id",
        ] } } },
    ]);
    let tail = stages.split_off(stages.len() - 4);
    assert_eq!(Bson::Array(tail), restored);
    stages
}

#[test]
fn pipeline_stages_run_as_they_are() {
    let cases = [
        bson!([{ "$set": { "a": { "b": "$c" }, "d": "$$NOW", "e": "$$x.y", "f": "$$REMOVE" } }]),
        bson!([{ "$unset": ["a", "b.c"] }, { "$unset": "d" }]),
        bson!([{ "$project": { "a": 0 } }, { "$project": { "_id": 0 } }]),
        bson!([{ "$set": { "a": "$$ROOT.b", "c": { "$literal": "$$ROOT" } } }]),
        bson!([{ "$match": { "a": 1 } }, {}, { "$replaceRoot": 5 }]),
    ];
    for u in cases {
        assert_eq!(Bson::Array(user_stages(u.clone())), u);
    }
}

#[test]
fn pipeline_inclusive_project_keeps_the_stored_document() {
    let kept = user_stages(bson!([{ "$project": { "a": 1, "_id": 0 } }, { "$project": { "b": "$a" } }]));
    let expected =
        bson!([{ "$project": { "a": 1, "_id": 0, "_remove": 1 } }, { "$project": { "b": "$a", "_remove": 1 } }]);
    assert_eq!(Bson::Array(kept), expected);
}

#[test]
fn pipeline_whole_root_read_without_the_stored_document() {
    let hidden = bson!({ "$unsetField": { "field": "_remove", "input": "$$ROOT" } });
    let stages = user_stages(bson!([{ "$set": { "a": "$$ROOT", "b": ["$$CURRENT"] } }]));
    assert_eq!(Bson::Array(stages), bson!([{ "$set": { "a": hidden.clone(), "b": [hidden] } }]));
}

#[test]
fn pipeline_new_root_carries_the_stored_document() {
    for u in [bson!([{ "$replaceWith": "$a" }]), bson!([{ "$replaceRoot": { "newRoot": "$a" } }])] {
        let stages = user_stages(u);
        let spec = stages[0].as_document().unwrap().get_document("$replaceWith").unwrap().get_document("$let").unwrap();
        assert_eq!(spec.get_document("vars").unwrap(), &doc! { "root": "$a" });
        let chosen = spec.get_document("in").unwrap().get_array("$cond").unwrap();
        assert_eq!(chosen[..2], [bson!({ "$ne": [{ "$type": "$$root" }, "object"] }), "$$root".into()]);
        let guarded = chosen[2].as_document().unwrap().get_document("$let").unwrap();
        let guarded = guarded.get_document("in").unwrap().get_array("$cond").unwrap();
        assert_eq!(guarded[1], bson!({ "$mergeObjects": ["$$root", { "_remove": "$_remove" }] }));
    }
}

#[test]
fn pipeline_whole_current_beside_a_bound_one_refused() {
    let u = bson!([{ "$set": { "a": { "$let": { "vars": { "CURRENT": 5 }, "in": "$$CURRENT" } } } }]);
    assert!(matches!(rewrite_update(&update(u)), Err(Error::Unsupported { .. })));
}

#[test]
fn check_reserved_name_refused() {
    let cases = [
        bson!({ "$set": { "_unsafe.a": 1 } }),
        bson!({ "$rename": { "_xTxId": "a" } }),
        bson!({ "$rename": { "a": "_insert" } }),
        bson!({ "$foo": { "_remove": 1 } }),
        bson!([{ "$set": { "_sTxIds": [] } }]),
        bson!([{ "$addFields": { "a": "$_unsafe.b" } }]),
        bson!([{ "$unset": "_xTxId" }]),
        bson!([{ "$unset": ["a", "_xTxId.c"] }]),
        bson!([{ "$project": { "_unsafe": 0 } }]),
        bson!([{ "$replaceWith": "$_unsafe" }]),
        bson!([{ "$replaceWith": { "_insert": true } }]),
        bson!([{ "$replaceWith": { "$mergeObjects": ["$$ROOT", { "_insert": true }] } }]),
        bson!([{ "$replaceWith": { "$literal": { "_insert": true } } }]),
        bson!([{ "$replaceRoot": { "newRoot": { "$setField": { "field": "_remove", "input": "$a", "value": 1 } } } }]),
    ];
    for u in cases {
        let refused = update(u.clone());
        assert!(matches!(refused.check(), Err(Error::Reserved { .. })), "{u}");
        assert!(matches!(rewrite_update(&refused), Err(Error::Reserved { .. })), "{u}");
    }
    let replacement = Update::replacement(doc! { "a": 1, "_unsafe": 1 }).unwrap();
    assert!(matches!(replacement.check(), Err(Error::Reserved { .. })));
    assert_eq!(update(bson!({ "$set": { "a._unsafe": 1, "b": { "_unsafe": 1 } } })).check(), Ok(()));
}

#[test]
fn check_dollar_field_created_refused() {
    assert!(matches!(update(bson!({ "$set": { "$x": 1 } })).check(), Err(Error::Invalid { code: 52, .. })));
    assert!(matches!(update(bson!({ "$rename": { "a": "$x" } })).check(), Err(Error::Invalid { code: 52, .. })));
    assert!(matches!(update(bson!({ "$inc": { "$x.0": 1 } })).check(), Err(Error::Unsupported { .. })));
    assert_eq!(update(bson!({ "$set": { "a.$x": 1 } })).check(), Ok(()));
}
