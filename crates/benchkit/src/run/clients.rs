//! All clients of one run in this process.
//!
//! They warm up from the moment when they are started; [`Clients::measure`] and [`Clients::stop`]
//! mark the time that is measured; [`Clients::finish`] waits until each has ended its transaction.

use std::sync::Arc;

use tokio::task::{JoinError, JoinSet};

use super::{
    client::{Client, Pace, Retries, Worker},
    clock::Clock,
};
use crate::{
    Error,
    measure::{Counts, Second},
};

/// Clients at work. They end with this value.
pub struct Clients<E> {
    clock: Arc<Clock>,
    working: JoinSet<Result<Counts, E>>,
    counts: Counts,
}

/// A client, with what it needs besides.
#[derive(Clone, Copy, Debug)]
pub struct Seat<C> {
    /// The client, which runs one transaction after the other.
    pub client: C,
    /// Seed of the random lengths of its pauses after conflicts.
    pub seed: u64,
    /// Times at which the client's transactions are due; `None`: each as soon as the one before has
    /// ended (closed loop).
    pub pace: Option<Pace>,
}

impl<E: From<Error> + Send + 'static> Clients<E> {
    /// Lets all of them work, with the same rule for conflicts.
    pub fn start<C: Client<Error = E>>(seats: Vec<Seat<C>>, retries: Retries) -> Self {
        let (clock, mut working) = (Arc::new(Clock::default()), JoinSet::new());
        for Seat { client, seed, pace } in seats {
            working.spawn(Worker::new(client, Arc::clone(&clock), pace, retries, seed).work());
        }
        Self { clock, working, counts: Counts::default() }
    }

    /// Begins the time measured, at the end of the warm-up.
    pub fn measure(&self) {
        self.clock.measure();
    }

    /// Ends the time measured: nothing new is begun.
    pub fn stop(&self) {
        self.clock.stop();
    }

    /// Counts so far, warm-up included, and whether all clients are done.
    ///
    /// # Errors
    /// The error of a client that could not go on.
    pub fn progress(&mut self) -> Result<(Second, bool), E> {
        while let Some(ended) = self.working.try_join_next() {
            self.counts.add(&counts_of(ended)?);
        }
        Ok((self.clock.so_far(), self.working.is_empty()))
    }

    /// Waits for the clients, and answers what they have counted together.
    ///
    /// # Errors
    /// The error of a client that could not go on.
    pub async fn finish(mut self) -> Result<Counts, E> {
        while let Some(ended) = self.working.join_next().await {
            self.counts.add(&counts_of(ended)?);
        }
        Ok(self.counts)
    }
}

fn counts_of<E: From<Error>>(ended: Result<Result<Counts, E>, JoinError>) -> Result<Counts, E> {
    ended.map_err(|error| Error::Failed(format!("a client failed: {error}")))?
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::time::Duration;

    use super::{
        super::client::{Attempt, Chosen},
        *,
    };

    const RETRIES: Retries = Retries {
        attempts: 3,
        at_once: 0,
        first_pause: Duration::from_micros(1),
        longest_pause: Duration::from_micros(1),
    };

    /// Attempts of each transaction, so many transactions, and then the end.
    struct Script {
        attempts: &'static [Attempt],
        transactions: usize,
        next: usize,
    }

    impl Client for Script {
        type Error = Error;

        fn choose(&mut self) -> Chosen {
            self.next = 0;
            Chosen { kind: "test", operations: 2, wait: Duration::ZERO }
        }

        async fn attempt(&mut self) -> Result<Attempt, Error> {
            if self.transactions == 0 {
                return Ok(Attempt::Finished);
            }
            let attempt = self.attempts.get(self.next).copied();
            self.next += 1;
            self.transactions -= usize::from(self.next == self.attempts.len());
            attempt.ok_or_else(|| Error::Failed("no attempt is left".to_owned()))
        }

        async fn finish(&mut self, counts: &mut Counts) -> Result<(), Error> {
            counts.effects_in_all.insert("ends".to_owned(), 1);
            Ok(())
        }
    }

    /// Counts of two clients that follow the same script.
    async fn counted(attempts: &'static [Attempt], transactions: usize) -> Result<Counts, Error> {
        let script = || Script { attempts, transactions, next: 0 };
        let seats = [1, 2].map(|seed| Seat { client: script(), seed, pace: None });
        let clients = Clients::start(seats.into(), RETRIES);
        // No client has begun: they and this test share a thread.
        clients.measure();
        clients.finish().await
    }

    #[tokio::test]
    async fn attempts_are_counted_until_the_commit_and_conflicts_by_their_reasons() {
        let attempts = &[Attempt::Conflict("locked"), Attempt::Kept("stale"), Attempt::Committed];
        let counts = counted(attempts, 5).await.unwrap();
        assert_eq!((counts.committed(), counts.committed_in_all, counts.operations), (10, 10, 20));
        let kind = &counts.kinds["test"];
        assert_eq!(kind.conflicts, [("locked".to_owned(), 10), ("stale".to_owned(), 10)].into());
        assert_eq!(counts.effects_in_all["ends"], 2, "each client is asked what it knows");
        let seconds = counts.seconds.iter().map(|second| (second.committed, second.conflicts));
        assert_eq!(seconds.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1)), (10, 20));
    }

    #[tokio::test]
    async fn a_transaction_is_given_up_after_so_many_attempts() {
        let counts = counted(&[Attempt::Conflict("locked"); 3], 2).await.unwrap();
        assert_eq!((counts.committed(), counts.conflicts(), counts.kinds["test"].given_up), (0, 12, 4));
    }

    #[tokio::test]
    async fn what_is_rolled_back_or_not_known_is_no_commit() {
        let counts = counted(&[Attempt::RolledBack], 1).await.unwrap();
        assert_eq!((counts.committed_in_all, counts.kinds["test"].rolled_back), (0, 2));
        let counts = counted(&[Attempt::Unknown], 1).await.unwrap();
        assert_eq!((counts.committed_in_all, counts.unknown_in_all), (0, 2));
    }

    #[tokio::test]
    async fn the_error_of_a_client_is_that_of_the_run() {
        let error = counted(&[], 1).await.unwrap_err().to_string();
        assert_eq!(error, "no attempt is left");
    }
}
