//! Keeps many transactions under way: one thread takes the answers and asks what comes next.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::terminal::{Next, Outcome, Terminal};
use super::workload::{Load, Planner, key};
use super::{BenchError, Measured, Plan, links};
use crate::client::{Answer, Client, Inner};
use crate::core::ServerId;
use crate::wire::Ask;

/// Keys written by one transaction while the store is filled.
const FILL_ITEMS: u64 = 500;
const STALLED: Duration = Duration::from_secs(30);
const MOST_IN_FLIGHT: usize = 65_536;
/// Latencies are counted up to a minute.
const LONGEST_US: u64 = 60_000_000;

/// Fills the store with all keys of a load.
///
/// # Errors
/// A server refuses.
pub fn load(client: &Client, load: &Load, seed: u64) -> Result<(), BenchError> {
    let mut planner = Planner::new(*load, StdRng::seed_from_u64(seed))?;
    let mut from = 0;
    while from < load.keys {
        let until = (from + FILL_ITEMS).min(load.keys);
        client.transact(|tranx| {
            for number in from..until {
                if let Some(value) = planner.value() {
                    tranx.put(key(number), value)?;
                }
            }
            Ok(())
        })?;
        from = until;
    }
    Ok(())
}

/// Runs a load as planned.
///
/// # Errors
/// An option is out of its range, or nothing comes back.
pub fn run(client: &Client, plan: &Plan) -> Result<Measured, BenchError> {
    if !(1..=MOST_IN_FLIGHT).contains(&plan.in_flight) {
        return Err(BenchError::Option { option: "in flight", what: format!("1 to {MOST_IN_FLIGHT}") });
    }
    let planner = Planner::new(plan.load, StdRng::seed_from_u64(plan.seed))?;
    let latency_us = Histogram::new_with_max(LONGEST_US, 3)
        .map_err(|error| BenchError::Option { option: "latency", what: error.to_string() })?;
    // Room for every answer: links never wait for this thread.
    let (tell, answers) = sync_channel(plan.in_flight * 4);
    let measured = Measured { committed: 0, refused: 0, failed: 0, elapsed_ms: 0, latency_us };
    let mut driver =
        Driver { inner: links(client), planner, tell, terminals: Vec::new(), measured, is_measured: false };
    for _ in 0..plan.in_flight {
        driver.begin(None);
    }
    driver.drive(&answers, Duration::from_millis(plan.warm_up_ms))?;
    driver.is_measured = true;
    let began = Instant::now();
    driver.drive(&answers, Duration::from_millis(plan.measure_ms))?;
    driver.measured.elapsed_ms = began.elapsed().as_millis() as u64;
    Ok(driver.measured)
}

struct Told {
    terminal: usize,
    server: ServerId,
    answer: Answer,
}

struct Driver<'a> {
    inner: &'a Inner,
    planner: Planner,
    tell: SyncSender<Told>,
    terminals: Vec<Terminal>,
    measured: Measured,
    is_measured: bool,
}

impl Driver<'_> {
    /// Begins a transaction, in the place of one that is over or in a new one.
    fn begin(&mut self, place: Option<usize>) {
        let (terminal, asks) = Terminal::begin(self.planner.plan(), self.inner);
        let at = place.unwrap_or(self.terminals.len());
        match self.terminals.get_mut(at) {
            Some(slot) => *slot = terminal,
            None => self.terminals.push(terminal),
        }
        asks.into_iter().for_each(|(server, ask)| self.ask(at, server, ask));
    }

    fn ask(&self, terminal: usize, server: ServerId, ask: Ask) {
        let Ok(link) = self.inner.link(server) else { return };
        let tell = self.tell.clone();
        let until = Instant::now() + Duration::from_millis(self.inner.options.request_ms);
        // Nobody listens any more when the run is over.
        link.ask(ask, until, Box::new(move |answer| drop(tell.try_send(Told { terminal, server, answer }))));
    }

    fn drive(&mut self, answers: &Receiver<Told>, time: Duration) -> Result<(), BenchError> {
        let until = Instant::now() + time;
        loop {
            let told = match answers.recv_timeout(STALLED) {
                Ok(told) => told,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return Err(BenchError::Stalled { seconds: STALLED.as_secs() });
                }
            };
            self.hear(told);
            while let Ok(told) = answers.try_recv() {
                self.hear(told);
            }
            if Instant::now() >= until {
                return Ok(());
            }
        }
    }

    fn hear(&mut self, told: Told) {
        let Told { terminal: at, server, answer } = told;
        let Some(terminal) = self.terminals.get_mut(at) else { return };
        match terminal.answered(server, answer, self.inner) {
            Next::Wait => {}
            Next::Ask(server, ask) => self.ask(at, server, ask),
            Next::Over(outcome) => {
                let latency_us = terminal.began.elapsed().as_micros() as u64;
                if self.is_measured {
                    self.count(outcome, latency_us);
                }
                self.begin(Some(at));
            }
        }
    }

    fn count(&mut self, outcome: Outcome, latency_us: u64) {
        match outcome {
            Outcome::Committed => {
                self.measured.committed += 1;
                self.measured.latency_us.saturating_record(latency_us);
            }
            Outcome::Refused => self.measured.refused += 1,
            Outcome::Failed => self.measured.failed += 1,
        }
    }
}
