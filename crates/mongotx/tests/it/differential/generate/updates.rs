//! Updates: operators, pipelines, replacements, array filters.

use bson::{Bson, Document, doc};

use super::values::{self, fields, item, number, of_field, scalar, tag, value};
use crate::differential::operation::Change;
use crate::random::Random;

/// An update, and the array filters that it needs.
pub(crate) fn change(random: &mut Random) -> (Change, Option<Vec<Document>>) {
    match random.below(20) {
        0..=2 => (Change::Pipeline(pipeline(random)), None),
        3 => {
            let (operators, filters) = filtered(random);
            (Change::Operators(operators), Some(filters))
        }
        _ => (Change::Operators(operators(random)), None),
    }
}

/// Usually without `_id`; sometimes with one that need not be the document's.
pub(crate) fn replacement(random: &mut Random) -> Document {
    let mut document = Document::new();
    if random.chance(25) {
        document.insert("_id", values::id(random));
    }
    document.extend(fields(random));
    if random.chance(5) {
        document.insert("_id", values::id(random));
    }
    document
}

pub(crate) fn operators(random: &mut Random) -> Document {
    let mut operators = Document::new();
    let count = if random.chance(55) { 1 } else { 1 + random.below(3) };
    for _ in 0..count {
        let (operator, target, value) = one(random);
        match operators.get_mut(operator) {
            Some(Bson::Document(targets)) => drop(targets.insert(target, value)),
            _ => drop(operators.insert(operator, doc! {target: value})),
        }
    }
    operators
}

fn one(random: &mut Random) -> (&'static str, String, Bson) {
    let (operator, target, value) = match random.below(26) {
        0..=3 => set(random),
        4 | 5 => ("$inc", counted(random), number(random)),
        6 => ("$mul", counted(random), number(random)),
        7 => (*random.pick(&["$min", "$max"]), counted(random), number(random)),
        8 => (*random.pick(&["$min", "$max"]), *random.pick(&["a", "s", "d.y"]), scalar(random)),
        9 | 10 => ("$unset", *random.pick(&["a", "n", "d", "d.x", "t", "l.0", "t.1", "none", "l.0.v"]), "".into()),
        11 | 12 => ("$rename", *random.pick(&["a", "n", "d.x", "none", "s"]), rename_to(random)),
        13 => ("$setOnInsert", *random.pick(&["a", "d.y", "new"]), scalar(random)),
        14 => current_date(random),
        15..=17 => ("$push", *random.pick(&["t", "d.t", "new", "t", "a"]), pushed(random)),
        18 => ("$push", "l", push_items(random)),
        19 | 20 => ("$addToSet", *random.pick(&["t", "d.t", "new"]), added(random)),
        21 => ("$pop", *random.pick(&["t", "l", "d.t"]), (*random.pick(&[1, -1])).into()),
        22 | 23 => pull(random),
        24 => ("$bit", *random.pick(&["n", "m"]), bits(random)),
        _ => everywhere(random),
    };
    (operator, target.to_owned(), value)
}

type Single = (&'static str, &'static str, Bson);

fn set(random: &mut Random) -> Single {
    let target = *random.pick(&[
        "a", "b", "n", "m", "s", "t", "d", "l", "d.x", "d.y", "d.t", "t.0", "t.2", "l.0.v", "l.1.k", "new", "d.e.f",
        "ключ", "a.x", "_id", "d.0", "0",
    ]);
    let value = match target {
        "_id" => values::asked_id(random),
        name => of_field(random, name),
    };
    ("$set", target, value)
}

fn counted(random: &mut Random) -> &'static str {
    random.pick::<&str>(&["n", "n", "m", "d.x", "new", "l.0.v", "a", "t.0"])
}

fn rename_to(random: &mut Random) -> Bson {
    (*random.pick(&["b", "m", "d.y", "renamed", "d.z", "new"])).into()
}

fn current_date(random: &mut Random) -> Single {
    let kinds = [Bson::Boolean(true), doc! {"$type": "timestamp"}.into(), doc! {"$type": "date"}.into()];
    ("$currentDate", "when", random.pick(&kinds).clone())
}

fn pushed(random: &mut Random) -> Bson {
    if random.chance(40) {
        return if random.chance(80) { tag(random) } else { value(random, 1) };
    }
    let mut push = doc! {"$each": each(random)};
    if random.chance(50) {
        push.insert("$slice", random.between(-3, 4));
    }
    if random.chance(40) {
        push.insert("$sort", *random.pick(&[1, -1]));
    }
    if random.chance(30) {
        push.insert("$position", random.between(-2, 3));
    }
    push.into()
}

/// Values to push, at least one: whether pushing nothing counts as a change depends on the indexes
/// (difference D13).
fn each(random: &mut Random) -> Vec<Bson> {
    let mut values = random.several(2, tag);
    values.push(tag(random));
    values
}

fn push_items(random: &mut Random) -> Bson {
    let mut items = random.several(1, |random| Bson::Document(item(random)));
    items.push(item(random).into());
    doc! {"$each": items, "$sort": {"k": 1, "v": -1}, "$slice": -3}.into()
}

