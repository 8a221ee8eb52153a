//! The documents that a reader may see, and the right answer to a query by place.

use std::collections::BTreeMap;

use bson::{Bson, Document};

use crate::geo::{
    earth::{self, Point, RADIUS},
    queries::{Measure, Query},
};

pub(crate) type View = BTreeMap<i32, Document>;

pub(crate) fn number(value: &Bson) -> f64 {
    match value {
        Bson::Int32(n) => f64::from(*n),
        Bson::Double(n) => *n,
        other => panic!("{other} is no number"),
    }
}

/// The place of a document, a legacy pair or a GeoJSON point.
pub(crate) fn place(document: &Document) -> Option<Point> {
    let pair = match document.get("p")? {
        Bson::Array(pair) => pair,
        Bson::Document(point) => point.get_array("coordinates").unwrap(),
        other => panic!("{other} is no place"),
    };
    Some([number(&pair[0]), number(&pair[1])])
}

pub(crate) fn distance(measure: Measure, a: Point, b: Point) -> f64 {
    match measure {
        Measure::Metres => earth::radians(a, b) * RADIUS,
        Measure::Radians => earth::radians(a, b),
        Measure::Plane => earth::planar(a, b),
    }
}

/// The documents that match, with their distances, nearest first.
pub(crate) fn nearest(view: &View, query: &Query) -> Vec<(f64, Document)> {
    let within =
        |distance: f64| query.min.is_none_or(|min| min <= distance) && query.max.is_none_or(|max| distance <= max);
    let matches = |document: &Document| query.below.is_none_or(|below| document.get_i32("k").is_ok_and(|k| k < below));
    let found = view.values().filter(|document| matches(document)).filter_map(|document| {
        let distance = distance(query.measure, place(document)?, query.centre);
        within(distance).then(|| (distance, document.clone()))
    });
    let mut found: Vec<(f64, Document)> = found.collect();
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    found
}
