//! Properties of the rewriting on arbitrary input.

#![allow(clippy::unwrap_used)]

use bson::{Bson, Document, doc, oid::ObjectId};
use proptest::{collection::vec, prelude::*, sample::select};
use protocol::{ClientId, TxId};
use sd2v::{Error, difference::difference, expression::*, filter::*, names::RESERVED, projection::*, update::*};

const TX: TxId = TxId { client: ClientId([7; 12]), seq: 1 };
/// Keys that mean something somewhere, and some that do not.
const KEYS: [&str; 40] = [
    "a",
    "b.c",
    "_id",
    "_id.x",
    "",
    "a.$",
    "$",
    "$[]",
    "$x",
    "0",
    "$and",
    "$or",
    "$nor",
    "$not",
    "$expr",
    "$in",
    "$eq",
    "$elemMatch",
    "$jsonSchema",
    "$literal",
    "$let",
    "vars",
    "in",
    "$set",
    "$inc",
    "$rename",
    "$setOnInsert",
    "$unset",
    "$project",
    "$replaceWith",
    "$replaceRoot",
    "newRoot",
    "$mergeObjects",
    "$slice",
    "$meta",
    "$getField",
    "field",
    "required",
    "as",
    "_unsafe",
];

/// Strings that an expression may read.
const TEXTS: [&str; 11] =
    ["$a", "$$ROOT", "$$ROOT.a", "$$CURRENT", "$$x.y", "$_xTxId", "plain", "$", "$$", "CURRENT", "_id"];

fn text() -> impl Strategy<Value = String> {
    prop_oneof![select(&TEXTS[..]).prop_map(str::to_owned), "\\PC{0,6}"]
}

fn scalar() -> impl Strategy<Value = Bson> {
    prop_oneof![
        any::<i32>().prop_map(Bson::Int32),
        any::<i64>().prop_map(Bson::Int64),
        any::<f64>().prop_map(Bson::Double),
        any::<bool>().prop_map(Bson::Boolean),
        any::<[u8; 12]>().prop_map(|bytes| Bson::ObjectId(ObjectId::from_bytes(bytes))),
        any::<[u8; 16]>().prop_map(|bytes| Bson::Decimal128(bson::Decimal128::from_bytes(bytes))),
        text().prop_map(Bson::String),
        Just(Bson::Null),
        Just(Bson::Undefined),
        Just(Bson::MaxKey),
    ]
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![9 => select(&KEYS[..]).prop_map(str::to_owned), 1 => "\\PC{0,5}"]
}

fn any_bson() -> impl Strategy<Value = Bson> {
    scalar().prop_recursive(5, 40, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Bson::Array),
            vec((key(), inner), 0..4).prop_map(|fields| Bson::Document(fields.into_iter().collect())),
        ]
    })
}

fn any_document() -> impl Strategy<Value = Document> {
    vec((key(), any_bson()), 0..4).prop_map(|fields| fields.into_iter().collect())
}

/// A condition that names no reserved field: operators relative to its field.
fn condition() -> impl Strategy<Value = Bson> {
    prop_oneof![
        any::<i32>().prop_map(Bson::Int32),
        any::<i32>().prop_map(|n| doc! { "$gt": n }.into()),
        any::<i32>().prop_map(|n| doc! { "$elemMatch": { "x": n, "_unsafe": 1 } }.into()),
        vec(any::<i32>(), 0..3).prop_map(|ns| doc! { "$in": ns }.into()),
    ]
}

fn field() -> impl Strategy<Value = String> {
    "[a-z]{1,3}(\\.[a-z0-9]{1,2}){0,2}|_id"
}

/// Strategy that draws well-formed filters.
fn filter() -> impl Strategy<Value = Document> {
    let leaf = vec((field(), condition()), 0..3).prop_map(|fields| fields.into_iter().collect::<Document>());
    leaf.prop_recursive(4, 20, 3, |inner| {
        let logical = select(&["$and", "$or", "$nor"][..]);
        (logical, vec(inner.clone(), 1..3), inner).prop_map(|(operator, operands, mut rest)| {
            rest.insert(operator, operands);
            rest
        })
    })
}

