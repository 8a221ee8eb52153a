//! `{$meta: "textScore"}` in sorts and projections, where the score has become a field.

use bson::{Bson, Document, doc};

use crate::{
    error::Error,
    expression::path,
    names::UNSAFE,
    projection::{Shape, as_stages, check_projection, shape, shows_lock_fields},
};

/// The sort, by the field instead: best first.
pub fn sort_by_score(sort: &Document) -> Document {
    let keys = sort.iter().map(|(field, direction)| match is_score(direction) {
        true => (UNSAFE.to_owned(), Bson::Int32(-1)),
        false => (field.clone(), direction.clone()),
    });
    doc! { "$sort": keys.collect::<Document>() }
}

/// A stage that removes the field with the score.
pub fn hide_score() -> Document {
    doc! { "$unset": UNSAFE }
}

/// Stages of the projection, as [`as_stages`] makes them, with scores from the field.
///
/// # Errors
/// As [`as_stages`]; [`Error::Unsupported`] for a projection that reads the document as a whole,
/// and for a score within an expression.
pub fn project_score(projection: &Document) -> Result<Vec<Document>, Error> {
    check_projection(projection)?;
    if shows_lock_fields(projection) {
        return Err(path::unsupported(
            "$$ROOT",
            "in a projection of a text search",
            "the score stands in the document",
        ));
    }
    let mut scores = Document::new();
    let mut kept = Document::new();
    for (field, value) in projection {
        match with_score(value, 0)? {
            Some(value) => scores.insert(field, value),
            None => kept.insert(field, value.clone()),
        };
    }
    if scores.is_empty() {
        return as_stages(&kept);
    }
    if shape(projection) == Shape::Inclusive {
        // Computed fields beside listed ones.
        return inclusive(projection, &kept, scores);
    }
    let mut stages = as_stages(&kept)?;
    stages.push(doc! { "$set": scores });
    Ok(stages)
}

fn inclusive(projection: &Document, kept: &Document, scores: Document) -> Result<Vec<Document>, Error> {
    let mut stages = as_stages(kept)?;
    match stages.first_mut().and_then(|stage| stage.get_document_mut("$project").ok()) {
        Some(project) => project.extend(scores),
        None => {
            let only_id = projection.get("_id").cloned().unwrap_or(Bson::Int32(1));
            let mut project = doc! { "_id": only_id };
            project.extend(scores);
            stages.insert(0, doc! { "$project": project });
        }
    }
    Ok(stages)
}

fn is_score(value: &Bson) -> bool {
    value.as_document().is_some_and(|meta| *meta == doc! { "$meta": "textScore" })
}

/// The value with the score in its place, if it is one or a document of such.
fn with_score(value: &Bson, depth: usize) -> Result<Option<Bson>, Error> {
    let depth = path::deeper(depth)?;
    if is_score(value) {
        return Ok(Some(format!("${UNSAFE}").into()));
    }
    if !mentions_score(value, depth) {
        return Ok(None);
    }
    let Bson::Document(fields) = value else { return Err(refused()) };
    if fields.keys().any(|key| key.starts_with('$')) {
        return Err(refused());
    }
    let nested = fields
        .iter()
        .map(|(key, value)| with_score(value, depth)?.map(|value| (key.clone(), value)).ok_or_else(refused));
    Ok(Some(nested.collect::<Result<Document, Error>>()?.into()))
}

fn mentions_score(value: &Bson, depth: usize) -> bool {
    let Ok(depth) = path::deeper(depth) else { return true };
    match value {
        Bson::Array(items) => items.iter().any(|item| mentions_score(item, depth)),
        Bson::Document(_) if is_score(value) => true,
        Bson::Document(fields) => fields.values().any(|value| mentions_score(value, depth)),
        _ => false,
    }
}

fn refused() -> Error {
    let context = "within an expression in a transaction that has written to the collection";
    path::unsupported("$meta", context, "it is a field of its own there")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_come_from_the_field() {
        let meta = doc! { "$meta": "textScore" };
        assert_eq!(sort_by_score(&doc! { "x": meta.clone(), "a": 1 }), doc! { "$sort": { UNSAFE: -1, "a": 1 } });
        for (projection, stages) in [
            (doc! { "a": 1 }, vec![doc! { "$project": { "a": 1 } }]),
            (doc! { "s": meta.clone() }, vec![doc! { "$set": { "s": "$_unsafe" } }]),
            (
                doc! { "a": 0, "s": meta.clone() },
                vec![doc! { "$project": { "a": 0 } }, doc! { "$set": { "s": "$_unsafe" } }],
            ),
            (doc! { "s": meta.clone(), "a": 1 }, vec![doc! { "$project": { "a": 1, "s": "$_unsafe" } }]),
            (doc! { "x": { "s": meta.clone() } }, vec![doc! { "$set": { "x": { "s": "$_unsafe" } } }]),
        ] {
            assert_eq!(project_score(&projection), Ok(stages), "{projection}");
        }
        for refused in [doc! { "s": { "$add": [1, meta] } }, doc! { "s": "$$ROOT" }, doc! { "a.$": 1 }] {
            assert!(matches!(project_score(&refused), Err(Error::Unsupported { .. })), "{refused}");
        }
    }
}
