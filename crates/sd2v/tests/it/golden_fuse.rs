//! The one-statement form: which updates take it, and what it looks like.

#![allow(clippy::unwrap_used)]

use bson::{Bson, Document, RawArrayBuf, Timestamp, bson, doc};
use protocol::{ClientId, TxId};
use sd2v::{
    filter::{exact, plain_demands},
    names::tx_id_to_bson,
    update::*,
};

/// Ids of three transactions of one client.
const ALL: [TxId; 3] = [tx(1), tx(2), tx(3)];
const ME: TxId = ALL[0];

const fn tx(seq: u64) -> TxId {
    TxId { client: ClientId([7; 12]), seq }
}

fn id(of: TxId) -> Bson {
    tx_id_to_bson(of)
}

fn stages(pipeline: RawArrayBuf) -> Vec<Document> {
    let stages = Vec::<Bson>::try_from(&*pipeline).unwrap();
    stages.into_iter().map(|stage| stage.as_document().unwrap().clone()).collect()
}

fn fused(u: Bson) -> Option<Vec<Document>> {
    let update = Update::parse_update(u).unwrap();
    let fused = fuse(&update, ME, &[], &[], &[]);
    assert_eq!(can_fuse(&update), fused.is_some());
    fused.map(stages)
}

/// Conditions, locked document, document left as it is.
fn parts(u: Bson) -> (Vec<Bson>, Document, Bson) {
    let [stage] = fused(u).unwrap().try_into().unwrap();
    let branches = stage.get_document("$replaceWith").unwrap().get_array("$cond").unwrap().clone();
    let [conditions, locked, left] = branches.try_into().unwrap();
    let conditions = conditions.as_document().unwrap().get_array("$and").unwrap().clone();
    (conditions, locked.as_document().unwrap().clone(), left)
}

fn clean() -> Bson {
    clean_and(doc! {}, doc! {})
}

/// A clean document, of which these expressions have these values.
fn clean_and(found: Document, wanted: Document) -> Bson {
    let mut names = doc! {
        "f0": "$_xTxId", "f1": "$_sTxIds", "f2": "$_insert", "f3": "$_remove", "f4": "$_unsafe", "f5": "$_slot",
    };
    names.extend(found);
    bson!({ "$eq": [names, { "$literal": wanted }] })
}

const LIMIT: i64 = 1 << 53;

#[test]
fn fuse_inc_demands_a_clean_document_and_exact_numbers() {
    let (conditions, locked, left) = parts(bson!({ "$inc": { "b": 5 }, "$set": { "a": "$x" } }));
    let mut expected = vec![clean()];
    expected.extend([
        bson!({ "$in": [{ "$type": "$b" }, ["int", "long", "double", "missing"]] }),
        bson!({ "$gt": [{ "$ifNull": ["$b", 0] }, (-LIMIT)] }),
        bson!({ "$lt": [{ "$ifNull": ["$b", 0] }, LIMIT] }),
    ]);
    assert_eq!(conditions, expected);
    let values = doc! { "a": { "$literal": "$x" }, "b": { "$add": [{ "$ifNull": ["$b", 0] }, 5] } };
    let added = doc! { "_unsafe": { "$mergeObjects": ["$$ROOT", values] }, "_xTxId": { "$literal": id(ME) } };
    assert_eq!((locked, left), (doc! { "$mergeObjects": ["$$ROOT", added] }, Bson::from("$$ROOT")));
}

#[test]
fn fuse_set_demands_that_something_changes() {
    let (conditions, ..) = parts(bson!({ "$set": { "b": 1, "a": 2 } }));
    let mut expected = vec![clean()];
    expected.push(bson!({ "$or": [{ "$ne": ["$a", { "$literal": 2 }] }, { "$ne": ["$b", { "$literal": 1 }] }] }));
    assert_eq!(conditions, expected);
}

#[test]
fn fuse_inc_by_zero_beside_what_changes_something() {
    let (with_inc, locked, _) = parts(bson!({ "$inc": { "a": 0, "b": 1 } }));
    assert!(with_inc.iter().all(|condition| condition.as_document().unwrap().get("$or").is_none()));
    let values =
        doc! { "a": { "$add": [{ "$ifNull": ["$a", 0] }, 0] }, "b": { "$add": [{ "$ifNull": ["$b", 0] }, 1] } };
    assert!(locked.to_string().contains(&Bson::Document(values).to_string()));
    let (with_set, ..) = parts(bson!({ "$inc": { "a": 0 }, "$set": { "b": 1 } }));
    assert_eq!(with_set.last(), Some(&bson!({ "$or": [{ "$ne": ["$b", { "$literal": 1 }] }] })));
}

