//! Random filters for the differential tests.

use bson::{Bson, Document, Regex, doc};

use super::values::{self, item, number, scalar, tag, text, value};
use crate::random::Random;

const PATHS: [&str; 20] = [
    "_id", "a", "b", "n", "m", "s", "t", "d", "l", "d.x", "d.y", "d.t", "d.0", "l.k", "l.v", "t.0", "l.0.k", "a.x",
    "none", "ключ",
];

/// A filter that may match any number of documents.
pub(crate) fn filter(random: &mut Random) -> Document {
    filter_at(random, 0)
}

fn filter_at(random: &mut Random, depth: usize) -> Document {
    match random.below(if depth < 2 { 26 } else { 16 }) {
        0 if depth == 0 => Document::new(),
        0..=11 => leaf(random),
        12..=15 => {
            let mut both = leaf(random);
            both.extend(leaf(random));
            both
        }
        16 | 17 => doc! {"$and": operands(random, depth)},
        18 | 19 => doc! {"$or": operands(random, depth)},
        20 => doc! {"$nor": operands(random, depth)},
        21 | 22 => doc! {"$expr": expression(random)},
        23 => doc! {"$jsonSchema": schema(random)},
        24 => doc! {"_id": {"$in": (0..3).map(|_| values::asked_id(random)).collect::<Vec<_>>()}},
        _ => {
            let mut commented = leaf(random);
            commented.insert("$comment", "why");
            commented
        }
    }
}

fn operands(random: &mut Random, depth: usize) -> Vec<Document> {
    let count = 1 + random.below(3);
    (0..count).map(|_| filter_at(random, depth + 1)).collect()
}

fn leaf(random: &mut Random) -> Document {
    let path = *random.pick(&PATHS);
    doc! {path: condition(random, path)}
}

fn operand(random: &mut Random, path: &str) -> Bson {
    match path {
        "_id" => values::asked_id(random),
        "n" | "m" | "d.x" | "l.v" => number(random),
        "s" => text(random),
        "t" | "d.t" | "l.k" | "t.0" | "l.0.k" => tag(random),
        _ if random.chance(30) => value(random, 1),
        _ => scalar(random),
    }
}

fn condition(random: &mut Random, path: &str) -> Bson {
    let one = |random: &mut Random| operand(random, path);
    match random.below(24) {
        0..=3 => one(random),
        4..=7 => {
            let operator = *random.pick(&["$gt", "$gte", "$lt", "$lte", "$ne", "$eq"]);
            match one(random) {
                // By a wildcard index the server finds less than by others, and which of them it
                // takes is chance.
                Bson::Null if operator.ends_with("te") => Bson::Null,
                operand => doc! {operator: operand}.into(),
            }
        }
        8 => doc! {"$in": random.several(3, one)}.into(),
        9 => doc! {"$nin": random.several(3, one)}.into(),
        10 | 11 => doc! {"$exists": random.chance(60)}.into(),
        12 => doc! {"$type": type_name(random)}.into(),
        13 => pattern(random),
        14 => doc! {"$mod": [2 + random.below(2) as i32, random.below(2) as i32]}.into(),
        15 => doc! {"$size": random.below(4) as i32}.into(),
        16 => doc! {"$all": random.several(2, tag)}.into(),
        17 | 18 => doc! {"$elemMatch": element(random, path)}.into(),
        19 => doc! {"$not": {"$gt": one(random)}}.into(),
        20 => Bson::Null,
        21 => doc! {"$ne": 1}.into(),
        22 => doc! {"$gte": random.between(-1, 2), "$lt": 4}.into(),
        _ => doc! {"$bitsAnySet": 1 + random.below(6) as i32}.into(),
    }
}

fn element(random: &mut Random, path: &str) -> Document {
    match path {
        "l" => doc! {"k": random.between(0, 3), "v": {"$gte": random.between(0, 5)}},
        _ => doc! {"$gte": random.between(0, 3)},
    }
}

fn type_name(random: &mut Random) -> Bson {
    match random.below(3) {
        0 => Bson::Array(vec!["string".into(), "null".into()]),
        1 => "number".into(),
        _ => (*random.pick(&["array", "object", "int", "decimal", "date", "objectId", "bool"])).into(),
    }
}

fn pattern(random: &mut Random) -> Bson {
    let regex = |pattern: &str, options: &str| Regex {
        pattern: pattern.try_into().unwrap(),
        options: options.try_into().unwrap(),
    };
    match random.below(3) {
        0 => regex("^a", "i").into(),
        1 => doc! {"$regex": "[a日]", "$options": ""}.into(),
        _ => doc! {"$not": regex("^[aA]", "")}.into(),
    }
}

