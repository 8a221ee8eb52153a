//! Pauses between attempts at the same thing: each twice as long as the one before, up to a longest
//! one, with chance in it. How many attempts there are, and after which errors, is the caller's
//! matter.

use std::time::Duration;

/// Pauses between attempts at the same thing, each twice as long as the one before, up to a longest
/// one. [`crate::Session::with_transaction`] pauses like this by itself; this is for loops of one's
/// own.
///
/// ```
/// # use std::time::Duration;
/// use mongotx::Backoff;
///
/// let mut backoff = Backoff::new(Duration::from_millis(2), Duration::from_millis(5));
/// assert_eq!(backoff.next_pause(), Duration::from_millis(2));
/// assert_eq!(backoff.next_pause(), Duration::from_millis(4));
/// assert_eq!(backoff.next_pause(), Duration::from_millis(5));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    next: Duration,
    longest: Duration,
}

impl Backoff {
    /// Pauses from `first` to `longest`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let mut backoff = mongotx::Backoff::new(Duration::from_millis(1), Duration::from_millis(500));
    /// assert_eq!(backoff.next_pause(), Duration::from_millis(1));
    /// ```
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { next: first, longest }
    }

    /// Length of the next pause, which [`Backoff::next_pause`] would answer.
    pub(crate) const fn coming(&self) -> Duration {
        self.next
    }

    /// Length of the next pause, without chance in it. The one after it is twice as long, or the
    /// longest.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let mut backoff = mongotx::Backoff::new(Duration::from_millis(1), Duration::from_millis(500));
    /// std::thread::sleep(backoff.next_pause());
    /// assert_eq!(backoff.next_pause(), Duration::from_millis(2));
    /// ```
    pub fn next_pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = pause.saturating_mul(2).min(self.longest);
        pause
    }

    /// Sleeps for the next pause, made shorter or longer by up to a half of it by chance, so that
    /// rivals that met do not meet again. Dropping the future ends the pause.
    ///
    /// ```
    /// # use std::time::{Duration, Instant};
    /// # #[tokio::main]
    /// # async fn main() {
    /// let mut backoff = mongotx::Backoff::new(Duration::from_millis(2), Duration::from_millis(500));
    /// let begin = Instant::now();
    /// backoff.wait().await; // 1 to 3 ms
    /// assert!(begin.elapsed() >= Duration::from_millis(1));
    /// # }
    /// ```
    pub async fn wait(&mut self) {
        tokio::time::sleep(self.next_pause().mul_f64(rand::random_range(0.5..1.5))).await;
    }
}
