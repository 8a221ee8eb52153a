//! A client as a process of its own: it carries out the transactions that its input names, several
//! at a time, until the input ends, and reports the outcome of each. At some steps of the protocol,
//! mostly at those of a commit, it kills or stops itself: blows from outside fall between two
//! commands too rarely.

use std::{
    io::{BufRead, Write},
    process::{Child, ChildStdin, ExitStatus, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use bson::Document;
use futures_util::future::{BoxFuture, join_all, ready};
use local_mongod::{again, listen, signal};
use mongotx::{Client, ClientOptions, Collection, ErrorKind, Isolation, Step, StepHook, TransactionOptions};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use txcheck::lists::{End, Op};

use super::{LEASE_MS, words};
use crate::{
    common::{
        until,
        worker::{Blow, say},
        world::World,
    },
    histories::lists::carry_out,
    random::Random,
};

const JOB: &str = "MONGOTX_MEMBER_JOB";
const TEST: &str = "histories::processes::member::member_process";

/// Transactions at a time in one process.
pub(super) const LANES: usize = 2;

/// The options of a process.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) world: World,
    pub(super) isolation: Isolation,
    pub(super) seed: u64,
}

impl Job {
    fn encode(&self) -> String {
        let repeatable = self.isolation == Isolation::RepeatableRead;
        format!("{}|{}|{repeatable}|{}", self.world.uri, self.world.db, self.seed)
    }

    fn decode(text: &str) -> Option<Self> {
        let mut parts = text.split('|');
        let world = World { uri: parts.next()?.to_owned(), db: parts.next()?.to_owned() };
        let isolation = match parts.next()?.parse().ok()? {
            true => Isolation::RepeatableRead,
            false => Isolation::ReadCommitted,
        };
        Some(Self { world, isolation, seed: parts.next()?.parse().ok()? })
    }
}

/// Strikes the process now and then.
struct RandomBlows(Mutex<Random>);

impl StepHook for RandomBlows {
    fn at(&self, step: Step) -> BoxFuture<'static, ()> {
        use Step::{AfterDecision, AfterStamp, BeforeDecision, BeforeFinish, BeforeStamp};
        let commits = [BeforeStamp, AfterStamp, BeforeDecision, AfterDecision, BeforeFinish].contains(&step);
        let blow = {
            let mut random = self.0.lock().unwrap();
            let strikes = random.below(if commits { 30 } else { 200 }) == 0;
            strikes.then(|| *random.pick(&[Blow::Kill, Blow::Stop, Blow::Stop]))
        };
        if let Some(blow) = blow {
            say(&format!("struck {blow:?}"));
            match blow {
                Blow::Kill => signal::kill(std::process::id()).unwrap(),
                Blow::Stop => signal::stop(std::process::id()).unwrap(),
            }
            // Signals to oneself may take a moment to arrive.
            std::thread::sleep(Duration::from_millis(5));
        }
        Box::pin(ready(()))
    }
}

/// The program of the processes. Without a job it checks that words are understood.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn member_process() {
    let Ok(job) = std::env::var(JOB) else {
        return words::check();
    };
    let job = Job::decode(&job).unwrap();
    // The process also cleans up after the others.
    let hook: Arc<dyn StepHook> = Arc::new(RandomBlows(Mutex::new(Random::of_seed(job.seed))));
    let options = ClientOptions { sweep: true, hook: Some(hook), ..job.world.options(LEASE_MS) };
    let client = Client::connect_with(&job.world.uri, options).await.unwrap();
    let coll = job.world.collection(&client, "a");
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..LANES).map(|_| unbounded_channel()).unzip();
    std::thread::spawn(move || {
        let lines = std::io::stdin().lock().lines().map_while(Result::ok);
        lines.for_each(|line| pass_on(&senders, &line));
    });
    let lanes = receivers.into_iter().enumerate().map(|(lane, plans)| serve(lane, &job, &client, &coll, plans));
    // In this task: a panic ends the process.
    join_all(lanes).await;
    // If that fails, a sweep will do it.
    let _ = client.shutdown().await;
}

/// Passes `<lane> <words>` on to the lane.
fn pass_on(lanes: &[UnboundedSender<String>], line: &str) {
    let (lane, words) = line.split_once(' ').unwrap();
    // The lane may have ended.
    let _ = lanes[lane.parse::<usize>().unwrap()].send(words.to_owned());
}

