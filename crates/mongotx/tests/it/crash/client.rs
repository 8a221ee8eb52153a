//! The client's process dies (SIGKILL) at each step that its scenario reaches, the first or the
//! last time it reaches it. Without `MONGOTX_CRASH_ALL`, at every other step of each scenario.

use std::os::unix::process::ExitStatusExt;

use futures_util::{StreamExt, stream};

use crate::common::{
    scenario::Scenario,
    verify::Case,
    worker::{Blow, Job, Worker},
    world::World,
};
use crate::crash::plan;

const LEASE_MS: u64 = 600;
const AT_A_TIME: usize = 6;

async fn kill_everywhere(scenario: Scenario) {
    let server = local_mongod::shared_standalone().await.unwrap();
    let steps = plan::steps_of(scenario, &server.uri()).await;
    let are_all_asked_for = std::env::var_os("MONGOTX_CRASH_ALL").is_some();
    let cases = steps.into_iter().enumerate().flat_map(|(place, (step, times))| {
        // Scenarios have many steps in common: half of them begin with the second.
        let in_turns = [Some(1), None, Some(times), None][(place + scenario as usize) % 4];
        (1..=times).filter(move |nth| are_all_asked_for || Some(*nth) == in_turns).map(move |nth| (step, nth))
    });
    let jobs: Vec<Job> = cases
        .map(|(step, nth)| {
            let world = World::new(&server.uri(), "killed");
            Job { world, scenario, step, nth, blow: Blow::Kill, lease_ms: LEASE_MS }
        })
        .collect();
    println!("{scenario:?}: killed in {} places", jobs.len());
    stream::iter(jobs).for_each_concurrent(AT_A_TIME, run_job).await;
}

async fn run_job(job: Job) {
    job.scenario.set_up(&job.world).await;
    let name = format!("{:?}, killed at {:?} {}", job.scenario, job.step, job.nth);
    let mut worker = Worker::start(&job);
    let (worker, status) = tokio::task::spawn_blocking(move || {
        let status = worker.until_ended();
        (worker, status)
    })
    .await
    .unwrap();
    // Signs of life fall where they like: how often a step is reached for them may differ, but it
    // is reached.
    assert!(worker.struck || job.nth > 1, "{name}: the step was not reached");
    assert_eq!(status.signal() == Some(9), worker.struck, "{name}: {status}");
    Case { world: &job.world, scenario: job.scenario, report: &worker.report, name }.check_all().await;
    job.world.drop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_killed_anywhere_all_or_nothing() {
    kill_everywhere(Scenario::Several).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_killed_anywhere_all_or_nothing() {
    kill_everywhere(Scenario::Single).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeatable_killed_anywhere_all_or_nothing() {
    kill_everywhere(Scenario::Repeatable).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollback_killed_anywhere_leaves_nothing() {
    kill_everywhere(Scenario::Rollback).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repair_killed_anywhere_is_repaired_by_others() {
    kill_everywhere(Scenario::Repair).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_killed_anywhere_is_completed_by_a_sweep() {
    kill_everywhere(Scenario::Shutdown).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exchange_killed_anywhere_all_or_nothing() {
    kill_everywhere(Scenario::Exchange).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upserts_killed_anywhere_all_or_nothing() {
    kill_everywhere(Scenario::Upserts).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bulk_killed_anywhere_all_or_nothing() {
    kill_everywhere(Scenario::Bulk).await;
}
