//! A whole benchmark: the order of its runs.
//!
//! 1. Refuse pairs that make no sense, before anything is started.
//! 2. Start the servers, or take those that were named.
//! 3. In each round, for each number of clients, the targets take turns (A B A B): what else the
//!    machine does meets them alike. A target's data is loaded once and worked on by all its runs,
//!    unless the workload wants it fresh; what a run has broken is loaded anew.
//! 4. Each run: start the clients, warm up, measure, stop; let all end; check the data.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use benchkit::{
    measure::Machine,
    report::result::{BenchResult, FORMAT, RunResult, Used},
    run::{Turn, turns},
};

use super::{
    RunArgs,
    contestant::Contestant,
    crew::Crew,
    data::Data,
    job::Job,
    live::Live,
    servers::{Host, Servers},
};
use crate::{
    error::BenchError,
    targets::{Traits, registry::TargetName},
    workload::{Workload, registry::WorkloadSpec},
};

const LONGEST_WARM_UP: Duration = Duration::from_secs(3);
/// Databases that this process has loaded: each has a name of its own.
static LOADED: AtomicU64 = AtomicU64::new(0);
/// Time between two looks at the clients' progress.
const LOOK: Duration = Duration::from_millis(200);

/// Runs a workload on its targets.
///
/// # Errors
/// [`BenchError::Refused`] for arguments that do not fit together; anything that keeps a run from
/// its end. A run whose data is broken is no error: [`RunResult::broken`].
pub async fn run_workload(spec: &WorkloadSpec, args: &RunArgs, command: &str) -> Result<BenchResult, BenchError> {
    let workload = spec.make()?;
    refuse_misfits(&*workload, args)?;
    let servers = Servers::start(args).await?;
    run_on(&servers, spec, args, command).await
}

/// Runs a workload on its targets, on servers that are there.
///
/// # Errors
/// As [`run_workload`].
pub async fn run_on(
    servers: &Servers,
    spec: &WorkloadSpec,
    args: &RunArgs,
    command: &str,
) -> Result<BenchResult, BenchError> {
    let workload = spec.make()?;
    refuse_misfits(&*workload, args)?;
    refuse_missing_nodes(&*workload, servers, args)?;
    let facts = facts(&*workload, servers, args).await?;
    let title = workload.title();
    let mut plan = Plan { servers, spec, workload, args, data: BTreeMap::new(), live: Live::new(args) };
    let runs = plan.all().await?;
    plan.live.end();
    for (contestant, data) in plan.data {
        data.drop(servers.of(contestant.target)?).await?;
    }
    Ok(BenchResult { format: FORMAT, title, command: command.to_owned(), facts, runs })
}

/// Step 1: refuses targets that do not fit the workload.
fn refuse_misfits(workload: &dyn Workload, args: &RunArgs) -> Result<(), BenchError> {
    for target in &args.targets {
        let traits = target.traits();
        if let Some(missing) = workload.needs().iter().find(|feature| !traits.features.contains(feature)) {
            let title = workload.title();
            return Err(BenchError::Refused(format!(
                "--targets: {} cannot {missing}, which {title} needs",
                traits.name
            )));
        }
        traits.check_durability(args.durability())?;
        for options in workload.transactions() {
            traits.check_durability(options.durability.unwrap_or(args.durability()))?;
            options.isolation.map_or(Ok(()), |isolation| traits.check_isolation(isolation))?;
        }
    }
    Contestant::all(args)?;
    if args.lock_wait_ms.is_some() && !args.targets.iter().any(|target| target.traits().waits) {
        let names: Vec<&str> = args.targets.iter().map(|target| target.as_str()).collect();
        let reason = format!("--lock-wait-ms: of the targets {} none waits for a rival's lock", names.join(", "));
        return Err(BenchError::Refused(reason));
    }
    Ok(())
}

/// Refuses targets whose servers have too few nodes for the demanded durability.
fn refuse_missing_nodes(workload: &dyn Workload, servers: &Servers, args: &RunArgs) -> Result<(), BenchError> {
    for target in &args.targets {
        servers.check_nodes("--write-concern", *target, args.write_concern)?;
        for durability in workload.transactions().into_iter().filter_map(|options| options.durability) {
            servers.check_nodes("--tx-write-concern", *target, durability.nodes)?;
        }
    }
    Ok(())
}

/// Conditions of the measurement, a line each.
async fn facts(workload: &dyn Workload, servers: &Servers, args: &RunArgs) -> Result<Vec<String>, BenchError> {
    let mut facts = vec![
        format!("Machine: {}. Clients and servers share it.", Machine::look()),
        format!("Work: {}; seed {}.", workload.about(), args.seed),
    ];
    let pace = match args.rate {
        Some(rate) => format!("open loop, {rate} transactions a second begun, latency from the time they were due"),
        None => "closed loop".to_owned(),
    };
    let (seconds, rounds, processes) = (args.seconds, args.rounds, args.processes);
    let warm_up = warm_up(args).as_secs_f64();
    facts.push(format!(
        "Measured: {seconds} s after {warm_up} s of warm-up, {rounds} round(s), the targets in turns; {pace}; \
         {processes} client process(es)."
    ));
    facts.push(format!("Durability, the same for all: an answer waits for {}.", args.durability()));
    facts.extend(Contestant::all(args)?.iter().map(|contestant| about(contestant, args)));
    facts.extend(servers.facts().await?);
    Ok(facts)
}

