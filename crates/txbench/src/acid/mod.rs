//! TPC-C's ACID tests (clause 3) on every target: atomicity (3.2.2), consistency (3.3.3), isolation
//! (3.4.2) and durability (3.5.3), on a small database.
//!
//! They show what a target keeps of a transaction's promises. The isolation tests demand what
//! serializable transactions have: 1 to 6 need read committed, 7 repeatable reads (P2), 8 and 9 the
//! absence of phantoms (P3). A target may keep others waiting, may roll one back that is then tried
//! again, or may show a snapshot: what counts is what is seen and left.
//!
//! Deliberately absent: the loss of a disk and of the whole machine's power (clauses 3.5.3.1 and
//! 3.5.3.3): a server that is killed loses its memory, and no disk.

mod actor;
mod atomicity;
mod consistency;
mod durability;
mod isolation;
mod report;
mod stage;

use std::{
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
};

use clap::Args;
use mongotx::drop_record_database;

pub use self::report::{AcidReport, TargetReport, TestReport, TestResult};
use self::stage::{Place, Stage};
use crate::{
    error::{BenchError, OpError, OpResult},
    server::Bench,
    targets::{Deployment, Feature, Isolation, registry::TargetName},
};

/// Number of times that a test is begun again because a rival rolled its first transaction back.
const REPEATS: u32 = 5;

/// The arguments of the ACID tests.
#[derive(Clone, Debug, Args)]
pub struct AcidArgs {
    /// Targets to test, in this order
    #[arg(long, value_delimiter = ',', default_value = "plain,native,mongotx")]
    pub targets: Vec<TargetName>,
    /// Isolation levels of transactions, each of which is tested [default: all that a target has]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub isolation: Vec<Isolation>,
    /// A running server for targets that need no replica set; one is started if none is named. The
    /// durability test always starts its own
    #[arg(long)]
    pub uri: Option<String>,
    /// A running replica set, for targets that need one; one is started if none is named
    #[arg(long)]
    pub replica_uri: Option<String>,
    /// Seed of the work that is done
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Write the outcome of every test into this file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub json: Option<PathBuf>,
}

/// Result of a test: the fault in words, if there is one.
pub(crate) type Verdict = Result<(), String>;

/// Runs all tests on all targets.
///
/// # Errors
/// A failure that keeps tests from being begun: a server that does not start, a database that
/// cannot be loaded. A failure that a test meets is its result.
pub async fn run_acid(args: &AcidArgs) -> Result<AcidReport, BenchError> {
    let levels = args.targets.iter().map(|name| levels(*name, &args.isolation)).collect::<Result<Vec<_>, _>>()?;
    if let Some(other) = args.targets.iter().find(|name| name.traits().on_dtranx) {
        let reason = format!("--targets: {} cannot {}, which the ACID tests need", other.as_str(), Feature::Query);
        return Err(BenchError::Refused(reason));
    }
    let mut targets = Vec::new();
    for (name, levels) in args.targets.iter().zip(levels) {
        let replica_set = name.traits().needs_replica_set;
        let server = match replica_set {
            true => Bench::open("--replica-uri", args.replica_uri.as_deref(), Deployment::ReplicaSet(1)).await?,
            false => Bench::open("--uri", args.uri.as_deref(), Deployment::Standalone).await?,
        };
        for level in levels {
            targets.push(target(*name, &server, level, args.seed).await?);
        }
    }
    Ok(AcidReport { targets })
}

/// The levels that a target is tested at.
fn levels(name: TargetName, asked: &[Isolation]) -> Result<Vec<Isolation>, BenchError> {
    let traits = name.traits();
    if traits.isolations.is_empty() {
        // The target isolates nothing, and has no levels to choose.
        return Ok(vec![Isolation::default()]);
    }
    asked.iter().try_for_each(|level| traits.check_isolation(*level))?;
    Ok(if asked.is_empty() { traits.isolations } else { asked }.to_vec())
}

async fn target(name: TargetName, server: &Bench, level: Isolation, seed: u64) -> Result<TargetReport, BenchError> {
    let mut tests = Vec::new();
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let db = format!("mongotx_bench_acid_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    server.admin.database(&db).drop().await?;
    let stage = Stage::open(Place { name, uri: &server.uri, db: &db, isolation: level, seed }).await?;
    tests.extend(atomicity::test_atomicity(&stage).await);
    tests.push(consistency::test_consistency(&stage).await);
    tests.extend(isolation::test_isolation(&stage).await);
    stage.close().await?;
    drop_record_database(&server.admin, &db).await?;
    tests.push(durability::test_durability(name, level, seed).await);
    let isolation = (!name.traits().isolations.is_empty()).then_some(level);
    Ok(TargetReport { target: name.as_str().to_owned(), isolation, tests })
}

/// The outcome of a test. `attempt` is begun again when a rival has rolled its first transaction
/// back.
pub(crate) async fn outcome(mut attempt: impl AsyncFnMut() -> OpResult<Verdict>) -> TestResult {
    for _ in 0..REPEATS {
        match attempt().await {
            Ok(Ok(())) => return TestResult::Passed,
            Ok(Err(what)) => return TestResult::Failed(what),
            Err(OpError::Conflict(_)) => {}
            Err(OpError::Fatal(BenchError::Refused(reason))) => return TestResult::Refused(reason),
            Err(error) => return TestResult::Failed(error.to_string()),
        }
    }
    TestResult::Failed(format!("the transaction that came first was rolled back {REPEATS} times"))
}