fn added(random: &mut Random) -> Bson {
    if random.chance(50) { tag(random) } else { doc! {"$each": random.several(3, tag)}.into() }
}

fn pull(random: &mut Random) -> Single {
    match random.below(6) {
        0 => ("$pull", "t", tag(random)),
        1 => ("$pull", "t", doc! {"$gte": random.between(0, 3)}.into()),
        2 => ("$pull", "l", doc! {"k": random.between(0, 3)}.into()),
        3 => ("$pull", "l", doc! {"$or": [{"v": {"$gt": 5}}, {"k": random.between(0, 3)}]}.into()),
        4 => ("$pull", "d.t", doc! {"$in": [0, 1, "a"]}.into()),
        _ => ("$pullAll", "t", Bson::Array(random.several(3, tag))),
    }
}

fn bits(random: &mut Random) -> Bson {
    let operator = *random.pick(&["and", "or", "xor"]);
    doc! {operator: random.between(0, 7)}.into()
}

fn everywhere(random: &mut Random) -> Single {
    match random.below(4) {
        0 => ("$inc", "t.$[]", 1.into()),
        1 => ("$set", "l.$[].v", random.between(0, 9).into()),
        2 => ("$unset", "l.$[].v", "".into()),
        _ => ("$mul", "l.$[].k", 2.into()),
    }
}

/// Updates of the element that the filter found in the array at `path`.
pub(crate) fn positional(random: &mut Random, path: &str) -> Document {
    match (path, random.below(4)) {
        ("t", 0) => doc! {"$set": {"t.$": tag(random)}},
        ("t", 1) => doc! {"$unset": {"t.$": ""}},
        ("t", _) => doc! {"$set": {"t.$": tag(random), "seen": true}},
        (_, 0) => doc! {"$inc": {"l.$.v": 1}},
        (_, 1) => doc! {"$set": {"l.$": item(random)}},
        (_, 2) => doc! {"$push": {"l.$.tags": tag(random)}},
        (_, _) => doc! {"$unset": {"l.$.v": ""}},
    }
}

/// Operators with `$[name]`, and their array filters.
fn filtered(random: &mut Random) -> (Document, Vec<Document>) {
    let n = random.between(0, 4);
    match random.below(5) {
        0 => (doc! {"$set": {"t.$[x]": tag(random)}}, vec![doc! {"x": n}]),
        1 => (doc! {"$inc": {"l.$[x].v": 1}}, vec![doc! {"x.k": {"$gte": n}}]),
        2 => (
            doc! {"$set": {"l.$[x].v": n}, "$mul": {"t.$[y]": 2}},
            vec![doc! {"x.k": 1}, doc! {"y": {"$type": "number", "$lt": n}}],
        ),
        3 => (doc! {"$unset": {"l.$[x].v": ""}}, vec![doc! {"$or": [{"x.k": 0}, {"x.v": {"$gt": n}}]}]),
        _ => (doc! {"$set": {"t.$[x]": n}}, vec![doc! {"unused": n}]),
    }
}

fn pipeline(random: &mut Random) -> Vec<Document> {
    let count = 1 + random.below(2);
    (0..count).map(|_| stage(random)).collect()
}

fn stage(random: &mut Random) -> Document {
    let literal = |value: Bson| doc! {"$literal": value};
    match random.below(16) {
        0 => doc! {"$set": {"n": {"$add": [{"$ifNull": ["$m", 0]}, 1]}}},
        1 => doc! {"$set": {"a": literal(value(random, 0)), "d.x": "$n"}},
        2 => doc! {"$addFields": {"b": "$a", "copy": "$s"}},
        3 => doc! {"$unset": "a"},
        4 => doc! {"$unset": ["n", "d.x", "l.v"]},
        5 => doc! {"$project": {"n": 1, "s": 1, "t": 1}},
        6 => doc! {"$project": {"d": 0, "a": 0}},
        7 => doc! {"$project": {"n": 1, "sum": {"$ifNull": ["$n", "$m"]}}},
        8 => doc! {"$replaceWith": {"$mergeObjects": ["$$ROOT", {"b": literal(scalar(random))}]}},
        9 => doc! {"$replaceWith": {"_id": "$_id", "n": {"$ifNull": ["$n", 0]}, "was": "$a"}},
        10 => doc! {"$replaceRoot": {"newRoot": {"$mergeObjects": [{"n": 0}, "$d", {"_id": "$_id"}]}}},
        11 => doc! {"$replaceWith": "$d"},
        12 => doc! {"$set": {"fields": {"$size": {"$objectToArray": "$$ROOT"}}}},
        13 => doc! {"$set": {"t": {"$cond": [{"$isArray": "$t"}, {"$reverseArray": "$t"}, []]}}},
        14 => doc! {"$set": {"a": {"$cond": [{"$gt": ["$n", 1]}, "$$REMOVE", "$a"]}}},
        _ => doc! {"$set": {"l.k": random.between(0, 3), "whole": "$$CURRENT.n"}},
    }
}
