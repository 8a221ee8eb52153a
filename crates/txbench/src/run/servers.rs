//! The servers that the targets of a benchmark run on. They idle while another one is measured.

use super::RunArgs;
use crate::{
    error::BenchError,
    server::Bench,
    targets::{Acknowledged, Deployment, registry::TargetName},
};

/// The servers that the targets need.
pub struct Servers {
    standalone: Option<Bench>,
    replica_set: Option<Bench>,
    all_on_replica_set: bool,
}

impl Servers {
    /// Starts the servers that the targets need, or takes those that were named.
    ///
    /// # Errors
    /// [`BenchError::Refused`] for a server that was named and cannot be used,
    /// [`BenchError::Server`].
    pub async fn start(args: &RunArgs) -> Result<Self, BenchError> {
        let on_set = |name: &TargetName| args.all_on_replica_set || name.traits().needs_replica_set;
        let mut servers = Self { standalone: None, replica_set: None, all_on_replica_set: args.all_on_replica_set };
        if !args.targets.iter().all(on_set) {
            servers.standalone = Some(Bench::open("--uri", args.uri.as_deref(), Deployment::Standalone).await?);
        }
        if args.targets.iter().any(on_set) {
            let deployment = Deployment::ReplicaSet(args.replica_nodes);
            servers.replica_set = Some(Bench::open("--replica-uri", args.replica_uri.as_deref(), deployment).await?);
        }
        Ok(servers)
    }

    /// The server of a target.
    ///
    /// # Errors
    /// [`BenchError::Failed`] for a target that was not among those it was started for.
    pub fn of(&self, target: TargetName) -> Result<&Bench, BenchError> {
        let on_set = self.all_on_replica_set || target.traits().needs_replica_set;
        let server = if on_set { &self.replica_set } else { &self.standalone };
        server.as_ref().ok_or_else(|| BenchError::Failed(format!("no server for {}", target.as_str())))
    }

    /// Whether the server of this target has as many nodes as a commit is to wait for, where
    /// `option` says how many.
    ///
    /// # Errors
    /// [`BenchError::Refused`], which names the option.
    pub(crate) fn check_nodes(&self, option: &str, target: TargetName, nodes: Acknowledged) -> Result<(), BenchError> {
        let there = self.of(target)?.node_count();
        match nodes {
            Acknowledged::Nodes(asked) if usize::from(asked) > there => Err(BenchError::Refused(format!(
                "{option}: a write of {} cannot be on {asked} nodes, for its server has {there}; a replica set is started \
                 with --replica-nodes, and --all-on-replica-set runs every target on it",
                target.as_str()
            ))),
            _ => Ok(()),
        }
    }

    /// Descriptions of the servers, a line each.
    pub(crate) async fn facts(&self) -> Result<Vec<String>, BenchError> {
        let mut facts = Vec::new();
        for (name, server) in [("Standalone server", &self.standalone), ("Replica set", &self.replica_set)] {
            if let Some(server) = server {
                facts.push(format!("{name}: {}.", server.describe().await?));
            }
        }
        Ok(facts)
    }
}
