//! The keys that an index has of a document, through arrays of documents, and the condition for
//! documents that have such a key.
//!
//! The server makes a key for each element of an array. Paths that lead through the same array have
//! their parts from the same element. An element that is no document, and an array without
//! elements, have the key `null` for all paths behind them, which a query for `null` does not find.

use bson::{Bson, Document, doc};

/// The treatment of a missing value by the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Null,
    Ignored,
}

/// What a key has in the place of one path.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    /// The field is missing, or no document is where it should be.
    Missing,
    Value(Bson),
    /// An array that is an element of the array at the end of the path.
    Inner(Bson),
    /// The array at the end of the path has no elements.
    Empty,
}

pub(super) type Key = Vec<Part>;

/// The paths that begin with one field.
struct Group<'p> {
    field: &'p str,
    /// Their places among all paths.
    places: Vec<usize>,
    /// What is behind the field; `None`: the path ends there.
    rests: Vec<Option<&'p str>>,
}

/// Returns true if the keys of these paths are as this module says: no path names an element of an
/// array by its place, and none leads through the end of another.
pub(super) fn are_followed(paths: &[&str]) -> bool {
    let has_place = |path: &&str| path.split('.').any(|component| component.parse::<usize>().is_ok());
    let is_through = |path: &&str, other: &&str| {
        path.strip_prefix(*other).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let stands_alone = |(place, path): (usize, &&str)| {
        paths.iter().enumerate().all(|(at, other)| at == place || !is_through(path, other))
    };
    !paths.iter().any(has_place) && paths.iter().enumerate().all(stands_alone)
}

/// The keys of a document, a part for each path.
pub(super) fn keys_of(document: &Document, paths: &[&str]) -> Vec<Key> {
    let mut keys = vec![vec![Part::Missing; paths.len()]];
    for group in groups(paths) {
        let mut found = keys_of_field(document.get(group.field), &group.rests);
        // The server refuses a document with two arrays beside each other: its keys, of which there
        // could be millions, are never compared.
        found.truncate(if keys.len() > 1 { 1 } else { found.len() });
        let with = |key: &Key, parts: Key| {
            let mut key = key.clone();
            group.places.iter().zip(parts).for_each(|(place, part)| key[*place] = part);
            key
        };
        keys = keys.iter().flat_map(|key| found.iter().cloned().map(move |parts| with(key, parts))).collect();
    }
    keys
}

/// Conditions, all of which a document fulfils that has one of the keys of this one: a condition
/// for the paths that begin with the same field. `None`: an index that ignores missing values does
/// not hold the document.
pub(super) fn conditions(document: &Document, paths: &[&str], missing: Missing) -> Option<Vec<Document>> {
    let of_group = |group: Group<'_>| {
        let keys = keys_of_field(document.get(group.field), &group.rests);
        let counts = |key: &&Key| missing == Missing::Null || !key.contains(&Part::Missing);
        let any = keys.iter().filter(counts).map(|key| condition_at(group.field, &group.rests, key, missing));
        one_of(any.collect())
    };
    groups(paths).into_iter().map(of_group).collect()
}

fn groups<'p>(paths: &[&'p str]) -> Vec<Group<'p>> {
    let mut groups: Vec<Group<'p>> = Vec::new();
    for (place, path) in paths.iter().enumerate() {
        let (field, rest) = path.split_once('.').map_or((*path, None), |(field, rest)| (field, Some(rest)));
        match groups.iter_mut().find(|group| group.field == field) {
            Some(group) => {
                group.places.push(place);
                group.rests.push(rest);
            }
            None => groups.push(Group { field, places: vec![place], rests: vec![rest] }),
        }
    }
    groups
}

/// The keys of a field's value, a part for what is behind the field.
fn keys_of_field(value: Option<&Bson>, rests: &[Option<&str>]) -> Vec<Key> {
    let missing = || vec![vec![Part::Missing; rests.len()]];
    let behind: Option<Vec<&str>> = rests.iter().copied().collect();
    let (Some(value), Some(behind)) = (value, behind) else {
        return value.map_or_else(missing, |value| parts_at_end(value).into_iter().map(|part| vec![part]).collect());
    };
    let of_item = |item: &Bson| item.as_document().map_or_else(missing, |inner| keys_of(inner, &behind));
    let mut keys = match value {
        Bson::Array(items) if items.is_empty() => missing(),
        Bson::Array(items) => items.iter().flat_map(of_item).collect(),
        value => of_item(value),
    };
    remove_repeated(&mut keys);
    keys
}

