//! Fields that an update may change: whether that can be what an index holds of a document, or the
//! value of its shard key.

use bson::Document;

use super::Update;
use crate::{
    expression::path::head,
    shard::{ShardKey, same},
};

/// Returns true if the update may change one of these fields, compared by the first component of
/// each path. True, if unknown.
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

impl ShardKey {
    /// Returns true if this update may change the shard key's values `key` of a document. True, if
    /// unknown.
    pub fn may_be_changed(&self, update: &Update, key: &Document) -> bool {
        let fields: Vec<&str> = self.fields().collect();
        match update {
            _ if self.is_empty() => false,
            Update::Replacement(replacement) => !self.of(replacement).is_ok_and(|other| same(key, &other)),
            update => touches(update, &fields),
        }
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
    use bson::{Bson, bson, doc};

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

    #[test]
    fn may_be_changed_by_what_names_it() {
        let key = ShardKey::parse(&["region", "owner.id", "_id"]).unwrap();
        let at = doc! {"region": 1, "owner.id": 7};
        let may = |update: Bson| key.may_be_changed(&Update::parse_update(update).unwrap(), &at);
        assert!(may(bson!({"$set": {"region": 1}})));
        assert!(may(bson!({"$rename": {"x": "owner"}})));
        assert!(may(bson!([{"$replaceWith": "$x"}])));
        assert!(!may(bson!({"$inc": {"n": 1}})));
        let replaced = |document| key.may_be_changed(&Update::Replacement(document), &at);
        assert!(!replaced(doc! {"region": 1_i64, "owner": {"id": 7, "x": 1}}));
        assert!(replaced(doc! {"region": 1}));
        assert!(replaced(doc! {"region": 1, "owner": [{"id": 7}]}));
        assert!(!ShardKey::default().may_be_changed(&Update::Replacement(doc! {}), &doc! {}));
    }
}
