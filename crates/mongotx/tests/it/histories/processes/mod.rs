//! Clients that are processes of their own, killed (SIGKILL) and paused (SIGSTOP, longer than their
//! lease) at random, at any time and at the steps of the protocol, while they append to lists and
//! read them. The histories are judged as all others are; what a killed process was about is in
//! doubt: it is there as a whole, or not at all.
//!
//! The test plans each transaction, writes it down and then sends it to the process, so that the
//! order of what it has written down is true.

mod member;
mod words;

use std::{
    convert::Infallible,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Duration,
};

use bson::Document;
use futures_util::future::join_all;
use mongotx::Isolation;
use txcheck::lists::{End, Recorder};

use self::member::{Blows, Job, LANES, Lane, Member};
use super::{
    lists::{empty, lists, plan},
    step_aside,
};
use crate::{
    common::{until, verify::is_clean, worker::Blow, world::World},
    random::Random,
};

const LEASE_MS: u64 = 500;
const MEMBERS: u64 = 3;
/// So often each is done before a run ends.
const BLOWS: usize = 2;

struct Run {
    world: World,
    recorder: Recorder,
    isolations: Vec<Isolation>,
    until: super::End,
    kills: AtomicUsize,
    pauses: AtomicUsize,
}

impl Run {
    async fn new(isolations: &[Isolation]) -> Self {
        let world = World::new(&local_mongod::shared_standalone().await.unwrap().uri(), "processes");
        world.raw().await.database(&world.db).collection("a").insert_many(empty()).await.unwrap();
        Self {
            world,
            recorder: Recorder::default(),
            isolations: isolations.to_vec(),
            until: super::End::of_run(),
            kills: AtomicUsize::new(0),
            pauses: AtomicUsize::new(0),
        }
    }

    fn is_over(&self) -> bool {
        let struck = [&self.kills, &self.pauses].iter().all(|count| count.load(SeqCst) >= BLOWS);
        self.until.is_reached(if struck { self.recorder.committed() } else { 0 })
    }

    /// One process after the other, until the run is over.
    async fn keep_one(&self, nth: u64) {
        let mut random = Random::of_seed(nth);
        for life in 0.. {
            if self.is_over() {
                return;
            }
            let isolation = self.isolations[nth as usize % self.isolations.len()];
            let seed = (nth * 1_000 + life) * LANES as u64;
            let (member, lanes, blows) = Member::start(&Job { world: self.world.clone(), isolation, seed });
            let lanes = lanes.into_iter().enumerate().map(|(lane, link)| self.work(&member, link, seed + lane as u64));
            tokio::select! {
                _ = join_all(lanes) => {}
                never = self.strike(&member, blows, &mut random) => match never {},
            }
            // Or it says goodbye.
            if random.chance(50) {
                member.strike(Blow::Kill);
            }
            member.leave().await;
        }
    }

    /// One transaction after the other, until the run is over or the process is gone.
    async fn work(&self, member: &Member, mut lane: Lane, seed: u64) {
        let (mut random, mut process) = (Random::of_seed(seed + 500), self.recorder.process());
        let mut refusals = 0;
        while !self.is_over() {
            let planned = plan(&self.recorder, &mut random);
            self.recorder.begin(process, &planned);
            let end = member.carry_out(&mut lane, &planned).await;
            self.recorder.end(process, &planned, end.as_ref().unwrap_or(&End::Unknown));
            match end {
                None => return,
                Some(End::Committed(_)) => refusals = 0,
                Some(End::Refused) => {
                    refusals += 1;
                    step_aside(refusals, &mut random).await;
                }
                Some(End::Unknown) => process = self.recorder.process(),
            }
        }
    }

    /// Kills the process at some time, or stops it for longer than its lease, unless it does so
    /// itself before.
    async fn strike(&self, member: &Member, mut blows: Blows, random: &mut Random) -> Infallible {
        loop {
            let patience = Duration::from_millis(random.below(3 * LEASE_MS as usize) as u64);
            let blow = match tokio::time::timeout(patience, blows.recv()).await {
                Ok(own) => own.unwrap_or(Blow::Kill),
                Err(_) => {
                    let blow = *random.pick(&[Blow::Kill, Blow::Stop]);
                    member.strike(blow);
                    blow
                }
            };
            if blow == Blow::Kill {
                self.kills.fetch_add(1, SeqCst);
                return std::future::pending().await;
            }
            let longer = random.below(LEASE_MS as usize) as u64;
            tokio::time::sleep(Duration::from_millis(LEASE_MS * 3 / 2 + longer)).await;
            member.wake();
            self.pauses.fetch_add(1, SeqCst);
        }
    }

    /// The documents when all processes have ended and everything is cleaned up.
    async fn what_is_left(&self) -> Vec<Document> {
        let client = self.world.client(60_000).await;
        until("all records are closed", async || {
            client.sweep().await.unwrap();
            client.clients().await.unwrap().iter().all(|record| record.closed).then_some(())
        })
        .await;
        let stored = self.world.stored(&self.world.db, "a").await;
        assert!(stored.iter().all(is_clean), "{stored:?}");
        let seen =
            self.world.collection(&client, "a").find(Document::new()).await.unwrap().try_collect().await.unwrap();
        assert_eq!(seen, stored);
        stored
    }
}

/// Processes of these levels in turn; `model`: what all of them together are promised.
async fn check_histories(isolations: &[Isolation], model: &str) {
    let run = Run::new(isolations).await;
    join_all((0..MEMBERS).map(|nth| run.keep_one(nth))).await;
    let summary =
        run.recorder.judge(model, &lists(&run.what_is_left().await)).unwrap_or_else(|wrong| panic!("{wrong}"));
    let (kills, pauses) = (run.kills.load(SeqCst), run.pauses.load(SeqCst));
    println!("{isolations:?}: {summary:?}, {kills} killed, {pauses} pauses");
    assert!(summary.committed > 0 && kills > 0 && pauses > 0, "{summary:?}, {kills} killed, {pauses} pauses");
    run.world.drop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_of_processes_that_are_killed_and_paused_at_repeatable_read() {
    check_histories(&[Isolation::RepeatableRead], "strict-serializable").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_of_processes_that_are_killed_and_paused_at_both_levels() {
    check_histories(&[Isolation::ReadCommitted, Isolation::RepeatableRead], "strong-read-committed").await;
}
