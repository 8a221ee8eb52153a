//! The data of one target: loaded once, worked on by one run after the other, checked after each.

use benchkit::measure::Counts;

use super::{RunArgs, servers::Host};
use crate::{
    error::BenchError,
    targets::{Connection, Isolation, Target, registry::TargetName},
    workload::{Broken, Totals, Workload},
};

/// The loaded database of a target.
pub(crate) struct Data {
    /// Connection of the target to the database.
    pub(crate) connection: Connection,
    totals: Totals,
    violations: u64,
    /// The target that checks it.
    target: Box<dyn Target>,
}

impl Data {
    /// Makes a database of its own and loads it.
    pub(crate) async fn load(
        server: Host<'_>,
        name: TargetName,
        workload: &dyn Workload,
        isolation: Isolation,
        args: &RunArgs,
        db: String,
        show: &(dyn Fn(u64, u64) + Send + Sync),
    ) -> Result<Self, BenchError> {
        let connection = Connection {
            uri: server.uri(),
            db,
            sessions: 1,
            durability: args.durability(),
            isolation,
            lock_wait_ms: args.lock_wait_ms(),
        };
        server.empty(&connection.db).await?;
        let loader = (name.entry().connect)(connection.clone()).await?;
        workload.load(&*loader, args.seed, show).await?;
        // As a tool that has loaded data goes: what it holds open must not count in what is
        // measured.
        loader.close().await?;
        let target = (name.entry().connect)(connection.clone()).await?;
        Ok(Self { connection, totals: Totals::default(), violations: 0, target })
    }

    /// Adds the counts of a run to the totals that the check relies on.
    pub(crate) fn note(&mut self, counts: &Counts) {
        self.totals.committed += counts.committed_in_all;
        self.totals.unknown += counts.unknown_in_all;
        for (name, number) in &counts.effects_in_all {
            *self.totals.effects.entry(name.clone()).or_default() += number;
        }
        self.violations += counts.violations_in_all;
    }

    /// Faults in the data, if there are any.
    pub(crate) async fn broken(&self, workload: &dyn Workload) -> Result<Option<String>, BenchError> {
        if let Some(left) = self.target.leftovers(&workload.collections()).await? {
            return Ok(Some(format!("left over after all had ended: {left}")));
        }
        if self.violations > 0 {
            return Ok(Some(format!("clients saw what must not be {} times", self.violations)));
        }
        let mut session = self.target.session().await?;
        match workload.check(&mut *session, &self.totals).await {
            Ok(()) => Ok(None),
            Err(Broken::Promise(what)) => Ok(Some(what)),
            Err(Broken::Error(error)) => Err(error),
        }
    }

    /// Removes the database of the target.
    pub(crate) async fn drop(self, server: Host<'_>) -> Result<(), BenchError> {
        self.target.close().await?;
        server.remove(&self.connection.db).await
    }
}
