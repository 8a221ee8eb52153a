//! Radius of a check-in's first search.
//!
//! An application knows how dense its points are. Here it is measured: from some origins like those
//! of the check-ins, the distance within which there are enough points. The first search looks as
//! far as the worst of these needed, so that nearly every check-in is one search; those that find
//! too few double the radius.

use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::point::Point;

/// Distances that are computed at most.
const WORK: usize = 5_000_000;
/// Origins that are tried, if that is not too much work.
const ORIGINS: usize = 200;
/// Distance of users from one of the points, in degrees, north or south and east or west.
const NEARBY: f64 = 0.05;

/// Place of a user: near one of the points, chosen at random.
pub(super) fn origin(random: &mut StdRng, points: &[Point]) -> Point {
    let point = points[random.random_range(0..points.len())];
    point.shifted(random.random_range(-NEARBY..NEARBY), random.random_range(-NEARBY..NEARBY))
}

/// The first radius for this many documents, in metres. `points` are at least as many.
pub(super) fn first_m(points: &[Point], documents: usize) -> f64 {
    let mut random = StdRng::seed_from_u64(points.len() as u64);
    let origins = (WORK / points.len()).clamp(1, ORIGINS);
    let needed = |origin: Point| {
        let mut distances: Vec<f64> = points.iter().map(|point| origin.distance_m(*point)).collect();
        let (_, nth, _) = distances.select_nth_unstable_by(documents - 1, f64::total_cmp);
        *nth
    };
    (0..origins).map(|_| needed(origin(&mut random, points))).fold(1.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::{super::synthetic, *};

    #[test]
    fn the_first_radius_holds_enough_points_nearly_always_and_grows_with_their_number() {
        let points = synthetic::points(2_000, 1);
        let mut random = StdRng::seed_from_u64(7);
        let origins: Vec<Point> = (0..200).map(|_| origin(&mut random, &points)).collect();
        let mut last = 0.0;
        for documents in [1, 5, 20] {
            let radius = first_m(&points, documents);
            let enough = |origin: &&Point| {
                points.iter().filter(|point| origin.distance_m(**point) <= radius).count() >= documents
            };
            assert!(origins.iter().filter(enough).count() >= 190, "{documents}");
            assert!(radius > last, "{documents}: {radius} m after {last} m");
            last = radius;
        }
    }
}
