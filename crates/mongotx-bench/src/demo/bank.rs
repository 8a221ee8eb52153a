//! The bank while it runs: it reads the workers' reports, kills a worker now and then, and stops
//! them all in the end.

use std::time::{Duration, Instant};

use bson::{Document, doc};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::{
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    time::sleep_until,
};

use super::{
    DemoOptions,
    accounts::Watching,
    crew::{Crew, WorkerArguments, WorkerMessage, WorkerName},
    live::Live,
    progress::Progress,
    stage::Stage,
    tally::Tally,
    worker::Task,
};
use crate::{failure::Failure, say};

/// Balance of every account at the beginning.
pub(super) const OPENING_BALANCE: i64 = 1_000;
const SHOW_EVERY: Duration = Duration::from_millis(100);

/// Record of what the bank did during a run.
pub(super) struct BankRun {
    pub(super) tally: Tally,
    pub(super) took: Duration,
}

/// Opens the accounts and runs the bank for as long as the options say.
pub(super) async fn run_bank(options: &DemoOptions, seed: u64, stage: &mut Stage) -> Result<BankRun, Failure> {
    open_accounts(options.accounts, stage).await?;
    let expected = i64::from(options.accounts) * OPENING_BALANCE;
    stage.live.line(&describe(options, expected, seed));
    let (ears, heard) = unbounded_channel();
    let arguments = ["--database", &stage.database, "--accounts", &options.accounts.to_string(), "--seed"];
    let mut arguments = arguments.map(str::to_owned).to_vec();
    arguments.push(seed.to_string());
    let orders = WorkerArguments { uri: stage.uri.clone(), arguments, ears };
    for number in 0..options.workers {
        let task = if options.tamper && number == 0 { Task::Tamper } else { Task::Work };
        let name = WorkerName { number, incarnation: 0 };
        stage.crew.start(&orders, name, task.name()).await?;
        stage.live.started(name);
    }
    let mut master = Master {
        orders,
        heard,
        rng: StdRng::seed_from_u64(seed),
        kill_every: options.kill_every,
        tally: Tally::new(expected),
        live: stage.live.clone(),
    };
    let length = Duration::from_secs(options.seconds.into());
    stage.live.run(length, expected);
    let watching = match options.web {
        Some(_) => Some(Watching::begin(stage, &stage.live).await?),
        None => None,
    };
    let begun = Instant::now();
    let mut progress = Progress::new(length, &stage.live)?;
    master.watch(&mut stage.crew, &mut progress, begun + length).await?;
    let took = begun.elapsed();
    master.stop(&mut stage.crew).await;
    if let Some(watching) = watching {
        watching.end().await?;
    }
    progress.finish(&master.tally);
    Ok(BankRun { tally: master.tally, took })
}

fn describe(options: &DemoOptions, expected: i64, seed: u64) -> String {
    let kills = match options.kill_every {
        Duration::ZERO => "none is killed".to_owned(),
        pause => format!("one is killed about every {}", say::span(pause)),
    };
    format!(
        "   {} with {OPENING_BALANCE} each: the total is {expected}\n   {} move money for {} s; {kills} (SIGKILL); \
         seed {seed}",
        say::count(options.accounts as usize, "account"),
        say::count(options.workers as usize, "worker process").replace("processs", "processes"),
        options.seconds,
    )
}

async fn open_accounts(accounts: u32, stage: &Stage) -> Result<(), Failure> {
    let client = stage.client().await?;
    let documents: Vec<Document> = (0..i32::try_from(accounts).unwrap_or(i32::MAX))
        .map(|id| doc! {"_id": id, "balance": OPENING_BALANCE})
        .collect();
    client.database(&stage.database).collection("accounts").insert_many(&documents).await?;
    Ok(client.shutdown().await?)
}

/// The task that kills and starts workers.
struct Master {
    orders: WorkerArguments,
    heard: UnboundedReceiver<(WorkerName, WorkerMessage)>,
    rng: StdRng,
    kill_every: Duration,
    tally: Tally,
    live: Live,
}

impl Master {
    async fn watch(&mut self, crew: &mut Crew, progress: &mut Progress, end: Instant) -> Result<(), Failure> {
        let mut next_kill = self.after_pause(end);
        let mut show = tokio::time::interval(SHOW_EVERY);
        while Instant::now() < end {
            tokio::select! {
                Some((name, heard)) = self.heard.recv() => self.note(crew, name, heard),
                () = sleep_until(next_kill.into()) => {
                    let nth = self.rng.random::<u64>() as usize;
                    let replaced = crew.replace(&self.orders, nth, Task::Work.name()).await?;
                    replaced.into_iter().for_each(|name| self.live.started(name));
                    self.tally.kills += 1;
                    next_kill = self.after_pause(end);
                }
                _ = show.tick() => progress.show(&self.tally),
                () = sleep_until(end.into()) => break,
            }
        }
        Ok(())
    }

    /// Time at which the next worker dies: any moment between half and one and a half of the pause.
    fn after_pause(&mut self, never: Instant) -> Instant {
        match self.kill_every {
            Duration::ZERO => never + Duration::from_secs(3600),
            pause => Instant::now() + pause.mul_f64(self.rng.random_range(0.5..1.5)),
        }
    }

    fn note(&mut self, crew: &Crew, name: WorkerName, heard: WorkerMessage) {
        // A worker that was killed has a successor when its silence is heard.
        if matches!(heard, WorkerMessage::Silence) && crew.has(name) {
            self.tally.fail(format!("worker {} ended by itself", name.number));
        }
        self.tally.note(name, heard);
    }

    /// Ends all workers, and reads their last reports.
    async fn stop(&mut self, crew: &mut Crew) {
        for (name, how) in crew.stop_all().await {
            self.tally.fail(format!("worker {}: {how}", name.number));
        }
        while let Ok((name, heard)) = self.heard.try_recv() {
            self.tally.note(name, heard);
        }
    }
}
