//! Projections: input and output, side by side.

#![allow(clippy::unwrap_used)]

use bson::{Document, doc};
use sd2v::{Error, projection::*};

#[test]
fn shape_of_projection() {
    use Shape::*;
    let cases = [
        (doc! {}, Everything),
        (doc! { "_id": 0 }, Exclusive),
        (doc! { "_id": 1 }, Inclusive),
        (doc! { "a": 1, "_id": 0 }, Inclusive),
        (doc! { "a": 0, "_id": 1 }, Exclusive),
        (doc! { "a": { "b": 0 } }, Exclusive),
        (doc! { "a": { "b": 1 } }, Inclusive),
        (doc! { "a": "$b" }, Inclusive),
        (doc! { "a": null }, Inclusive),
        (doc! { "a.$": 1 }, Inclusive),
        (doc! { "a": { "$slice": 1 } }, Exclusive),
        (doc! { "a": { "$slice": ["$a", 1] } }, Inclusive),
        (doc! { "a": { "$slice": 1 }, "_id": 1 }, Inclusive),
        (doc! { "a": { "$elemMatch": { "x": 1 } } }, Inclusive),
        (doc! { "a": { "$elemMatch": { "x": 1 } }, "_id": 0 }, Inclusive),
        (doc! { "a": { "$elemMatch": { "x": 1 } }, "b": { "$slice": 1 } }, Exclusive),
        (doc! { "a": { "$elemMatch": { "x": 1 } }, "b": 0 }, Exclusive),
        (doc! { "s": { "$meta": "textScore" } }, Exclusive),
        (doc! { "s": { "$meta": "textScore" }, "a": 1 }, Inclusive),
        (doc! { "a": false, "b": -0.0 }, Exclusive),
    ];
    for (projection, expected) in cases {
        assert_eq!(shape(&projection), expected, "{projection}");
    }
}

#[test]
fn with_lock_fields_added_where_others_are_listed() {
    let locks = doc! { "_xTxId": 1, "_insert": 1, "_remove": 1 };
    for listing in [doc! { "a": 1, "_id": 0 }, doc! { "a.$": 1 }, doc! { "x": { "$add": ["$a", 1] } }] {
        let mut expected = listing.clone();
        expected.extend(locks.clone());
        assert_eq!(with_lock_fields(&listing), expected);
    }
    for other in [doc! {}, doc! { "_id": 0 }, doc! { "a": 0 }, doc! { "a": { "$slice": 2 } }] {
        assert_eq!(with_lock_fields(&other), other);
    }
}

fn sliced(arguments: impl Into<bson::Bson>) -> Document {
    doc! { "$cond": [{ "$isArray": "$a" }, { "$slice": arguments.into() }, "$a"] }
}

#[test]
fn as_stages_translates_slice() {
    let cases = [
        (doc! {}, vec![]),
        (doc! { "a": 1, "_id": 0 }, vec![doc! { "$project": { "a": 1, "_id": 0 } }]),
        (doc! { "a": { "$slice": ["$a", 2] } }, vec![doc! { "$project": { "a": { "$slice": ["$a", 2] } } }]),
        (doc! { "a": { "$slice": 2 } }, vec![doc! { "$set": { "a": sliced(bson::bson!(["$a", 2])) } }]),
        (doc! { "a": { "$slice": 2.9 } }, vec![doc! { "$set": { "a": sliced(bson::bson!(["$a", 2])) } }]),
        (
            doc! { "a": { "$slice": [-3, 2] }, "b": 1 },
            vec![doc! { "$project": { "a": 1, "b": 1 } }, doc! { "$set": { "a": sliced(bson::bson!(["$a", -3, 2])) } }],
        ),
        (
            doc! { "a": { "$slice": 2 }, "b": 0 },
            vec![doc! { "$project": { "b": 0 } }, doc! { "$set": { "a": sliced(bson::bson!(["$a", 2])) } }],
        ),
    ];
    for (projection, expected) in cases {
        assert_eq!(as_stages(&projection), Ok(expected), "{projection}");
        assert!(!is_find_only(&projection));
    }
}

#[test]
fn as_stages_find_only_form_refused_by_name() {
    let cases = [
        (doc! { "a.$": 1 }, "a.$"),
        (doc! { "a": { "$elemMatch": { "x": 1 } } }, "$elemMatch"),
        (doc! { "s": { "$meta": "textScore" } }, "$meta"),
        (doc! { "a.b": { "$slice": 1 } }, "$slice"),
        (doc! { "a": { "b": { "$slice": 1 } } }, "$slice"),
    ];
    for (projection, name) in cases {
        assert!(is_find_only(&projection));
        match as_stages(&projection) {
            Err(Error::Unsupported { construct, .. }) => assert_eq!(construct, name),
            other => panic!("{projection}: {other:?}"),
        }
    }
}

#[test]
fn check_reserved_name_refused() {
    let cases = [
        doc! { "_xTxId": 0 },
        doc! { "_unsafe.a": 1 },
        doc! { "_insert": { "x": 1 } },
        doc! { "x": "$_unsafe.a" },
        doc! { "x": { "y": { "$add": ["$$ROOT._sTxIds", 1] } } },
    ];
    for projection in cases {
        assert!(matches!(check_projection(&projection), Err(Error::Reserved { .. })), "{projection}");
    }
    assert_eq!(check_projection(&doc! { "a._unsafe": 1, "b": { "_unsafe": 1 } }), Ok(()));
}
