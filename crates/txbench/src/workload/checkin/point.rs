//! A point on the earth: its limits, its distance to others, its GeoJSON. Where records have it is
//! in `fields`.

use bson::{Bson, Document, doc};

/// The radius of the sphere that the server measures on, in metres.
const EARTH_M: f64 = 6_378_100.0;
/// Half around it: nothing is farther away.
pub(super) const FARTHEST_M: f64 = 20_038_000.0;

/// A place on the earth, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    /// Degrees of longitude, from -180 to 180.
    pub(super) longitude: f64,
    /// Degrees of latitude, from -90 to 90.
    pub(super) latitude: f64,
}

impl Point {
    /// Makes a point, if the coordinates are in range; the text names the one that is not.
    pub(super) fn new(longitude: f64, latitude: f64) -> Result<Self, String> {
        for (name, value, most) in [("longitude", longitude, 180.0), ("latitude", latitude, 90.0)] {
            if !(-most..=most).contains(&value) {
                return Err(format!("the {name} is {value}, from -{most} to {most} is allowed"));
            }
        }
        Ok(Self { longitude, latitude })
    }

    /// The point so many degrees to the east and to the north, around the date line, and at most to
    /// a pole.
    pub(super) fn shifted(self, east: f64, north: f64) -> Self {
        let longitude = (self.longitude + east + 180.0).rem_euclid(360.0) - 180.0;
        Self { longitude, latitude: (self.latitude + north).clamp(-90.0, 90.0) }
    }

    /// The distance on the sphere, in metres (haversine formula).
    pub(super) fn distance_m(self, other: Self) -> f64 {
        let half = |one: f64, other: f64| ((other - one).to_radians() / 2.0).sin().powi(2);
        let across = self.latitude.to_radians().cos() * other.latitude.to_radians().cos();
        let chord = half(self.latitude, other.latitude) + across * half(self.longitude, other.longitude);
        2.0 * EARTH_M * chord.sqrt().min(1.0).asin()
    }

    /// The point as GeoJSON.
    pub(super) fn to_geo_json(self) -> Document {
        doc! {"type": "Point", "coordinates": [self.longitude, self.latitude]}
    }

    /// Reads a point from GeoJSON.
    pub(super) fn of_geo_json(document: &Document) -> Option<Self> {
        match document.get_array("coordinates").ok()?.as_slice() {
            [Bson::Double(longitude), Bson::Double(latitude)] => Self::new(*longitude, *latitude).ok(),
            _ => None,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn at(longitude: f64, latitude: f64) -> Point {
        Point::new(longitude, latitude).unwrap()
    }

    #[test]
    fn distances_are_those_of_the_sphere() {
        let quarter = EARTH_M * std::f64::consts::FRAC_PI_2;
        for (one, other, expected) in [
            (at(0.0, 0.0), at(90.0, 0.0), quarter),
            (at(-30.0, 90.0), at(77.0, 0.0), quarter),
            (at(0.0, 0.0), at(180.0, 0.0), 2.0 * quarter),
            (at(179.5, 0.0), at(-179.5, 0.0), quarter / 90.0),
            (at(5.0, 50.0), at(5.0, 50.0), 0.0),
        ] {
            assert!((one.distance_m(other) - expected).abs() < 1e-3, "{one:?} {other:?}");
        }
        assert!(2.0 * quarter < FARTHEST_M);
    }

    #[test]
    fn a_shift_goes_around_the_date_line_and_stops_at_a_pole() {
        assert_eq!(at(179.0, 89.0).shifted(2.0, 3.0), at(-179.0, 90.0));
        assert_eq!(at(-179.0, -10.0).shifted(-2.0, 1.0), at(179.0, -9.0));
    }

    #[test]
    fn what_is_on_no_map_is_refused_by_name() {
        assert!(Point::new(181.0, 0.0).unwrap_err().contains("longitude is 181"));
        assert!(Point::new(0.0, -90.5).unwrap_err().contains("latitude is -90.5"));
        assert!(Point::new(f64::NAN, 0.0).is_err());
    }

    #[test]
    fn a_point_is_the_same_after_geo_json() {
        assert_eq!(Point::of_geo_json(&at(1.5, -2.25).to_geo_json()), Some(at(1.5, -2.25)));
    }
}
