//! The privileges that a pipeline needs: its stages may read and write other collections, of other
//! databases too. Pure.

use bson::{Bson, Document};

use super::{
    demands::{Demands, is_system},
    role::Need,
};

/// Stages that read nothing but the documents that come to them.
const HARMLESS: [&str; 24] = [
    "$match",
    "$project",
    "$addFields",
    "$set",
    "$unset",
    "$group",
    "$sort",
    "$limit",
    "$skip",
    "$count",
    "$unwind",
    "$bucket",
    "$bucketAuto",
    "$sortByCount",
    "$replaceRoot",
    "$replaceWith",
    "$sample",
    "$geoNear",
    "$redact",
    "$densify",
    "$fill",
    "$setWindowFields",
    "$documents",
    "$collStats",
];

/// Adds what a pipeline needs. A value that is no pipeline needs nothing: it will be refused.
pub(super) fn add(demands: &mut Demands<'_>, pipeline: Option<&Bson>) {
    let Some(Bson::Array(stages)) = pipeline else { return };
    for stage in stages.iter().filter_map(Bson::as_document) {
        for (name, value) in stage {
            add_stage(demands, name, value);
        }
    }
}

/// Returns true if the pipeline reads the operations at the gateway, and not a collection.
pub(super) fn begins_with_operations(pipeline: Option<&Bson>) -> bool {
    let first = pipeline.and_then(Bson::as_array).and_then(|stages| stages.first());
    first.and_then(Bson::as_document).is_some_and(|stage| stage.contains_key("$currentOp"))
}

/// Adds what such a pipeline needs: nothing for the user's own operations, [`Need::Monitor`] for
/// those of others. Anywhere but at the beginning the stage would show the server's operations.
pub(super) fn add_operations(demands: &mut Demands<'_>, pipeline: Option<&Bson>) {
    let Some(Bson::Array(stages)) = pipeline else { return };
    let options = stages.first().and_then(Bson::as_document).and_then(|stage| stage.get_document("$currentOp").ok());
    match options.map(|options| options.get("allUsers")) {
        Some(None | Some(Bson::Boolean(false))) => {}
        Some(Some(Bson::Boolean(true))) => demands.add(Need::Monitor),
        _ => demands.add(Need::Root),
    }
    for stage in stages.iter().skip(1).filter_map(Bson::as_document) {
        stage.iter().for_each(|(name, value)| add_stage(demands, name, value));
    }
}

fn add_stage(demands: &mut Demands<'_>, name: &str, value: &Bson) {
    match (name, value) {
        (name, _) if HARMLESS.contains(&name) => {}
        // Of the whole deployment; otherwise of the collection or database that the command names.
        ("$changeStream", Bson::Document(stage)) if stage.get("allChangesForCluster").is_none_or(is_off) => {}
        ("$lookup" | "$graphLookup", Bson::Document(stage)) => {
            if let Some(from) = stage.get("from") {
                add_source(demands, from);
            }
            add(demands, stage.get("pipeline"));
        }
        ("$unionWith", Bson::Document(stage)) if !stage.contains_key("db") => {
            if let Some(from) = stage.get("coll") {
                add_source(demands, from);
            }
            add(demands, stage.get("pipeline"));
        }
        ("$unionWith", from @ Bson::String(_)) => add_source(demands, from),
        ("$facet", Bson::Document(facets)) => facets.iter().for_each(|(_, pipeline)| add(demands, Some(pipeline))),
        ("$out", target) => add_target(demands, target),
        ("$merge", Bson::Document(stage)) if stage.contains_key("into") => {
            add_target(demands, stage.get("into").unwrap_or(&Bson::Null));
        }
        ("$merge", target @ Bson::String(_)) => add_target(demands, target),
        ("$indexStats" | "$planCacheStats", _) => demands.add(Need::Manage),
        _ => demands.add(Need::Root),
    }
}

fn is_off(flag: &Bson) -> bool {
    matches!(flag, Bson::Boolean(false) | Bson::Null)
}

/// A collection of the same database, by its name.
fn add_source(demands: &mut Demands<'_>, from: &Bson) {
    let is_plain = from.as_str().is_some_and(|name| !is_system(name));
    demands.add(if is_plain { Need::Read } else { Need::Root });
}

/// Adds the collection that the results of a `mapReduce` go to: a name, `{inline: 1}`, or `{HOW:
/// collection, db: …}`.
pub(super) fn add_results(demands: &mut Demands<'_>, out: Option<&Bson>) {
    let Some(Bson::Document(out)) = out else { return out.into_iter().for_each(|name| add_target(demands, name)) };
    for (_, name) in out.iter().filter(|(field, _)| ["replace", "merge", "reduce"].contains(&field.as_str())) {
        let mut target = Document::new();
        target.extend(out.get("db").map(|db| ("db".to_owned(), db.clone())));
        target.insert("coll", name.clone());
        add_target(demands, &Bson::Document(target));
    }
}

/// A collection, perhaps of another database: `{db: …, coll: …}`.
fn add_target(demands: &mut Demands<'_>, target: &Bson) {
    let named = |target: &Document| {
        Some((target.get_str("db").ok().map(str::to_owned), target.get_str("coll").ok()?.to_owned()))
    };
    let target = match target {
        Bson::String(name) => Some((None, name.clone())),
        Bson::Document(target) => named(target),
        _ => None,
    };
    match target {
        Some((None, collection)) if !is_system(&collection) => demands.add(Need::Write),
        Some((Some(database), collection)) if !is_system(&collection) => demands.add_on(Need::Write, database),
        _ => demands.add(Need::Root),
    }
}
