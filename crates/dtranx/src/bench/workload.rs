//! What the transactions are.

use rand::rngs::StdRng;
use rand::{Rng, RngExt};
use rand_distr::{Distribution as _, Zipf};

use super::BenchError;
use crate::core::{Key, Value};

const ZIPF_EXPONENT: f64 = 0.99;
const MOST_ITEMS: usize = 3;

/// How keys are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Each as often as any other.
    Uniform,
    /// Few very often (exponent 0.99, as in YCSB).
    Zipfian,
}

/// The load.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// How many keys there are.
    pub keys: u64,
    /// The length of a value.
    pub value_bytes: usize,
    /// How many of a hundred transactions only read.
    pub reads_percent: u8,
    /// How keys are chosen.
    pub distribution: Distribution,
}

/// One transaction to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Planned {
    pub(super) reads: Vec<Key>,
    pub(super) write: Option<(Key, Value)>,
}

pub(super) struct Planner {
    load: Load,
    zipf: Option<Zipf<f64>>,
    random: StdRng,
}

impl Planner {
    pub(super) fn new(load: Load, random: StdRng) -> Result<Self, BenchError> {
        let wrong = |option, what: &str| BenchError::Option { option, what: what.to_owned() };
        if load.keys < MOST_ITEMS as u64 {
            return Err(wrong("keys", "at least 3"));
        }
        if load.reads_percent > 100 {
            return Err(wrong("reads", "at most 100 percent"));
        }
        Value::new(vec![0; load.value_bytes]).map_err(|error| wrong("value bytes", &error.to_string()))?;
        let zipf = match load.distribution {
            Distribution::Uniform => None,
            Distribution::Zipfian => {
                let zipf = Zipf::new(load.keys as f64, ZIPF_EXPONENT);
                Some(zipf.map_err(|error| wrong("keys", &error.to_string()))?)
            }
        };
        Ok(Self { load, zipf, random })
    }

    pub(super) fn plan(&mut self) -> Planned {
        let mut numbers: Vec<u64> = Vec::with_capacity(MOST_ITEMS);
        let wanted = self.random.random_range(1..=MOST_ITEMS);
        while numbers.len() < wanted {
            let number = self.number();
            if !numbers.contains(&number) {
                numbers.push(number);
            }
        }
        let is_update = self.random.random_range(0..100) >= self.load.reads_percent;
        let write = if is_update { numbers.pop() } else { None };
        let write = write.and_then(|number| Some((key(number), self.value()?)));
        Planned { reads: numbers.into_iter().map(key).collect(), write }
    }

    fn number(&mut self) -> u64 {
        match &self.zipf {
            None => self.random.random_range(0..self.load.keys),
            // Spread over the keys, so that neighbours are not all popular.
            Some(zipf) => {
                let rank = zipf.sample(&mut self.random) as u64;
                rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) % self.load.keys
            }
        }
    }

    /// `None` for a length that was refused before.
    pub(super) fn value(&mut self) -> Option<Value> {
        let mut bytes = vec![0; self.load.value_bytes];
        self.random.fill_bytes(&mut bytes);
        Value::new(bytes).ok()
    }
}

pub(super) fn key(number: u64) -> Key {
    // Twenty digits are within every limit.
    Key::new(format!("user{number:012}").into_bytes()).unwrap_or(Key::smallest())
}
