//! Zombies: a client that is stopped (SIGSTOP) at a step, declared dead when its lease has ended,
//! and woken (SIGCONT) after a rival has repaired what it held and written its own values.
//!
//! Unless it was decided before, it does not commit; what it still writes is dead; nothing of the
//! rival's is lost.

use crate::common;

use bson::doc;
use futures_util::{StreamExt, stream};
use local_mongod::signal;
use mongotx::{Client, ErrorKind, Step, TransactionOptions};
use std::time::Duration;

use common::{
    hooks::Hook,
    scenario::{End, Scenario},
    until,
    verify::Case,
    worker::{Blow, Job, Worker},
    world::{COLLECTIONS, State, World},
};

const LEASE_MS: u64 = 500;
const AT_A_TIME: usize = 6;

/// The steps that the scenario reaches, the first and the last time each; without
/// `MONGOTX_CRASH_ALL`, one of these, at every other step.
async fn steps_of(scenario: Scenario, uri: &str) -> Vec<(Step, usize)> {
    let (world, hook) = (World::new(uri, "plan"), Hook::counting());
    scenario.set_up(&world).await;
    let client = world.client_with(60_000, hook.clone()).await;
    scenario.live(&world, &client, &|_| ()).await;
    scenario.leave(&client).await;
    let reached = Step::ALL.into_iter().map(|step| (step, hook.count(step)));
    let are_all_asked_for = std::env::var_os("MONGOTX_CRASH_ALL").is_some();
    let steps = reached.enumerate().flat_map(|(place, (step, times))| {
        // Scenarios have many steps in common: half of them begin with the second.
        let in_turns = [Some(1), None, Some(times), None][(place + scenario as usize) % 4];
        let both = [1, times].into_iter().take(times.min(2));
        both.filter(move |nth| are_all_asked_for || Some(*nth) == in_turns).map(move |nth| (step, nth))
    });
    let steps = steps.collect();
    client.shutdown().await.unwrap();
    world.drop().await;
    steps
}

async fn stop_everywhere(scenario: Scenario) {
    let server = local_mongod::shared_standalone().await.unwrap();
    let jobs: Vec<Job> = steps_of(scenario, &server.uri())
        .await
        .into_iter()
        .map(|(step, nth)| {
            let world = World::new(&server.uri(), "stopped");
            Job { world, scenario, step, nth, blow: Blow::Stop, lease_ms: LEASE_MS }
        })
        .collect();
    assert!(jobs.len() > 2);
    println!("{scenario:?}: stopped in {} places", jobs.len());
    stream::iter(jobs).for_each_concurrent(AT_A_TIME, run_zombie).await;
}

async fn run_zombie(job: Job) {
    let (world, scenario) = (&job.world, job.scenario);
    let name = format!("{scenario:?}, stopped at {:?} {}", job.step, job.nth);
    scenario.set_up(world).await;
    let rival = world.client(5_000).await;
    let records_before = rival.clients().await.unwrap().len();
    let mut worker = Worker::start(&job);
    let mut worker = blocking(move || {
        worker.until_struck();
        worker
    })
    .await;
    assert!(worker.struck || job.nth > 1, "{name}: the step was not reached");
    if worker.struck {
        until("the worker stands still", async || is_stopped(worker.pid()).then_some(())).await;
    }
    until("the lease ends", async || all_ended(&rival).await.then_some(())).await;
    let registered = rival.clients().await.unwrap().len() > records_before;
    let theirs = take_over(world, &rival).await;
    let decided = theirs == scenario.after() && scenario != Scenario::Rollback;
    if worker.struck {
        signal::cont(worker.pid()).unwrap();
    }
    let worker = blocking(move || {
        worker.until_ended();
        worker
    })
    .await;
    assert!(worker.left, "{name}: it did not go on");
    let end = worker.report.end().unwrap();
    // Its record is fenced before it has used it: if it hears of that first, it begins in another
    // one.
    let begins_anew = job.step == Step::AfterRegister && end == End::Committed;
    if !begins_anew {
        check_end(&name, scenario, end, decided, registered);
    }
    assert_nothing_lost(&name, world, &rival).await;
    rival.shutdown().await.unwrap();
    Case { world, scenario, report: &worker.report, name }.check_all().await;
    world.drop().await;
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

fn is_stopped(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default().contains(") T ")
}

/// Returns true if all clients have ended, by the server's clock.
async fn all_ended(rival: &Client) -> bool {
    rival.clients().await.unwrap().iter().all(|record| record.expired || record.fenced || record.closed)
}

/// Adds 100 to every document, and sees to it that nothing is left of the stopped client.
async fn take_over(world: &World, rival: &Client) -> State {
    let options = TransactionOptions { lock_wait: Duration::from_secs(20), ..TransactionOptions::default() };
    let mut session = rival.session_with(options);
    session.begin().unwrap();
    for name in COLLECTIONS {
        let coll = world.collection(rival, name);
        coll.update_many(doc! {}, doc! {"$inc": {"n": 100}}).session(&mut session).await.unwrap();
    }
    session.commit().await.unwrap();
    assert!(rival.flush(Duration::from_secs(20)).await);
    rival.sweep().await.unwrap();
    world.state(rival).await
}

fn check_end(name: &str, scenario: Scenario, end: End, decided: bool, registered: bool) {
    let expected: &[End] = match scenario {
        // What it had read before it was stopped is another thing now.
        Scenario::Several if !registered => &[End::Committed, End::Failed(ErrorKind::Conflict)],
        Scenario::Several if !decided => &[End::Failed(ErrorKind::Expired), End::Failed(ErrorKind::Conflict)],
        Scenario::Rollback => &[End::RolledBack, End::Failed(ErrorKind::Expired)],
        _ if decided || !registered => &[End::Committed],
        _ => &[End::Failed(ErrorKind::Expired)],
    };
    assert!(expected.contains(&end), "{name}: {end:?}; decided: {decided}, registered: {registered}");
}

/// Checks that the rival's writes are there, whatever the zombie did on top of them.
async fn assert_nothing_lost(name: &str, world: &World, rival: &Client) {
    for coll in COLLECTIONS {
        let kept = world.collection(rival, coll).count_documents(doc! {"_id": {"$lt": 3}, "n": {"$gte": 100}}).await;
        assert_eq!(kept.unwrap(), 2, "{name}: the rival's writes in {coll}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_woken_after_its_lease_cannot_commit() {
    stop_everywhere(Scenario::Several).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeatable_woken_after_its_lease_cannot_commit() {
    stop_everywhere(Scenario::Repeatable).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollback_woken_after_its_lease_undoes_nothing_of_others() {
    stop_everywhere(Scenario::Rollback).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repair_woken_after_its_lease_repairs_nothing_of_others() {
    stop_everywhere(Scenario::Repair).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_woken_after_its_lease_says_goodbye_in_peace() {
    stop_everywhere(Scenario::Shutdown).await;
}
