//! mongod dies (SIGKILL) while a client stands at a step, and comes back with its journal; then the
//! client goes on.

use std::{sync::Arc, time::Duration};

use local_mongod::Server;

use crate::common::{
    hooks::Gate,
    scenario::Scenario,
    verify::{Case, Report},
    world::World,
};
use crate::crash::plan;

/// Long enough to live through a restart, so that the client itself has to notice what was lost.
const LEASE_MS: u64 = 30_000;

/// A server that writes its journal rarely: what was acknowledged without it is likely to be lost.
pub(crate) async fn forgetful_server() -> Server {
    local_mongod::ServerOptions::standalone().arg("--journalCommitInterval").arg("500").start().await.unwrap()
}

pub(crate) async fn crash(server: &Server) {
    server.kill().unwrap();
    server.restart().await.unwrap();
}

/// Lives that end before they reach their step: what a scenario meets on its way (a lease that
/// ends, a connection of the server before, what is finished together) is not the same each time,
/// nor is how often a step is reached: an earlier time will do then.
const LIVES: usize = 20;

/// The first and the last time at which each step is reached; without `MONGOTX_CRASH_ALL`, the
/// first or the last one of every third step, in turns.
async fn crash_everywhere(scenario: Scenario) {
    let server = forgetful_server().await;
    let are_all_asked_for = std::env::var_os("MONGOTX_CRASH_ALL").is_some();
    for (place, (step, times)) in plan::steps_of(scenario, &server.uri()).await.into_iter().enumerate() {
        let both = [1, times].into_iter().take(times.min(2));
        // Scenarios have many steps in common, so they begin their turns with different ones.
        let turn = place + scenario as usize;
        let in_turns = [Some(1), None, None, Some(times), None, None][turn % 6];
        for nth in both.filter(|nth| are_all_asked_for || Some(*nth) == in_turns) {
            let (mut nth, mut lives) = (nth, 1);
            while !crash_at(&server, scenario, step, nth).await {
                lives += 1;
                assert!(lives <= LIVES, "{scenario:?} does not reach {step:?} {nth}");
                nth = nth.saturating_sub(1).max(1);
            }
        }
    }
}

/// False: it has come to its end without that step.
async fn crash_at(server: &Server, scenario: Scenario, step: mongotx::Step, nth: usize) -> bool {
    let world = World::new(&server.uri(), "crashed");
    let name = format!("{scenario:?}, mongod killed at {step:?} {nth}");
    scenario.set_up(&world).await;
    let report = Arc::new(Report::default());
    let (gate, hook) = Gate::at(step, nth, false);
    let client = world.client_with(LEASE_MS, hook).await;
    let mut life = tokio::spawn({
        let (world, client, report) = (world.clone(), client.clone(), Arc::clone(&report));
        async move {
            scenario.live(&world, &client, &|progress| report.note(progress)).await;
            client.flush(Duration::from_secs(20)).await;
            client.shutdown().await
        }
    });
    let reached = tokio::select! {
        () = gate.reached() => true,
        ended = &mut life => {
            println!("{name}: not reached, {:?}, {ended:?}", report.end());
            false
        }
    };
    if reached {
        crash(server).await;
        gate.open();
        let left = tokio::time::timeout(crate::common::LIMIT, life).await;
        left.unwrap_or_else(|_| panic!("{name}: the client did not end")).unwrap().unwrap_or_else(|error| {
            panic!("{name}: the client could not be shut down: {error}");
        });
        println!("{name}: {:?}", report.end());
    }
    Case { world: &world, scenario, report: &report, name }.check_all().await;
    world.drop().await;
    reached
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_server_killed_anywhere_all_or_nothing() {
    crash_everywhere(Scenario::Several).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeatable_server_killed_anywhere_all_or_nothing() {
    crash_everywhere(Scenario::Repeatable).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollback_server_killed_anywhere_leaves_nothing() {
    crash_everywhere(Scenario::Rollback).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repair_server_killed_anywhere_is_repaired() {
    crash_everywhere(Scenario::Repair).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_server_killed_anywhere_is_completed() {
    crash_everywhere(Scenario::Shutdown).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exchange_server_killed_anywhere_all_or_nothing() {
    crash_everywhere(Scenario::Exchange).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upserts_server_killed_anywhere_all_or_nothing() {
    crash_everywhere(Scenario::Upserts).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bulk_server_killed_anywhere_all_or_nothing() {
    crash_everywhere(Scenario::Bulk).await;
}
