//! Reserved names in the stages of a pipeline: as fields that they read, and as fields that they
//! make, which would be taken for MongoTx's own at the top level of the answer.

use bson::{Bson, Document};

use crate::{
    error::Error,
    expression::{check_expression, path},
    filter::check_filter,
    projection::check_projection,
};

const AT: &str = " in a pipeline";

/// Refuses a stage that names a reserved field. Sub-pipelines are checked where they are mapped.
///
/// # Errors
/// [`Error::Reserved`]; those of filters.
pub(super) fn check_stage(name: &str, spec: &Bson) -> Result<(), Error> {
    match (name, spec) {
        ("$match", Bson::Document(filter)) => check_filter(filter),
        ("$project", Bson::Document(fields)) => check_projection(fields),
        ("$replaceRoot", Bson::Document(parts)) => {
            parts.get("newRoot").map_or(Ok(()), |root| check_stage("$replaceWith", root))
        }
        ("$addFields" | "$set" | "$group" | "$replaceWith", Bson::Document(fields)) => {
            check_names(fields)?;
            check_expression(spec)
        }
        ("$sort" | "$facet", Bson::Document(fields)) => check_names(fields),
        ("$unset", Bson::Array(fields)) => fields.iter().filter_map(Bson::as_str).try_for_each(check_path),
        ("$unset" | "$count", Bson::String(field)) => check_path(field),
        ("$unwind", Bson::Document(unwind)) => {
            check_path_at(unwind, "includeArrayIndex")?;
            check_expression(spec)
        }
        ("$bucket" | "$bucketAuto" | "$setWindowFields" | "$fill", Bson::Document(parts)) => {
            for part in ["output", "sortBy"] {
                parts.get_document(part).map_or(Ok(()), check_names)?;
            }
            check_expression(spec)
        }
        ("$densify", Bson::Document(densify)) => check_path_at(densify, "field"),
        ("$geoNear", Bson::Document(near)) => {
            ["distanceField", "includeLocs", "key"].iter().try_for_each(|key| check_path_at(near, key))
        }
        ("$lookup" | "$graphLookup", Bson::Document(lookup)) => check_lookup(lookup),
        ("$unionWith" | "$documents" | "$out" | "$merge", _) => Ok(()),
        _ => check_expression(spec),
    }
}

fn check_lookup(lookup: &Document) -> Result<(), Error> {
    for key in ["as", "localField", "foreignField", "connectFromField", "connectToField"] {
        check_path_at(lookup, key)?;
    }
    ["let", "startWith"].iter().filter_map(|key| lookup.get(key)).try_for_each(check_expression)
}

fn check_names(fields: &Document) -> Result<(), Error> {
    fields.keys().try_for_each(|name| check_path(name))
}

fn check_path_at(parts: &Document, key: &str) -> Result<(), Error> {
    parts.get_str(key).map_or(Ok(()), check_path)
}

fn check_path(path: &str) -> Result<(), Error> {
    path::refuse_reserved(path, AT)
}
