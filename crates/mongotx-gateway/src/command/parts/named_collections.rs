//! The collections that a pipeline reads or writes besides its input. Pure.

use bson::Bson;

/// A collection that a stage names.
#[derive(Debug, PartialEq)]
pub(super) struct NamedCollection<'p> {
    /// Its database; `None` for that of the pipeline.
    pub(super) db: Option<&'p str>,
    pub(super) collection: &'p str,
}

/// The collections that a pipeline names, at any depth. What the server will refuse names none.
pub(super) fn of_pipeline(pipeline: Option<&Bson>) -> Vec<NamedCollection<'_>> {
    let stages = pipeline.and_then(Bson::as_array).into_iter().flatten().filter_map(Bson::as_document);
    let mut named = Vec::new();
    for (name, stage) in stages.flatten() {
        add_stage(&mut named, name, stage);
    }
    named
}

fn add_stage<'p>(named: &mut Vec<NamedCollection<'p>>, name: &str, stage: &'p Bson) {
    let field = |field: &str| stage.as_document().and_then(|stage| stage.get(field));
    match name {
        "$lookup" | "$graphLookup" => named.extend(field("from").and_then(one)),
        "$unionWith" | "$out" => named.extend(one(stage)),
        "$merge" => named.extend(field("into").or(Some(stage)).and_then(one)),
        "$facet" => {
            let facets = stage.as_document().into_iter().flatten();
            named.extend(facets.flat_map(|(_, pipeline)| of_pipeline(Some(pipeline))));
        }
        _ => {}
    }
    if ["$lookup", "$unionWith"].contains(&name) {
        named.extend(of_pipeline(field("pipeline")));
    }
}

/// A collection by its name, or by `{db: …, coll: …}`.
fn one(value: &Bson) -> Option<NamedCollection<'_>> {
    match value {
        Bson::String(collection) => Some(NamedCollection { db: None, collection }),
        Bson::Document(named) => {
            Some(NamedCollection { db: named.get_str("db").ok(), collection: named.get_str("coll").ok()? })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use bson::{bson, doc};

    use super::*;

    #[test]
    fn every_stage_that_names_a_collection_is_found() {
        for (stage, expected) in [
            (doc! {"$lookup": {"from": "a", "as": "x"}}, vec![(None, "a")]),
            (doc! {"$lookup": {"from": {"db": "d", "coll": "a"}, "as": "x"}}, vec![(Some("d"), "a")]),
            (doc! {"$graphLookup": {"from": "a"}}, vec![(None, "a")]),
            (doc! {"$unionWith": "a"}, vec![(None, "a")]),
            (doc! {"$unionWith": {"coll": "a", "pipeline": [{"$unionWith": "b"}]}}, vec![(None, "a"), (None, "b")]),
            (doc! {"$unionWith": {"db": "d", "coll": "a"}}, vec![(Some("d"), "a")]),
            (doc! {"$out": "a"}, vec![(None, "a")]),
            (doc! {"$out": {"db": "d", "coll": "a"}}, vec![(Some("d"), "a")]),
            (doc! {"$merge": "a"}, vec![(None, "a")]),
            (doc! {"$merge": {"into": "a"}}, vec![(None, "a")]),
            (doc! {"$merge": {"into": {"db": "d", "coll": "a"}}}, vec![(Some("d"), "a")]),
            (doc! {"$merge": {"db": "d", "coll": "a"}}, vec![(Some("d"), "a")]),
            (doc! {"$lookup": {"from": "a", "pipeline": [{"$lookup": {"from": "b"}}]}}, vec![(None, "a"), (None, "b")]),
            (
                doc! {"$facet": {"f": [{"$lookup": {"from": "a"}}], "g": [{"$unionWith": "b"}]}},
                vec![(None, "a"), (None, "b")],
            ),
            (doc! {"$match": {"from": "a", "coll": "b"}}, vec![]),
            (doc! {"$facet": 1, "$lookup": 1, "$out": [1], "$merge": 2}, vec![]),
        ] {
            let pipeline = bson!([stage.clone()]);
            let found: Vec<_> = of_pipeline(Some(&pipeline)).iter().map(|found| (found.db, found.collection)).collect();
            assert_eq!(found, expected, "{stage}");
        }
        assert_eq!(of_pipeline(Some(&bson!("text"))), []);
    }
}
