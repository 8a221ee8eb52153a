//! The servers that the targets run on.

use testkit::Options;

use super::{
    super::{BenchError, machine, server::Bench},
    TransferArgs,
    target::Kind,
};

/// The servers that the targets need. They idle while another one is measured.
pub(crate) struct Servers {
    standalone: Option<Bench>,
    replica_set: Option<Bench>,
}

impl Servers {
    pub(crate) async fn start(args: &TransferArgs) -> Result<Self, BenchError> {
        let replica_set = |kind: &Kind| kind.needs_replica_set();
        let mut servers = Self { standalone: None, replica_set: None };
        if !args.targets.iter().all(replica_set) {
            servers.standalone = Some(Bench::open("--uri", args.uri.as_deref(), Options::standalone()).await?);
        }
        if args.targets.iter().any(replica_set) {
            servers.replica_set =
                Some(Bench::open("--replica-uri", args.replica_uri.as_deref(), Options::replica_set()).await?);
        }
        Ok(servers)
    }

    /// The server of a target.
    pub(crate) fn of(&self, kind: Kind) -> Result<&Bench, BenchError> {
        let server = if kind.needs_replica_set() { &self.replica_set } else { &self.standalone };
        server.as_ref().ok_or_else(|| BenchError::Failed(format!("no server for {}", kind.title())))
    }

    /// Under what conditions was measured, a line each.
    pub(crate) async fn facts(&self, args: &TransferArgs) -> Result<Vec<String>, BenchError> {
        let mut facts = vec![
            format!("Machine: {}. Clients and server share it.", machine::describe()),
            format!(
                "Transfers: two update_one by _id, each $inc of one field, out of {} documents of {} bytes chosen at random; \
                 {} rounds of {} s for each line, the targets in turns; seed {}.",
                args.documents, args.document_bytes, args.rounds, args.seconds, args.seed
            ),
        ];
        for (name, server) in [("Standalone server", &self.standalone), ("Replica set", &self.replica_set)] {
            if let Some(server) = server {
                facts.push(format!("{name}: {}.", server.describe().await?));
            }
        }
        for kind in &args.targets {
            facts.push(format!("Durability of {}: {}.", kind.title(), kind.durability()));
        }
        Ok(facts)
    }
}
