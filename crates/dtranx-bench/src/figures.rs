//! The figures of each row of a table, round by round; tables have medians of them.

use benchkit::report::{
    result::{RunResult, Used},
    summary::Figures,
};
use serde::Serialize;

use crate::{
    measure::{Measured, Plan},
    store::Served,
    workload::{Distribution, Shape},
};

/// Figures of one store under one plan.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) servers: u16,
    pub(crate) shape: &'static str,
    pub(crate) distribution: &'static str,
    pub(crate) reads_percent: Option<u8>,
    pub(crate) in_flight: u32,
    pub(crate) rounds: Vec<Round>,
}

/// One round of a row: the figures of one run, and what its servers counted.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Round {
    #[serde(flatten)]
    pub(crate) run: RunResult,
    /// The size of all servers' logs at the end of each second, if it was looked at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) log_bytes: Vec<u64>,
    /// Counters of the servers, if they report them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) served: Option<Served>,
}

/// Figures of one server that was killed after so much was written.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Restart {
    pub(crate) name: &'static str,
    /// Size of the values written, in MiB.
    pub(crate) written_mib: u32,
    /// The log's segments before it was killed first.
    pub(crate) log_bytes: u64,
    /// Time from the start to the first answer in milliseconds, round by round.
    pub(crate) rounds_ms: Vec<f64>,
}

/// Pauses of a group after the kills of one kind of member.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Pause {
    pub(crate) name: &'static str,
    /// Time from the kill to the next commit in milliseconds, kill by kill.
    pub(crate) pauses_ms: Vec<f64>,
}

/// Measured passages of one kind of event.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Passed {
    pub(crate) name: &'static str,
    /// Events that passed one queue in a second, round by round.
    pub(crate) rounds_per_second: Vec<f64>,
}

impl Row {
    /// A row without any round yet.
    pub(crate) fn new(name: &'static str, servers: u16, plan: Plan) -> Self {
        let shape = plan.mix.shape.name();
        let reads_percent = (plan.mix.shape == Shape::Paper).then_some(plan.mix.reads);
        let distribution = match plan.mix.distribution {
            Distribution::Uniform => "uniform",
            Distribution::Zipfian => "zipfian",
        };
        Self { name, servers, shape, distribution, reads_percent, in_flight: plan.in_flight, rounds: Vec::new() }
    }

    /// Work of a transaction, in words.
    pub(crate) fn work(&self) -> String {
        self.reads_percent.map_or_else(|| self.shape.to_owned(), |reads| format!("{reads} % reads"))
    }

    /// The work of the row, in words. Rows with the same work can be compared.
    fn workload(&self) -> String {
        let servers = if self.servers == 1 { "1 server".to_owned() } else { format!("{} servers", self.servers) };
        format!("{servers}, {}, {}", self.work(), self.distribution)
    }

    /// Title of the row, in words.
    pub(crate) fn title(&self) -> String {
        format!("{}, {}, {} in flight", self.name, self.workload(), self.in_flight)
    }

    /// Adds one more round.
    pub(crate) fn add(&mut self, round: u32, measured: Measured) {
        let Measured { seconds, counts, cpu_us, log_bytes, served } = measured;
        let run = RunResult {
            target: self.name.to_owned(),
            workload: self.workload(),
            clients: self.in_flight,
            processes: 1,
            round,
            rate: None,
            seconds,
            counts,
            commands: Default::default(),
            used: Used { client_cpu_us: cpu_us, ..Used::default() },
            broken: None,
        };
        self.rounds.push(Round { run, log_bytes, served });
    }

    /// Medians and ranges of the rounds; `None` without any.
    pub(crate) fn figures(&self) -> Option<Figures> {
        Figures::of(&self.rounds.iter().map(|round| &round.run).collect::<Vec<_>>())
    }
}
