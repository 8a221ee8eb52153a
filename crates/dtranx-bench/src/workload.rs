//! Transactions, drawn from a seed.
//!
//! The paper's (DTranx, section 5.1): one to three items, an update writes one of them without
//! reading it. And transfers, which read two counters and write both: their sum shows afterwards
//! whether the store kept its word. And modifications, which read an item and write it.

use clap::ValueEnum;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use rand_distr::{Distribution as _, Zipf};

/// YCSB's constant of the zipfian distribution: the larger, the more unequal the choices.
const SKEW: f64 = 0.99;
/// Items of one of the paper's transactions, at most.
const MOST_ITEMS: u64 = 3;

/// Distributions by which keys are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Distribution {
    /// All keys are equally likely.
    Uniform,
    /// A few most of the time, anywhere among the others.
    Zipfian,
}

/// The shape of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shape {
    /// One to three items, all read, or the others read and one written
    Paper,
    /// Two counters: both read, one lowered, one raised
    Transfer,
    /// One item: read, then written
    Modify,
}

impl Shape {
    /// Name in the option.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Transfer => "transfer",
            Self::Modify => "modify",
        }
    }
}

/// One transaction. Keys are numbers below the number of keys, all different.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Transaction {
    /// Reads these keys.
    Read(Vec<u64>),
    /// Reads the first, writes the second.
    Update(Vec<u64>, u64),
    /// Lowers one counter and raises the other.
    Transfer(u64, u64),
}

impl Transaction {
    /// Name of its kind in results.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Read(_) => "read",
            Self::Update(..) => "update",
            Self::Transfer(..) => "transfer",
        }
    }

    /// Number of its reads and writes, of a key each.
    pub(crate) fn operations(&self) -> u32 {
        match self {
            Self::Read(keys) => keys.len() as u32,
            Self::Update(keys, _) => keys.len() as u32 + 1,
            Self::Transfer(..) => 4,
        }
    }
}

/// Source of one client's transactions.
pub(crate) struct Draw {
    random: StdRng,
    zipf: Option<Zipf<f64>>,
    shape: Shape,
    keys: u64,
    reads: u8,
}

/// The mix from which transactions are drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mix {
    /// Shape of the transactions.
    pub(crate) shape: Shape,
    /// Distribution of the keys.
    pub(crate) distribution: Distribution,
    /// Number of keys, two at least.
    pub(crate) keys: u64,
    /// Parts of a hundred that only read.
    pub(crate) reads: u8,
}

impl Draw {
    /// A source of transactions; each seed is another client's.
    pub(crate) fn new(mix: Mix, seed: u64) -> Self {
        let zipf = match mix.distribution {
            Distribution::Uniform => None,
            Distribution::Zipfian => Zipf::new(mix.keys as f64, SKEW).ok(),
        };
        Self { random: StdRng::seed_from_u64(seed), zipf, shape: mix.shape, keys: mix.keys, reads: mix.reads }
    }

    /// Draws the next transaction.
    pub(crate) fn next(&mut self) -> Transaction {
        match self.shape {
            Shape::Paper => {}
            Shape::Transfer => {
                let mut two = self.different(2);
                return Transaction::Transfer(two.remove(0), two.remove(0));
            }
            Shape::Modify => {
                let key = self.key();
                return Transaction::Update(vec![key], key);
            }
        }
        let items = self.random.random_range(1..=MOST_ITEMS.min(self.keys));
        let mut keys = self.different(items as usize);
        if self.random.random_range(0..100) < self.reads {
            return Transaction::Read(keys);
        }
        let written = keys.swap_remove(0);
        Transaction::Update(keys, written)
    }

