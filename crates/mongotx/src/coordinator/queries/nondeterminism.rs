//! Expressions that have another value each time they are evaluated: the time, which is bound at
//! the first answer, and chance.

use std::borrow::Cow;

use bson::{Bson, DateTime, Document};

use crate::{
    coordinator::{
        Core,
        request::{pipeline::AggregateCommand, query::Query},
    },
    error::Result,
};

/// The variable that stands for the time.
const NOW: &str = "$$NOW";
/// Operators whose result depends on chance, or on a script.
const NONDETERMINISTIC: [&str; 6] = ["$rand", "$sample", "$sampleRate", "$where", "$function", "$accumulator"];

/// Those of them that chance alone decides.
const CHANCE: [&str; 2] = ["$rand", "$sampleRate"];

fn any(document: &Document, is_wanted: &impl Fn(&Bson) -> bool, is_wanted_key: &impl Fn(&str) -> bool) -> bool {
    document
        .iter()
        .any(|(key, value)| is_wanted_key(key) || key != "$literal" && any_in(value, is_wanted, is_wanted_key))
}

fn any_in(value: &Bson, is_wanted: &impl Fn(&Bson) -> bool, is_wanted_key: &impl Fn(&str) -> bool) -> bool {
    match value {
        Bson::Document(document) => any(document, is_wanted, is_wanted_key),
        Bson::Array(values) => values.iter().any(|value| any_in(value, is_wanted, is_wanted_key)),
        value => is_wanted(value),
    }
}

/// Returns true if chance alone decides a part of the filter, and no script.
pub(crate) fn is_by_chance(filter: &Document) -> bool {
    any(filter, &|_| false, &|key| CHANCE.contains(&key))
}

/// Returns true if the value depends on chance, or on a script.
pub(crate) fn is_in(document: &Document) -> bool {
    let is_cluster_time = |value: &Bson| value.as_str().is_some_and(|text| text.starts_with("$$CLUSTER_TIME"));
    any(document, &is_cluster_time, &|key| NONDETERMINISTIC.contains(&key))
}

pub(crate) fn is_in_query(query: &Query) -> bool {
    is_in(&query.filter) || query.projection.as_ref().is_some_and(is_in)
}

pub(crate) fn is_in_pipeline(pipeline: &[Document]) -> bool {
    pipeline.iter().any(is_in)
}

fn with_time(value: &Bson, now: DateTime) -> Bson {
    let of_field = |(key, value): (&String, &Bson)| match key.as_str() {
        "$literal" => (key.clone(), value.clone()),
        _ => (key.clone(), with_time(value, now)),
    };
    match value {
        Bson::String(text) if text == NOW => now.into(),
        Bson::Document(document) => Bson::Document(document.iter().map(of_field).collect()),
        Bson::Array(values) => values.iter().map(|value| with_time(value, now)).collect::<Vec<_>>().into(),
        other => other.clone(),
    }
}

fn names_time(document: &Document) -> bool {
    any(document, &|value| value.as_str() == Some(NOW), &|_| false)
}

/// The document with the server's time in place of `$$NOW`; `None`: it does not name the time.
pub(crate) async fn bind_time(core: &Core, document: &Document) -> Result<Option<Document>> {
    if !names_time(document) {
        return Ok(None);
    }
    let now = core.server.time().await?;
    Ok(match with_time(&Bson::Document(document.clone()), now) {
        Bson::Document(bound) => Some(bound),
        _ => None,
    })
}

/// The pipeline with the server's time in place of `$$NOW`.
pub(crate) async fn bind_time_in_pipeline<'c>(
    core: &Core,
    command: &'c AggregateCommand,
) -> Result<Cow<'c, AggregateCommand>> {
    if !command.pipeline.iter().any(names_time) {
        return Ok(Cow::Borrowed(command));
    }
    let now = Bson::from(core.server.time().await?);
    let Bson::DateTime(now) = now else { return Ok(Cow::Borrowed(command)) };
    let bound = command.pipeline.iter().filter_map(|stage| match with_time(&Bson::Document(stage.clone()), now) {
        Bson::Document(stage) => Some(stage),
        _ => None,
    });
    Ok(Cow::Owned(AggregateCommand { pipeline: bound.collect(), ..command.clone() }))
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn is_in_what_rests_on_chance_wherever_it_stands() {
        for nondeterministic in [
            doc! {"$sample": {"size": 1}},
            doc! {"$expr": {"$lt": [{"$rand": {}}, 0.5]}},
            doc! {"$or": [{"$where": "1"}]},
        ] {
            assert!(is_in(&nondeterministic), "{nondeterministic}");
        }
        for other in
            [doc! {"a": "$rand"}, doc! {"$project": {"a": {"$literal": {"$rand": {}}}}}, doc! {"a": {"$gt": 1}}]
        {
            assert!(!is_in(&other), "{other}");
        }
    }

    #[test]
    fn with_time_binds_the_variable_and_no_text() {
        let now = DateTime::from_millis(5);
        let asked = doc! {"$expr": {"$lt": ["$at", "$$NOW"]}, "l": {"$literal": "$$NOW"}};
        assert!(names_time(&asked) && !names_time(&doc! {"l": {"$literal": "$$NOW"}}));
        let bound = with_time(&asked.into(), now);
        assert_eq!(bound, Bson::from(doc! {"$expr": {"$lt": ["$at", now]}, "l": {"$literal": "$$NOW"}}));
    }
}