fn parts_at_end(value: &Bson) -> Vec<Part> {
    let Bson::Array(items) = value else { return vec![Part::Value(value.clone())] };
    if items.is_empty() {
        return vec![Part::Empty];
    }
    let part = |item: &Bson| {
        if matches!(item, Bson::Array(_)) { Part::Inner(item.clone()) } else { Part::Value(item.clone()) }
    };
    let mut parts: Vec<Part> = items.iter().map(part).collect();
    remove_repeated(&mut parts);
    parts
}

fn remove_repeated<T: PartialEq>(all: &mut Vec<T>) {
    let mut place = 0;
    while place < all.len() {
        let is_repeated = all[..place].contains(&all[place]);
        if is_repeated {
            all.remove(place);
        } else {
            place += 1;
        }
    }
}

/// The condition for documents whose `field` has this key.
fn condition_at(field: &str, rests: &[Option<&str>], key: &[Part], missing: Missing) -> Document {
    let is_null =
        missing == Missing::Null && key.iter().all(|part| matches!(part, Part::Missing | Part::Value(Bson::Null)));
    match (rests, key) {
        ([None], [part]) => equal(field, part, missing),
        ([Some(rest)], [part]) => {
            let path = format!("{field}.{rest}");
            let mut any = vec![equal(&path, part, missing)];
            if is_null {
                let ends = path.match_indices('.').filter(|(end, _)| *end >= field.len());
                any.extend(ends.flat_map(|(end, _)| without_document(&path[..end])));
            }
            one_of(any).unwrap_or_default()
        }
        _ => {
            let behind: Vec<&str> = rests.iter().copied().flatten().collect();
            let of_element = doc! {field: {"$elemMatch": condition("", &behind, key, missing)}};
            let of_document = doc! {"$and": [
                {field: {"$not": {"$type": "array"}}}, condition(&format!("{field}."), &behind, key, missing),
            ]};
            let nulls = if is_null { without_document(field) } else { Vec::new() };
            one_of([of_element, of_document].into_iter().chain(nulls).collect()).unwrap_or_default()
        }
    }
}

/// The condition for documents that have this key, with `prefix` before each path.
fn condition(prefix: &str, paths: &[&str], key: &[Part], missing: Missing) -> Document {
    let of_group = |group: Group<'_>| {
        let parts: Vec<Part> = group.places.iter().map(|place| key[*place].clone()).collect();
        condition_at(&format!("{prefix}{}", group.field), &group.rests, &parts, missing)
    };
    doc! {"$and": groups(paths).into_iter().map(of_group).collect::<Vec<_>>()}
}

fn equal(path: &str, part: &Part, missing: Missing) -> Document {
    match (part, missing) {
        (Part::Missing, _) => doc! {path: Bson::Null},
        // Just `null` would match missing values, too.
        (Part::Value(Bson::Null), Missing::Ignored) => doc! {path: {"$type": "null"}},
        (Part::Value(value), _) => doc! {path: {"$eq": value.clone()}},
        (Part::Inner(array), _) => doc! {path: {"$elemMatch": {"$eq": array.clone()}}},
        (Part::Empty, _) => doc! {path: {"$size": 0}},
    }
}

/// Conditions for arrays that are empty, or that have an element which is no document.
fn without_document(path: &str) -> Vec<Document> {
    vec![
        doc! {path: {"$size": 0}},
        doc! {path: {"$elemMatch": {"$not": {"$type": "object"}}}},
        // `$type` looks into an array for its elements' types.
        doc! {path: {"$elemMatch": {"$type": "array"}}},
    ]
}

/// `None`: there is no condition.
fn one_of(mut any: Vec<Document>) -> Option<Document> {
    match any.len() {
        0 => None,
        1 => any.pop(),
        _ => Some(doc! {"$or": any}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_two_arrays_are_not_multiplied() {
        let many: Vec<i32> = (0..1_000).collect();
        let document = doc! {"x": {"a": many.clone(), "b": many}};
        assert_eq!(keys_of(&document, &["x.a", "x.b"]).len(), 1_000);
    }
}
