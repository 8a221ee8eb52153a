//! Pipelines in which the reserved fields of stored documents could come to light: in its output,
//! or in an expression that reads the document as a whole.

use bson::{Bson, Document};

use super::{parts, sub_pipeline};
use crate::{
    expression::{path, sees_whole_document},
    filter::sees_lock_fields,
    projection::{Shape, stage_shape},
};

/// Effect of a stage on the reserved fields of the documents that it gets.
enum Passage {
    /// The stage reads no reserved field and leaves all of them in its documents.
    Through,
    /// The stage's documents have no reserved fields any more.
    Ends,
    /// The stage may show reserved fields.
    Shows,
}

/// Returns true if reserved fields could surface in these stages, or behind them. Fields at the end
/// of an answer do not count: the client takes them away.
pub(super) fn surfaces(stages: &[Document], is_answer: bool) -> bool {
    surfaces_at(stages, is_answer, 0)
}

fn surfaces_at(stages: &[Document], is_answer: bool, depth: usize) -> bool {
    let Ok(depth) = path::deeper(depth) else { return true };
    for stage in stages {
        match parts(stage).map(|(name, spec)| passage(name, spec, depth)) {
            Ok(Passage::Through) => {}
            Ok(Passage::Ends) => return false,
            Ok(Passage::Shows) | Err(_) => return true,
        }
    }
    !is_answer
}

fn passage(name: &str, spec: &Bson, depth: usize) -> Passage {
    let unless_whole = |passage| if sees_whole_document(spec) { Passage::Shows } else { passage };
    match (name, spec) {
        ("$match", Bson::Document(filter)) => {
            if sees_lock_fields(filter) {
                Passage::Shows
            } else {
                Passage::Through
            }
        }
        ("$sort" | "$skip" | "$limit" | "$sample" | "$unwind" | "$unset" | "$unionWith" | "$densify", _) => {
            Passage::Through
        }
        ("$project", Bson::Document(fields)) if stage_shape(fields) == Shape::Inclusive => unless_whole(Passage::Ends),
        ("$group" | "$bucket" | "$bucketAuto" | "$count" | "$sortByCount" | "$replaceRoot" | "$replaceWith", _) => {
            unless_whole(Passage::Ends)
        }
        ("$project" | "$addFields" | "$set" | "$setWindowFields" | "$fill", _) => unless_whole(Passage::Through),
        ("$lookup", Bson::Document(lookup)) => {
            if lookup.get("let").is_some_and(sees_whole_document) {
                Passage::Shows
            } else {
                Passage::Through
            }
        }
        ("$graphLookup", Bson::Document(lookup)) => {
            if lookup.get("startWith").is_some_and(sees_whole_document) {
                Passage::Shows
            } else {
                Passage::Through
            }
        }
        ("$facet", Bson::Document(facets)) => {
            let shows = |facet: &Bson| sub_pipeline(facet).is_none_or(|stages| surfaces_at(&stages, false, depth));
            if facets.values().any(shows) { Passage::Shows } else { Passage::Ends }
        }
        _ => Passage::Shows,
    }
}
