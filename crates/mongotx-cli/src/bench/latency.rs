//! Latencies of one kind of call: how many, and how they are spread.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::BenchError;

/// Digits of a latency that are kept.
const DIGITS: u8 = 3;

/// Latencies, in nanoseconds.
pub(crate) struct Latencies {
    spread: Histogram<u64>,
    total: Duration,
}

impl Latencies {
    pub(crate) fn new() -> Result<Self, BenchError> {
        let spread = Histogram::new(DIGITS).map_err(|error| BenchError::Failed(format!("no histogram: {error}")))?;
        Ok(Self { spread, total: Duration::ZERO })
    }

    /// One more call.
    pub(crate) fn note(&mut self, latency: Duration) -> Result<(), BenchError> {
        let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.total = self.total.saturating_add(latency);
        self.spread.record(ns).map_err(|error| BenchError::Failed(format!("histogram: {error}")))
    }

    /// Those of another client besides.
    pub(crate) fn add(&mut self, other: &Self) -> Result<(), BenchError> {
        self.total = self.total.saturating_add(other.total);
        self.spread.add(&other.spread).map_err(|error| BenchError::Failed(format!("histogram: {error}")))
    }

    /// How many calls.
    pub(crate) fn count(&self) -> u64 {
        self.spread.len()
    }

    /// The latency that this part of the calls does not exceed; 0 where there are none.
    pub(crate) fn quantile_ms(&self, quantile: f64) -> f64 {
        self.spread.value_at_quantile(quantile) as f64 / 1_000_000.0
    }

    /// The mean latency; 0 where there are none.
    pub(crate) fn mean_ms(&self) -> f64 {
        self.total.as_secs_f64() * 1_000.0 / self.count().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_of_two_clients_are_told_together() {
        let (mut one, mut other) = (Latencies::new().unwrap(), Latencies::new().unwrap());
        one.note(Duration::from_micros(200)).unwrap();
        other.note(Duration::from_millis(1)).unwrap();
        other.note(Duration::from_millis(3)).unwrap();
        one.add(&other).unwrap();
        assert_eq!(one.count(), 3);
        assert!((one.mean_ms() - 1.4).abs() < 1e-9, "{}", one.mean_ms());
        assert!((one.quantile_ms(0.5) - 1.0).abs() < 0.01, "{}", one.quantile_ms(0.5));
        assert!((one.quantile_ms(0.99) - 3.0).abs() < 0.01, "{}", one.quantile_ms(0.99));
    }
}
