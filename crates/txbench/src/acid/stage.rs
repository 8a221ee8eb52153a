//! A target with a small database of TPC-C, for one ACID test: connecting, loading, looking at its
//! content, and actors that run transactions.

use super::actor::Actor;
use crate::{
    error::{BenchError, OpResult},
    targets::{Connection, Isolation, Target, registry::TargetName},
    workload::{
        Workload,
        registry::WorkloadOptions,
        tpcc::{
            TpccOptions,
            check::{State, read},
            schema::Schema,
        },
    },
};

/// Part of a warehouse that is loaded. Isolation needs rows, not many of them.
const PART: f64 = 0.001;
/// Percent of orders that are rolled back in the consistency test.
const ROLLED_BACK: u32 = 20;
/// Sessions that are open at once, at most.
const SESSIONS: u32 = 10;

/// The target of a test, with its database and isolation level.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) name: TargetName,
    pub(super) uri: &'a str,
    pub(super) db: &'a str,
    pub(super) isolation: Isolation,
    pub(super) seed: u64,
}

pub(super) struct Stage {
    pub(super) target: Box<dyn Target>,
    pub(super) options: TpccOptions,
    pub(super) workload: Box<dyn Workload>,
    pub(super) seed: u64,
}

impl Stage {
    /// Connects the target and loads the data.
    pub(super) async fn open(place: Place<'_>) -> Result<Self, BenchError> {
        let stage = Self::connect(place).await?;
        stage.workload.load(&*stage.target, stage.seed, &|_, _| {}).await?;
        Ok(stage)
    }

    /// Connects to what is loaded already.
    pub(super) async fn connect(Place { name, uri, db, isolation, seed }: Place<'_>) -> Result<Self, BenchError> {
        let connection = Connection { isolation, ..Connection::new(uri, db, SESSIONS) };
        let target = (name.entry().connect)(connection).await?;
        let options = options();
        let workload = options.make()?;
        Ok(Self { target, options, workload, seed })
    }

    /// A new actor, which runs transactions.
    pub(super) async fn actor(&self) -> OpResult<Actor> {
        Ok(Actor::new(self.target.session().await?, self.options.how()))
    }

    /// Content of the database.
    pub(super) async fn state(&self) -> OpResult<State> {
        read(&mut *self.target.session().await?, self.options.schema, &self.options.scale()).await
    }

    pub(super) async fn close(self) -> Result<(), BenchError> {
        self.target.close().await
    }
}

/// The best way to write the transactions; no isolation of their own.
fn options() -> TpccOptions {
    TpccOptions {
        warehouses: 1,
        scale: PART,
        schema: Schema::Recommended,
        natural_keys: false,
        needed_fields: true,
        writes_first: true,
        find_and_modify: true,
        batch: true,
        as_published: false,
        rollback_percent: ROLLED_BACK,
        think_time: 0.0,
        tx_isolation: Vec::new(),
        tx_write_concern: Vec::new(),
        constants_seed: 1,
    }
}