/// Puts `planted` somewhere below the logical operators of `filter`, steered by `turns`.
fn plant(filter: &mut Document, planted: &Document, turns: &[usize]) {
    let operator = ["$and", "$or", "$nor"].into_iter().find(|operator| filter.contains_key(operator));
    let operands = operator.and_then(|operator| filter.get_array_mut(operator).ok());
    match (turns.split_first(), operands) {
        (Some((turn, rest)), Some(operands)) if !operands.is_empty() => {
            let place = turn % operands.len();
            if let Bson::Document(operand) = &mut operands[place] {
                plant(operand, planted, rest);
            }
        }
        _ => filter.extend(planted.clone()),
    }
}

fn reserved_condition() -> impl Strategy<Value = Document> {
    let name = select(&RESERVED[..]);
    (name, "(\\.[a-z]{1,2}){0,2}", 0..5_u8).prop_map(|(name, tail, form)| match form {
        0 => doc! { "$expr": { "$eq": [1, format!("${name}{tail}")] } },
        1 => doc! { "$expr": { "$not": [{ "x": format!("$$ROOT.{name}{tail}") }] } },
        2 => doc! { "$expr": { "$getField": name } },
        3 => doc! { "$jsonSchema": { "allOf": [{ "required": ["a", name] }] } },
        _ => doc! { format!("{name}{tail}"): { "$exists": true } },
    })
}

/// Every field path of a filter's logical tree.
fn fields_of(filter: &Document, found: &mut Vec<String>) {
    for (key, value) in filter {
        match value {
            Bson::Array(operands) if key.starts_with('$') => {
                operands.iter().filter_map(Bson::as_document).for_each(|operand| fields_of(operand, found));
            }
            _ => found.push(key.clone()),
        }
    }
}

fn values_at_id(value: &Bson, found: &mut Vec<Bson>) {
    match value {
        Bson::Array(items) => items.iter().for_each(|item| values_at_id(item, found)),
        Bson::Document(fields) => {
            for (key, value) in fields {
                if key == "_id" {
                    found.push(value.clone());
                    if let Bson::Document(operators) = value {
                        found.extend(operators.get("$eq").cloned());
                        found.extend(operators.get_array("$in").into_iter().flatten().cloned());
                    }
                }
                values_at_id(value, found);
            }
        }
        _ => {}
    }
}

