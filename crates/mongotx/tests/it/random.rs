//! The randomness of a sequence: everything follows from its seed.

use rand::{RngExt, SeedableRng, rngs::StdRng};

pub(crate) struct Random(StdRng);

impl Random {
    pub(crate) fn of_seed(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    /// A random number below `limit`, which is not zero.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0.random_range(0..limit)
    }

    /// A random number in `from..=to`.
    pub(crate) fn between(&mut self, from: i32, to: i32) -> i32 {
        self.0.random_range(from..=to)
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        &among[self.below(among.len())]
    }

    pub(crate) fn maybe<T>(&mut self, percent: usize, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.chance(percent) { Some(make(self)) } else { None }
    }

    /// Up to `most` of what `make` makes.
    pub(crate) fn several<T>(&mut self, most: usize, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let count = self.below(most + 1);
        (0..count).map(|_| make(self)).collect()
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}
