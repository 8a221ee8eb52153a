//! Filters, orders and projections of an application, for stored versions: `_id` is `_id.key`
//! there.

use bson::{Bson, Document, doc};

use super::format::{DONE, GONE, LOCK, SINCE};

/// A filter, for versions.
///
/// # Errors
/// The operator that reads documents by names of its own, in words.
pub(super) fn filter(filter: &Document) -> Result<Document, String> {
    let mut renamed = Document::new();
    for (field, value) in filter {
        match (field.as_str(), value) {
            ("$and" | "$or" | "$nor", Bson::Array(parts)) => {
                let parts = parts.iter().filter_map(Bson::as_document).map(self::filter);
                let parts = parts.collect::<Result<Vec<Document>, String>>()?;
                renamed.insert(field, parts);
            }
            (operator, _) if operator.starts_with('$') => return Err(format!("search by {operator}")),
            _ => drop(renamed.insert(name(field), value.clone())),
        }
    }
    Ok(renamed)
}

/// The fields of an order or an index, for versions.
pub(super) fn fields(fields: &Document) -> Document {
    fields.iter().map(|(field, direction)| (name(field), direction.clone())).collect()
}

fn name(field: &str) -> String {
    match field.strip_prefix("_id") {
        Some("") => "_id.key".to_owned(),
        Some(path) if path.starts_with('.') => format!("_id.key{path}"),
        _ => field.to_owned(),
    }
}

/// A projection, for versions: their whole `_id` and what is said of locks besides.
///
/// # Errors
/// A part of `_id`, in words.
pub(super) fn projection(projection: &Document) -> Result<Document, String> {
    if projection.keys().any(|field| field.starts_with("_id.")) {
        return Err("project a part of _id".to_owned());
    }
    if is_id_alone(projection) {
        return Ok(doc! {LOCK: 1, GONE: 1});
    }
    let mut projection: Document = projection.clone();
    projection.remove("_id");
    let excluded =
        |value: &Bson| is_false(value) || value.as_document().is_some_and(|value| value.contains_key("$slice"));
    if projection.values().any(|value| !excluded(value)) {
        projection.extend(doc! {LOCK: 1, GONE: 1});
    } else if projection.values().any(is_false) {
        projection.extend(doc! {SINCE: 0, DONE: 0});
    }
    Ok(projection)
}

/// Returns true if the projection leaves `_id` out.
pub(super) fn hides_id(projection: &Document) -> bool {
    projection.get("_id").is_some_and(is_false)
}

/// Returns true if a projection names nothing but `_id`, to have it alone.
pub(super) fn is_id_alone(projection: &Document) -> bool {
    projection.len() == 1 && projection.get("_id").is_some_and(|id| !is_false(id))
}

fn is_false(value: &Bson) -> bool {
    matches!(value, Bson::Boolean(false) | Bson::Int32(0) | Bson::Int64(0)) || value.as_f64() == Some(0.0)
}

/// Result of analysing a filter that is about `_id` alone: then all versions of a document match,
/// or none.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ById {
    /// The documents with these keys.
    Keys(Vec<Bson>),
    /// The documents whose key fulfils a condition, or all.
    Condition,
}

/// Analyses a filter; `None` if it is not about `_id` alone.
pub(super) fn by_id(filter: &Document) -> Option<ById> {
    if !filter.keys().all(|field| field == "_id" || field.starts_with("_id.")) {
        return None;
    }
    let Some((1, value)) = filter.get("_id").map(|value| (filter.len(), value)) else { return Some(ById::Condition) };
    let operators = value.as_document().filter(|value| value.keys().any(|key| key.starts_with('$')));
    match operators {
        None if matches!(value, Bson::RegularExpression(_)) => Some(ById::Condition),
        None => Some(ById::Keys(vec![value.clone()])),
        Some(operators) => match (operators.len(), operators.get("$eq"), operators.get("$in")) {
            (1, Some(key), _) => Some(ById::Keys(vec![key.clone()])),
            (1, _, Some(Bson::Array(keys))) => Some(ById::Keys(keys.clone())),
            _ => Some(ById::Condition),
        },
    }
}

/// An order that is by `_id` alone: 1 or -1. No order at all is taken for 1.
pub(super) fn id_order(sort: &Document) -> Option<i32> {
    match sort.iter().next() {
        None => Some(1),
        Some((field, direction)) if sort.len() == 1 && field == "_id" => {
            Some(if direction.as_i32() == Some(-1) || direction.as_i64() == Some(-1) { -1 } else { 1 })
        }
        _ => None,
    }
}

/// A projection of a document in memory: fields that are wanted, or those that are not, with paths
/// through documents and arrays of them.
///
/// # Errors
/// The field whose value is no flag, in words.
pub(super) fn project(document: &Document, projection: &Document) -> Result<Document, String> {
    let flag = |value: &Bson| matches!(value, Bson::Boolean(_) | Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_));
    if let Some((field, value)) = projection.iter().find(|(_, value)| !flag(value)) {
        return Err(format!("project {field} by {value} in a change"));
    }
    let hidden = hides_id(projection);
    let others: Vec<Vec<&str>> =
        projection.keys().filter(|field| *field != "_id").map(|field| field.split('.').collect()).collect();
    let include = is_id_alone(projection) || projection.iter().any(|(field, value)| field != "_id" && !is_false(value));
    let paths: Vec<&[&str]> = others.iter().map(Vec::as_slice).collect();
    let mut projected = pick(document, &paths, include);
    match document.get("_id") {
        Some(id) if !hidden => {
            let mut with_id = doc! {"_id": id.clone()};
            projected.remove("_id");
            with_id.extend(projected);
            Ok(with_id)
        }
        _ => {
            projected.remove("_id");
            Ok(projected)
        }
    }
}

