//! Latencies of one kind of work: their number and their distribution.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Digits of a latency that are kept.
const DIGITS: u8 = 3;
/// The longest latency that is counted exactly, in nanoseconds: ten minutes. Longer ones count as
/// that.
const LONGEST_NS: u64 = 600_000_000_000;

/// A distribution of latencies, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Latencies {
    spread: Histogram<u64>,
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

impl Latencies {
    /// A distribution without any latency.
    pub fn new() -> Self {
        // The bounds are constants that the histogram takes; without them it would grow by itself.
        let spread = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS);
        Self { spread: spread.unwrap_or_else(|_| unreachable!("the bounds of the histogram are valid")) }
    }

    /// Adds the latency of one transaction to the distribution.
    pub fn note(&mut self, latency: Duration) {
        self.note_ns(u64::try_from(latency.as_nanos()).unwrap_or(LONGEST_NS), 1);
    }

    fn note_ns(&mut self, ns: u64, count: u64) {
        self.spread.saturating_record_n(ns.clamp(1, LONGEST_NS), count);
    }

    /// Adds the latencies of another client.
    pub fn add(&mut self, other: &Self) {
        // Not by the histogram's own addition: it keeps the exact least and greatest value, which
        // JSON does not have, and a result that is read again has to have the same figures.
        for value in other.spread.iter_recorded() {
            self.note_ns(value.value_iterated_to(), value.count_at_value());
        }
    }

    /// Number of latencies that were recorded.
    pub fn count(&self) -> u64 {
        self.spread.len()
    }

    /// The latency in milliseconds that this part (0 to 1) of all does not exceed; 0 where there
    /// are none.
    pub fn quantile_ms(&self, quantile: f64) -> f64 {
        self.spread.value_at_quantile(quantile) as f64 / 1_000_000.0
    }

    /// The mean in milliseconds; 0 where there are none.
    pub fn mean_ms(&self) -> f64 {
        self.spread.mean() / 1_000_000.0
    }

    /// The longest in milliseconds; 0 where there are none.
    pub fn max_ms(&self) -> f64 {
        self.spread.max() as f64 / 1_000_000.0
    }
}

/// Written as pairs of a latency in nanoseconds and the number of its occurrences.
impl Serialize for Latencies {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer
            .collect_seq(self.spread.iter_recorded().map(|value| (value.value_iterated_to(), value.count_at_value())))
    }
}

impl<'de> Deserialize<'de> for Latencies {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut latencies = Self::new();
        for (ns, count) in Vec::<(u64, u64)>::deserialize(deserializer)? {
            latencies.note_ns(ns, count);
        }
        Ok(latencies)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn three() -> Latencies {
        let (mut one, mut other) = (Latencies::new(), Latencies::new());
        one.note(Duration::from_micros(200));
        other.note(Duration::from_millis(1));
        other.note(Duration::from_millis(3));
        one.add(&other);
        one
    }

    #[test]
    fn latencies_of_two_clients_are_reported_together() {
        let one = three();
        assert_eq!(one.count(), 3);
        assert!((one.mean_ms() - 1.4).abs() < 0.01, "{}", one.mean_ms());
        assert!((one.quantile_ms(0.5) - 1.0).abs() < 0.01, "{}", one.quantile_ms(0.5));
        assert!((one.quantile_ms(0.99) - 3.0).abs() < 0.01, "{}", one.quantile_ms(0.99));
    }

    #[test]
    fn latencies_survive_the_way_through_json() {
        let one = three();
        let back: Latencies = serde_json::from_str(&serde_json::to_string(&one).unwrap()).unwrap();
        assert_eq!(back.count(), 3);
        for quantile in [0.1, 0.5, 0.99, 1.0] {
            assert!((back.quantile_ms(quantile) - one.quantile_ms(quantile)).abs() < 1e-9);
        }
    }

    #[test]
    fn a_latency_beyond_the_longest_counts_as_the_longest() {
        let mut one = Latencies::new();
        one.note(Duration::from_secs(3_600));
        assert!((one.max_ms() - 600_000.0).abs() < 1_000.0, "{}", one.max_ms());
    }
}
