//! Results for tests: empty ones to fill by hand, and realistic ones drawn from a seed.

use std::{collections::BTreeMap, sync::LazyLock, time::Duration};

use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::result::{BenchResult, FORMAT, RunResult, Used};
use crate::measure::{Counts, Second};

/// A run in which nothing happened.
pub fn empty(workload: &str, target: &str, clients: u32, round: u32, seconds: f64) -> RunResult {
    RunResult {
        target: target.to_owned(),
        workload: workload.to_owned(),
        clients,
        processes: 1,
        round,
        rate: None,
        seconds,
        counts: Counts::default(),
        commands: BTreeMap::new(),
        used: Used::default(),
        broken: None,
    }
}

/// A result of these runs.
pub fn result(title: &str, runs: Vec<RunResult>) -> BenchResult {
    BenchResult {
        format: FORMAT,
        title: title.to_owned(),
        command: format!("mongotx-bench {title}"),
        facts: vec!["Machine: one that does not exist.".to_owned(), "Durability: {w: 1, j: true}.".to_owned()],
        runs,
    }
}

/// Behaviour of a made-up target.
struct Nature {
    target: &'static str,
    /// Time of one transaction without rivals.
    alone_ms: f64,
    /// Transactions a second that the server can do.
    most: f64,
    /// Conflicts for each transaction and client.
    conflicts: f64,
    commands: &'static [(&'static str, f64)],
}

const NATURES: [Nature; 4] = [
    Nature {
        target: "plain",
        alone_ms: 0.7,
        most: 4_700.0,
        conflicts: 0.0,
        commands: &[("find", 2.5), ("update", 2.5)],
    },
    Nature {
        target: "native",
        alone_ms: 1.7,
        most: 2_700.0,
        conflicts: 0.0009,
        commands: &[("find", 2.5), ("update", 2.5), ("commitTransaction", 1.0), ("abortTransaction", 0.02)],
    },
    Nature {
        target: "mongotx",
        alone_ms: 1.5,
        most: 3_300.0,
        conflicts: 0.0003,
        commands: &[("find", 2.5), ("findAndModify", 2.6), ("update", 3.1), ("aggregate", 0.05)],
    },
    Nature {
        target: "mongotx-published",
        alone_ms: 2.4,
        most: 1_050.0,
        conflicts: 0.0006,
        commands: &[("find", 2.5), ("findAndModify", 5.6), ("update", 2.5), ("insert", 1.0), ("delete", 1.0)],
    },
];

/// Two kinds of transactions on four targets, one of which is broken with many clients. Made once.
pub fn realistic() -> BenchResult {
    static MADE: LazyLock<BenchResult> = LazyLock::new(make_realistic);
    MADE.clone()
}

fn make_realistic() -> BenchResult {
    let mut random = StdRng::seed_from_u64(1);
    let mut runs = Vec::new();
    for workload in ["ycsb a", "ycsb c"] {
        for clients in [1, 8, 32] {
            for round in 1..=3 {
                runs.extend(NATURES.iter().map(|nature| nature.made_up_run(&mut random, workload, clients, round)));
            }
        }
    }
    for run in runs.iter_mut().filter(|run| run.target == "plain" && run.clients == 32 && run.workload == "ycsb a") {
        run.broken = Some("1000 accounts hold 9993; before there were 1000 with 10000".to_owned());
    }
    result("ycsb a, c", runs)
}

impl Nature {
    fn made_up_run(&self, random: &mut StdRng, workload: &str, clients: u32, round: u32) -> RunResult {
        const SECONDS: u32 = 5;
        let mut run = empty(workload, self.target, clients, round, f64::from(SECONDS));
        let clients = f64::from(clients);
        let rate = (clients * 1_000.0 / self.alone_ms).min(self.most) * random.random_range(0.94..1.06);
        let usual_ms = clients * 1_000.0 / rate;
        run.counts.seconds = (0..SECONDS).map(|_| self.second(random, rate, clients)).collect();
        let committed: u64 = run.counts.seconds.iter().map(|second| second.committed).sum();
        let conflicts: u64 = run.counts.seconds.iter().map(|second| second.conflicts).sum();
        for n in 0..committed {
            let kind = if n % 20 == 0 { "scan" } else { "update" };
            let latency_ms = usual_ms * spread(random) * if kind == "scan" { 1.8 } else { 1.0 };
            let counts = run.counts.kinds.entry(kind.to_owned()).or_default();
            counts.latencies.note(Duration::from_secs_f64(latency_ms / 1_000.0));
        }
        if let Some(updates) = run.counts.kinds.get_mut("update").filter(|_| conflicts > 0) {
            updates.conflicts.insert("write conflict".to_owned(), conflicts);
        }
        run.counts.operations = committed * 5;
        let sent = |each: f64| (committed as f64 * each) as u64;
        run.commands = self.commands.iter().map(|(name, each)| ((*name).to_owned(), sent(*each))).collect();
        run.used.server_cpu_us = Some((committed as f64 * 1_200_000.0 / self.most) as i64);
        run.used.client_cpu_us = Some((committed as f64 * 120.0) as i64);
        run.used.server_written_bytes = Some((committed as f64 * 900.0) as i64);
        run
    }

    fn second(&self, random: &mut StdRng, rate: f64, clients: f64) -> Second {
        let stall = if random.random_bool(0.05) { 0.6 } else { 1.0 };
        let committed = rate * stall * random.random_range(0.95..1.05);
        let conflicts = committed * self.conflicts * clients * random.random_range(0.5..1.5);
        Second { committed: committed as u64, conflicts: conflicts as u64 }
    }
}

/// A random factor: mostly near one, now and then much more.
fn spread(random: &mut StdRng) -> f64 {
    let usual = random.random_range(0.7..1.3);
    if random.random_bool(0.01) { usual * random.random_range(2.0..12.0) } else { usual }
}