/// Description of a target, and of the options as it applies them.
fn about(contestant: &Contestant, args: &RunArgs) -> String {
    let target = contestant.target.traits();
    let (Traits { about, .. }, name) = (target, &contestant.name);
    let unit = if target.commit_waits { "commit" } else { "single write" };
    let isolation =
        if target.isolations.is_empty() { "no isolation".to_owned() } else { contestant.isolation.to_string() };
    let wait = match target.waits {
        true => format!("; a write waits up to {} ms for a rival", args.lock_wait_ms()),
        false => String::new(),
    };
    format!("{name}: {about}; {isolation}; the answer to a {unit} is durable{wait}.")
}

fn warm_up(args: &RunArgs) -> Duration {
    let length = Duration::from_secs(args.seconds.get());
    args.warm_up.map_or((length / 4).min(LONGEST_WARM_UP), Duration::from_secs)
}

struct Plan<'a> {
    servers: &'a Servers,
    spec: &'a WorkloadSpec,
    workload: Box<dyn Workload>,
    args: &'a RunArgs,
    data: BTreeMap<Contestant, Data>,
    live: Live,
}

impl Plan<'_> {
    /// Step 3: runs all rounds.
    async fn all(&mut self) -> Result<Vec<RunResult>, BenchError> {
        let (mut runs, contestants) = (Vec::new(), Contestant::all(self.args)?);
        let of = |clients: &u32| contestants.iter().map(|contestant| (*clients, contestant)).collect::<Vec<_>>();
        let rivals: Vec<(u32, &Contestant)> = self.args.clients.iter().flat_map(of).collect();
        for Turn { round, rival } in turns(self.args.rounds.get(), rivals.len()) {
            let (clients, contestant) = rivals[rival];
            self.live.begin(&format!("round {round}, {clients} clients, {}", contestant.name));
            runs.push(self.one(contestant, clients, round).await?);
            self.live.done();
        }
        Ok(runs)
    }

    /// Step 4: makes one run.
    async fn one(&mut self, contestant: &Contestant, clients: u32, round: u32) -> Result<RunResult, BenchError> {
        let server = self.servers.of(contestant.target)?;
        let mut data = match self.data.remove(contestant) {
            Some(data) => data,
            None => self.load(server, contestant).await?,
        };
        let job = self.job(&data, contestant.target, clients, round);
        let mut crew = Crew::start(&job, self.args.processes).await?;
        let (seconds, mut used) = self.measure(server, &mut crew).await?;
        let result = crew.finish().await?;
        used.client_cpu_us = result.cpu_us;
        data.note(&result.counts);
        let broken = data.broken(&*self.workload).await?;
        if broken.is_some() || !self.workload.reusable() {
            data.drop(server).await?;
        } else {
            self.data.insert(contestant.clone(), data);
        }
        Ok(RunResult {
            target: contestant.name.clone(),
            workload: self.workload.title(),
            clients,
            processes: self.args.processes.min(clients),
            round,
            rate: self.args.rate,
            seconds,
            counts: result.counts,
            commands: result.commands,
            used,
            broken,
        })
    }

    async fn load(&self, server: Host<'_>, contestant: &Contestant) -> Result<Data, BenchError> {
        let (target, isolation) = (contestant.target, contestant.isolation);
        let nth = LOADED.fetch_add(1, Relaxed);
        let db = format!("mongotx_bench_{}_{nth}_{}", std::process::id(), target.as_str().replace('-', "_"));
        let show = |done, of| self.live.loading(done, of);
        Data::load(server, target, &*self.workload, isolation, self.args, db, &show).await
    }

    fn job(&self, data: &Data, target: TargetName, clients: u32, round: u32) -> Job {
        let mut connection = data.connection.clone();
        connection.sessions = clients;
        let run = u64::from(round) << 32 | u64::from(clients);
        Job {
            workload: self.spec.clone(),
            target,
            connection,
            first: 0,
            count: clients,
            of: clients,
            seed: self.args.seed.wrapping_mul(0x2545_F491_4F6C_DD1D).wrapping_add(run),
            rate: self.args.rate,
            attempts: self.args.attempts,
        }
    }

    /// Warms up, measures and stops; returns the length of the measurement in seconds, and the
    /// resources used.
    async fn measure(&self, server: Host<'_>, crew: &mut Crew) -> Result<(f64, Used), BenchError> {
        self.watch(crew, warm_up(self.args)).await?;
        let before = server.usage().await?;
        let start = Instant::now();
        crew.measure().await?;
        self.watch(crew, Duration::from_secs(self.args.seconds.get())).await?;
        crew.stop().await?;
        let seconds = start.elapsed().as_secs_f64();
        let after = server.usage().await?;
        let since = |after: Option<i64>, before: Option<i64>| Some(after? - before?);
        let used = Used {
            server_cpu_us: since(after.cpu_us, before.cpu_us),
            client_cpu_us: None,
            server_written_bytes: since(after.written_bytes, before.written_bytes),
        };
        Ok((seconds, used))
    }

    /// Lets the clients work for so long, or until none has anything more to do.
    async fn watch(&self, crew: &mut Crew, length: Duration) -> Result<(), BenchError> {
        let end = Instant::now() + length;
        loop {
            let (so_far, finished) = crew.progress()?;
            self.live.working(so_far);
            let left = end.saturating_duration_since(Instant::now());
            if finished || left.is_zero() {
                return Ok(());
            }
            tokio::time::sleep(left.min(LOOK)).await;
        }
    }
}