#[test]
fn fuse_the_servers_time_as_a_date_and_not_as_a_timestamp() {
    for date in [bson!(true), bson!({ "$type": "date" })] {
        let [stage] = fused(bson!({ "$currentDate": { "at": date } })).unwrap().try_into().unwrap();
        let words = stage.to_string();
        assert!(words.contains(r#""_unsafe": { "$mergeObjects": ["$$ROOT", { "at": "$$NOW" }] }"#), "{words}");
        assert!(words.contains(r#"{ "$ne": ["$at", "$$NOW"] }"#), "{words}");
    }
    for other in [bson!({ "$type": "timestamp" }), bson!({ "$type": "date", "x": 1 }), bson!(1)] {
        assert_eq!(fused(bson!({ "$currentDate": { "at": other } })), None);
    }
}

#[test]
fn fuse_new_fields_in_the_servers_order() {
    let (_, locked, _) = parts(bson!({ "$set": { "z": 1, "B": 1, "é": 1 }, "$inc": { "a9": 1, "a10": 1 } }));
    let added = locked.get_array("$mergeObjects").unwrap()[1].as_document().unwrap();
    let values = added.get_document("_unsafe").unwrap().get_array("$mergeObjects").unwrap()[1].as_document().unwrap();
    assert_eq!(values.keys().collect::<Vec<_>>(), ["B", "a10", "a9", "z", "é"]);
}

#[test]
fn fuse_takes_over_what_the_named_transaction_has_left() {
    let update = Update::parse_update(bson!({ "$inc": { "a": 1 } })).unwrap();
    let [stage] = stages(fuse(&update, ME, &ALL[1..2], &[], &[]).unwrap()).try_into().unwrap();
    let outer = stage.get_document("$replaceWith").unwrap().get_document("$let").unwrap();
    let is_left = bson!({ "$eq": [{ "f0": "$_xTxId", "f1": "$_remove" }, { "$literal": { "f0": id(ALL[1]) } }] });
    assert_eq!(outer.get_document("vars").unwrap(), &doc! { "CURRENT": { "$cond": [is_left, "$_unsafe", "$$ROOT"] } });
    let [conditions, locked, left] =
        outer.get_document("in").unwrap().get_array("$cond").unwrap().clone().try_into().unwrap();
    assert_eq!(conditions.as_document().unwrap().get_array("$and").unwrap()[0], clean());
    let values = doc! { "a": { "$add": [{ "$ifNull": ["$a", 0] }, 1] } };
    let added = doc! { "_unsafe": { "$mergeObjects": ["$$CURRENT", values] }, "_xTxId": { "$literal": id(ME) } };
    assert_eq!((locked, left), (bson!({ "$mergeObjects": ["$$CURRENT", added] }), Bson::from("$$ROOT")));
}

#[test]
fn fuse_takes_over_from_any_of_several() {
    let update = Update::parse_update(bson!({ "$inc": { "a": 1 } })).unwrap();
    for pipeline in [fuse(&update, ME, &ALL[1..], &[], &[]).unwrap(), fuse_lock(ME, &ALL[1..], &[]).unwrap()] {
        let [stage] = stages(pipeline).try_into().unwrap();
        let vars = stage.get_document("$replaceWith").unwrap().get_document("$let").unwrap();
        let current = vars.get_document("vars").unwrap().get_document("CURRENT").unwrap();
        let held = current.get_array("$cond").unwrap()[0].as_document().unwrap().get_array("$and").unwrap();
        let written = bson!({ "$in": ["$_xTxId", { "$literal": [id(ALL[1]), id(ALL[2])] }] });
        assert_eq!(held[..], [written, bson!({ "$eq": [{ "f0": "$_remove" }, { "$literal": {} }] })]);
    }
}

#[test]
fn fuse_with_what_the_filter_demands() {
    let (update, filter) =
        (Update::parse_update(bson!({ "$inc": { "a": 1 } })).unwrap(), doc! { "_id": 1, "k": 7, "s": "x" });
    let demands = plain_demands(&filter).unwrap();
    let [stage] = stages(fuse(&update, ME, &[], &demands, &[]).unwrap()).try_into().unwrap();
    let outcome = stage.get_document("$replaceWith").unwrap().get_array("$cond").unwrap().clone();
    let conditions = outcome[0].as_document().unwrap().get_array("$and").unwrap();
    assert_eq!(conditions[0], clean_and(doc! { "f6": "$k", "f7": "$s" }, doc! { "f6": 7, "f7": "x" }));
}

#[test]
fn plain_demands_are_values_that_expressions_compare_as_filters_do() {
    assert_eq!(plain_demands(&doc! { "_id": { "$in": [1] } }), Some(vec![]));
    let others = [
        doc! { "_id": { "$in": [1, 2] } },
        doc! { "_id": 1, "k": { "$gt": 7 } },
        doc! { "_id": 1, "k": null },
        doc! { "_id": 1, "k": f64::NAN },
        doc! { "_id": 1, "k": [7] },
        doc! { "_id": 1, "k": { "a": 7 } },
        doc! { "_id": 1, "a.k": 7 },
        doc! { "_id": 1, "7": 7 },
        doc! { "_id": 1, "$and": [{ "k": 7 }] },
        doc! { "_id": 1, "k": bson::Regex { pattern: "x".try_into().unwrap(), options: "".try_into().unwrap() } },
    ];
    for filter in others {
        assert_eq!(plain_demands(&filter), None, "{filter}");
    }
}

#[test]
fn fuse_remove_of_a_clean_document_only() {
    let [stage] = stages(fuse_remove(ME, &[]).unwrap()).try_into().unwrap();
    let outcome = stage.get_document("$replaceWith").unwrap().get_array("$cond").unwrap().clone();
    let locked = bson!({ "$mergeObjects": ["$$ROOT", { "_xTxId": { "$literal": id(ME) }, "_remove": true }] });
    assert_eq!(outcome, [clean(), locked, Bson::from("$$ROOT")]);
}

#[test]
fn fuse_remove_and_lock_of_a_document_with_the_values_that_are_demanded() {
    let filter = doc! { "_id": 1, "k": 7 };
    let demands = plain_demands(&filter).unwrap();
    for pipeline in [fuse_remove(ME, &demands), fuse_lock(ME, &[], &demands)] {
        let [stage] = stages(pipeline.unwrap()).try_into().unwrap();
        let outcome = stage.get_document("$replaceWith").unwrap().get_array("$cond").unwrap().clone();
        assert_eq!(outcome[0], clean_and(doc! { "f6": "$k" }, doc! { "f6": 7 }));
    }
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

#[test]
fn fuse_with_what_was_read() {
    let update = Update::parse_update(bson!({ "$set": { "a": 1 } })).unwrap();
    let as_read = [exact("k", Some(&7.into())).unwrap(), exact("gone", None).unwrap()];
    let [stage] = stages(fuse(&update, ME, &[], &[], &as_read).unwrap()).try_into().unwrap();
    let outcome = stage.get_document("$replaceWith").unwrap().get_array("$cond").unwrap().clone();
    let conditions = outcome[0].as_document().unwrap().get_array("$and").unwrap();
    let found = doc! { "f6": "$k", "f7": { "$type": "$k" }, "f8": "$gone" };
    assert_eq!(conditions[0], clean_and(found, doc! { "f6": 7, "f7": "int" }));
}

fn together(all: &[Fusing<'_>], over: &[TxId]) -> Option<(Vec<Bson>, Document)> {
    let FusedTogether { ids, pipeline } = fuse_together(all, ME, over, 1 << 20)?;
    let [stage] = stages(pipeline).try_into().unwrap();
    Some((Vec::try_from(&*ids).unwrap(), stage))
}

fn incs(steps: &[i32]) -> Vec<Update> {
    steps
        .iter()
        .map(|step| Update::parse_update(bson!({ "$inc": { "n": *step }, "$set": { "a": "$x" } })).unwrap())
        .collect()
}

/// Each of the updates for the document with its place as `_id`.
fn fusing<'a>(updates: &'a [Update], ids: &'a [Bson]) -> Vec<Fusing<'a>> {
    updates.iter().zip(ids).map(|(update, id)| Fusing { id, update, demands: &[], as_read: &[] }).collect()
}

#[test]
fn updates_of_one_shape_are_one_statement_whose_constants_stand_apart() {
    let (updates, ids) = (incs(&[5, 6]), [Bson::from(1), "b".into()]);
    let (found, stage) = together(&fusing(&updates, &ids), &[]).unwrap();
    assert_eq!(found, ids);
    let wanted = |at: usize| doc! { "f6": ids[at].clone() };
    let entries = [doc! { "c0": "$x", "c1": 5, "f": wanted(0) }, doc! { "c0": "$x", "c1": 6, "f": wanted(1) }];
    let at = doc! { "$indexOfArray": [{ "$literal": ids.to_vec() }, "$_id"] };
    let each = doc! { "$arrayElemAt": [{ "$literal": entries.to_vec() }, at] };
    let names = doc! {
        "f0": "$_xTxId", "f1": "$_sTxIds", "f2": "$_insert", "f3": "$_remove", "f4": "$_unsafe", "f5": "$_slot",
        "f6": "$_id",
    };
    let number = doc! { "$ifNull": ["$n", 0] };
    let conditions = [
        doc! { "$eq": [names, "$$each.f"] },
        doc! { "$in": [{ "$type": "$n" }, ["int", "long", "double", "missing"]] },
        doc! { "$gt": [number.clone(), -LIMIT] },
        doc! { "$lt": [number.clone(), LIMIT] },
    ];
    let values = doc! { "a": "$$each.c0", "n": { "$add": [number, "$$each.c1"] } };
    let added = doc! { "_unsafe": { "$mergeObjects": ["$$ROOT", values] }, "_xTxId": { "$literal": id(ME) } };
    let outcome = doc! {
        "$cond": [{ "$and": conditions.to_vec() }, { "$mergeObjects": ["$$ROOT", added] }, "$$ROOT"],
    };
    assert_eq!(stage, doc! { "$replaceWith": { "$let": { "vars": { "each": each }, "in": outcome } } });
}

#[test]
fn what_is_demanded_of_each_is_among_its_constants() {
    let (updates, ids, values) = (incs(&[5, 6]), [Bson::from(1), 2.into()], [Bson::from(7), 8.into()]);
    let demands: Vec<_> = values.iter().map(|value| [("k", value)]).collect();
    let as_read: Vec<_> = ["x", "y"].map(|text| [exact("t", Some(&text.into())).unwrap()]).into();
    let mut all = fusing(&updates, &ids);
    for (one, (demands, as_read)) in all.iter_mut().zip(demands.iter().zip(&as_read)) {
        (one.demands, one.as_read) = (demands, as_read);
    }
    let words = together(&all, &[]).unwrap().1.to_string();
    assert!(words.contains(r#""f": { "f6": 1, "f7": 7, "f8": "x", "f9": "string" }"#), "{words}");
    assert!(words.contains(r#""f": { "f6": 2, "f7": 8, "f8": "y", "f9": "string" }"#), "{words}");
    // One of them was not read.
    all[1].as_read = &[];
    assert_eq!(together(&all, &[]), None);
}

#[test]
fn updates_of_several_shapes_are_no_statement() {
    let one = |u: Bson| Update::parse_update(u).unwrap();
    let ids = [Bson::from(1), 2.into()];
    for other in [
        bson!({ "$inc": { "m": 1 } }),
        bson!({ "$set": { "n": 1 } }),
        bson!({ "$inc": { "n": 1, "m": 1 } }),
        bson!({ "$currentDate": { "n": true } }),
        // It has no form that is one statement.
        bson!({ "$push": { "n": 1 } }),
    ] {
        let updates = [one(bson!({ "$inc": { "n": 1 } })), one(other.clone())];
        assert_eq!(together(&fusing(&updates, &ids), &[]), None, "{other}");
    }
    // A step of zero changes nothing by itself, so that other fields have to differ.
    let updates = [0, 1].map(|step| one(bson!({ "$inc": { "n": step }, "$set": { "a": 1 } })));
    assert_eq!(together(&fusing(&updates, &ids), &[]), None);
    assert_eq!(together(&[], &[]), None);
}

#[test]
fn one_statement_takes_over_what_any_of_the_named_transactions_has_left() {
    let (updates, ids) = (incs(&[5, 6]), [Bson::from(1), 2.into()]);
    let (_, stage) = together(&fusing(&updates, &ids), &ALL[1..]).unwrap();
    let outer = stage.get_document("$replaceWith").unwrap().get_document("$let").unwrap();
    let inner = outer.get_document("in").unwrap().get_document("$let").unwrap();
    let alone = stages(fuse(&updates[0], ME, &ALL[1..], &[], &[]).unwrap());
    let alone = alone[0].get_document("$replaceWith").unwrap().get_document("$let").unwrap();
    assert_eq!(inner.get("vars"), alone.get("vars"));
    assert!(outer.get_document("vars").unwrap().get_document("each").is_ok());
}

#[test]
fn updates_whose_constants_are_too_large_are_no_statement() {
    let updates =
        ["a", "b", "c"].map(|letter| Update::parse_update(bson!({ "$set": { "a": letter.repeat(1_000) } })).unwrap());
    let ids = [Bson::from(1), 2.into(), 3.into()];
    let all = fusing(&updates, &ids);
    assert!(fuse_together(&all, ME, &[], 12_000).is_some());
    assert_eq!(fuse_together(&all, ME, &[], 9_000), None);
}
