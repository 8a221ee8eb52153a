//! The status of servers, for people or for Prometheus.

use clap::Args;
use dtranx::cluster::{Cluster, Role};
use dtranx::core::ServerId;
use dtranx::server::prometheus;
use dtranx::stage::{QueueReading, StageReading};
use dtranx::wire::{ConnectionStats, GroupStatus, ServerStatus, Told};

use crate::connect::Connect;
use crate::failure::Failure;
use crate::say::say;

#[derive(Args)]
pub(crate) struct StatusOptions {
    #[command(flatten)]
    connect: Connect,
    /// Prints the text format of Prometheus
    #[arg(long)]
    prometheus: bool,
}

pub(crate) fn show_status(options: &StatusOptions) -> Result<(), Failure> {
    let client = options.connect.client()?;
    let mut silent = Vec::new();
    for server in &client.cluster().servers {
        match client.status(server.id) {
            Ok(status) if options.prometheus => say!("{}", prometheus(&status).trim_end()),
            Ok(status) => print(&place(&client.cluster(), server.id), &status),
            Err(error) => silent.push(error.to_string()),
        }
    }
    if silent.is_empty() { Ok(()) } else { Err(Failure::No(silent.join("; "))) }
}

/// Addresses of a server, as the status names them. The status of a group is its leader's, which
/// any member may be.
fn place(cluster: &Cluster, server: ServerId) -> String {
    let addresses: Vec<_> = cluster.addresses(server).iter().map(ToString::to_string).collect();
    let kind = if cluster.is_group(server) { "led by one of" } else { "at" };
    format!("{kind} {}", addresses.join(", "))
}

fn print(place: &str, status: &ServerStatus) {
    let peers: Vec<_> = status.peers.iter().map(ToString::to_string).collect();
    say!("server {} {place}, up {} s", status.server, status.uptime_ms / 1000);
    say!("  log: {} segments, {} MiB, on {}", status.log_segments, status.log_bytes >> 20, status.medium);
    say!("  committed {}, refused {}, clients {}", status.committed, status.refused, status.clients);
    say!(
        "  low-water mark {}, coordinating {}, participating {}, locking {} ({} of them wait), anomalies {}",
        status.low_water,
        status.coordinating,
        status.participating,
        status.locking,
        status.lock_waiting,
        status.anomalies
    );
    say!("  in doubt {}, of which it asks about {}", status.in_doubt, status.asking);
    say!("  reads answered by the cache: {}", status.cached_reads);
    say!(
        "  epoch {}, snapshots kept from {}, {} bytes of what was replaced",
        status.epoch,
        status.snapshots_from,
        status.snapshot_bytes
    );
    if let Some(group) = &status.group {
        print_group(group);
    }
    print_connections(&status.connections);
    say!("  connected to servers: {}", if peers.is_empty() { "none".to_owned() } else { peers.join(", ") });
    print_stages(&status.readings.stages);
    print_queues(&status.readings.queues);
}

/// The members of a group: who has a vote, whether a change is under way, and how far each is.
fn print_group(group: &GroupStatus) {
    let Told { at, is_settled, places, .. } = &group.told;
    let kind = match (places.is_joint(), *is_settled) {
        (true, _) => "a change of votes is under way",
        (false, false) => "a change is under way",
        (false, true) => "no change is under way",
    };
    let from = if at.index == 0 { "those of its beginning".to_owned() } else { format!("since entry {}", at.index) };
    say!("  members, {from}; {kind}; committed: entry {}", group.committed);
    for place in &places.places {
        let role = match place.role {
            _ if place.number == group.leads => "leads",
            Role::Votes => "has a vote",
            Role::Goes => "has a vote, and goes",
            Role::Comes => "gets a vote",
            Role::Learns => "has no vote yet",
        };
        let reached = group.reached.iter().find(|(number, _)| *number == place.number);
        let reached = reached.map_or(String::new(), |(_, index)| format!(", has entry {index}"));
        say!("    member {} at {}: {role}{reached}", place.number, place.address);
    }
}

fn print_connections(connections: &ConnectionStats) {
    say!(
        "  connections of clients {} of {} ({} open files allowed), bytes held by clients {} of {}",
        connections.client_connections,
        connections.most_client_connections,
        connections.descriptors,
        connections.client_bytes,
        connections.most_client_bytes
    );
    say!(
        "  refused: clients {}, requests for their bytes {}; closed: strangers {}, slow {}, idle {}, that did not read {}",
        connections.refused_clients,
        connections.refused_requests,
        connections.closed_strangers,
        connections.closed_slow,
        connections.closed_idle,
        connections.closed_unread
    );
}

fn print_stages(stages: &[StageReading]) {
    say!("  {:<12} {:>12} {:>10} {:>8} {:>10}", "stage", "events", "batches", "largest", "busy ms");
    for stage in stages {
        let busy_ms = stage.busy_ns / 1_000_000;
        say!(
            "  {:<12} {:>12} {:>10} {:>8} {busy_ms:>10}",
            stage.name,
            stage.handled,
            stage.batches,
            stage.largest_batch
        );
    }
}

fn print_queues(queues: &[QueueReading]) {
    say!("  {:<12} {:>8} {:>8} {:>8} {:>8} {:>8}", "queue", "length", "longest", "capacity", "refused", "kept");
    for queue in queues {
        say!(
            "  {:<12} {:>8} {:>8} {:>8} {:>8} {:>8}",
            queue.name,
            queue.length,
            queue.longest,
            queue.capacity,
            queue.refused,
            queue.kept_back
        );
    }
}
