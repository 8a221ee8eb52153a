//! `$near`, `$nearSphere` and `$geoNear` in a filter: the point, the units and the bounds.
//!
//! | form | distance in | index |
//! | --- | --- | --- |
//! | `{$near: {$geometry: POINT, $maxDistance: d}}`, `{$nearSphere: {$geometry: POINT}}` | metres | 2dsphere |
//! | `{$near: POINT, $maxDistance: d}` with a GeoJSON point | metres | 2dsphere |
//! | `{$nearSphere: [x, y], $maxDistance: d}` | radians | 2dsphere, 2d |
//! | `{$near: [x, y], $maxDistance: d}`, `{$near: [x, y, d]}` | the coordinates' unit, on a plane | 2d |

use bson::{Bson, Document, doc};

use crate::error::Error;

/// The earth's radius in metres, as the server has it.
const EARTH_RADIUS: f64 = 6_378_100.0;
/// The selection has measured the distance; its repetition as a containment may round otherwise.
const ROUNDING: f64 = 1e-9;
/// GeoJSON types of more than one point: their distance is to their nearest part, which no test of
/// containment measures.
const SHAPES: [&str; 6] =
    ["LineString", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon", "GeometryCollection"];

/// Returns true if it is one of the operators that sort by distance.
pub(crate) fn is_near_operator(operator: &str) -> bool {
    matches!(operator, "$near" | "$nearSphere" | "$geoNear")
}

/// The operators below a field, if they ask for an order by distance.
pub(crate) fn near_condition(condition: &Bson) -> Option<&Document> {
    let operators = condition.as_document()?;
    operators.keys().next().is_some_and(|operator| is_near_operator(operator)).then_some(operators)
}

/// A condition that sorts by distance.
#[derive(Debug, Clone, PartialEq)]
pub struct Near {
    field: String,
    /// The point as the `$geoNear` stage takes it.
    point: Bson,
    /// Coordinates of the point: `[x, y]`, or longitude and latitude.
    centre: [Bson; 2],
    geo_json: bool,
    spherical: bool,
    min: Option<Bson>,
    max: Option<Bson>,
}

impl Near {
    /// Reads the operators below `field`, of which the first is one of the three.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what the server refuses, too: 34413 for an operator beside them, 2
    /// for the rest.
    pub fn parse_near(field: &str, operators: &Document) -> Result<Self, Error> {
        let mut entries = operators.iter();
        let Some((operator, argument)) = entries.next() else { return Err(bad("empty geo near query object")) };
        let mut near = match argument.as_document().filter(|argument| argument.contains_key("$geometry")) {
            Some(argument) if operators.len() == 1 => Self::of_geometry(field, argument)?,
            Some(_) => {
                return Err(bad("geo near accepts just one argument when querying for a GeoJSON point"));
            }
            None => Self::of_point(field, argument)?,
        };
        near.spherical = near.geo_json || operator == "$nearSphere";
        for (key, value) in entries {
            match key.as_str() {
                "$minDistance" => near.min = Some(distance(key, value)?),
                "$maxDistance" => near.max = Some(distance(key, value)?),
                "$uniqueDocs" => {}
                other => {
                    let message = format!("invalid argument in geo near query: {other}");
                    return Err(Error::Invalid { code: 34413, message });
                }
            }
        }
        Ok(near)
    }

    fn of_geometry(field: &str, argument: &Document) -> Result<Self, Error> {
        let mut near = None;
        let (mut min, mut max) = (None, None);
        for (key, value) in argument {
            match key.as_str() {
                "$geometry" => near = Some(Self::of_point(field, value)?),
                "$minDistance" => min = Some(distance(key, value)?),
                "$maxDistance" => max = Some(distance(key, value)?),
                other => return Err(bad(&format!("invalid argument in geo near query: {other}"))),
            }
        }
        match near {
            Some(near) if near.geo_json => Ok(Self { min, max, ..near }),
            _ => Err(bad("$near requires a GeoJSON point in $geometry")),
        }
    }

    /// A GeoJSON point, or a legacy pair as array or document, perhaps with the maximum distance as
    /// a third number.
    fn of_point(field: &str, argument: &Bson) -> Result<Self, Error> {
        let geo_json = argument.as_document().filter(|point| point.contains_key("coordinates"));
        let numbers = match (geo_json, argument) {
            (Some(point), _) => point.get_array("coordinates").cloned().unwrap_or_default(),
            (None, Bson::Array(pair)) => pair.clone(),
            (None, Bson::Document(pair)) => pair.values().cloned().collect(),
            _ => Vec::new(),
        };
        let mut numbers = numbers.into_iter();
        let (Some(x), Some(y), max) = (numbers.next(), numbers.next(), numbers.next()) else {
            return Err(bad("invalid point in geo near query: it takes two numbers or a GeoJSON point"));
        };
        if number(&x).is_none() || number(&y).is_none() {
            return Err(bad("invalid point in geo near query: it takes two numbers or a GeoJSON point"));
        }
        let centre = [x, y];
        let (point, max) = match geo_json {
            Some(point) => (Bson::Document(point.clone()), None),
            None => (Bson::Array(centre.to_vec()), max.map(|max| distance("$maxDistance", &max)).transpose()?),
        };
        let geo_json = geo_json.is_some();
        Ok(Self { field: field.to_owned(), point, centre, geo_json, spherical: geo_json, min: None, max })
    }

    /// The `$geoNear` stage with the same order, without `query` and `distanceField`.
    pub fn to_stage(&self) -> Document {
        let mut stage = doc! { "near": self.point.clone(), "key": &self.field, "spherical": self.spherical };
        if let Some(min) = &self.min {
            stage.insert("minDistance", min.clone());
        }
        if let Some(max) = &self.max {
            stage.insert("maxDistance", max.clone());
        }
        stage
    }

    /// The condition on one document that it is (still) within the bounds: without order, index and
    /// rounding, so that it may stand anywhere. What is not a point only has to be there.
    pub fn to_condition(&self) -> Document {
        let mut all = vec![doc! { &self.field: { "$exists": true } }];
        let max = self.max.as_ref().and_then(number).filter(|max| max.is_finite());
        if let Some(inside) = max.and_then(|max| self.within(max * (1.0 + ROUNDING) + self.unit() * ROUNDING)) {
            let path = format!("{}.type", self.field);
            all.push(doc! { "$or": [{ &self.field: inside }, { path: { "$in": SHAPES.to_vec() } }] });
        }
        let min = self.min.as_ref().and_then(number).unwrap_or(0.0) * (1.0 - ROUNDING) - self.unit() * ROUNDING;
        if min > 0.0
            && let Some(inside) = self.within(min)
        {
            all.push(doc! { &self.field: { "$not": inside } });
        }
        doc! { "$and": all }
    }

    /// Length of a radian (GeoJSON: in metres) or of one coordinate unit (legacy pairs), in the
    /// unit of the bounds.
    fn unit(&self) -> f64 {
        if self.geo_json { EARTH_RADIUS } else { 1.0 }
    }

    /// The condition that a document is within the distance. `None` if every document is.
    fn within(&self, distance: f64) -> Option<Document> {
        let centre = self.centre.to_vec();
        if !self.spherical {
            return Some(doc! { "$geoWithin": { "$center": [centre, distance] } });
        }
        let radians = distance / self.unit();
        (radians < std::f64::consts::PI).then(|| doc! { "$geoWithin": { "$centerSphere": [centre, radians] } })
    }
}

fn bad(message: &str) -> Error {
    Error::Invalid { code: 2, message: message.to_owned() }
}

fn distance(name: &str, value: &Bson) -> Result<Bson, Error> {
    match number(value) {
        Some(distance) if distance >= 0.0 => Ok(value.clone()),
        Some(_) => Err(bad(&format!("{name} must be non-negative"))),
        None => Err(bad(&format!("{name} must be a number"))),
    }
}

fn number(value: &Bson) -> Option<f64> {
    match value {
        Bson::Int32(value) => Some(f64::from(*value)),
        Bson::Int64(value) => Some(*value as f64),
        Bson::Double(value) => Some(*value),
        Bson::Decimal128(value) => value.to_string().parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(operators: Document) -> Result<Near, Error> {
        Near::parse_near("l", &operators)
    }

    #[test]
    fn to_stage_keeps_units_by_form() {
        let point = doc! {"type": "Point", "coordinates": [1, 2]};
        let metres = doc! {"near": point.clone(), "key": "l", "spherical": true, "minDistance": 1, "maxDistance": 9.5};
        for form in [
            doc! {"$near": {"$geometry": point.clone(), "$minDistance": 1, "$maxDistance": 9.5}},
            doc! {"$geoNear": {"$geometry": point.clone(), "$minDistance": 1, "$maxDistance": 9.5}},
            doc! {"$nearSphere": point.clone(), "$minDistance": 1, "$maxDistance": 9.5},
        ] {
            assert_eq!(near(form).unwrap().to_stage(), metres);
        }
        let pair = doc! {"near": [1, 2], "key": "l", "spherical": false, "maxDistance": 3};
        for form in [
            doc! {"$near": [1, 2], "$maxDistance": 3},
            doc! {"$near": [1, 2, 3]},
            doc! {"$near": {"x": 1, "y": 2, "z": 3}},
            doc! {"$near": [1, 2, 7], "$maxDistance": 3},
        ] {
            assert_eq!(near(form).unwrap().to_stage(), pair);
        }
        let radians = near(doc! {"$nearSphere": [1, 2]}).unwrap().to_stage();
        assert_eq!(radians, doc! {"near": [1, 2], "key": "l", "spherical": true});
    }

    #[test]
    fn to_condition_is_a_containment_in_the_units_of_the_form() {
        let text = |operators| near(operators).unwrap().to_condition().to_string();
        let metres = text(doc! {"$near": {"type": "Point", "coordinates": [1, 2]}, "$maxDistance": EARTH_RADIUS / 2.0});
        assert!(metres.contains("$centerSphere") && metres.contains("0.5000000"), "{metres}");
        let radians = text(doc! {"$nearSphere": [1, 2], "$minDistance": 0.25});
        assert!(radians.contains("$centerSphere") && radians.contains("$not") && radians.contains("0.249999"));
        let planar = text(doc! {"$near": [1, 2], "$maxDistance": 3});
        assert!(planar.contains(r#""$center""#) && planar.contains("3.000000"), "{planar}");
        // Everywhere on a sphere.
        assert!(!text(doc! {"$nearSphere": [1, 2], "$maxDistance": 4}).contains("$geoWithin"));
    }

    #[test]
    fn parse_near_malformed_is_refused_with_the_servers_code() {
        let point = doc! {"type": "Point", "coordinates": [1, 2]};
        let code = |operators| match near(operators) {
            Err(Error::Invalid { code, .. }) => code,
            other => panic!("{other:?}"),
        };
        assert_eq!(code(doc! {"$near": [1, 2], "$gt": 1}), 34413);
        for form in [
            doc! {"$near": 1},
            doc! {"$near": [1]},
            doc! {"$near": ["a", "b"]},
            doc! {"$near": [1, 2], "$maxDistance": -1},
            doc! {"$near": [1, 2], "$minDistance": "a"},
            doc! {"$near": {"$geometry": [1, 2]}},
            doc! {"$near": {"$geometry": point.clone()}, "$maxDistance": 1},
            doc! {"$near": {"$geometry": point, "$foo": 1}},
        ] {
            assert_eq!(code(form), 2);
        }
    }
}
