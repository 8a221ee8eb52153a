//! Consistency (clause 3.3.3): the conditions are checked before and after clients work at the same
//! time.
//!
//! The state before is what the tests of atomicity have left; those leave it consistent where they
//! pass.

use futures_util::future::try_join_all;

use super::{Verdict, outcome, report::TestReport, stage::Stage};
use crate::{
    error::{BenchError, OpError, OpResult},
    targets::Session,
    workload::{
        Client, ClientId,
        tpcc::check::{tell, violations},
    },
};

const CLIENTS: u32 = 4;
/// Number of transactions of each client: two decks, every kind of transaction twice.
const TRANSACTIONS: u32 = 46;
const ATTEMPTS: u32 = 1_000;
const LONGEST_PAUSE_MS: u64 = 20;

pub(super) async fn test_consistency(stage: &Stage) -> TestReport {
    let asks = "the twelve consistency conditions hold before and after clients at the same time";
    TestReport::new("3.3.3", asks, outcome(async || hold(stage).await).await)
}

async fn hold(stage: &Stage) -> OpResult<Verdict> {
    if let Err(what) = conditions(stage).await? {
        return Ok(Err(format!("before: {what}")));
    }
    let mut working = Vec::new();
    for index in 0..CLIENTS {
        let id = ClientId { index, of: CLIENTS, seed: stage.seed.wrapping_add(u64::from(index)) };
        working.push(work(stage.workload.client(id)?, stage.target.session().await?));
    }
    try_join_all(working).await?;
    stage.target.settle().await?;
    conditions(stage).await
}

/// Checks that all consistency conditions hold.
pub(super) async fn conditions(stage: &Stage) -> OpResult<Verdict> {
    let found = violations(&stage.state().await?, &stage.options.scale());
    Ok(if found.is_empty() { Ok(()) } else { Err(tell(&found)) })
}

async fn work(mut client: Box<dyn Client>, mut session: Box<dyn Session>) -> OpResult<()> {
    for _ in 0..TRANSACTIONS {
        client.choose();
        transaction(&mut *client, &mut *session).await?;
    }
    Ok(())
}

/// Runs one transaction, again after conflicts.
pub(super) async fn transaction(client: &mut dyn Client, session: &mut dyn Session) -> OpResult<()> {
    for attempt in 1..=ATTEMPTS {
        match client.attempt(session).await {
            Err(OpError::Conflict(_) | OpError::Duplicate) => session.rollback().await?,
            ended => return ended.map(|_| ()),
        }
        let pause = u64::from(attempt).min(LONGEST_PAUSE_MS);
        tokio::time::sleep(std::time::Duration::from_millis(pause)).await;
    }
    Err(BenchError::Failed(format!("a transaction did not get through in {ATTEMPTS} attempts")).into())
}
