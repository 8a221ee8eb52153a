//! The one-statement form: which updates take it, and what it looks like.

#![allow(clippy::unwrap_used)]

use bson::{Bson, Timestamp, bson, doc};
use sd2v::update::*;

fn fused(u: Bson) -> Option<Fused> {
    fuse(&Update::parse_update(u).unwrap(), &bson!({ "c": 1 }))
}

const LIMIT: i64 = 1 << 53;

#[test]
fn fuse_inc_guards_numbers() {
    let fused = fused(bson!({ "$inc": { "b": 5 }, "$set": { "a": "$x" } })).unwrap();
    let number = doc! { "$gt": -LIMIT, "$lt": LIMIT, "$not": { "$type": ["array", "decimal"] } };
    assert_eq!(fused.guard, doc! { "b": number });
    let values = doc! { "a": { "$literal": "$x" }, "b": { "$add": ["$b", 5] } };
    let pipeline = vec![doc! { "$set": {
        "_unsafe": { "$mergeObjects": ["$$ROOT", values] },
        "_xTxId": { "$literal": { "c": 1 } },
    } }];
    assert_eq!(fused.pipeline, pipeline);
}

#[test]
fn fuse_set_guards_that_something_changes() {
    let fused = fused(bson!({ "$set": { "b": 1, "a": 2 } })).unwrap();
    let differs = bson!([{ "$ne": ["$a", { "$literal": 2 }] }, { "$ne": ["$b", { "$literal": 1 }] }]);
    assert_eq!(fused.guard, doc! { "$expr": { "$or": differs } });
}

#[test]
fn fuse_new_fields_in_the_servers_order() {
    let fused = fused(bson!({ "$set": { "z": 1, "B": 1, "é": 1 }, "$inc": { "a9": 1, "a10": 1 } })).unwrap();
    let set = fused.pipeline[0].get_document("$set").unwrap().get_document("_unsafe").unwrap();
    let values = set.get_array("$mergeObjects").unwrap()[1].as_document().unwrap();
    assert_eq!(values.keys().collect::<Vec<_>>(), ["B", "a10", "a9", "z", "é"]);
}

#[test]
fn fuse_anything_dubious_left_to_the_operators() {
    let cases = [
        bson!({ "$set": {} }),
        bson!({ "$set": { "a.b": 1 } }),
        bson!({ "$set": { "_id": 1 } }),
        bson!({ "$set": { "_unsafe": 1 } }),
        bson!({ "$set": { "$x": 1 } }),
        bson!({ "$set": { "7": 1 } }),
        bson!({ "$set": { "": 1 } }),
        bson!({ "$set": { "a": { "b": [{ "$x": 1 }] } } }),
        bson!({ "$set": { "a": Timestamp { time: 0, increment: 0 } } }),
        bson!({ "$set": { "a": 1 }, "$inc": { "a": 1 } }),
        bson!({ "$inc": { "a": 0 } }),
        bson!({ "$inc": { "a": 1.0 } }),
        bson!({ "$inc": { "a": LIMIT } }),
        bson!({ "$inc": { "a": "x" } }),
        bson!({ "$set": { "a": 1 }, "$unset": { "b": 1 } }),
        bson!({ "$set": 5 }),
        bson!([{ "$set": { "a": 1 } }]),
        bson!({ "$set": (0..17).map(|i| (format!("f{i}"), Bson::Int32(i))).collect::<bson::Document>() }),
    ];
    for u in cases {
        assert_eq!(fused(u.clone()), None, "{u}");
    }
}
