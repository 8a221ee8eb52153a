//! A projection of `find` as aggregation stages with the same result on a plain document.
//!
//! Since MongoDB 4.4 `$project` means what `find`'s projection means, but for the forms that only
//! `find` has. `$slice` of a top-level field becomes a stage of its own; the others need the filter
//! or the text score and are refused.

use bson::{Bson, Document, doc};

use super::{
    Shape, check_projection, shape,
    slice::{Slice, find_slice},
};
use crate::{
    error::Error,
    expression::{is_operator, path},
};

const CONTEXT: &str = "in a projection here";

/// The stages; none for an empty projection.
///
/// # Errors
/// Those of [`check_projection`]; [`Error::Unsupported`] for a positional `a.$`, `$elemMatch`,
/// `$meta`, and `$slice` of a field that is not at the top level.
pub fn as_stages(projection: &Document) -> Result<Vec<Document>, Error> {
    check_projection(projection)?;
    if let Some(construct) = find_only(projection) {
        return Err(path::unsupported(&construct, CONTEXT, "it has no aggregation form with the same result"));
    }
    let sliced = slices(projection);
    let mut stages = Vec::new();
    let kept = without_slices(projection, &sliced);
    if !kept.is_empty() {
        stages.push(doc! { "$project": kept });
    }
    if !sliced.is_empty() {
        let set: Document =
            sliced.iter().map(|(field, slice)| ((*field).to_owned(), slice.expression(field))).collect();
        stages.push(doc! { "$set": set });
    }
    Ok(stages)
}

/// Returns true if the projection holds a form that [`as_stages`] refuses.
pub fn is_find_only(projection: &Document) -> bool {
    find_only(projection).is_some()
}

fn find_only(projection: &Document) -> Option<String> {
    projection.iter().find_map(|(key, value)| match value {
        _ if key == "$" || key.ends_with(".$") => Some(key.clone()),
        Bson::Document(fields) if !key.contains('.') && find_slice(fields).is_some() => None,
        value => find_only_value(value, 0),
    })
}

/// The operator that only `find` has, at the place of an entry's value.
fn find_only_value(value: &Bson, depth: usize) -> Option<String> {
    let Bson::Document(fields) = value else { return None };
    let Ok(depth) = path::deeper(depth) else { return Some("deep nesting".to_owned()) };
    match fields.keys().next().map(String::as_str) {
        Some(key @ ("$elemMatch" | "$meta")) => Some(key.to_owned()),
        Some("$slice") if find_slice(fields).is_some() => Some("$slice".to_owned()),
        Some(key) if is_operator(key) => None,
        _ => fields.iter().find_map(|(key, value)| match key.ends_with('$') {
            true => Some(key.clone()),
            false => find_only_value(value, depth),
        }),
    }
}

fn slices(projection: &Document) -> Vec<(&str, Slice)> {
    let slice = |value: &Bson| value.as_document().and_then(find_slice);
    projection.iter().filter_map(|(key, value)| Some((key.as_str(), slice(value)?))).collect()
}

/// The rest of the projection: a sliced field is included where others are, and left alone where
/// others are excluded.
fn without_slices(projection: &Document, sliced: &[(&str, Slice)]) -> Document {
    let inclusive = shape(projection) == Shape::Inclusive;
    let kept = projection.iter().filter_map(|(key, value)| {
        let is_sliced = sliced.iter().any(|(field, _)| field == key);
        match (is_sliced, inclusive) {
            (false, _) => Some((key.clone(), value.clone())),
            (true, true) => Some((key.clone(), Bson::Int32(1))),
            (true, false) => None,
        }
    });
    kept.collect()
}
