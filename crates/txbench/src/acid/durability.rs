//! Durability (clause 3.5.3.2: the failure of the system's memory): clients make orders, the server
//! is killed and started again, and every order that was acknowledged is there, whole.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use bson::DateTime;
use local_mongod::Server;
use tokio::task::JoinSet;

use super::{
    Verdict,
    actor::{Actor, End},
    consistency::conditions,
    report::{TestReport, TestResult},
    stage::{Place, Stage},
};
use crate::{
    error::{BenchError, OpError, OpResult},
    targets::{Isolation, registry::TargetName},
    workload::tpcc::{
        draw::Draw,
        ids::Order,
        input::{Input, NewOrder, Terminal},
        kind::Kind,
        nurand::NuRands,
        tx::new_order::{self, Answer},
    },
};

const CLIENTS: u32 = 4;
/// Orders that are acknowledged before the server is killed.
const ENOUGH: usize = 40;
/// Time limit for these orders.
const LIMIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(10);
const PAUSE: Duration = Duration::from_millis(5);
const DB: &str = "mongotx_bench_acid_durability";

/// Orders that were acknowledged, with their number of lines.
type Acknowledged = Arc<Mutex<Vec<(Order, usize)>>>;

pub(super) async fn test_durability(name: TargetName, level: Isolation, seed: u64) -> TestReport {
    let asks = "every order that was acknowledged is there after the server is killed, and the conditions hold";
    let outcome = match survive(name, level, seed).await {
        Ok(Ok(())) => TestResult::Passed,
        Ok(Err(what)) => TestResult::Failed(what),
        Err(OpError::Fatal(BenchError::Refused(why))) => TestResult::Refused(why),
        Err(error) => TestResult::Failed(error.to_string()),
    };
    TestReport::new("3.5.3.2", asks, outcome)
}

async fn survive(name: TargetName, level: Isolation, seed: u64) -> OpResult<Verdict> {
    let server = match name.traits().needs_replica_set {
        true => Server::replica_set().await?,
        false => Server::standalone().await?,
    };
    let uri = server.uri();
    let place = Place { name, uri: &uri, db: DB, isolation: level, seed };
    let stage = Stage::open(place).await?;
    let before = next_numbers(&stage).await?;
    let acknowledged = Acknowledged::default();
    let mut clients = JoinSet::new();
    for index in 0..CLIENTS {
        let actor = stage.actor().await?;
        clients.spawn(make_orders(actor, terminal(&stage, index), Arc::clone(&acknowledged)));
    }
    let enough = wait_for(&acknowledged, &mut clients).await;
    server.kill()?;
    // The clients would wait for the server; the answers that they got are written down.
    clients.shutdown().await;
    enough?;
    drop(stage);
    server.restart().await?;
    let stage = Stage::connect(place).await?;
    let acknowledged = std::mem::take(&mut *acknowledged.lock().unwrap_or_else(PoisonError::into_inner));
    let verdict = compare(&stage, before, &acknowledged).await?;
    stage.close().await?;
    Ok(verdict)
}

fn terminal(stage: &Stage, index: u32) -> Terminal {
    let scale = stage.options.scale();
    let nurands = NuRands::of_run(&scale, stage.options.constants_seed);
    Terminal::new(Draw::new(stage.seed, u64::from(index) + 100), scale, nurands, index, 0)
}

/// Makes orders until the server is gone.
async fn make_orders(mut actor: Actor, mut terminal: Terminal, acknowledged: Acknowledged) -> OpResult<()> {
    loop {
        let Input::NewOrder(input) = terminal.input(Kind::NewOrder) else { continue };
        let made = loop {
            match make(&mut actor, &input).await {
                Err(OpError::Conflict(_)) => {
                    actor.end(End::Rollback).await?;
                    tokio::time::sleep(PAUSE).await;
                }
                ended => break ended?,
            }
        };
        acknowledged.lock().unwrap_or_else(PoisonError::into_inner).push((made.order, made.lines.len()));
    }
}

async fn make(actor: &mut Actor, input: &NewOrder) -> OpResult<Answer> {
    actor.begin().await?;
    let answer = new_order::run_new_order(&mut actor.work(), input, DateTime::now()).await?;
    actor.end(End::Commit).await?;
    Ok(answer)
}

/// Waits until enough orders are acknowledged. A client that ends before that has failed.
async fn wait_for(acknowledged: &Acknowledged, clients: &mut JoinSet<OpResult<()>>) -> OpResult<()> {
    let deadline = Instant::now() + LIMIT;
    while acknowledged.lock().unwrap_or_else(PoisonError::into_inner).len() < ENOUGH {
        if let Some(Ok(ended)) = clients.try_join_next() {
            ended?;
        }
        if Instant::now() > deadline {
            return Err(BenchError::Failed(format!("{ENOUGH} orders were not acknowledged within {LIMIT:?}")).into());
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

/// The sum of D_NEXT_O_ID over all districts.
async fn next_numbers(stage: &Stage) -> OpResult<i64> {
    Ok(stage.state().await?.districts.values().map(|district| district.next).sum())
}

/// Compares the database with the acknowledged orders. Orders under way when the server was killed
/// may be there or not: one of each client.
async fn compare(stage: &Stage, before: i64, acknowledged: &[(Order, usize)]) -> OpResult<Verdict> {
    let state = stage.state().await?;
    for (order, lines) in acknowledged {
        let found = state.lines.get(order).map_or(0, |lines| lines.count);
        if !state.orders.contains_key(order) || found != *lines as i64 {
            return Ok(Err(format!("order {} was acknowledged with {lines} lines; {found} are there", order.id())));
        }
    }
    let made = next_numbers(stage).await? - before;
    let acknowledged_orders = acknowledged.len() as i64;
    if !(acknowledged_orders..=acknowledged_orders + i64::from(CLIENTS)).contains(&made) {
        return Ok(Err(format!("D_NEXT_O_ID was raised {made} times; {acknowledged_orders} orders were acknowledged")));
    }
    conditions(stage).await
}
