//! Random sets of indexes, with every option that changes what is found, refused or stored.

use bson::{Document, doc};

use crate::random::Random;

/// Frequency of each index in percent, and its specification. No two have the same key.
fn candidates() -> Vec<(usize, Document)> {
    let far = i64::from(i32::MAX);
    vec![
        (40, doc! {"key": {"n": 1}}),
        (30, doc! {"key": {"t": 1}}),
        (30, doc! {"key": {"d.x": -1, "n": 1}}),
        (20, doc! {"key": {"t": 1, "l.k": 1}}),
        (20, doc! {"key": {"s": 1, "_id": -1}}),
        (30, doc! {"key": {"a": 1}, "sparse": true}),
        (30, doc! {"key": {"m": 1}, "partialFilterExpression": {"m": {"$gt": 0}}}),
        (15, doc! {"key": {"a": "hashed"}}),
        (20, doc! {"key": {"d.y": "2dsphere"}}),
        (20, doc! {"key": {"s": "text", "a": "text"}, "weights": {"s": 3}}),
        (20, doc! {"key": {"d.$**": 1}}),
        (15, doc! {"key": {"$**": 1}}),
        (25, doc! {"key": {"b": 1}, "expireAfterSeconds": far}),
        (25, doc! {"key": {"s": 1}, "collation": {"locale": "en", "strength": 2}}),
        (40, doc! {"key": {"ключ": 1}, "unique": true, "sparse": true}),
        (
            25,
            doc! {"key": {"n": 1, "s": 1, "m": 1}, "unique": true, "partialFilterExpression": {"n": {"$exists": true}}},
        ),
        (15, doc! {"key": {"d": 1}, "unique": true, "sparse": true}),
        (15, doc! {"key": {"l.v": 1}, "unique": true, "sparse": true}),
        (15, doc! {"key": {"_id": 1, "n": 1}, "unique": true}),
    ]
}

/// Specifications with the names that the server would give.
pub(crate) fn indexes(random: &mut Random) -> Vec<Document> {
    let mut chosen = Vec::new();
    for (percent, mut spec) in candidates() {
        if random.chance(percent) {
            let key = spec.get_document("key").unwrap().clone();
            spec.insert("name", name_of(&key));
            chosen.push(spec);
        }
    }
    chosen
}

/// The server's usual name for an index.
pub(crate) fn name_of(key: &Document) -> String {
    if key == &doc! {"_id": 1} {
        return "_id_".to_owned();
    }
    let part = |(field, kind): (&String, &bson::Bson)| match kind.as_str() {
        Some(kind) => format!("{field}_{kind}"),
        None => format!("{field}_{kind}"),
    };
    key.iter().map(part).collect::<Vec<_>>().join("_")
}

pub(crate) fn key_of(spec: &Document) -> Document {
    spec.get_document("key").unwrap().clone()
}

pub(crate) fn is_unique(spec: &Document) -> bool {
    spec.get_bool("unique").unwrap_or(false)
}

/// Returns true if a query may name it without losing documents, and no other index has the same
/// key.
pub(crate) fn may_be_hinted(spec: &Document) -> bool {
    const LOSING: [&str; 3] = ["sparse", "partialFilterExpression", "collation"];
    let ordinary = key_of(spec).iter().all(|(field, kind)| kind.as_str().is_none() && !field.contains("$**"));
    ordinary && LOSING.iter().all(|option| !spec.contains_key(option))
}
