//! The `$geoNear` stage on stored documents: in a safe view, and in the view of a transaction with
//! writes of its own.
//!
//! In the latter it is two stages, one on each version, whose answers are merged. A 2d or 2dsphere
//! index on the same field of the unsafe version is needed: `_unsafe.<field>`.

use bson::{Bson, Document, doc};

use crate::{
    error::Error,
    expression::path,
    filter::{easily_asked, guard_filter, rewrite_filter},
    names::{INSERT, REMOVE, RESERVED, UNSAFE, WRITER},
    visible::Visible,
};

const CONTEXT: &str = "in $geoNear";

/// A `$geoNear` stage, to be run on stored documents.
#[derive(Debug, Clone, PartialEq)]
pub struct GeoNear {
    /// The fields except `key`, `query`, `distanceField` and `includeLocs`.
    others: Document,
    /// `None`: that of the collection's only geospatial index, which the server finds.
    key: Option<String>,
    query: Document,
    distance_field: Option<String>,
    include_locs: Option<String>,
}

impl GeoNear {
    /// Reads the stage as the user wrote it. Where there are indexes on unsafe versions, too, the
    /// server cannot know which one a stage without `key` means: the sender puts in the field that
    /// [`super::only_geo_field`] returns.
    ///
    /// The server checks the point, the distances and unknown options.
    ///
    /// # Errors
    /// [`Error::Reserved`]; those of [`crate::filter::check_filter`] for `query`;
    /// [`Error::Invalid`] (2) for options of the wrong type, and for `$text` and operators that
    /// sort by distance within `query`.
    pub fn parse_geo_near(stage: &Document) -> Result<Self, Error> {
        let query = match stage.get("query") {
            None => Document::new(),
            Some(Bson::Document(query)) => query.clone(),
            Some(_) => return Err(invalid("query must be a document")),
        };
        let parts = crate::filter::parts(&query)?;
        if parts.near.is_some() || parts.text.is_some() || parts.buried_text {
            return Err(invalid("query takes neither $text nor a second order by distance"));
        }
        let key = text(stage, "key")?;
        let (distance_field, include_locs) = (text(stage, "distanceField")?, text(stage, "includeLocs")?);
        for name in [key.as_ref(), distance_field.as_ref(), include_locs.as_ref()].into_iter().flatten() {
            path::refuse_reserved(name, " in $geoNear")?;
        }
        let read = ["key", "query", "distanceField", "includeLocs"];
        let others = stage.iter().filter(|(name, _)| !read.contains(&name.as_str()));
        let others = others.map(|(name, value)| (name.clone(), value.clone())).collect();
        Ok(Self { others, key, query, distance_field, include_locs })
    }

    /// The stage with the order that a filter's condition demands, of the documents that match
    /// `query`.
    pub fn of_filter(near: &crate::near::Near, query: &Document) -> Self {
        let mut others = near.to_stage();
        let key = others.remove("key").and_then(|key| key.as_str().map(ToOwned::to_owned));
        Self { others, key, query: query.clone(), distance_field: None, include_locs: None }
    }

    /// The field with the geospatial index.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// The field with the geospatial index on unsafe versions.
    pub fn unsafe_key(&self) -> Option<String> {
        self.key.as_deref().map(path::prefixed)
    }

    /// The stages on safe versions: of all documents, or of those that are not `own`. Pending
    /// inserts have none. The documents come out as the application wrote them.
    pub fn safe_view(&self, own: Option<&Visible>) -> Vec<Document> {
        let mut query = vec![doc! { INSERT: { "$exists": false } }];
        if let Some(own) = own {
            query.push(doc! { WRITER: own.holds_not() });
        }
        let asked = easily_asked(&self.query);
        if !asked.is_empty() {
            query.push(guard_filter(&asked));
        }
        let mut stages = vec![self.stage(self.key(), doc! { "$and": query }, ToOwned::to_owned)];
        stages.push(doc! { "$unset": RESERVED.to_vec() });
        // The other conditions are evaluated on documents without metadata.
        if asked != self.query {
            stages.push(doc! { "$match": self.query.clone() });
        }
        stages
    }

    /// The stages on the `own` unsafe versions, which come out as the application wrote them.
    ///
    /// # Errors
    /// As [`rewrite_filter`]; [`Error::Invalid`] (2) without a key.
    pub fn unsafe_view(&self, own: &Visible) -> Result<Vec<Document>, Error> {
        let Some(key) = self.unsafe_key() else {
            return Err(invalid("a stage without key needs the collection's only geospatial index"));
        };
        let mut query = vec![doc! {
            WRITER: own.holds(), UNSAFE: { "$exists": true }, REMOVE: { "$exists": false },
        }];
        if !self.query.is_empty() {
            query.push(rewrite_filter(&self.query)?);
        }
        let unsafe_version = doc! { "$mergeObjects": [{ "_id": "$_id" }, format!("${UNSAFE}")] };
        Ok(vec![
            self.stage(Some(&key), doc! { "$and": query }, path::prefixed),
            doc! { "$replaceWith": unsafe_version },
        ])
    }

    /// The stages of a transaction's own view in the collection `coll`: both parts, nearest first
    /// where `limit` says how many are enough. Behind them stand [`sort_by_distance`], if the query
    /// demands no other order, and [`hide_distance`].
    ///
    /// # Errors
    /// As [`GeoNear::unsafe_view`].
    pub fn own_view(&self, coll: &str, own: &Visible, limit: Option<u64>) -> Result<Vec<Document>, Error> {
        let limit = limit.map(|limit| doc! { "$limit": limit as i64 });
        let with_distance = doc! { "$set": { UNSAFE: { "$meta": "geoNearDistance" } } };
        let mut stages = self.safe_view(Some(own));
        stages.extend(limit.clone());
        stages.push(with_distance.clone());
        let mut others = self.unsafe_view(own)?;
        others.extend(limit);
        others.push(with_distance);
        stages.push(doc! { "$unionWith": { "coll": coll, "pipeline": others } });
        Ok(stages)
    }

    fn stage(&self, key: Option<&str>, query: Document, place: impl Fn(&str) -> String) -> Document {
        let mut stage = self.others.clone();
        if let Some(key) = key {
            stage.insert("key", key);
        }
        stage.insert("query", query);
        // A stage without `distanceField` writes the distance to a field that a later stage
        // removes.
        stage.insert("distanceField", self.distance_field.as_deref().map_or_else(|| WRITER.to_owned(), &place));
        if let Some(locs) = &self.include_locs {
            stage.insert("includeLocs", place(locs));
        }
        doc! { "$geoNear": stage }
    }
}

/// A `$sort` by the distance that [`GeoNear::own_view`] computes.
pub fn sort_by_distance() -> Document {
    doc! { "$sort": { UNSAFE: 1 } }
}

/// Takes away what [`GeoNear::own_view`] has added.
pub fn hide_distance() -> Document {
    doc! { "$unset": UNSAFE }
}

fn text(stage: &Document, option: &str) -> Result<Option<String>, Error> {
    match stage.get(option) {
        None => Ok(None),
        Some(Bson::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(invalid(&format!("{option} must be a string"))),
    }
}

fn invalid(message: &str) -> Error {
    Error::Invalid { code: 2, message: format!("{CONTEXT}: {message}") }
}
