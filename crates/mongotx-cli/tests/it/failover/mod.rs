//! Two gateways, one store: clients of the official driver move money through both, while one
//! gateway is killed (SIGKILL) or paused (SIGSTOP, later SIGCONT) at every step of the protocol in
//! turn.
//!
//! Clients fail over in the middle of statements and commits, with the recovery token where the
//! commit's answer is lost. At the end each acknowledged transfer is there once, each refused one
//! not at all, and nothing is left in doubt.
//!
//! | file | content |
//! | --- | --- |
//! | `process` | a gateway as a process of its own |
//! | `relay` | a relay in front of a gateway, which can be shut |
//! | `bank` | clients, and the answers that they got |
//! | `disturbed` | a client whose reads are changed before each of its commits |
//! | `case` | one gateway broken at one step |
//! | `check` | conditions that hold afterwards |

mod bank;
mod case;
mod check;
mod disturbed;
mod process;
mod relay;

use std::time::Duration;

use bank::Business;
use case::Case;
use futures_util::{StreamExt, stream};
use mongotx::Step;
use process::Blow;

/// Longest time that a test waits for anything.
const LIMIT: Duration = Duration::from_secs(60);
const AT_A_TIME: usize = 5;

/// The program of the processes that are broken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateway_process() {
    process::serve_or_check_words().await;
}

/// Steps that a gateway takes: its transactions take no read locks.
fn of_a_gateway() -> Vec<Step> {
    let no_read_locks = |step: &Step| ![Step::BeforeReadLock, Step::AfterReadLock].contains(step);
    Step::ALL.into_iter().filter(no_read_locks).collect()
}

/// Every other step for each blow, so that the two share the steps; all of them with
/// `MONGOTX_CRASH_ALL`.
fn in_turns(blow: Blow) -> Vec<Step> {
    let (first, all) = (usize::from(blow == Blow::Stop), std::env::var_os("MONGOTX_CRASH_ALL").is_some());
    let steps = of_a_gateway().into_iter();
    if all { steps.collect() } else { steps.skip(first).step_by(2).collect() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateway_killed_at_any_step_loses_and_doubles_nothing() {
    break_everywhere(Business::Transfers, Blow::Kill, &in_turns(Blow::Kill)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateway_paused_at_any_step_loses_and_doubles_nothing() {
    break_everywhere(Business::Transfers, Blow::Stop, &in_turns(Blow::Stop)).await;
}

/// Steps that a single write takes.
const OF_A_WRITE: [Step; 7] = [
    Step::AfterRegister,
    Step::BeforeLock,
    Step::AfterLock,
    Step::BeforeDecision,
    Step::AfterDecision,
    Step::BeforeFinish,
    Step::AfterFinish,
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn durable_writes_are_made_once_wherever_a_gateway_is_killed() {
    break_everywhere(Business::Deposits, Blow::Kill, &OF_A_WRITE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn durable_writes_are_made_once_wherever_a_gateway_is_paused() {
    break_everywhere(Business::Deposits, Blow::Stop, &OF_A_WRITE).await;
}

async fn break_everywhere(business: Business, blow: Blow, steps: &[Step]) {
    let server = local_mongod::Server::standalone().await.unwrap();
    let cases: Vec<Case> = steps.iter().map(|step| Case::new(&server.uri(), business, *step, blow)).collect();
    stream::iter(&cases).for_each_concurrent(AT_A_TIME, Case::break_and_check).await;
    check::doctor_finds_nothing(&server.uri());
}
