//! `mongotx-bench overhead`: the cost of a gateway. The same commands of the official driver to a
//! server, and through a gateway to the same server, in turns; and through a proxy that only
//! forwards messages, the least that a gateway can cost ([`proxy`]).
//!
//! 1. A gateway, a process of its own, before its first command: its memory, with and without idle
//!    connections ([`idle`]).
//! 2. Single commands, on a standalone server: each [`operation`] with each number of connections
//!    ([`measure`]); and directly on a replica set, which is what drivers take a gateway for.
//! 3. Transactions on a replica set: the server's own, and through a gateway.
//!
//! [`side`] has the clients; [`process`] the gateway; [`table`] and [`json`] write the findings.

mod documents;
mod gateway;
mod idle;
mod json;
mod measure;
mod operation;
mod process;
mod proxy;
mod side;
mod table;

use std::{path::PathBuf, time::Duration};

use benchkit::{
    measure::Machine,
    report::{self, OutputArgs, TableArgs, table::Report},
};
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use mongotx::drop_record_database;
use txbench::{server::Bench, targets::Deployment};

pub(crate) use self::{
    gateway::{MeasuredGatewayOptions, run_measured_gateway},
    proxy::{ProxyOptions, run_proxy},
};
use self::{
    idle::Memory,
    measure::OperationFigures,
    operation::Operation,
    process::GatewayProcess,
    side::{Addresses, Sides},
};
use super::{BenchError, progress};
use crate::say;

/// The arguments of `mongotx-bench overhead`.
#[derive(Clone, Debug, Args)]
pub(crate) struct OverheadArgs {
    /// Operations to measure [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    operations: Vec<Operation>,
    /// Numbers of connections that are used at the same time.
    #[arg(long, value_delimiter = ',', default_value = "1,32", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    connections: Vec<u32>,
    /// Time for which each side of each row is measured, in seconds
    #[arg(long, default_value = "8", value_parser = seconds)]
    seconds: Duration,
    /// Number of idle connections with which the gateway's memory is measured; 0: not measured
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(0..=20_000))]
    idle_connections: u32,
    /// A running standalone server; one is started if none is named.
    #[arg(long)]
    uri: Option<String>,
    /// A running replica set, for the transactions; one of one node is started if none is named.
    #[arg(long)]
    replica_uri: Option<String>,
    /// Seed of the documents that are asked for and changed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: TableArgs,
    /// Write every line, with its histograms, into this file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    json: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.01..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected a number of seconds from 0.01 to 3600".to_owned()),
    }
}

impl OverheadArgs {
    fn operations(&self) -> Vec<Operation> {
        if self.operations.is_empty() { Operation::value_variants().to_vec() } else { self.operations.clone() }
    }

    fn facts(&self, servers: &[String]) -> Vec<String> {
        vec![
            format!("Machine: {}. Clients, proxy, gateway and server share it.", Machine::look()),
            format!("Servers: {}.", servers.join("; ")),
            format!(
                "Collection: {} documents of about {} bytes, {} in each group; each side has its own. Write concerns are \
                 the driver's default.",
                documents::DOCUMENTS,
                documents::NOTE_BYTES,
                documents::GROUP
            ),
            format!(
                "All sides: the official driver with so many connections, one command at a time on each. After a warm-up \
                 they take turns, {} for each, {} s in all for each side of a line; seed {}.",
                measure::TURNS,
                self.seconds.as_secs_f64(),
                self.seed
            ),
        ]
    }
}

/// Findings of a run.
#[derive(Default)]
struct Findings {
    servers: Vec<String>,
    lines: Vec<OperationFigures>,
    memory: Vec<Memory>,
}

/// Measures everything, and prints it.
pub(crate) async fn run_overhead(args: &OverheadArgs) -> Result<(), BenchError> {
    report::check(&OutputArgs {
        json: args.json.clone(),
        markdown_file: args.output.markdown_file.clone(),
        ..OutputArgs::default()
    })?;
    let operations = args.operations();
    let (on_set, alone): (Vec<_>, Vec<_>) = operations.iter().copied().partition(|operation| operation.needs_set());
    let progress = progress::bar((operations.len() * args.connections.len()) as u64);
    let mut findings = Findings::default();
    let set = Bench::open("--replica-uri", args.replica_uri.as_deref(), Deployment::ReplicaSet(1)).await?;
    if !alone.is_empty() || args.idle_connections > 0 {
        let server = Bench::open("--uri", args.uri.as_deref(), Deployment::Standalone).await?;
        if args.idle_connections > 0 {
            findings.memory = idle::measure(&server.uri, args.idle_connections).await?;
        }
        findings.servers.push(server.describe().await?);
        on_one_server(args, &server, Some(&set), &alone, &progress, &mut findings).await?;
    }
    findings.servers.push(set.describe().await?);
    on_one_server(args, &set, None, &on_set, &progress, &mut findings).await?;
    progress.finish_and_clear();
    if let Some(file) = &args.json {
        json::write(&findings, file)?;
    }
    let tables = table::tables(&findings);
    let report = Report { facts: args.facts(&findings.servers), tables };
    let TableArgs { markdown, markdown_file } = &args.output;
    say::line(&report::write_report(&report, *markdown, markdown_file.as_deref())?);
    Ok(())
}

/// Measures on one server: steps 2 and 3. `set`: the replica set beside it; `None` where the server
/// is the replica set.
async fn on_one_server(
    args: &OverheadArgs,
    server: &Bench,
    set: Option<&Bench>,
    operations: &[Operation],
    progress: &ProgressBar,
    findings: &mut Findings,
) -> Result<(), BenchError> {
    if operations.is_empty() {
        return Ok(());
    }
    let db = format!("mongotx_bench_overhead_{}", std::process::id());
    let gateway = GatewayProcess::start(&server.uri, &format!("{db}_tx")).await?;
    let proxy = GatewayProcess::proxy(&server.uri).await?;
    for connections in &args.connections {
        let of_set = set.map(|set| set.uri.as_str());
        let at = Addresses { server: &server.uri, proxy: &proxy.uri, gateway: &gateway.uri, set: of_set };
        let sides = Sides::connect(&at, &db, *connections).await?;
        sides.load().await?;
        for operation in operations {
            progress.set_message(format!("{} with {connections} connection(s)", operation.title()));
            findings.lines.push(measure::line(args, *operation, *connections, &sides).await?);
            progress.inc(1);
        }
        sides.close().await;
        for server in [Some(server), set].into_iter().flatten() {
            server.admin.database(&db).drop().await?;
        }
    }
    let kind = if set.is_some() { "standalone server" } else { "replica set" };
    findings.memory.push(Memory::of(&gateway, &format!("after all on the {kind}"), 0)?);
    gateway.end().await?;
    proxy.end().await?;
    Ok(drop_record_database(&server.admin, &format!("{db}_tx")).await?)
}
