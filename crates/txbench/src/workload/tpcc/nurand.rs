//! Numbers that are not uniform (clause 2.1.6): some customers and items are used more often than
//! others.

use std::ops::RangeInclusive;

use super::{
    draw::Draw,
    scale::{FULL_CUSTOMERS, FULL_ITEMS, FULL_NAMES, Scale},
};

/// Distance that the constant for last names of a run may have from the one that the names were
/// loaded with (clause 2.1.6.1).
const DELTA: RangeInclusive<u32> = 65..=119;
/// Distances in [`DELTA`] that are not allowed.
const NO_DELTA: [u32; 2] = [96, 112];

/// One distribution: `NURand(A, x, y)` with its constant C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NuRand {
    /// A, by the size of the range.
    pub a: u32,
    /// C, from 0 to A.
    pub c: u32,
    /// Least value, x in the specification.
    pub from: u32,
    /// Greatest value, y in the specification.
    pub to: u32,
}

impl NuRand {
    /// A number from x to y.
    pub fn draw(&self, draw: &mut Draw) -> u32 {
        let either = draw.uniform(0..=self.a) | draw.uniform(self.from..=self.to);
        (either + self.c) % (self.to - self.from + 1) + self.from
    }
}

/// The three distributions, with the constants of a load or of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NuRands {
    /// Distribution of the numbers that last names are made of.
    pub last_name: NuRand,
    /// Distribution of customers within a district.
    pub customer: NuRand,
    /// Distribution of items in orders.
    pub item: NuRand,
}

impl NuRands {
    /// The distributions while the tables are filled.
    pub fn of_load(scale: &Scale, constants_seed: u64) -> Self {
        Self::with_constants(scale, &mut Draw::new(constants_seed, 0))
    }

    /// The distributions of a run on what was filled with the same `constants_seed`. All terminals
    /// of a run use the same.
    pub fn of_run(scale: &Scale, constants_seed: u64) -> Self {
        let loaded = Self::of_load(scale, constants_seed).last_name;
        let mut draw = Draw::new(constants_seed, 1);
        let mut run = Self::with_constants(scale, &mut draw);
        // A range that was scaled down has no room for the distance.
        let allowed: Vec<u32> = (0..=loaded.a).filter(|c| is_allowed(loaded.c, *c)).collect();
        if !allowed.is_empty() {
            run.last_name.c = allowed[draw.uniform(0..=allowed.len() as u32 - 1) as usize];
        }
        run
    }

    fn with_constants(scale: &Scale, draw: &mut Draw) -> Self {
        let mut choose = |full_a, full, from, count: u32| {
            let a = scaled_a(full_a, full, count);
            NuRand { a, c: draw.uniform(0..=a), from, to: from + count - 1 }
        };
        Self {
            last_name: choose(255, FULL_NAMES, 0, scale.names()),
            customer: choose(1023, FULL_CUSTOMERS, 1, scale.customers),
            item: choose(8191, FULL_ITEMS, 1, scale.items),
        }
    }
}

/// Returns true if a run may use this constant for last names (clause 2.1.6.1).
pub fn is_allowed(loaded: u32, run: u32) -> bool {
    let delta = loaded.abs_diff(run);
    DELTA.contains(&delta) && !NO_DELTA.contains(&delta)
}

/// A for `count` values where the specification has `full_a` for `full` values: of the same form,
/// 2^k - 1, and about the same part of the range.
fn scaled_a(full_a: u32, full: u32, count: u32) -> u32 {
    let most = u64::from(full_a + 1) * u64::from(count) / u64::from(full);
    let power = most.checked_ilog2().map_or(1, |k| 1_u32 << k);
    (power - 1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Scale {
        Scale::new(1, 1.0)
    }

    #[test]
    fn the_full_size_has_the_constants_of_the_specification() {
        let run = NuRands::of_run(&full(), 7);
        let shape = |n: NuRand| (n.a, n.from, n.to);
        assert_eq!(shape(run.last_name), (255, 0, 999));
        assert_eq!(shape(run.customer), (1023, 1, 3_000));
        assert_eq!(shape(run.item), (8191, 1, 100_000));
    }

    #[test]
    fn the_constant_for_names_of_a_run_is_as_far_from_the_loaded_one_as_allowed() {
        for seed in 0..2_000 {
            let (load, run) = (NuRands::of_load(&full(), seed), NuRands::of_run(&full(), seed));
            assert!(is_allowed(load.last_name.c, run.last_name.c), "{seed}: {load:?} {run:?}");
            assert!(run.last_name.c <= 255 && run.customer.c <= 1023 && run.item.c <= 8191);
        }
        assert!(is_allowed(0, 65) && is_allowed(184, 65) && is_allowed(200, 86));
        assert!(!is_allowed(0, 64) && !is_allowed(0, 120) && !is_allowed(0, 96) && !is_allowed(112, 0));
    }

    #[test]
    fn numbers_are_in_their_range_and_not_uniform() {
        let mut draw = Draw::new(1, 0);
        let items = NuRands::of_run(&full(), 1).item;
        let mut counts = vec![0_u32; 100_001];
        for _ in 0..500_000 {
            counts[items.draw(&mut draw) as usize] += 1;
        }
        assert_eq!(counts[0], 0);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        // A tenth of the items has well over a tenth of the demand: a binomial distribution over
        // the bits of A.
        let tenth: u32 = counts[..10_000].iter().sum();
        assert!((0.45..0.75).contains(&(f64::from(tenth) / 500_000.0)), "{tenth}");
    }

    #[test]
    fn the_formula_is_the_specification_s() {
        // With A = 0 the number is (x .. y + C) % size + x: the range turned by C.
        let turned = NuRand { a: 0, c: 3, from: 1, to: 1 };
        assert_eq!(turned.draw(&mut Draw::new(1, 0)), 1);
        // If A covers all bits of the range, the number is odd more often than not: bits are set
        // with 3 in 4.
        let biased = NuRand { a: 7, c: 0, from: 0, to: 7 };
        let mut draw = Draw::new(1, 0);
        let odd = (0..40_000).filter(|_| biased.draw(&mut draw) % 2 == 1).count();
        assert!((29_000..31_000).contains(&odd), "{odd}");
    }

    #[test]
    fn a_scaled_range_is_covered() {
        let scale = Scale::new(1, 0.01);
        let run = NuRands::of_run(&scale, 1);
        let mut draw = Draw::new(1, 0);
        for (nurand, count) in [(run.last_name, 10), (run.customer, 30), (run.item, 1_000)] {
            assert_eq!(nurand.to - nurand.from + 1, count);
            let seen: std::collections::BTreeSet<u32> = (0..200_000).map(|_| nurand.draw(&mut draw)).collect();
            assert_eq!(seen.len() as u32, count, "{nurand:?}");
        }
    }
}
