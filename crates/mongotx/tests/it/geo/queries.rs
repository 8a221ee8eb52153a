//! Random queries by place, in every form that the server knows.

use bson::{Document, doc};

use crate::geo::earth::Point;
use crate::random::Random;

/// Kind of the geospatial index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Sphere,
    Plane,
}

/// Unit in which the query measures distances.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Measure {
    Metres,
    Radians,
    Plane,
}

#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) filter: Document,
    pub(crate) measure: Measure,
    pub(crate) centre: Point,
    pub(crate) min: Option<f64>,
    pub(crate) max: Option<f64>,
    /// `k` has to be less.
    pub(crate) below: Option<i32>,
    pub(crate) skip: u64,
    pub(crate) limit: u64,
    /// Sorted by `_id` instead of by distance.
    pub(crate) by_id: bool,
}

pub(crate) fn point(random: &mut Random) -> Point {
    // Away from the poles and the date line, where a 2d index does not go round.
    [f64::from(random.between(-60_000, 60_000)) / 1000.0, f64::from(random.between(-60_000, 60_000)) / 1000.0]
}

pub(crate) fn geo_json(point: Point) -> Document {
    doc! {"type": "Point", "coordinates": point.to_vec()}
}

impl Query {
    pub(crate) fn random(random: &mut Random, kind: Kind) -> Self {
        let centre = point(random);
        let measure = match (kind, random.below(3)) {
            (_, 0) => Measure::Radians,
            (Kind::Sphere, _) => Measure::Metres,
            (Kind::Plane, _) => Measure::Plane,
        };
        let unit = match measure {
            Measure::Metres => 100_000.0,
            Measure::Radians => 0.02,
            Measure::Plane => 1.0,
        };
        let max = random.maybe(60, |random| f64::from(random.between(5, 80)) * unit);
        let min = random.maybe(30, |random| f64::from(random.between(1, 30)) * unit);
        let below = random.maybe(50, |random| random.between(1, 5));
        let near = condition(random, measure, centre, min, max);
        let filter = match below {
            Some(below) if random.chance(50) => doc! {"$and": [{"k": {"$lt": below}}, {"p": near}]},
            Some(below) => doc! {"p": near, "k": {"$lt": below}},
            None => doc! {"p": near},
        };
        let limit = if random.chance(40) { random.between(1, 9) as u64 } else { 0 };
        let skip = if random.chance(30) { random.below(4) as u64 } else { 0 };
        Self { filter, measure, centre, min, max, below, skip, limit, by_id: random.chance(20) }
    }
}

fn name(random: &mut Random) -> &'static str {
    ["$near", "$nearSphere", "$geoNear"][random.below(3)]
}

fn condition(random: &mut Random, measure: Measure, centre: Point, min: Option<f64>, max: Option<f64>) -> Document {
    let bounds = || {
        let mut bounds = Document::new();
        bounds.extend(min.map(|min| ("$minDistance".to_owned(), min.into())));
        bounds.extend(max.map(|max| ("$maxDistance".to_owned(), max.into())));
        bounds
    };
    let beside = |operator: &str, point: bson::Bson| {
        let mut condition = doc! {operator: point};
        condition.extend(bounds());
        condition
    };
    match measure {
        Measure::Metres if random.chance(50) => {
            let mut inside = doc! {"$geometry": geo_json(centre)};
            inside.extend(bounds());
            doc! {name(random): inside}
        }
        Measure::Metres => beside(name(random), geo_json(centre).into()),
        Measure::Radians => beside("$nearSphere", centre.to_vec().into()),
        Measure::Plane => match (min, max) {
            (None, Some(max)) if random.chance(50) => doc! {"$near": [centre[0], centre[1], max]},
            _ => beside("$near", centre.to_vec().into()),
        },
    }
}
