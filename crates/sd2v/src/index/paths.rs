//! Whether an update can change what an index holds of a document.

use bson::Document;

use crate::{expression::path::head, update::Update};

/// Whether the update may change one of these fields, compared by the first component of each path.
/// Yes, if unknown.
pub fn touches(update: &Update, fields: &[&str]) -> bool {
    let heads: Vec<&str> = fields.iter().map(|field| head(field)).collect();
    match update {
        Update::Operators(operators) => operators.iter().any(|(operator, targets)| {
            let Some(targets) = targets.as_document() else { return true };
            targets.iter().any(|(target, value)| {
                let renamed = if operator == "$rename" { value.as_str().map(head) } else { None };
                heads.contains(&head(target)) || renamed.is_some_and(|to| heads.contains(&to))
            })
        }),
        Update::Replacement(_) => true,
        Update::Pipeline(stages) => stages.iter().any(|stage| stage_touches(stage, &heads)),
    }
}

/// Like [`touches`], for a document that exists already.
pub fn touches_stored(update: &Update, fields: &[&str]) -> bool {
    match update {
        Update::Operators(operators) if operators.contains_key("$setOnInsert") => {
            let mut operators = operators.clone();
            operators.remove("$setOnInsert");
            touches(&Update::Operators(operators), fields)
        }
        update => touches(update, fields),
    }
}

fn stage_touches(stage: &Document, heads: &[&str]) -> bool {
    stage.iter().any(|(name, spec)| match (name.as_str(), spec.as_document()) {
        ("$set" | "$addFields", Some(targets)) => targets.keys().any(|target| heads.contains(&head(target))),
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use bson::{bson, doc};

    use super::*;

    #[test]
    fn touches_by_the_first_component_of_targets() {
        for (update, touched) in [
            (bson!({"$set": {"a.b": 1}}), true),
            (bson!({"$set": {"b": 1}, "$inc": {"a": 1}}), true),
            (bson!({"$set": {"b": 1}}), false),
            (bson!({"$rename": {"b": "a"}}), true),
            (bson!({"$rename": {"a": "b"}}), true),
            (bson!([{"$set": {"b": "$a"}}]), false),
            (bson!([{"$set": {"a": 1}}]), true),
            (bson!([{"$unset": "b"}]), true),
        ] {
            let update = Update::parse_update(update).unwrap();
            assert_eq!(touches(&update, &["a.c"]), touched, "{update:?}");
        }
        assert!(touches(&Update::Replacement(doc! {}), &["a"]));
        let insert = Update::Operators(doc! {"$set": {"b": 1}, "$setOnInsert": {"a": 1}});
        assert!(touches(&insert, &["a"]) && !touches_stored(&insert, &["a"]) && touches_stored(&insert, &["b"]));
    }
}