    /// Draws so many different keys, not more than there are.
    fn different(&mut self, count: usize) -> Vec<u64> {
        let mut keys = Vec::with_capacity(count);
        while keys.len() < count {
            let key = self.key();
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }

    fn key(&mut self) -> u64 {
        match &self.zipf {
            None => self.random.random_range(0..self.keys),
            Some(zipf) => scattered(zipf.sample(&mut self.random) as u64) % self.keys,
        }
    }
}

/// Spreads neighbours: the finalizer of SplitMix64.
fn scattered(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

/// A key as stores have it.
pub(crate) fn key(number: u64) -> Vec<u8> {
    format!("key{number:012}").into_bytes()
}

/// A value of this length that counts so far: the counter, and bytes that do not compress.
pub(crate) fn value(counter: i64, bytes: u32) -> Vec<u8> {
    let mut value = counter.to_be_bytes().to_vec();
    let mut filling = counter as u64;
    while value.len() < bytes as usize {
        filling = scattered(filling);
        value.extend_from_slice(&filling.to_be_bytes());
    }
    value.truncate(bytes as usize);
    value
}

/// The counter of a value; `None` where it is none.
pub(crate) fn counter(value: &[u8]) -> Option<i64> {
    Some(i64::from_be_bytes(value.get(..8)?.try_into().ok()?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn mix(shape: Shape, reads: u8) -> Mix {
        Mix { shape, distribution: Distribution::Uniform, keys: 1000, reads }
    }

    fn drawn(mix: Mix, seed: u64) -> Vec<Transaction> {
        let mut draw = Draw::new(mix, seed);
        (0..10_000).map(|_| draw.next()).collect()
    }

    #[test]
    fn the_same_seed_draws_the_same() {
        assert_eq!(drawn(mix(Shape::Paper, 50), 7), drawn(mix(Shape::Paper, 50), 7));
        assert_ne!(drawn(mix(Shape::Paper, 50), 7), drawn(mix(Shape::Paper, 50), 8));
    }

    #[test]
    fn the_papers_mix_has_its_parts() {
        let drawn = drawn(mix(Shape::Paper, 95), 1);
        let reads = drawn.iter().filter(|one| matches!(one, Transaction::Read(_))).count();
        assert!((9_350..9_650).contains(&reads), "{reads}");
        let sizes = drawn.iter().map(|one| match one {
            Transaction::Read(keys) => keys.len(),
            Transaction::Update(keys, _) => keys.len() + 1,
            Transaction::Transfer(..) => panic!("not in this mix"),
        });
        let mut seen = [0_u32; 4];
        sizes.for_each(|size| seen[size] += 1);
        assert_eq!(seen[0], 0);
        assert!(seen[1..].iter().all(|count| (3_000..3_700).contains(count)), "{seen:?}");
    }

    #[test]
    fn transfers_are_between_different_counters() {
        let two = Mix { keys: 2, ..mix(Shape::Transfer, 0) };
        assert!(drawn(two, 3).iter().all(|one| matches!(one, Transaction::Transfer(a, b) if a != b && a + b == 1)));
    }

    #[test]
    fn modifications_write_what_they_read() {
        let drawn = drawn(mix(Shape::Modify, 0), 5);
        assert!(drawn.iter().all(|one| matches!(one, Transaction::Update(read, written) if *read == [*written])));
    }

    #[test]
    fn zipfian_choices_have_favourites() {
        let skewed = Mix { distribution: Distribution::Zipfian, ..mix(Shape::Transfer, 0) };
        let mut counts = vec![0_u32; 1000];
        for one in drawn(skewed, 4) {
            let Transaction::Transfer(a, b) = one else { panic!("a transfer") };
            counts[a as usize] += 1;
            counts[b as usize] += 1;
        }
        counts.sort_unstable();
        assert!(counts[999] > 1_000 && counts[0] < 20, "{} {}", counts[999], counts[0]);
    }

    #[test]
    fn values_keep_their_counter_and_length() {
        assert_eq!((counter(&value(-5, 100)), value(-5, 100).len()), (Some(-5), 100));
        assert_eq!(counter(&[1, 2]), None);
    }
}