/// An expression for `$expr`. `$$five` and `$$word` are constants of `let`, which the caller then
/// adds.
fn expression(random: &mut Random) -> Bson {
    match random.below(13) {
        0 => doc! {"$gt": ["$n", "$m"]}.into(),
        1 => doc! {"$eq": [{"$type": "$a"}, "string"]}.into(),
        2 => doc! {"$in": [random.between(0, 4), {"$cond": [{"$isArray": "$t"}, "$t", []]}]}.into(),
        3 => doc! {"$gte": [{"$size": {"$objectToArray": "$$ROOT"}}, 4]}.into(),
        4 => doc! {"$eq": ["$$ROOT.n", random.between(0, 3)]}.into(),
        5 => doc! {"$let": {"vars": {"v": "$d.x"}, "in": {"$lt": ["$$v", 2]}}}.into(),
        6 => doc! {"$eq": [{"$getField": "s"}, "a"]}.into(),
        7 => doc! {"$anyElementTrue": [{"$map": {
            "input": {"$cond": [{"$isArray": "$l"}, "$l", []]}, "as": "i", "in": {"$gt": ["$$i.v", 4]},
        }}]}
        .into(),
        8 => doc! {"$gt": ["$$CURRENT.n", 1]}.into(),
        9 => doc! {"$ne": [{"$literal": "$n"}, "$s"]}.into(),
        10 => doc! {"$eq": [{"$type": "$$CURRENT.none"}, "missing"]}.into(),
        // The expression fails where there is no document at all.
        11 => doc! {"$in": ["_id", {"$map": {"input": {"$objectToArray": "$$CURRENT"}, "in": "$$this.k"}}]}.into(),
        _ => doc! {"$lt": ["$n", random.between(0, 4)]}.into(),
    }
}

/// A filter that reads constants of `let`.
pub(crate) fn with_variables(random: &mut Random) -> (Document, Document) {
    let filter = match random.below(3) {
        0 => doc! {"$expr": {"$lt": ["$n", "$$five"]}},
        1 => doc! {"$and": [{"$expr": {"$ne": ["$s", "$$word"]}}, filter_at(random, 2)]},
        _ => doc! {"$expr": {"$in": ["$$five", {"$cond": [{"$isArray": "$t"}, "$t", []]}]}},
    };
    (filter, doc! {"five": random.between(0, 5), "word": {"$literal": text(random)}})
}

fn schema(random: &mut Random) -> Document {
    match random.below(5) {
        0 => doc! {"required": ["n", "s"]},
        1 => doc! {"properties": {"n": {"bsonType": "int", "minimum": 1}}},
        2 => doc! {"maxProperties": 3 + random.below(5) as i32},
        3 => doc! {"not": {"properties": {"t": {"bsonType": "array", "maxItems": 2}}, "required": ["t"]}},
        _ => doc! {
            "additionalProperties": false,
            "properties": {"_id": {}, "n": {}, "m": {}, "s": {}, "t": {}, "d": {}, "l": {}},
        },
    }
}

/// A filter that at most one document can match: its `_id`, and sometimes more.
pub(crate) fn of_one(random: &mut Random) -> Document {
    let id = values::asked_id(random);
    one_with(random, id)
}

pub(crate) fn one_with(random: &mut Random, id: Bson) -> Document {
    let only = |id: Bson| match id {
        Bson::Null => doc! {"_id": {"$eq": Bson::Null}},
        id => doc! {"_id": id},
    };
    match random.below(10) {
        0..=5 => only(id),
        6 => doc! {"_id": {"$eq": id}},
        7 => doc! {"_id": {"$in": [id]}},
        8 => {
            let mut both = only(id);
            both.extend(filter(random).into_iter().filter(|(name, _)| name != "_id"));
            both
        }
        _ => doc! {"$and": [only(id), filter(random)]},
    }
}

/// Filters for positional updates, each with the path that it points into.
pub(crate) fn pointing(random: &mut Random) -> (Document, &'static str) {
    match random.below(4) {
        0 => (doc! {"t": tag(random)}, "t"),
        1 => (doc! {"t": {"$elemMatch": {"$gte": random.between(0, 3)}}}, "t"),
        2 => (doc! {"l.k": random.between(0, 3)}, "l"),
        _ => (doc! {"l": {"$elemMatch": {"k": item(random).get("k"), "v": {"$exists": true}}}}, "l"),
    }
}
