//! A client of a workload with a session of a target: what the loop of [`benchkit::run`] runs.

use std::time::Duration;

use benchkit::{
    measure::Counts,
    run::{Attempt, Chosen, Client, Retries},
};

use crate::{
    error::{BenchError, OpError},
    targets::Session,
    workload::{self, Done},
};

const FIRST_PAUSE: Duration = Duration::from_micros(500);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// The rule by which every target's transactions are tried again.
pub(crate) fn retries(attempts: u32) -> Retries {
    Retries { attempts, at_once: 0, first_pause: FIRST_PAUSE, longest_pause: LONGEST_PAUSE }
}

/// A client and its session.
pub(crate) struct Worker {
    pub(crate) session: Box<dyn Session>,
    pub(crate) client: Box<dyn workload::Client>,
}

impl Client for Worker {
    type Error = BenchError;

    fn choose(&mut self) -> Chosen {
        self.client.choose()
    }

    async fn attempt(&mut self) -> Result<Attempt, BenchError> {
        let reason = match self.client.attempt(&mut *self.session).await {
            Ok(Done::Committed) => return Ok(Attempt::Committed),
            Ok(Done::RolledBack) => return Ok(Attempt::RolledBack),
            Ok(Done::Finished) => return Ok(Attempt::Finished),
            Err(OpError::Unknown(_)) => return Ok(Attempt::Unknown),
            Err(OpError::Fatal(error)) => return Err(error),
            Err(OpError::Conflict(reason)) => reason,
            Err(OpError::Duplicate) => "duplicate key",
        };
        // Whatever the attempt left open; a rival's conflict has ended it already.
        let _ = self.session.rollback().await;
        Ok(Attempt::Conflict(reason))
    }

    async fn finish(&mut self, counts: &mut Counts) -> Result<(), BenchError> {
        self.client.finish(&mut *self.session).await.map_err(|error| BenchError::Failed(error.to_string()))?;
        counts.violations_in_all = self.client.violations();
        counts.effects_in_all = self.client.effects().into_iter().map(|(name, n)| (name.to_owned(), n)).collect();
        Ok(())
    }
}
