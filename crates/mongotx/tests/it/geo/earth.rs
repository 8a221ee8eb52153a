//! Distances, computed by the test.

/// The server's radius of the earth, in metres.
pub(crate) const RADIUS: f64 = 6_378_100.0;

/// Longitude and latitude, or x and y.
pub(crate) type Point = [f64; 2];

pub(crate) fn planar(a: Point, b: Point) -> f64 {
    (a[0] - b[0]).hypot(a[1] - b[1])
}

/// The angle between two points of the sphere, by the haversine formula.
pub(crate) fn radians(a: Point, b: Point) -> f64 {
    let [lon_a, lat_a, lon_b, lat_b] = [a[0], a[1], b[0], b[1]].map(f64::to_radians);
    let h = ((lat_b - lat_a) / 2.0).sin().powi(2) + lat_a.cos() * lat_b.cos() * ((lon_b - lon_a) / 2.0).sin().powi(2);
    2.0 * h.sqrt().min(1.0).asin()
}

#[test]
fn radians_of_a_quarter_of_the_equator() {
    assert!((radians([0.0, 0.0], [90.0, 0.0]) - std::f64::consts::FRAC_PI_2).abs() < 1e-12);
    assert!((radians([0.0, -90.0], [77.0, 90.0]) - std::f64::consts::PI).abs() < 1e-7);
}
