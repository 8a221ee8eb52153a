//! The servers that the targets of a benchmark run on. They idle while another one is measured.

use mongotx::drop_record_database;

use super::RunArgs;
use crate::{
    error::BenchError,
    server::{Bench, Usage},
    store::Store,
    targets::{Acknowledged, Deployment, registry::TargetName},
};

/// The servers of one target.
#[derive(Clone, Copy)]
pub enum Host<'a> {
    /// A deployment of MongoDB, for every target but one.
    MongoDb(&'a Bench),
    /// A cluster of DTranx, for the target `dtranx`.
    Dtranx(&'a Store),
}

impl Host<'_> {
    /// Connection string of the target.
    pub(crate) fn uri(self) -> String {
        match self {
            Self::MongoDb(bench) => bench.uri.clone(),
            Self::Dtranx(store) => store.uri().to_owned(),
        }
    }

    /// Number of nodes that each have a write.
    fn copies(self) -> usize {
        match self {
            Self::MongoDb(bench) => bench.node_count(),
            Self::Dtranx(_) => 1,
        }
    }

    /// Resources that the servers have used so far, where they report it.
    pub(crate) async fn usage(self) -> Result<Usage, BenchError> {
        match self {
            Self::MongoDb(bench) => bench.usage().await,
            Self::Dtranx(_) => Ok(Usage::default()),
        }
    }

    /// Removes what an earlier process may have left of a database that is about to be loaded.
    pub(crate) async fn empty(self, db: &str) -> Result<(), BenchError> {
        match self {
            Self::MongoDb(bench) => Ok(bench.admin.database(db).drop().await?),
            Self::Dtranx(store) => store.remove(db).await,
        }
    }

    /// Removes a database, with all that the target has kept about it.
    pub(crate) async fn remove(self, db: &str) -> Result<(), BenchError> {
        match self {
            Self::MongoDb(bench) => Ok(drop_record_database(&bench.admin, db).await?),
            Self::Dtranx(store) => store.remove(db).await,
        }
    }
}

/// The servers that the targets need.
pub struct Servers {
    standalone: Option<Bench>,
    replica_set: Option<Bench>,
    dtranx: Option<Store>,
    all_on_replica_set: bool,
}

impl Servers {
    /// Starts the servers that the targets need, or takes those that were named.
    ///
    /// # Errors
    /// [`BenchError::Refused`] for a server that was named and cannot be used,
    /// [`BenchError::Server`].
    pub async fn start(args: &RunArgs) -> Result<Self, BenchError> {
        let (on_dtranx, on_mongodb): (Vec<TargetName>, Vec<TargetName>) =
            args.targets.iter().partition(|name| name.traits().on_dtranx);
        let on_set = |name: &TargetName| args.all_on_replica_set || name.traits().needs_replica_set;
        let all_on_replica_set = args.all_on_replica_set;
        let mut servers = Self { standalone: None, replica_set: None, dtranx: None, all_on_replica_set };
        if !on_dtranx.is_empty() {
            servers.dtranx = Some(match args.dtranx.as_slice() {
                [] => Store::start(args.dtranx_servers).await?,
                addresses => Store::named("--dtranx", addresses).await?,
            });
        }
        if !on_mongodb.iter().all(on_set) {
            servers.standalone = Some(Bench::open("--uri", args.uri.as_deref(), Deployment::Standalone).await?);
        }
        if on_mongodb.iter().any(on_set) {
            let deployment = Deployment::ReplicaSet(args.replica_nodes);
            servers.replica_set = Some(Bench::open("--replica-uri", args.replica_uri.as_deref(), deployment).await?);
        }
        Ok(servers)
    }

    /// The server of a target.
    ///
    /// # Errors
    /// [`BenchError::Failed`] for a target that was not among those it was started for.
    pub fn of(&self, target: TargetName) -> Result<Host<'_>, BenchError> {
        let missing = || BenchError::Failed(format!("no server for {}", target.as_str()));
        if target.traits().on_dtranx {
            return self.dtranx.as_ref().map(Host::Dtranx).ok_or_else(missing);
        }
        let on_set = self.all_on_replica_set || target.traits().needs_replica_set;
        let server = if on_set { &self.replica_set } else { &self.standalone };
        server.as_ref().map(Host::MongoDb).ok_or_else(missing)
    }

    /// Checks that the server of this target has as many nodes as a commit is to wait for, where
    /// `option` says how many.
    ///
    /// # Errors
    /// [`BenchError::Refused`], which names the option.
    pub(crate) fn check_nodes(&self, option: &str, target: TargetName, nodes: Acknowledged) -> Result<(), BenchError> {
        let there = self.of(target)?.copies();
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
        facts.extend(self.dtranx.as_ref().map(|store| format!("DTranx: {}.", store.describe())));
        Ok(facts)
    }
}
