//! Points where no file is given: clustered like towns.
//!
//! Towns lie anywhere in a few rectangles that are mostly land (the continents' interiors), and
//! differ in size: the n-th has a share of about 1/n of the points. A town's points are spread
//! around its centre like a normal distribution, with a standard deviation of 2 to 30 km. One point
//! in five lies outside all towns, anywhere in its rectangle.

use rand::{RngExt, SeedableRng, rngs::StdRng};
use rand_distr::StandardNormal;

use super::point::Point;

/// West, east, south and north, in degrees.
const LAND: [[f64; 4]; 6] = [
    [-115.0, -82.0, 33.0, 48.0],
    [-64.0, -45.0, -25.0, -5.0],
    [0.0, 35.0, 46.0, 55.0],
    [12.0, 35.0, -25.0, 5.0],
    [74.0, 85.0, 15.0, 28.0],
    [102.0, 118.0, 25.0, 38.0],
];
const TOWNS: usize = 600;
const METRES_PER_DEGREE: f64 = 111_319.0;

struct Town {
    centre: Point,
    spread_m: f64,
    /// Shares of all towns up to this one.
    share_end: f64,
}

/// Makes `count` points from a seed.
pub(super) fn points(count: usize, seed: u64) -> Vec<Point> {
    let mut random = StdRng::seed_from_u64(seed);
    let towns = towns(&mut random);
    let all = towns.last().map_or(0.0, |last| last.share_end);
    let mut point = || match random.random_range(0..5) {
        0 => anywhere(&mut random),
        _ => {
            let at = random.random_range(0.0..all);
            let town = towns.partition_point(|town| town.share_end <= at).min(towns.len() - 1);
            around(&mut random, &towns[town])
        }
    };
    (0..count).map(|_| point()).collect()
}

fn towns(random: &mut StdRng) -> Vec<Town> {
    let mut share_end = 0.0;
    let town = |nth: usize| {
        share_end += 1.0 / nth as f64;
        let spread_m = random.random_range(2_000.0..30_000.0);
        Town { centre: anywhere(random), spread_m, share_end }
    };
    (1..=TOWNS).map(town).collect()
}

fn anywhere(random: &mut StdRng) -> Point {
    let [west, east, south, north] = LAND[random.random_range(0..LAND.len())];
    Point { longitude: random.random_range(west..east), latitude: random.random_range(south..north) }
}

/// A place in or around this town.
fn around(random: &mut StdRng, town: &Town) -> Point {
    let spread = town.spread_m / METRES_PER_DEGREE;
    let (east, north): (f64, f64) = (random.sample(StandardNormal), random.sample(StandardNormal));
    town.centre.shifted(spread * east / town.centre.latitude.to_radians().cos(), spread * north)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The distance to the nearest neighbour: the median of some points.
    fn nearest_m(points: &[Point]) -> f64 {
        let nearest = |at: usize| {
            let others = points.iter().enumerate().filter(|(other, _)| *other != at);
            others.map(|(_, other)| points[at].distance_m(*other)).fold(f64::MAX, f64::min)
        };
        let mut distances: Vec<f64> = (0..101).map(nearest).collect();
        *distances.select_nth_unstable_by(50, f64::total_cmp).1
    }

    #[test]
    fn points_lie_on_the_map_and_closer_together_than_by_chance() {
        let made = points(5_000, 1);
        assert!(made.iter().all(|point| Point::new(point.longitude, point.latitude).is_ok()));
        let mut random = StdRng::seed_from_u64(2);
        let by_chance: Vec<Point> = (0..5_000).map(|_| anywhere(&mut random)).collect();
        let (made, by_chance) = (nearest_m(&made), nearest_m(&by_chance));
        assert!(made < by_chance / 2.0, "{made} m, by chance {by_chance} m");
    }

    #[test]
    fn the_same_seed_makes_the_same_points_and_another_makes_others() {
        assert_eq!(points(100, 1), points(100, 1));
        assert_ne!(points(100, 1), points(100, 2));
    }
}
