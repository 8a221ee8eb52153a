//! Stages that read another collection (`$lookup`, `$graphLookup`, `$unionWith`), or hold pipelines
//! that do (`$facet`). Stages that read only what is before them stay as they are.

use bson::{Bson, Document, doc};

use super::{Mapper, Place, sub_pipeline, unsupported};
use crate::{
    error::Error,
    expression::path,
    filter::{check_filter, guard_filter, sees_lock_fields},
    names::{INSERT, READERS, REMOVE, RESERVED, WRITER},
    view,
    visible::Visible,
};

/// Field that holds the `_id`s of found documents until a later stage fetches these.
const FOUND: &str = "_mongotx_found";
const FOUND_OWN: &str = "_mongotx_found_own";

/// The keys under which a stage could name a collection.
const NAMING: [&str; 5] = ["from", "coll", "collection", "into", "pipeline"];

impl Mapper<'_> {
    /// One stage behind the reading of a collection.
    pub(super) fn stage(
        &mut self,
        name: &str,
        spec: &Bson,
        next: Option<&Document>,
        place: Place,
        depth: usize,
        mapped: &mut Vec<Document>,
    ) -> Result<(), Error> {
        match (name, spec) {
            ("$match", Bson::Document(filter)) => mapped.push(doc! {"$match": guard_filter(filter)}),
            ("$facet", Bson::Document(facets)) => mapped.push(doc! {"$facet": self.facets(facets, place, depth)?}),
            ("$unionWith", _) => mapped.push(doc! {"$unionWith": self.union_with(spec, place, depth)?}),
            ("$lookup", Bson::Document(lookup)) => self.lookup(lookup, next, depth, mapped)?,
            ("$graphLookup", Bson::Document(lookup)) => self.graph_lookup(lookup, mapped)?,
            ("$out" | "$merge", _) => {
                let message = format!("{name} can only be the final stage in the pipeline");
                return Err(Error::Invalid { code: 40601, message });
            }
            ("$changeStream", _) => return Err(unsupported(name, "it would show what is not committed")),
            _ if is_known(name) => mapped.push(doc! {name: spec.clone()}),
            (_, Bson::Document(parts)) if NAMING.iter().any(|key| parts.contains_key(key)) => {
                return Err(unsupported(name, "it is not known how it reads collections"));
            }
            _ => mapped.push(doc! {name: spec.clone()}),
        }
        Ok(())
    }

    fn facets(&mut self, facets: &Document, place: Place, depth: usize) -> Result<Document, Error> {
        let place = Place { is_answer: false, by_field: false, ..place };
        let mapped = facets.iter().map(|(field, pipeline)| {
            let mapped = match sub_pipeline(pipeline) {
                Some(stages) => Bson::from(self.stages(&stages, place, depth)?),
                None => pipeline.clone(),
            };
            Ok((field.clone(), mapped))
        });
        mapped.collect()
    }

    fn union_with(&mut self, spec: &Bson, place: Place, depth: usize) -> Result<Bson, Error> {
        let place = Place { is_answer: false, by_field: false, ..place };
        match spec {
            Bson::String(other) => {
                Ok(doc! {"coll": other, "pipeline": self.collection(other, &[], place, depth)?}.into())
            }
            Bson::Document(parts) => {
                let stages = match parts.get("pipeline") {
                    None => Vec::new(),
                    Some(pipeline) => match sub_pipeline(pipeline) {
                        Some(stages) => stages,
                        None => return Ok(spec.clone()),
                    },
                };
                let mapped = match parts.get("coll") {
                    Some(Bson::String(other)) => self.collection(other, &stages, place, depth)?,
                    Some(_) => return Ok(spec.clone()),
                    None => self.stages(&stages, place, depth)?,
                };
                let mut parts = parts.clone();
                parts.insert("pipeline", mapped);
                Ok(parts.into())
            }
            other => Ok(other.clone()),
        }
    }

    fn lookup(
        &mut self,
        lookup: &Document,
        next: Option<&Document>,
        depth: usize,
        mapped: &mut Vec<Document>,
    ) -> Result<(), Error> {
        let by_field = lookup.get_str("localField").ok().zip(lookup.get_str("foreignField").ok());
        let place = Place { is_answer: false, in_lookup: true, by_field: by_field.is_some() };
        let stages = match lookup.get("pipeline") {
            None => Some(Vec::new()),
            Some(pipeline) => sub_pipeline(pipeline),
        };
        let (Some(stages), from) = (stages, lookup.get("from")) else {
            mapped.push(doc! {"$lookup": lookup.clone()});
            return Ok(());
        };
        let pipeline = match from {
            None => self.stages(&stages, place, depth)?,
            Some(Bson::String(from)) => {
                if let (Some(own), Some((local, foreign))) = (self.sources.visible(from), by_field) {
                    mapped.extend(self.find_own(from, local, foreign, &own)?);
                    let fetch = self.collection(from, &stages, place, depth)?;
                    mapped.extend(fetch_found(lookup, fetch));
                    return Ok(());
                }
                if let (Some(_), true) = (by_field, self.can_clean_up(from, lookup, next)) {
                    self.note(from, Document::new());
                    mapped.extend(clean_up(lookup));
                    return Ok(());
                }
                self.collection(from, &stages, place, depth)?
            }
            Some(_) => return Err(unsupported("$lookup from another database", "its versions are not mapped")),
        };
        let mut lookup = lookup.clone();
        lookup.insert("pipeline", pipeline);
        mapped.push(doc! {"$lookup": lookup});
        Ok(())
    }

    /// Returns true if a `$lookup` by a field may stay as it is, with MongoTx's fields taken out of
    /// its result. The server has a quicker way for one without a pipeline. (An `$unwind` behind it
    /// is one with it, and saves its array: it is not parted.)
    fn can_clean_up(&self, from: &str, lookup: &Document, next: Option<&Document>) -> bool {
        let Ok(field) = lookup.get_str("as") else { return false };
        let plain = !lookup.contains_key("pipeline") && !lookup.contains_key("let") && !field.contains('.');
        let unwound = next.is_some_and(|next| next.contains_key("$unwind"));
        plain && !unwound && !field.starts_with('$') && !field.is_empty() && !self.sources.only.contains_key(from)
    }

    /// The `_id`s of what a field leads to: among the safe versions by the field's index, among the
    /// own ones by the same field there.
    fn find_own(&self, from: &str, local: &str, foreign: &str, own: &Visible) -> Result<[Document; 3], Error> {
        if self.sources.collated {
            let reason = "this transaction has written to the collection that it reads, and under a collation an _id equals others";
            return Err(unsupported("$lookup with localField", reason));
        }
        let by_id = path::head(foreign) == "_id";
        let foreign_own = if by_id { foreign.to_owned() } else { path::prefixed(foreign) };
        let find = |field: &str, which: Document, found: &str| {
            let pipeline = vec![doc! {"$match": which}, doc! {"$project": {"_id": 1}}];
            doc! {"$lookup": {"from": from, "localField": local, "foreignField": field, "pipeline": pipeline, "as": found}}
        };
        let not_mine = doc! {WRITER: own.holds_not(), INSERT: {"$exists": false}};
        let mine = doc! {WRITER: own.holds(), REMOVE: {"$exists": false}};
        let ids = |field: &str| format!("${field}._id");
        // An empty list would match an `_id` of null; an array is no `_id`.
        let no_id = Bson::Array(vec![Bson::Array(Vec::new())]);
        Ok([
            find(foreign, not_mine, FOUND),
            find(&foreign_own, mine, FOUND_OWN),
            doc! {"$set": {FOUND: {"$concatArrays": [ids(FOUND), ids(FOUND_OWN), {"$literal": no_id}]}}},
        ])
    }

    fn graph_lookup(&mut self, lookup: &Document, mapped: &mut Vec<Document>) -> Result<(), Error> {
        let (Ok(from), Ok(field)) = (lookup.get_str("from"), lookup.get_str("as")) else {
            mapped.push(doc! {"$graphLookup": lookup.clone()});
            return Ok(());
        };
        if self.sources.visible(from).is_some() {
            return Err(unsupported("$graphLookup", "this transaction has written to the collection that it searches"));
        }
        let restriction = lookup.get_document("restrictSearchWithMatch").cloned().unwrap_or_default();
        check_filter(&restriction)?;
        if sees_lock_fields(&restriction) {
            return Err(unsupported("restrictSearchWithMatch on whole documents", "it would see their locks"));
        }
        self.note(from, Document::new());
        let mut restriction = view::without_pending_inserts(&restriction);
        if let Some(only) = self.sources.only.get(from) {
            restriction = doc! {"$and": [restriction, only.clone()]};
        }
        let mut lookup = lookup.clone();
        lookup.insert("restrictSearchWithMatch", restriction);
        let reserved: Vec<String> = RESERVED.iter().map(|name| format!("{field}.{name}")).collect();
        mapped.extend([doc! {"$graphLookup": lookup.clone()}, doc! {"$unset": reserved}]);
        Ok(())
    }
}

