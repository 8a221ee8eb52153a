//! The choice of records: the distributions of YCSB.
//!
//! Records have numbers in the order in which they came. A key is made of a number's hash, so that
//! neighbours in the order of keys came at different times, and the most popular records are spread
//! over the whole range ("scrambled zipfian").

use rand::{RngExt, rngs::StdRng};
use rand_distr::{Distribution as _, Zipf};

use super::{distribution::Distribution, options::YcsbOptions};
use crate::{error::BenchError, workload::ClientId};

/// YCSB's constant of the zipfian distribution: the larger, the more unequal the choices.
const SKEW: f64 = 0.99;

/// One client's choices. It knows the records that were loaded and those that it has inserted
/// itself.
pub(super) struct Keys {
    distribution: Distribution,
    zipf: Zipf<f64>,
    loaded: u64,
    inserted: u64,
    id: ClientId,
}

impl Keys {
    pub(super) fn new(options: &YcsbOptions, id: ClientId) -> Result<Self, BenchError> {
        let zipf = Zipf::new(f64::from(options.records), SKEW)
            .map_err(|error| BenchError::Refused(format!("--records: {error}")))?;
        Ok(Self { distribution: options.distribution(), zipf, loaded: options.records.into(), inserted: 0, id })
    }

    /// The number of an existing record.
    pub(super) fn choose(&self, random: &mut StdRng) -> u64 {
        match self.distribution {
            Distribution::Uniform => random.random_range(0..self.loaded),
            Distribution::Zipfian => hash(self.rank(random)) % self.loaded,
            Distribution::Latest => self.by_age(self.rank(random)),
        }
    }

    /// Rank of a record that was loaded, from 0, the most popular first.
    fn rank(&self, random: &mut StdRng) -> u64 {
        (self.zipf.sample(random) as u64).clamp(1, self.loaded) - 1
    }

    /// The record that came so many before the last one.
    fn by_age(&self, age: u64) -> u64 {
        match self.inserted.checked_sub(age + 1) {
            Some(nth) => self.nth_inserted(nth),
            None => self.loaded.saturating_sub(age - self.inserted + 1),
        }
    }

    /// A number that no other client uses.
    fn nth_inserted(&self, nth: u64) -> u64 {
        self.loaded + nth * u64::from(self.id.of) + u64::from(self.id.index)
    }

    /// The number that comes `more` after the last record that this client has inserted.
    pub(super) fn next_to_insert(&self, more: u64) -> u64 {
        self.nth_inserted(self.inserted + more)
    }

    /// Notes that `count` records were inserted.
    pub(super) fn note_inserted(&mut self, count: u64) {
        self.inserted += count;
    }
}

/// The key of the record with this number.
pub(super) fn key(number: u64) -> String {
    format!("user{:020}", hash(number))
}

/// FNV-1a over the bytes of the number, as in YCSB.
fn hash(number: u64) -> u64 {
    const BASIS: u64 = 0xCBF2_9CE4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01B3;
    number.to_le_bytes().iter().fold(BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use clap::Parser;
    use rand::SeedableRng;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: YcsbOptions,
    }

    fn keys(distribution: &str, index: u32) -> Keys {
        let command = ["x", "--records", "1000", "--distribution", distribution];
        let options = Command::try_parse_from(command).unwrap().options;
        Keys::new(&options, ClientId { index, of: 4, seed: 1 }).unwrap()
    }

    fn drawn(keys: &Keys) -> BTreeMap<u64, u32> {
        let mut random = StdRng::seed_from_u64(3);
        let mut counts = BTreeMap::new();
        (0..100_000).for_each(|_| *counts.entry(keys.choose(&mut random)).or_default() += 1);
        counts
    }

    #[test]
    fn uniform_choices_are_alike() {
        let counts = drawn(&keys("uniform", 0));
        assert_eq!(counts.len(), 1_000);
        assert!(counts.values().all(|count| (50..=160).contains(count)), "{counts:?}");
    }

    /// The n-th most popular of 1,000 is chosen with probability n^-0.99 / H, H = 7.73.
    #[test]
    fn zipfian_choices_follow_the_law() {
        let counts = drawn(&keys("zipfian", 0));
        let mut by_count: Vec<f64> = counts.values().map(|count| f64::from(*count) / 100_000.0).collect();
        by_count.sort_by(|a, b| b.total_cmp(a));
        let harmonic: f64 = (1..=1_000).map(|n| f64::from(n).powf(-SKEW)).sum();
        // Two ranks may share a record by their hash, and so a popular record may be somewhat more
        // popular.
        for (rank, share) in [(1_u32, by_count[0]), (2, by_count[1]), (10, by_count[9])] {
            let expected = f64::from(rank).powf(-SKEW) / harmonic;
            assert!((share / expected - 1.0).abs() < 0.15, "rank {rank}: {share}, expected {expected}");
        }
    }

    #[test]
    fn popular_records_are_not_the_first() {
        let counts = drawn(&keys("zipfian", 0));
        let popular = counts.iter().max_by_key(|(_, count)| **count).unwrap().0;
        assert_eq!(*popular, hash(0) % 1_000);
    }

    #[test]
    fn the_latest_are_chosen_most_and_own_inserts_are_the_latest() {
        let mut keys = keys("latest", 2);
        let most = |keys: &Keys| drawn(keys).into_iter().max_by_key(|(_, count)| *count).unwrap().0;
        assert_eq!(most(&keys), 999);
        keys.note_inserted(3);
        assert_eq!(most(&keys), 1_000 + 2 * 4 + 2);
        let known: BTreeSet<u64> = drawn(&keys).into_keys().collect();
        assert!(known.iter().all(|number| *number < 1_000 || number % 4 == 2), "only its own: {known:?}");
    }

    #[test]
    fn clients_insert_different_numbers() {
        let numbers: BTreeSet<u64> = (0..4)
            .flat_map(|index| {
                let keys = keys("latest", index);
                (0..10).map(move |more| keys.next_to_insert(more)).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(numbers, (1_000..1_040).collect());
    }
}