async fn serve(
    lane: usize,
    job: &Job,
    client: &Client,
    coll: &Collection<Document>,
    mut plans: UnboundedReceiver<String>,
) {
    let (mut random, isolation) = (Random::of_seed(job.seed + lane as u64), job.isolation);
    while let Some(plan) = plans.recv().await {
        let lock_wait = *random.pick(&[Duration::ZERO, Duration::from_millis(50)]);
        let options = TransactionOptions { isolation: Some(isolation), lock_wait, ..TransactionOptions::default() };
        let mut session = client.session_with(options);
        let planned = words::ops_in(&plan).unwrap();
        let end = match carry_out(&planned, isolation, &mut random, coll, &mut session).await {
            Ok(done) => End::Committed(done),
            Err(error) => match error.kind() {
                ErrorKind::Indeterminate => End::Unknown,
                ErrorKind::Conflict | ErrorKind::Expired => End::Refused,
                _ => panic!("{error}"),
            },
        };
        say(&format!("{lane} {}", words::of_end(&end)));
    }
}

/// A process of this kind, as its test sees it. Dropped, it is killed.
pub(super) struct Member {
    child: Child,
    input: Mutex<Option<ChildStdin>>,
    killed: Arc<AtomicBool>,
}

/// The blows that it deals itself.
pub(super) type Blows = UnboundedReceiver<Blow>;

/// A part of the process that runs one transaction at a time.
pub(super) struct Lane {
    nth: usize,
    answers: UnboundedReceiver<String>,
}

impl Member {
    pub(super) fn start(job: &Job) -> (Self, Vec<Lane>, Blows) {
        let mut child = again(TEST, JOB, &job.encode()).unwrap().stdin(Stdio::piped()).spawn().unwrap();
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..LANES).map(|_| unbounded_channel()).unzip();
        let (strike, blows) = unbounded_channel();
        let killed = Arc::new(AtomicBool::new(false));
        let input = Mutex::new(child.stdin.take());
        let out = child.stdout.take().unwrap();
        let member = Self { child, input, killed: Arc::clone(&killed) };
        listen(out, move |said| match said.as_str() {
            "struck Kill" => {
                killed.store(true, SeqCst);
                let _ = strike.send(Blow::Kill);
            }
            "struck Stop" => drop(strike.send(Blow::Stop)),
            words => pass_on(&senders, words),
        });
        let lanes = receivers.into_iter().enumerate().map(|(nth, answers)| Lane { nth, answers }).collect();
        (member, lanes, blows)
    }

    /// The outcome of the transaction; `None` when the process was killed before it could report
    /// it.
    pub(super) async fn carry_out(&self, lane: &mut Lane, planned: &[Op]) -> Option<End> {
        let line = format!("{} {}\n", lane.nth, words::of_ops(planned));
        if let Some(input) = &mut *self.input.lock().unwrap() {
            // If it has ended, there will be no answer.
            let _ = input.write_all(line.as_bytes());
        }
        let answer = tokio::time::timeout(crate::common::LIMIT, lane.answers.recv());
        let Some(words) = answer.await.unwrap_or_else(|_| panic!("no answer to {line:?}")) else {
            assert!(self.killed.load(SeqCst), "a process ended by itself");
            return None;
        };
        Some(words::end_in(&words).unwrap_or_else(|| panic!("said {words:?}")))
    }

    pub(super) fn strike(&self, blow: Blow) {
        match blow {
            Blow::Kill => {
                self.killed.store(true, SeqCst);
                signal::kill(self.child.id()).unwrap();
            }
            Blow::Stop => signal::stop(self.child.id()).unwrap(),
        }
    }

    pub(super) fn wake(&self) {
        signal::cont(self.child.id()).unwrap();
    }

    /// Closes its input, and waits until it has ended. It ends without an error, unless it was
    /// killed.
    pub(super) async fn leave(mut self) {
        drop(self.input.lock().unwrap().take());
        let ended: ExitStatus = until("a process ends", async || {
            // The process may stand still, or stop itself even now.
            self.wake();
            self.child.try_wait().unwrap()
        })
        .await;
        assert!(ended.success() || self.killed.load(SeqCst), "a process ended by itself: {ended}");
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