proptest! {
    #[test]
    fn rewrite_filter_prefixes_every_field(filter in filter()) {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        fields_of(&filter, &mut before);
        fields_of(&rewrite_filter(&filter).unwrap(), &mut after);
        let prefixed: Vec<_> = before.iter().map(|path| format!("_unsafe.{path}")).collect();
        prop_assert_eq!(after, prefixed);
    }

    #[test]
    fn check_filter_finds_a_planted_reserved_name(
        mut filter in filter(), planted in reserved_condition(), turns in vec(any::<usize>(), 0..4)
    ) {
        prop_assert_eq!(check_filter(&filter), Ok(()));
        plant(&mut filter, &planted, &turns);
        let refused = matches!(check_filter(&filter), Err(Error::Reserved { .. }));
        prop_assert!(refused, "{}", filter);
    }

    #[test]
    fn check_update_finds_a_planted_reserved_name(
        targets in vec((field(), any::<i32>()), 0..4), name in select(&RESERVED[..]), tail in "(\\.[a-z]{1,2}){0,2}",
        operator in select(&["$set", "$inc", "$unset", "$push", "$pull", "$rename", "$setOnInsert", "$bit", "$new"][..]),
    ) {
        let mut targets: Document = targets.into_iter().map(|(path, n)| (path, Bson::Int32(n))).collect();
        let update = |targets: &Document| Update::Operators(doc! { "$set": { "a": 1 }, operator: targets.clone() });
        prop_assert_eq!(update(&targets).check(), Ok(()));
        targets.insert(format!("{name}{tail}"), 1);
        let refused = matches!(update(&targets).check(), Err(Error::Reserved { .. }));
        prop_assert!(refused, "{}", targets);
    }

    #[test]
    fn rewrite_update_leaves_no_other_path_at_the_top(targets in vec((field(), any::<i32>()), 0..5)) {
        let targets: Document = targets.into_iter().map(|(path, n)| (path, Bson::Int32(n))).collect();
        let rewritten = rewrite_update(&Update::Operators(doc! { "$set": targets })).unwrap();
        let targets = rewritten.as_document().unwrap().get_document("$set").unwrap();
        for path in targets.keys() {
            prop_assert!(path == "_id" || path.starts_with("_id.") || path.starts_with("_unsafe."), "{}", path);
        }
    }

    #[test]
    fn pinned_ids_come_from_the_filter(filter in any_document()) {
        let mut candidates = Vec::new();
        values_at_id(&Bson::Document(filter.clone()), &mut candidates);
        let pinned = pinned_ids(&filter).unwrap_or_default();
        prop_assert!(pinned.iter().all(|id| candidates.contains(id) || id != id), "{}", filter);
        prop_assert_eq!(is_only_id(&filter), without_id(&filter).is_some_and(|rest| rest.is_empty()));
    }

    #[test]
    fn a_difference_gives_the_new_version(before in any_document(), after in any_document()) {
        if let Some(found) = difference(&before, &after) {
            prop_assert_eq!(found.apply(&before).unwrap().to_vec().unwrap(), after.to_vec().unwrap());
        }
    }

    #[test]
    fn fields_with_plain_names_that_are_changed_in_place_can_be_described(
        fields in vec(("[a-z]{1,4}", any_bson(), any_bson()), 0..5),
    ) {
        let before: Document = fields.iter().map(|(field, old, _)| (field.clone(), old.clone())).collect();
        let after: Document = fields.iter().map(|(field, _, new)| (field.clone(), new.clone())).collect();
        prop_assert!(difference(&before, &after).is_some());
    }

    #[test]
    fn rewriting_arbitrary_bson_never_panics(document in any_document(), value in any_bson()) {
        let _ = (rewrite_filter(&document), sd2v::filter::sees_lock_fields(&document), equality_id(&document));
        let _ = (rewrite_expression(&value), sees_whole_document(&value));
        let _ = (check_projection(&document), with_lock_fields(&document), is_find_only(&document));
        prop_assert_eq!(as_stages(&document).is_ok(), check_projection(&document).is_ok() && !is_find_only(&document));
        let updates = [
            Some(Update::Operators(document.clone())),
            Some(Update::Pipeline(vec![document.clone()])),
            Update::replacement(document.clone()).ok(),
            Update::parse_update(value.clone()).ok(),
        ];
        for update in updates.into_iter().flatten() {
            let _ = (rewrite_update(&update), fuse(&update, TX, &[TX], &[], &[]));
            let _ = (upsert_id(&document, &update), rewrite_upsert(&document, &update, &value, &document, &Bson::Null));
        }
    }

    #[test]
    fn deep_nesting_is_an_error_not_an_overflow(depth in 150..400_usize, key in select(&KEYS[..])) {
        let nested = (0..depth).fold(Bson::String("$$ROOT".to_owned()), |inner, level| match level % 2 {
            0 => Bson::Array(vec![inner]),
            _ => Bson::Document(doc! { key: inner }),
        });
        let document = doc! { key: nested.clone() };
        let _ = (rewrite_filter(&document), rewrite_expression(&nested), as_stages(&document));
        let _ = (rewrite_update(&Update::Pipeline(vec![document.clone()])), is_find_only(&document));
        let _ = fuse(&Update::Operators(doc! { "$set": document }), TX, &[], &[], &[]);
    }
}
