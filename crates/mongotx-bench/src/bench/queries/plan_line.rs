//! A query plan, as the server explains it, in one line: `IXSCAN k_1 > FETCH`.

use bson::{Bson, Document};

/// Stages from the first to the last, with the names of indexes; ` + ` before the pipeline of a
/// `$unionWith`.
pub(crate) fn one_line(explained: &Document) -> String {
    match explained.get_array("stages") {
        Ok(stages) => pipeline(stages),
        Err(_) => planned(explained).unwrap_or_else(|| "?".to_owned()),
    }
}

fn pipeline(stages: &[Bson]) -> String {
    let mut line = String::new();
    for stage in stages.iter().filter_map(Bson::as_document) {
        let Some((name, inner)) = stage.iter().find(|(name, _)| name.starts_with('$')) else { continue };
        let (joint, text) = match (name.as_str(), inner.as_document()) {
            ("$unionWith", Some(union)) => (" + ", pipeline(union.get_array("pipeline").map_or(&[], Vec::as_slice))),
            (name, Some(inner)) => (" > ", planned(inner).unwrap_or_else(|| name.to_owned())),
            (name, None) => (" > ", name.to_owned()),
        };
        line.push_str(if line.is_empty() { "" } else { joint });
        line.push_str(&text);
    }
    line
}

/// The winning plan of a document that has a query planner's answer in it.
fn planned(explained: &Document) -> Option<String> {
    let winning = explained.get_document("queryPlanner").ok()?.get_document("winningPlan").ok()?;
    // Plans of the newer engine stand one level deeper.
    Some(chain(winning.get_document("queryPlan").unwrap_or(winning)))
}

fn chain(stage: &Document) -> String {
    let name = stage.get_str("stage").unwrap_or("?");
    let own = match stage.get_str("indexName") {
        Ok(index) => format!("{name} {index}"),
        Err(_) => name.to_owned(),
    };
    if let Ok(input) = stage.get_document("inputStage") {
        return format!("{} > {own}", chain(input));
    }
    let inputs: Vec<String> =
        stage.get_array("inputStages").into_iter().flatten().filter_map(Bson::as_document).map(chain).collect();
    if inputs.is_empty() { own } else { format!("({}) > {own}", inputs.join("; ")) }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn scan(index: &str) -> Document {
        doc! {"stage": "FETCH", "inputStage": {"stage": "IXSCAN", "indexName": index}}
    }

    #[test]
    fn plans_of_finds_are_shown_from_the_first_stage_on() {
        let explained = |plan: Document| one_line(&doc! {"queryPlanner": {"winningPlan": plan}});
        assert_eq!(explained(doc! {"stage": "IDHACK"}), "IDHACK");
        assert_eq!(explained(scan("k_1")), "IXSCAN k_1 > FETCH");
        assert_eq!(explained(doc! {"queryPlan": scan("k_1")}), "IXSCAN k_1 > FETCH");
        let or = doc! {"stage": "OR", "inputStages": [scan("a_1"), scan("b_1")]};
        assert_eq!(explained(or), "(IXSCAN a_1 > FETCH; IXSCAN b_1 > FETCH) > OR");
    }

    #[test]
    fn pipelines_are_shown_with_their_unions() {
        let cursor = |index| doc! {"$cursor": {"queryPlanner": {"winningPlan": scan(index)}}};
        let union = doc! {"$unionWith": {"coll": "c", "pipeline": [cursor("k_1"), {"$group": {"_id": 1}}]}};
        let explained = doc! {"stages": [cursor("x"), {"$replaceRoot": {"newRoot": {}}}, union]};
        assert_eq!(one_line(&explained), "IXSCAN x > FETCH > $replaceRoot + IXSCAN k_1 > FETCH > $group");
    }

    #[test]
    fn what_has_no_plan_is_a_question_mark() {
        assert_eq!(one_line(&doc! {"ok": 1}), "?");
    }
}
