//! Pauses between attempts at the same thing.

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
/// # async fn example(mut backoff: Backoff) {
/// backoff.wait().await; // about 5 ms
/// # }
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
    /// let backoff = mongotx::Backoff::new(Duration::from_millis(1), Duration::from_millis(500));
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
    /// # fn example(mut backoff: mongotx::Backoff) {
    /// std::thread::sleep(backoff.next_pause());
    /// # }
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
    /// # async fn example(mut backoff: mongotx::Backoff) {
    /// backoff.wait().await;
    /// # }
    /// ```
    pub async fn wait(&mut self) {
        tokio::time::sleep(self.next_pause().mul_f64(rand::random_range(0.5..1.5))).await;
    }
}
