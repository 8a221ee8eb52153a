//! Pauses between attempts at the same thing, of clients and of servers. The waits of the pure core
//! are numbers of its own.

use std::time::Duration;

use rand::RngExt;

/// Pauses that double, up to a longest one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    first: Duration,
    next: Duration,
    last: Duration,
}

impl Backoff {
    /// Pauses from `first` to `last`.
    pub(crate) const fn new(first: Duration, last: Duration) -> Self {
        Self { first, next: first, last }
    }

    /// Length of the next pause.
    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = pause.saturating_mul(2).min(self.last);
        pause
    }

    /// The same, shorter by up to a half by chance, so that rivals that met do not meet again.
    pub(crate) fn next_by_chance(&mut self) -> Duration {
        self.next().mul_f64(rand::rng().random_range(0.5..=1.0))
    }

    /// Begins with the first pause again: an attempt has succeeded.
    pub(crate) fn restart(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_to_the_longest_and_begin_again() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::new(ms(20), ms(70));
        assert_eq!([backoff.next(), backoff.next(), backoff.next(), backoff.next()], [ms(20), ms(40), ms(70), ms(70)]);
        let pause = backoff.next_by_chance();
        assert!((ms(35)..=ms(70)).contains(&pause), "{pause:?}");
        backoff.restart();
        assert_eq!(backoff.next(), ms(20));
    }
}
