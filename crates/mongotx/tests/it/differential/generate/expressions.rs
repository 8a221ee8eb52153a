//! Aggregation expressions. Most cannot fail, so that whole pipelines have answers to compare; some
//! can.

use bson::{Bson, Document, doc};

use super::values;
use crate::random::Random;

const PATHS: [&str; 14] =
    ["$_id", "$a", "$b", "$n", "$m", "$s", "$t", "$d", "$l", "$d.x", "$d.t", "$l.k", "$none", "$$ROOT.n"];

pub(crate) fn path(random: &mut Random) -> Bson {
    (*random.pick(&PATHS)).into()
}

/// A small whole number, whatever the documents hold.
pub(crate) fn number(random: &mut Random) -> Bson {
    let path = *random.pick(&["$n", "$m", "$d.x", "$none"]);
    let sure =
        doc! {"$cond": [{"$in": [{"$type": path}, ["int", "long"]]}, {"$mod": [path, 100]}, random.between(0, 3)]};
    match random.below(12) {
        0 => random.between(-2, 5).into(),
        1 => doc! {"$add": [sure, random.between(0, 3)]}.into(),
        2 => doc! {"$multiply": [sure, 2]}.into(),
        3 => doc! {"$subtract": [sure, 1]}.into(),
        4 => doc! {"$size": array(random)}.into(),
        5 => doc! {"$abs": sure}.into(),
        6 => doc! {"$strLenCP": text(random)}.into(),
        7 => doc! {"$ifNull": [{"$indexOfArray": [array(random), values::tag(random)]}, 0]}.into(),
        8 => doc! {"$sum": [sure, 1, "$none"]}.into(),
        9 => {
            doc! {"$reduce": {"input": {"$range": [0, 3]}, "initialValue": sure, "in": {"$add": ["$$value", "$$this"]}}}
                .into()
        }
        _ => sure.into(),
    }
}

fn text(random: &mut Random) -> Bson {
    let sure = doc! {"$cond": [{"$eq": [{"$type": "$s"}, "string"]}, "$s", "none"]};
    match random.below(6) {
        0 => doc! {"$toUpper": sure}.into(),
        1 => doc! {"$concat": [sure, "-"]}.into(),
        2 => doc! {"$substrCP": [sure, 0, 1]}.into(),
        3 => doc! {"$type": path(random)}.into(),
        _ => sure.into(),
    }
}

fn array(random: &mut Random) -> Bson {
    let path = *random.pick(&["$t", "$l", "$d.t", "$l.k"]);
    let sure = doc! {"$cond": [{"$isArray": path}, path, []]};
    match random.below(8) {
        0 => doc! {"$filter": {"input": sure, "as": "i", "cond": {"$gte": ["$$i", 1]}}}.into(),
        1 => doc! {"$map": {"input": sure, "in": {"$type": "$$this"}}}.into(),
        2 => doc! {"$concatArrays": [sure, [1]]}.into(),
        3 => doc! {"$setUnion": [sure, []]}.into(),
        4 => doc! {"$map": {"input": {"$objectToArray": "$$ROOT"}, "as": "f", "in": "$$f.k"}}.into(),
        5 => doc! {"$reverseArray": sure}.into(),
        _ => sure.into(),
    }
}

pub(crate) fn condition(random: &mut Random) -> Bson {
    match random.below(9) {
        0 => doc! {"$gt": [path(random), path(random)]}.into(),
        1 => doc! {"$eq": [path(random), values::scalar(random)]}.into(),
        2 => doc! {"$and": [{"$gte": [path(random), 0]}, {"$ne": [path(random), Bson::Null]}]}.into(),
        3 => doc! {"$in": [values::tag(random), array(random)]}.into(),
        4 => doc! {"$not": [path(random)]}.into(),
        5 => doc! {"$isNumber": path(random)}.into(),
        6 => doc! {"$lt": [number(random), 3]}.into(),
        7 => doc! {"$regexMatch": {"input": text(random), "regex": "^[aA]"}}.into(),
        _ => doc! {"$gt": [number(random), random.between(0, 2)]}.into(),
    }
}

/// An expression of any type.
pub(crate) fn any(random: &mut Random) -> Bson {
    match random.below(16) {
        0..=3 => path(random),
        4 | 5 => number(random),
        6 => text(random),
        7 => array(random),
        8 => doc! {"$cond": [condition(random), path(random), "no"]}.into(),
        9 => doc! {"$let": {"vars": {"x": number(random)}, "in": {"$add": ["$$x", "$$x"]}}}.into(),
        10 => doc! {"$literal": values::value(random, 1)}.into(),
        11 => doc! {"$mergeObjects": [{"$cond": [{"$eq": [{"$type": "$d"}, "object"]}, "$d", {}]}, {"z": 1}]}.into(),
        12 => doc! {"$ifNull": [path(random), path(random), "none"]}.into(),
        13 => doc! {"$switch": {"branches": [{"case": condition(random), "then": 1}], "default": path(random)}}.into(),
        14 => doc! {"$getField": "n"}.into(),
        _ => whole(random),
    }
}

/// An expression that reads the document as a whole.
fn whole(random: &mut Random) -> Bson {
    match random.below(4) {
        0 => "$$ROOT".into(),
        1 => "$$CURRENT".into(),
        2 => doc! {"$mergeObjects": ["$$ROOT", {"z": number(random)}]}.into(),
        _ => doc! {"$size": {"$objectToArray": "$$ROOT"}}.into(),
    }
}

/// An expression that may fail on some documents.
pub(crate) fn risky(random: &mut Random) -> Bson {
    match random.below(4) {
        0 => doc! {"$size": "$t"}.into(),
        1 => doc! {"$in": [1, "$t"]}.into(),
        2 => doc! {"$divide": [1, "$n"]}.into(),
        _ => doc! {"$concat": ["$s", "x"]}.into(),
    }
}

/// New fields, each with an expression.
pub(crate) fn fields(random: &mut Random) -> Document {
    let mut fields = doc! {"x": any(random)};
    for name in random.several(2, |random| *random.pick(&["y", "n", "d.x", "a", "s"])) {
        fields.insert(name, any(random));
    }
    fields
}