fn pick(document: &Document, paths: &[&[&str]], include: bool) -> Document {
    let mut picked = Document::new();
    for (field, value) in document {
        let below: Vec<&[&str]> =
            paths.iter().filter(|path| path.first() == Some(&field.as_str())).map(|path| &path[1..]).collect();
        let whole = below.iter().any(|path| path.is_empty());
        match (below.is_empty(), whole) {
            (true, _) if include => {}
            (true, _) => drop(picked.insert(field, value.clone())),
            (_, true) if include => drop(picked.insert(field, value.clone())),
            (_, true) => {}
            _ => {
                if let Some(value) = pick_in(value, &below, include) {
                    picked.insert(field, value);
                }
            }
        }
    }
    picked
}

fn pick_in(value: &Bson, paths: &[&[&str]], include: bool) -> Option<Bson> {
    match value {
        Bson::Document(inner) => Some(Bson::Document(pick(inner, paths, include))),
        Bson::Array(values) => {
            Some(Bson::Array(values.iter().filter_map(|value| pick_in(value, paths, include)).collect()))
        }
        other => (!include).then(|| other.clone()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_an_application_is_the_key_of_a_version() {
        let before = doc! {"_id": 1, "_id.w": 2, "_idle": 3, "$or": [{"_id": 4}, {"a": {"$gt": 1}}]};
        let after = doc! {"_id.key": 1, "_id.key.w": 2, "_idle": 3, "$or": [{"_id.key": 4}, {"a": {"$gt": 1}}]};
        assert_eq!(filter(&before).unwrap(), after);
        assert_eq!(fields(&doc! {"a": 1, "_id": -1}), doc! {"a": 1, "_id.key": -1});
        for operator in ["$expr", "$where", "$text"] {
            assert!(filter(&doc! {"$and": [{operator: 1}]}).unwrap_err().contains(operator));
        }
    }

    #[test]
    fn a_projection_keeps_what_is_said_of_locks() {
        assert_eq!(projection(&doc! {}).unwrap(), doc! {});
        assert_eq!(projection(&doc! {"a": 1, "_id": 0}).unwrap(), doc! {"a": 1, "_lock": 1, "_gone": 1});
        assert_eq!(projection(&doc! {"_id": 1}).unwrap(), doc! {"_lock": 1, "_gone": 1});
        assert_eq!(projection(&doc! {"a": 0}).unwrap(), doc! {"a": 0, "_since": 0, "_done": 0});
        assert_eq!(projection(&doc! {"a": {"$slice": 1}}).unwrap(), doc! {"a": {"$slice": 1}});
        assert!(projection(&doc! {"_id.w": 1}).is_err());
    }

    #[test]
    fn a_filter_about_the_id_alone_is_known() {
        assert_eq!(by_id(&doc! {"_id": 5}), Some(ById::Keys(vec![5.into()])));
        assert_eq!(by_id(&doc! {"_id": {"w": 5}}), Some(ById::Keys(vec![doc! {"w": 5}.into()])));
        assert_eq!(by_id(&doc! {"_id": {"$in": [5, 6]}}), Some(ById::Keys(vec![5.into(), 6.into()])));
        assert_eq!(by_id(&doc! {"_id": {"$gte": 5}}), Some(ById::Condition));
        assert_eq!(by_id(&doc! {"_id.w": 5}), Some(ById::Condition));
        assert_eq!(by_id(&doc! {}), Some(ById::Condition));
        assert_eq!(by_id(&doc! {"_id": 5, "n": 1}), None);
        assert_eq!(by_id(&doc! {"$or": [{"_id": 5}]}), None);
    }

    #[test]
    fn a_document_in_memory_is_projected_as_by_the_server() {
        let document = doc! {"_id": 1, "a": 1, "b": {"c": 1, "d": 2}, "l": [{"x": 1, "y": 2}, 5]};
        let projected = |projection: Document| project(&document, &projection).unwrap();
        assert_eq!(projected(doc! {}), document);
        assert_eq!(projected(doc! {"_id": 1}), doc! {"_id": 1});
        assert_eq!(projected(doc! {"a": 1, "b.d": 1}), doc! {"_id": 1, "a": 1, "b": {"d": 2}});
        assert_eq!(projected(doc! {"_id": 0, "l.x": 1}), doc! {"l": [{"x": 1}]});
        assert_eq!(projected(doc! {"a": 0, "b.c": 0, "l": 0}), doc! {"_id": 1, "b": {"d": 2}});
        assert_eq!(projected(doc! {"_id": 0}), doc! {"a": 1, "b": {"c": 1, "d": 2}, "l": [{"x": 1, "y": 2}, 5]});
        assert!(project(&document, &doc! {"a": {"$slice": 1}}).is_err());
    }
}
