//! The fields of a record that hold its point: as named (`--fields`), or guessed.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::point::Point;

/// Fields that hold both coordinates, the longitude first.
const BOTH: [&str; 6] = ["loc", "location", "geometry", "coordinates", "position", "point"];
const LONGITUDE: [&str; 5] = ["longitude", "lon", "lng", "long", "x"];
const LATITUDE: [&str; 3] = ["latitude", "lat", "y"];

/// The fields that `--fields` names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fields {
    /// One that holds both: `[longitude, latitude]`, a GeoJSON point, or an object with a field for
    /// each.
    Both(String),
    /// A field for each coordinate.
    Each {
        /// Name of the field with the longitude.
        longitude: String,
        /// Name of the field with the latitude.
        latitude: String,
    },
}

impl FromStr for Fields {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split(',').map(str::trim).collect::<Vec<_>>().as_slice() {
            [both] if !both.is_empty() => Ok(Self::Both((*both).to_owned())),
            [longitude, latitude] if !longitude.is_empty() && !latitude.is_empty() => {
                Ok(Self::Each { longitude: (*longitude).to_owned(), latitude: (*latitude).to_owned() })
            }
            _ => Err("the name of one field, or those of longitude and latitude (lon,lat), are expected".to_owned()),
        }
    }
}

/// The point of a record; the text names the field that is wrong or missing.
pub(super) fn point(record: &Map<String, Value>, fields: Option<&Fields>) -> Result<Point, String> {
    match fields {
        Some(Fields::Both(name)) => both(name, named(record, name)?),
        Some(Fields::Each { longitude, latitude }) => {
            let longitude = Field { name: longitude, value: named(record, longitude)? };
            let latitude = Field { name: latitude, value: named(record, latitude)? };
            each(longitude, latitude)
        }
        None => guessed(record).unwrap_or_else(|| {
            Err("no field holds a point (loc, location, …; longitude and latitude): name them with --fields".to_owned())
        }),
    }
}

/// A field of a record.
#[derive(Clone, Copy)]
struct Field<'a> {
    name: &'a str,
    value: &'a Value,
}

fn named<'a>(record: &'a Map<String, Value>, name: &str) -> Result<&'a Value, String> {
    record.get(name).ok_or_else(|| format!("there is no field {name}"))
}

/// The field with one of these names, the first name first, in whatever case.
fn any<'a>(record: &'a Map<String, Value>, names: &[&str]) -> Option<Field<'a>> {
    let mut found = names.iter().filter_map(|name| record.iter().find(|(field, _)| field.eq_ignore_ascii_case(name)));
    found.next().map(|(name, value)| Field { name, value })
}

fn guessed(record: &Map<String, Value>) -> Option<Result<Point, String>> {
    if let Some(Field { name, value }) = any(record, &BOTH) {
        return Some(both(name, value));
    }
    Some(each(any(record, &LONGITUDE)?, any(record, &LATITUDE)?))
}

fn both(name: &str, value: &Value) -> Result<Point, String> {
    let inner = match value {
        Value::Object(geo_json) if geo_json.contains_key("coordinates") => &geo_json["coordinates"],
        Value::Object(object) => {
            return guessed(object).unwrap_or_else(|| Err(format!("{name} has no longitude and latitude")));
        }
        value => value,
    };
    match inner {
        Value::Array(pair) if pair.len() == 2 => each(Field { name, value: &pair[0] }, Field { name, value: &pair[1] }),
        _ => Err(format!("{name} is no pair of longitude and latitude")),
    }
}

fn each(longitude: Field<'_>, latitude: Field<'_>) -> Result<Point, String> {
    let number = |Field { name, value }: Field<'_>| match value {
        Value::Number(number) => number.as_f64().ok_or_else(|| format!("{name} is too large")),
        // CSV has text only, and some JSON too.
        Value::String(text) => text.trim().parse().map_err(|_| format!("{name} is no number: {text:?}")),
        other => Err(format!("{name} is no number: {other}")),
    };
    let (east, north) = (number(longitude)?, number(latitude)?);
    Point::new(east, north).map_err(|what| match longitude.name == latitude.name {
        true => format!("{}: {what}", longitude.name),
        false => format!("{}, {}: {what}", longitude.name, latitude.name),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(record: &Value, fields: Option<&str>) -> Result<Point, String> {
        point(record.as_object().unwrap(), fields.map(|text| text.parse().unwrap()).as_ref())
    }

    #[test]
    fn points_are_guessed() {
        for record in [
            json!({"_id": "01001", "loc": [-72.5, 42.25], "pop": 1}),
            json!({"location": {"type": "Point", "coordinates": [-72.5, 42.25]}}),
            json!({"type": "Feature", "geometry": {"type": "Point", "coordinates": [-72.5, 42.25]}}),
            json!({"position": {"lat": 42.25, "lng": -72.5}}),
            json!({"Latitude": 42.25, "Longitude": -72.5}),
            json!({"lat": " 42.25", "lon": "-72.5"}),
        ] {
            assert_eq!(read(&record, None), Point::new(-72.5, 42.25), "{record}");
        }
    }

    #[test]
    fn points_are_in_the_fields_that_are_named() {
        let record = json!({"a": -72.5, "b": 42.25, "c": [-72.5, 42.25], "loc": [0, 0]});
        for fields in ["a,b", "a, b", "c"] {
            assert_eq!(read(&record, Some(fields)), Point::new(-72.5, 42.25), "{fields}");
        }
    }

    #[test]
    fn what_is_no_point_is_refused_by_the_field() {
        for (record, fields, said) in [
            (json!({"city": "x"}), None, "--fields"),
            (json!({"loc": [1, 2, 3]}), None, "loc is no pair"),
            (json!({"loc": "1,2"}), None, "loc is no pair"),
            (json!({"loc": {}}), None, "loc has no longitude"),
            (json!({"loc": [200, 0]}), None, "loc: the longitude is 200"),
            (json!({"lon": 0, "lat": "north"}), None, "lat is no number: \"north\""),
            (json!({"lon": 0, "lat": null}), None, "lat is no number: null"),
            (json!({"lon": 0, "lat": -91}), None, "lon, lat: the latitude is -91"),
            (json!({"lon": 0}), Some("lon,lat"), "no field lat"),
        ] {
            let error = read(&record, fields).unwrap_err();
            assert!(error.contains(said), "{record}: {error}");
        }
        for text in ["", ",", "a,b,c", "a,"] {
            assert!(text.parse::<Fields>().is_err(), "{text}");
        }
    }
}
