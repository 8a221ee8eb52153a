//! A small database of one test on one target.

use txbench::{
    run::RunArgs,
    targets::{Acknowledged, Connection, Durability, Session, Target, registry::TargetName},
    workload::{
        Totals, Workload,
        registry::{WorkloadOptions, WorkloadSpec},
        tpcc::{
            TpccOptions,
            check::{State, read},
        },
    },
};

use crate::common;

/// The seed of all data here.
pub(crate) const SEED: u64 = 11;

/// Workload and run of this command line.
pub(crate) fn parse(line: &str) -> (WorkloadSpec, RunArgs) {
    common::parse(&format!("tpcc --scale 0.001 {line}"))
}

/// The options of this command line.
pub(crate) fn options(line: &str) -> TpccOptions {
    match parse(line).0 {
        WorkloadSpec::Tpcc(options) => options,
        other => panic!("{other:?} is no TPC-C"),
    }
}

/// A target with a database.
pub(crate) struct Setting {
    pub(crate) target: Box<dyn Target>,
    pub(crate) options: TpccOptions,
    pub(crate) workload: Box<dyn Workload>,
}

impl Setting {
    /// Loads a database of its own.
    pub(crate) async fn load(target: &str, line: &str) -> Self {
        let name: TargetName = target.parse().unwrap();
        let uri = match name.traits().needs_replica_set {
            true => local_mongod::shared_replica_set().await.unwrap().uri(),
            false => local_mongod::shared_standalone().await.unwrap().uri(),
        };
        let connection = Connection {
            // A target whose single writes would each wait for the disk need not: nothing is killed
            // here.
            durability: Durability { nodes: Acknowledged::Nodes(1), journaled: name.traits().transactional },
            ..Connection::new(uri, local_mongod::unique_db(&format!("tpcc_{target}")), 8)
        };
        let target = (name.entry().connect)(connection).await.unwrap();
        let options = options(line);
        let workload = options.make().unwrap();
        workload.load(&*target, SEED, &|_, _| {}).await.unwrap();
        Self { target, options, workload }
    }

    pub(crate) async fn session(&self) -> Box<dyn Session> {
        self.target.session().await.unwrap()
    }

    /// Content of the database.
    pub(crate) async fn state(&self) -> State {
        self.target.settle().await.unwrap();
        read(&mut *self.session().await, self.options.schema, &self.options.scale()).await.unwrap()
    }

    /// Complaint of the workload's check after this, if it has one.
    pub(crate) async fn broken(&self, totals: &Totals) -> Option<String> {
        self.target.settle().await.unwrap();
        self.workload.check(&mut *self.session().await, totals).await.err().map(|broken| broken.to_string())
    }
}
