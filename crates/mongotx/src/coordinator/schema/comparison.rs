//! Whether an index that is to be made is one that is there, as the server compares the two. Pure.
//!
//! Key, collation, partial filter, uniqueness, sparseness and wildcard projection make an index
//! another one. What else it may have are options of the same index.

use bson::{Bson, Document};

/// Options that make no other index.
const OPTIONS: [&str; 9] = [
    "expireAfterSeconds",
    "weights",
    "default_language",
    "language_override",
    "bits",
    "min",
    "max",
    "bucketSize",
    "storageEngine",
];
/// Options of a collation, and what they are where a locale has nothing else in mind. (Whether
/// strings are normalised depends on the locale in more cases than are listed here.)
const COLLATION: [(&str, Bson); 7] = [
    ("strength", Bson::Int32(3)),
    ("caseLevel", Bson::Boolean(false)),
    ("numericOrdering", Bson::Boolean(false)),
    ("caseFirst", Bson::Null),
    ("alternate", Bson::Null),
    ("maxVariable", Bson::Null),
    ("backwards", Bson::Boolean(false)),
];
/// Locales that have something else in mind.
const PARTICULAR: [&str; 4] = ["da", "mt", "th", "fr_CA"];

/// How an index that is to be made relates to one that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    /// The two indexes are the same in all options.
    Identical,
    /// They are the same but for options that make no other index.
    OtherOptions,
    /// Both may be there, under two names.
    Different,
}

/// Compares two specifications. `default`: the collation of the collection.
pub(super) fn compare(there: &Document, wanted: &Document, default: Option<&Document>) -> Comparison {
    let same_value = |option: &&str| there.get(*option).map(normal) == wanted.get(*option).map(normal);
    let same_flag = |option: &&str| is_true(there.get(*option)) == is_true(wanted.get(*option));
    let is_same_index = normal_key(there) == normal_key(wanted)
        && ["partialFilterExpression", "wildcardProjection"].iter().all(same_value)
        && ["unique", "sparse"].iter().all(same_flag)
        && same_collation(there.get_document("collation").ok(), wanted.get_document("collation").ok().or(default));
    match is_same_index {
        false => Comparison::Different,
        true if OPTIONS.iter().all(same_value) => Comparison::Identical,
        true => Comparison::OtherOptions,
    }
}

/// Returns true if two collations are the same: `there` as the server lists it, with all options,
/// or as an application has given it; `wanted` as the application gives it. `None`: strings are
/// compared by their bytes.
pub(crate) fn same_collation(there: Option<&Document>, wanted: Option<&Document>) -> bool {
    let is_simple = |collation: &&Document| locale(collation) == "simple";
    match (there.filter(|there| !is_simple(there)), wanted.filter(|wanted| !is_simple(wanted))) {
        (None, None) => true,
        (Some(there), Some(wanted)) => {
            let there_locale = locale(there);
            let same = |(option, usual): &(&str, Bson)| match (there.get(option), wanted.get(option)) {
                (Some(there), Some(wanted)) => normal(there) == normal(wanted),
                (Some(there), None) => PARTICULAR.contains(&there_locale) || is_usual(there, usual),
                (None, Some(wanted)) => PARTICULAR.contains(&there_locale) || is_usual(wanted, usual),
                (None, None) => true,
            };
            locale(wanted) == there_locale && COLLATION.iter().all(same)
        }
        _ => false,
    }
}

fn locale(collation: &Document) -> &str {
    collation.get_str("locale").unwrap_or_default()
}

/// `usual`: `Null` for one of the words that are the server's own.
fn is_usual(there: &Bson, usual: &Bson) -> bool {
    match usual {
        Bson::Null => matches!(there.as_str(), Some("off" | "non-ignorable" | "punct")),
        usual => normal(there) == normal(usual),
    }
}

fn is_true(flag: Option<&Bson>) -> bool {
    match flag.map(normal) {
        Some(Bson::Boolean(flag)) => flag,
        Some(Bson::Double(flag)) => flag != 0.0,
        _ => false,
    }
}

/// Numbers at any depth as doubles, so that equal numbers of different types are equal.
fn normal(value: &Bson) -> Bson {
    match value {
        Bson::Int32(n) => Bson::Double(f64::from(*n)),
        Bson::Int64(n) => Bson::Double(*n as f64),
        Bson::Document(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), normal(value))).collect::<Document>().into()
        }
        Bson::Array(values) => values.iter().map(normal).collect::<Vec<_>>().into(),
        other => other.clone(),
    }
}

/// The fields of the key in their order, which documents are compared without.
fn normal_key(spec: &Document) -> Vec<(&String, Bson)> {
    spec.get_document("key").into_iter().flatten().map(|(field, kind)| (field, normal(kind))).collect()
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn values_are_compared_and_not_their_types() {
        let there = doc! {
            "v": 2, "key": {"a": 1}, "name": "a", "unique": true, "expireAfterSeconds": 5,
            "partialFilterExpression": {"b": {"$gt": 1_i64}},
        };
        let wanted = doc! {
            "key": {"a": 1.0}, "unique": 1, "sparse": false, "expireAfterSeconds": 5.0,
            "partialFilterExpression": {"b": {"$gt": 1.0}}, "background": true,
        };
        assert_eq!(compare(&there, &wanted, None), Comparison::Identical);
    }

    #[test]
    fn options_make_no_other_index_but_everything_else_does() {
        let there = doc! {"key": {"a": 1, "b": 1}};
        let with = |more: Document| {
            let mut wanted = there.clone();
            wanted.extend(more);
            compare(&there, &wanted, None)
        };
        assert_eq!(with(doc! {"expireAfterSeconds": 6}), Comparison::OtherOptions);
        assert_eq!(with(doc! {"bits": 20}), Comparison::OtherOptions);
        assert_eq!(with(doc! {"hidden": true}), Comparison::Identical);
        for other in [
            doc! {"unique": true},
            doc! {"sparse": true},
            doc! {"partialFilterExpression": {"b": 1}},
            doc! {"collation": {"locale": "en"}},
            doc! {"key": {"b": 1, "a": 1}},
        ] {
            assert_eq!(with(other.clone()), Comparison::Different, "{other}");
        }
    }

    #[test]
    fn collations_are_compared_with_what_is_left_out() {
        let listed = doc! {
            "locale": "en", "caseLevel": false, "caseFirst": "off", "strength": 3, "numericOrdering": false,
            "alternate": "non-ignorable", "maxVariable": "punct", "normalization": false, "backwards": false,
            "version": "57.1",
        };
        let there = doc! {"key": {"a": 1}, "collation": listed};
        let with = |collation: Document| compare(&there, &doc! {"key": {"a": 1}, "collation": collation}, None);
        assert_eq!(with(doc! {"locale": "en"}), Comparison::Identical);
        assert_eq!(with(doc! {"locale": "en", "strength": 3.0}), Comparison::Identical);
        assert_eq!(with(doc! {"locale": "en", "strength": 2}), Comparison::Different);
        assert_eq!(with(doc! {"locale": "fr"}), Comparison::Different);
        assert_eq!(with(doc! {"locale": "simple"}), Comparison::Different);
        let bare = doc! {"key": {"a": 1}};
        assert_eq!(compare(&there, &bare, None), Comparison::Different);
        assert_eq!(compare(&there, &bare, Some(&doc! {"locale": "en"})), Comparison::Identical);
        assert_eq!(compare(&bare, &bare, Some(&doc! {"locale": "en"})), Comparison::Different);
    }
}
