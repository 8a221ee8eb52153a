//! The paper's workload on a cluster of this process's own, or on one that runs already.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use dtranx::bench::{Distribution, Load, Measured, Plan, load, run as drive};
use dtranx::client::{Client, ClientOptions};
use dtranx::cluster::{Cluster, Server as Member};
use dtranx::core::ServerId;
use dtranx::server::{LogMedium, Server, ServerConfig, StorageKind};
use dtranx::stage::Binding;

use crate::failure::Failure;
use crate::say::say;

#[derive(Args)]
pub(crate) struct Options {
    /// How many servers to start, all in this process
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16))]
    servers: u16,
    /// Measure a running cluster instead: one of its servers
    #[arg(long, value_name = "ADDRESS")]
    server: Option<std::net::SocketAddr>,
    /// What the logs lie on
    #[arg(long, value_enum, default_value_t = Medium::PersistentMemory)]
    medium: Medium,
    /// Where data are put; removed at the end
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Where logs are put, if elsewhere: tmpfs, to emulate persistent memory
    #[arg(long)]
    log_folder: Option<PathBuf>,
    /// How many of a hundred transactions only read
    #[arg(long, default_value_t = 95)]
    reads: u8,
    /// How keys are chosen
    #[arg(long, value_enum, default_value_t = Choice::Uniform)]
    distribution: Choice,
    /// How many keys there are
    #[arg(long, default_value_t = 100_000)]
    keys: u64,
    /// The length of a value
    #[arg(long, default_value_t = 100)]
    value_bytes: usize,
    /// Transactions under way at once
    #[arg(long, default_value_t = 256)]
    in_flight: usize,
    /// How long to measure
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Let the scheduler move the stages' threads
    #[arg(long)]
    unpinned: bool,
    /// Collect no garbage
    #[arg(long)]
    no_gc: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Medium {
    Disk,
    PersistentMemory,
    /// Log and items in memory only
    Memory,
}

#[derive(Clone, Copy, ValueEnum)]
enum Choice {
    Uniform,
    Zipfian,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::Failed(error.to_string());
    let plan = plan(options);
    let folder = options
        .folder
        .clone()
        .unwrap_or_else(|| std::env::temp_dir().join(format!("dtranx-bench-{}", std::process::id())));
    let mut servers = Vec::new();
    let addresses = match options.server {
        Some(address) => vec![address],
        None => {
            let cluster = cluster(options)?;
            for member in &cluster.servers {
                let config = config(options, &cluster, member.id, &folder);
                servers.push(Server::start(&config).map_err(|error| failed(&error))?);
            }
            cluster.servers.iter().map(|member| member.address).collect()
        }
    };
    let client = Client::connect(&addresses, ClientOptions::default())?;
    load(&client, &plan.load, plan.seed).map_err(|error| failed(&error))?;
    let measured = drive(&client, &plan).map_err(|error| failed(&error))?;
    print(&client, &measured)?;
    drop(servers);
    if options.server.is_none() && options.folder.is_none() {
        // What is left lies in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&folder);
    }
    if let Some(log_folder) = options.log_folder.as_ref().filter(|_| options.server.is_none()) {
        let _ = std::fs::remove_dir_all(log_folder.join("dtranx-bench"));
    }
    Ok(())
}

fn plan(options: &Options) -> Plan {
    let distribution = match options.distribution {
        Choice::Uniform => Distribution::Uniform,
        Choice::Zipfian => Distribution::Zipfian,
    };
    Plan {
        load: Load { keys: options.keys, value_bytes: options.value_bytes, reads_percent: options.reads, distribution },
        in_flight: options.in_flight,
        warm_up_ms: 1000,
        measure_ms: options.seconds * 1000,
        seed: 1,
    }
}

fn cluster(options: &Options) -> Result<Cluster, Failure> {
    // All ports are held until all are known.
    let listen = |_| std::net::TcpListener::bind("127.0.0.1:0");
    let held: Vec<_> = (0..options.servers).map(listen).collect::<Result<_, _>>()?;
    let mut members = Vec::new();
    for (id, held) in (1..).zip(&held) {
        members.push(Member { id: ServerId(id), address: held.local_addr()? });
    }
    Ok(Cluster::hashed("bench", members))
}

fn config(options: &Options, cluster: &Cluster, server: ServerId, folder: &std::path::Path) -> ServerConfig {
    let mut config = ServerConfig::new(cluster.clone(), server, &folder.join(server.to_string()));
    if let Some(log_folder) = &options.log_folder {
        config.log_folder = log_folder.join("dtranx-bench").join(server.to_string());
    }
    config.medium = match options.medium {
        Medium::Disk => LogMedium::Disk,
        Medium::PersistentMemory => LogMedium::PersistentMemory,
        Medium::Memory => LogMedium::Memory,
    };
    if options.medium == Medium::Memory {
        config.storage = StorageKind::Memory;
    }
    config.client_window = 65_536;
    if options.no_gc {
        config.gc_interval_ms = 3_600_000;
    }
    if options.unpinned || options.servers > 1 {
        config.binding = Binding::Unpinned;
    }
    config
}

fn print(client: &Client, measured: &Measured) -> Result<(), Failure> {
    say!(
        "{:.0} transactions/s, {:.2} % successful ({} committed, {} refused, {} failed)",
        measured.per_second(),
        measured.success_percent(),
        measured.committed,
        measured.refused,
        measured.failed
    );
    let at = |percent| measured.latency_us.value_at_quantile(percent);
    say!("latency in us: p50 {}, p95 {}, p99 {}, p99.9 {}", at(0.5), at(0.95), at(0.99), at(0.999));
    for member in &client.cluster().servers {
        let status = client.status(member.id)?;
        let busy: Vec<_> = status
            .readings
            .stages
            .iter()
            .map(|stage| {
                format!(
                    "{} {:.1} per batch, {} ms",
                    stage.name,
                    stage.handled as f64 / stage.batches.max(1) as f64,
                    stage.busy_ns / 1_000_000
                )
            })
            .collect();
        say!("server {}: log {} MiB on {}; {}", member.id, status.log_bytes >> 20, status.medium, busy.join("; "));
    }
    Ok(())
}