/// The user's `$lookup`, and its result without documents that wait to be inserted and without
/// locks, if there are any.
fn clean_up(lookup: &Document) -> [Document; 2] {
    let field = lookup.get_str("as").unwrap_or_default();
    let of = |name: &str| Bson::String(format!("${field}.{name}"));
    let no_locks = doc! {"$eq": [{"$concatArrays": [of(WRITER), of(READERS)]}, []]};
    let there = doc! {"$filter": {"input": format!("${field}"), "cond": {"$ne": [format!("$$this.{INSERT}"), true]}}};
    let bare = RESERVED
        .iter()
        .fold(Bson::from("$$this"), |input, name| doc! {"$unsetField": {"field": *name, "input": input}}.into());
    let cleaned = doc! {"$map": {"input": there, "in": bare}};
    let whole = format!("${field}");
    [doc! {"$lookup": lookup.clone()}, doc! {"$set": {field: {"$cond": [no_locks, whole, cleaned]}}}]
}

/// The user's `$lookup`, of what was found.
fn fetch_found(lookup: &Document, pipeline: Vec<Document>) -> [Document; 2] {
    let mut fetch = lookup.clone();
    fetch.insert("localField", FOUND);
    fetch.insert("foreignField", "_id");
    fetch.insert("pipeline", pipeline);
    [doc! {"$lookup": fetch}, doc! {"$unset": [FOUND, FOUND_OWN]}]
}

/// The stages that read nothing but the documents before them.
fn is_known(name: &str) -> bool {
    matches!(
        name,
        "$addFields"
            | "$bucket"
            | "$bucketAuto"
            | "$count"
            | "$densify"
            | "$documents"
            | "$fill"
            | "$group"
            | "$limit"
            | "$match"
            | "$project"
            | "$redact"
            | "$replaceRoot"
            | "$replaceWith"
            | "$sample"
            | "$set"
            | "$setWindowFields"
            | "$skip"
            | "$sort"
            | "$sortByCount"
            | "$unset"
            | "$unwind"
            | "$currentOp"
            | "$listSessions"
            | "$listLocalSessions"
    )
}
