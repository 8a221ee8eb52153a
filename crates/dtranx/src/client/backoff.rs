//! Waits before the next attempt (the retry rules of section 3.2).

use std::time::Duration;

use rand::RngExt;

const FIRST_US: u64 = 500;
const LAST_US: u64 = 200_000;

/// Waits that double, with chance in them so that rivals do not meet again.
#[derive(Debug)]
pub(super) struct Backoff {
    next_us: u64,
}

impl Backoff {
    pub(super) const fn new() -> Self {
        Self { next_us: FIRST_US }
    }

    pub(super) fn next(&mut self) -> Duration {
        let most_us = self.next_us;
        self.next_us = (self.next_us * 2).min(LAST_US);
        Duration::from_micros(rand::rng().random_range(most_us / 2..=most_us))
    }
}
