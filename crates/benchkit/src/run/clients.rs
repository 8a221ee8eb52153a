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
    /// The client itself.
    pub client: C,
    /// Decides its pauses.
    pub seed: u64,
    /// When its transactions are due; `None`: as soon as the one before has ended (closed loop).
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

    /// Begins the time measured.
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
