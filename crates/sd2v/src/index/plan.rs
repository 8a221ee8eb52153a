//! The server's answer to an `explain`, in the application's terms: with the names and keys of the
//! application's indexes, and without the plans that MongoTx's own indexes would have made
//! possible.

use bson::{Bson, Document};

use super::form::{OWN, UNIQUE};
use crate::names::SLOT;

/// Fields that repeat the application's words: there is nothing to translate in them.
const AS_WRITTEN: [&str; 3] = ["command", "parsedQuery", "filter"];
/// Lists of plans, which the server considered or tried.
const PLANS: [&str; 2] = ["rejectedPlans", "allPlansExecution"];
/// Fields of a stage that list the fields of the index's key.
const OF_KEYS: [&str; 6] = ["keyPattern", "indexKeyPattern", "multiKeyPaths", "indexBounds", "startKey", "endKey"];

/// Puts the names and keys of the application's indexes in the place of the stored ones, everywhere
/// in the answer to an `explain`, and drops plans that use an index of MongoTx's own.
pub fn show_plan(plan: &mut Document) {
    let is_unique = plan.get_str("indexName").is_ok_and(|name| name.starts_with(UNIQUE));
    for (field, value) in plan.iter_mut() {
        match (field.as_str(), value) {
            (field, _) if AS_WRITTEN.contains(&field) => {}
            (field, Bson::Document(key)) if is_unique && OF_KEYS.contains(&field) => drop_slot(key),
            ("indexName" | "stages", Bson::String(text)) => *text = text.replace(UNIQUE, ""),
            ("indexesUsed", Bson::Array(names)) => names.iter_mut().for_each(show_name),
            ("$merge", Bson::Document(stage)) => drop_slot_of_merge(stage),
            (field, Bson::Array(plans)) if PLANS.contains(&field) => {
                plans.retain(|plan| !uses_own_index(plan));
                plans.iter_mut().for_each(show_value);
            }
            (_, value) => show_value(value),
        }
    }
}

fn show_value(value: &mut Bson) {
    match value {
        Bson::Document(nested) => show_plan(nested),
        Bson::Array(values) => values.iter_mut().for_each(show_value),
        _ => {}
    }
}

fn show_name(name: &mut Bson) {
    if let Bson::String(name) = name {
        *name = name.replace(UNIQUE, "");
    }
}

/// Removes `_slot` from a key, and from the keys that are the bounds of a count.
fn drop_slot(key: &mut Document) {
    key.remove(SLOT);
    for field in ["startKey", "endKey"] {
        if let Ok(bound) = key.get_document_mut(field) {
            bound.remove(SLOT);
        }
    }
}

/// Removes `_slot` from the fields `on` by which documents are merged.
fn drop_slot_of_merge(stage: &mut Document) {
    if let Ok(fields) = stage.get_array_mut("on") {
        fields.retain(|field| field.as_str() != Some(SLOT));
    }
}

/// Returns true if a plan uses an index that the application has not made.
fn uses_own_index(plan: &Bson) -> bool {
    match plan {
        Bson::Document(stage) => {
            let is_own = |name: &str| name.starts_with(OWN) && !name.starts_with(UNIQUE);
            stage.get_str("indexName").is_ok_and(is_own) || stage.values().any(uses_own_index)
        }
        Bson::Array(stages) => stages.iter().any(uses_own_index),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn scan(name: &str, key: Document) -> Document {
        let bounds: Document = key.keys().map(|field| (field.clone(), Bson::from(vec!["[1, 1]"]))).collect();
        doc! {"stage": "IXSCAN", "indexName": name, "keyPattern": key, "indexBounds": bounds}
    }

    #[test]
    fn indexes_are_shown_as_the_application_made_them() {
        let stored = scan("_mongotx_unique.b_1", doc! {"b": 1, "_slot": 1});
        let count = doc! {
            "stage": "COUNT_SCAN", "indexName": "_mongotx_unique.b_1", "indexBounds": {"startKey": {"b": 1, "_slot": 0}},
        };
        let mut plan = doc! {
            "command": {"hint": "_mongotx_unique.b_1"},
            "winningPlan": {"stage": "FETCH", "filter": {"indexName": "_mongotx_unique.b_1"}, "inputStage": stored},
            "stages": [
                {"$lookup": {}, "indexesUsed": ["_mongotx_unique.b_1", "a_1"]}, {"$merge": {"into": "c", "on": ["b", "_slot"]}},
            ],
            "slotBasedPlan": {"stages": "ixseek @\"_mongotx_unique.b_1\""},
            "count": count,
        };
        let wanted = doc! {
            "command": {"hint": "_mongotx_unique.b_1"},
            "winningPlan": {
                "stage": "FETCH", "filter": {"indexName": "_mongotx_unique.b_1"}, "inputStage": scan("b_1", doc! {"b": 1}),
            },
            "stages": [{"$lookup": {}, "indexesUsed": ["b_1", "a_1"]}, {"$merge": {"into": "c", "on": ["b"]}}],
            "slotBasedPlan": {"stages": "ixseek @\"b_1\""},
            "count": {"stage": "COUNT_SCAN", "indexName": "b_1", "indexBounds": {"startKey": {"b": 1}}},
        };
        show_plan(&mut plan);
        assert_eq!(plan, wanted);
    }

    #[test]
    fn plans_by_indexes_of_mongotx_are_not_shown() {
        let own = scan("_mongotx_pending", doc! {"_xTxId": 1});
        let unique = doc! {"stage": "FETCH", "inputStage": scan("_mongotx_unique.b_1", doc! {"b": 1, "_slot": 1})};
        let mut plan = doc! {"rejectedPlans": [{"stage": "FETCH", "inputStages": [own]}, unique]};
        show_plan(&mut plan);
        let left = doc! {"stage": "FETCH", "inputStage": scan("b_1", doc! {"b": 1})};
        assert_eq!(plan, doc! {"rejectedPlans": [left]});
    }
}
