//! All clients of one run, in this process or in several others.

use benchkit::measure::Second;

use super::{
    child::Child,
    job::{Job, JobResult, Order},
    part::Part,
};
use crate::error::BenchError;

/// The clients of a run, at work.
pub(crate) enum Crew {
    Here(Box<Part>),
    Elsewhere(Vec<Child>),
}

impl Crew {
    /// Starts the clients of `whole`, divided over so many processes; one process is this one.
    pub(crate) async fn start(whole: &Job, processes: u32) -> Result<Self, BenchError> {
        if processes <= 1 {
            return Ok(Self::Here(Box::new(Part::start(whole).await?)));
        }
        let jobs = divide(whole, processes);
        let children = futures_util::future::try_join_all(jobs.iter().map(Child::start)).await?;
        Ok(Self::Elsewhere(children))
    }

    pub(crate) async fn measure(&mut self) -> Result<(), BenchError> {
        match self {
            Self::Here(part) => part.measure(),
            Self::Elsewhere(children) => order(children, Order::Measure).await?,
        }
        Ok(())
    }

    pub(crate) async fn stop(&mut self) -> Result<(), BenchError> {
        match self {
            Self::Here(part) => part.stop(),
            Self::Elsewhere(children) => order(children, Order::Stop).await?,
        }
        Ok(())
    }

    /// Counts so far, and whether all clients are done.
    pub(crate) fn progress(&mut self) -> Result<(Second, bool), BenchError> {
        match self {
            Self::Here(part) => part.progress(),
            Self::Elsewhere(children) => {
                let (mut all, mut finished) = (Second::default(), true);
                for child in children {
                    let (so_far, done) = child.progress()?;
                    all.committed += so_far.committed;
                    all.conflicts += so_far.conflicts;
                    finished &= done;
                }
                Ok((all, finished))
            }
        }
    }

    pub(crate) async fn finish(self) -> Result<JobResult, BenchError> {
        match self {
            Self::Here(part) => part.finish().await,
            Self::Elsewhere(children) => {
                let parts = futures_util::future::try_join_all(children.into_iter().map(Child::finish)).await?;
                let mut all = JobResult { cpu_us: Some(0), ..JobResult::default() };
                parts.iter().for_each(|part| all.add(part));
                Ok(all)
            }
        }
    }
}

async fn order(children: &mut [Child], order: Order) -> Result<(), BenchError> {
    for child in children {
        child.order(order).await?;
    }
    Ok(())
}

/// Divides the clients into parts of nearly equal size; there are no more parts than clients.
fn divide(whole: &Job, processes: u32) -> Vec<Job> {
    let processes = processes.min(whole.count).max(1);
    let edge =
        |at: u32| u32::try_from(u64::from(whole.count) * u64::from(at) / u64::from(processes)).unwrap_or(u32::MAX);
    let part = |at: u32| {
        let mut job = whole.clone();
        (job.first, job.count) = (whole.first + edge(at), edge(at + 1) - edge(at));
        job.connection.sessions = job.count;
        job
    };
    (0..processes).map(part).collect()
}
