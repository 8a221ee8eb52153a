//! Makes the measurements, one after the other, each as long as the time that is left allows.

use std::time::{Duration, Instant};

use benchkit::report::result::BenchResult;

use super::{
    PapersArgs,
    budget::{Left, Length, WARM_UP},
    plan::Measurement,
};
use crate::{error::BenchError, run::plan};

/// Overhead that is assumed for a run, before some runs have shown it.
const OVERHEAD: Duration = Duration::from_secs(2);

/// A measurement that was made, or not.
pub struct Measured {
    /// The measurement, as the plan says it.
    pub measurement: Measurement,
    /// The command that repeats it; empty where it was not made.
    pub command: String,
    /// Result; or the reason why it was not made.
    pub outcome: Result<BenchResult, String>,
}

/// Makes all measurements. One that fails does not keep the others from being made.
///
/// # Errors
/// [`BenchError::Refused`] for arguments that are refused.
pub async fn all(
    plan: &[Measurement],
    args: &PapersArgs,
    tell: &(dyn Fn(&str) + Sync),
) -> Result<Vec<Measured>, BenchError> {
    let mut clock =
        Clock { end: Instant::now() + Duration::from_secs_f64(args.minutes * 60.0), overheads: vec![OVERHEAD] };
    let mut done = Vec::new();
    for (at, measurement) in plan.iter().enumerate() {
        let runs = plan[at..].iter().map(Measurement::runs).sum();
        let measured = match possible(measurement).and_then(|()| clock.length(runs, measurement.runs(), args)) {
            Ok(length) => one(measurement, length, args, &mut clock, tell).await?,
            Err(reason) => Measured::not(measurement, reason),
        };
        if let Err(reason) = &measured.outcome {
            tell(&format!("{} is not measured: {reason}", measurement.work.name));
        }
        done.push(measured);
    }
    Ok(done)
}

/// Fails with the reason why this version cannot make the measurement, if there is one.
fn possible(measurement: &Measurement) -> Result<(), String> {
    match &measurement.spec {
        Err(reason) => Err(reason.lines().next().unwrap_or("it cannot be run").to_owned()),
        Ok(_) if measurement.targets.is_empty() => Err("no target of this version can do it".to_owned()),
        Ok(_) => Ok(()),
    }
}

async fn one(
    measurement: &Measurement,
    length: Length,
    args: &PapersArgs,
    clock: &mut Clock,
    tell: &(dyn Fn(&str) + Sync),
) -> Result<Measured, BenchError> {
    let Ok(spec) = &measurement.spec else { return Ok(Measured::not(measurement, "it cannot be run".to_owned())) };
    let run = measurement.run_args(args, length.rounds, length.seconds)?;
    let command = measurement.command(args, length.rounds, length.seconds);
    tell(&command);
    let start = Instant::now();
    let outcome = plan::run_workload(spec, &run, &command).await.map_err(|error| error.to_string());
    clock.learn(start.elapsed(), measurement.runs(), length);
    Ok(Measured { measurement: measurement.clone(), command, outcome })
}

impl Measured {
    fn not(measurement: &Measurement, reason: String) -> Self {
        Self { measurement: measurement.clone(), command: String::new(), outcome: Err(reason) }
    }
}

/// The end of the time for all measurements, and the overhead of runs.
struct Clock {
    end: Instant,
    overheads: Vec<Duration>,
}

impl Clock {
    /// Length of the `next` runs, when so many are left in all.
    fn length(&self, runs: usize, next: usize, args: &PapersArgs) -> Result<Length, String> {
        let time = self.end.saturating_duration_since(Instant::now());
        let length = match args.seconds {
            Some(seconds) => Some(Length { rounds: 1, seconds: seconds.get() }).filter(|_| !time.is_zero()),
            None => Left { time, runs, next, overhead: self.overhead() }.length(),
        };
        length.ok_or_else(|| format!("no time is left of {} minutes (--minutes)", args.minutes))
    }

    /// Notes what the runs of a measurement have needed besides what was measured.
    fn learn(&mut self, took: Duration, runs: usize, length: Length) {
        let runs = u32::try_from(runs.max(1)).unwrap_or(u32::MAX).saturating_mul(length.rounds);
        let measured = Duration::from_secs(length.seconds) + WARM_UP;
        self.overheads.push((took / runs).saturating_sub(measured));
    }

    /// Overhead that is assumed for the next runs: the median, because one workload that takes long
    /// to load says nothing about others.
    fn overhead(&self) -> Duration {
        let mut sorted = self.overheads.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or(OVERHEAD)
    }
}
