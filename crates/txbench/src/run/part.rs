//! A part of a run's clients, in this process.
//!
//! 1. Connect the target and make the clients and their sessions.
//! 2. They work. `measure` and `stop` mark the time that is measured.
//! 3. Each ends its transaction; what goes on after the answers is waited for; the connection is
//!    closed.

use std::{collections::BTreeMap, time::Instant};

use benchkit::{
    measure::{Second, machine},
    run::{Clients, Pace, Seat},
};

use super::{
    client::{self, Worker},
    job::{Job, JobResult},
};
use crate::{error::BenchError, targets::Target, workload::ClientId};

/// A part of the clients, at work.
pub(crate) struct Part {
    target: Box<dyn Target>,
    clients: Clients<BenchError>,
    start: Option<Sample>,
    end: Option<Sample>,
}

/// Resources used up to one moment.
struct Sample {
    commands: BTreeMap<String, u64>,
    cpu_us: Option<i64>,
}

impl Part {
    /// Step 1, and the beginning of step 2: starts the clients.
    pub(crate) async fn start(job: &Job) -> Result<Self, BenchError> {
        let workload = job.workload.make()?;
        let target = (job.target.entry().connect)(job.connection.clone()).await?;
        let (start, mut seats) = (Instant::now(), Vec::new());
        for index in job.first..job.first + job.count {
            let seed = client_seed(job.seed, index);
            let (session, client) = (target.session().await?, workload.client(ClientId { index, of: job.of, seed })?);
            let pace = job.rate.map(|rate| Pace::new(start, index, job.of, rate));
            seats.push(Seat { client: Worker { session, client }, seed, pace });
        }
        let clients = Clients::start(seats, client::retries(job.attempts));
        Ok(Self { target, clients, start: None, end: None })
    }

    fn sample(&self) -> Sample {
        Sample { commands: self.target.commands(), cpu_us: machine::own_cpu_us() }
    }

    /// Begins the time measured.
    pub(crate) fn measure(&mut self) {
        self.start = Some(self.sample());
        self.clients.measure();
    }

    /// Ends the time measured.
    pub(crate) fn stop(&mut self) {
        self.clients.stop();
        self.end = Some(self.sample());
    }

    /// Counts so far, and whether all clients are done.
    ///
    /// # Errors
    /// The error of a client that could not go on.
    pub(crate) fn progress(&mut self) -> Result<(Second, bool), BenchError> {
        self.clients.progress()
    }

    /// Step 3: waits for the clients.
    pub(crate) async fn finish(self) -> Result<JobResult, BenchError> {
        let counts = self.clients.finish().await?;
        self.target.settle().await?;
        self.target.close().await?;
        let mut result = JobResult { counts, ..JobResult::default() };
        if let Some((start, end)) = self.start.zip(self.end) {
            result.cpu_us = end.cpu_us.zip(start.cpu_us).map(|(end, start)| end - start);
            let since = |(name, n): (String, u64)| {
                let n = n - start.commands.get(&name).copied().unwrap_or(0);
                (n > 0).then_some((name, n))
            };
            result.commands = end.commands.into_iter().filter_map(since).collect();
        }
        Ok(result)
    }
}

/// Seeds of clients lie far apart, so that no two clients of any run of one benchmark draw the
/// same.
fn client_seed(run: u64, index: u32) -> u64 {
    run.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(u64::from(index).wrapping_mul(0xD1B5_4A32_D192_ED03))
}
