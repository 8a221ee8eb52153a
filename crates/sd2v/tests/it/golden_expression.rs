//! Aggregation expressions: input and output, side by side.

#![allow(clippy::unwrap_used)]

use bson::{Bson, bson, doc};
use sd2v::{Error, expression::*};

fn wrapped(body: Bson) -> Bson {
    bson!({ "$let": { "vars": { "CURRENT": "$_unsafe" }, "in": body } })
}

#[test]
fn rewrite_constant_unchanged() {
    for constant in [bson!(1), bson!(null), bson!("text"), bson!(true)] {
        assert_eq!(rewrite_expression(&constant), Ok(constant));
    }
}

#[test]
fn rewrite_current_bound_and_root_redirected() {
    let cases = [
        (bson!("$a"), bson!("$a")),
        (bson!("$$CURRENT.a"), bson!("$$CURRENT.a")),
        (bson!("$$ROOT"), bson!("$$ROOT._unsafe")),
        (bson!("$$ROOT.a.b"), bson!("$$ROOT._unsafe.a.b")),
        (bson!("$$ROOTS"), bson!("$$ROOTS")),
        (bson!("$$NOW"), bson!("$$NOW")),
        (bson!({ "$literal": "$$ROOT" }), bson!({ "$literal": "$$ROOT" })),
        (bson!({ "$const": "$$ROOT" }), bson!({ "$const": "$$ROOT" })),
        (bson!({ "x": ["$a", "$$ROOT"] }), bson!({ "x": ["$a", "$$ROOT._unsafe"] })),
        (bson!({ "$getField": "a" }), bson!({ "$getField": "a" })),
        (
            bson!({ "$let": { "vars": { "CURRENT": "$b" }, "in": ["$c", "$$ROOT.a"] } }),
            bson!({ "$let": { "vars": { "CURRENT": "$b" }, "in": ["$c", "$$ROOT._unsafe.a"] } }),
        ),
    ];
    for (expr, body) in cases {
        assert_eq!(rewrite_expression(&expr), Ok(wrapped(body)), "{expr}");
    }
}

#[test]
fn check_reserved_name_refused() {
    let cases = [
        bson!("$_unsafe"),
        bson!("$_unsafe.a"),
        bson!("$$ROOT._xTxId.c"),
        bson!("$$CURRENT._sTxIds"),
        bson!({ "$getField": "_insert" }),
        bson!({ "$getField": { "$literal": "_insert" } }),
        bson!({ "$getField": { "field": "_remove", "input": "$$ROOT" } }),
        bson!({ "$unsetField": { "field": { "$const": "_remove" }, "input": "$$ROOT" } }),
        bson!([1, { "x": { "$add": ["$a", "$_unsafe.a"] } }]),
    ];
    for expr in cases {
        assert!(matches!(check_expression(&expr), Err(Error::Reserved { .. })), "{expr}");
        assert!(matches!(rewrite_expression(&expr), Err(Error::Reserved { .. })), "{expr}");
    }
}

#[test]
fn check_name_elsewhere_allowed() {
    let cases = [
        bson!("_unsafe"),
        bson!("$a._unsafe"),
        bson!("$$this._unsafe"),
        bson!({ "$literal": "$_unsafe" }),
        bson!({ "_unsafe": 1 }),
    ];
    for expr in cases {
        assert_eq!(check_expression(&expr), Ok(()), "{expr}");
    }
}

#[test]
fn rewrite_too_deep_refused() {
    let deep = (0..201).fold(bson!("$a"), |inner, _| bson!([inner]));
    assert!(matches!(rewrite_expression(&deep), Err(Error::Invalid { code: 15, .. })));
    let quoted = bson!({ "$literal": deep });
    assert!(rewrite_expression(&quoted).is_ok());
}

#[test]
fn sees_whole_document_root_or_current() {
    assert!(sees_whole_document(&doc! { "$size": { "$objectToArray": "$$ROOT" } }.into()));
    assert!(sees_whole_document(&bson!("$$CURRENT")));
    assert!(!sees_whole_document(&bson!(["$$ROOT.a", { "$literal": "$$ROOT" }])));
}
