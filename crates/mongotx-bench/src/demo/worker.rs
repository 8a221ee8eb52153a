//! A worker process: `mongotx-bench demo-worker`, hidden. It moves money between random accounts
//! and sometimes adds them up.
//!
//! Standard input: the connection string (not an argument, so that its password is not in the
//! process list), then perhaps `stop`. The end of the input ends the process at once, wherever it
//! is: the demo is gone. Standard output: [`WorkerLine`]s.

use std::{
    collections::BTreeMap,
    io::{BufRead, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use bson::{Document, doc};
use clap::{Args, ValueEnum};
use mongotx::{Client, Collection, ErrorKind, Isolation, Session, TransactionOptions};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{
    stage::client_options,
    wire::{Stats, Transfer, WorkerLine},
};
use crate::{
    connect,
    failure::{Failure, Status, WELL},
};

/// Number of transactions of which one adds up all balances.
const SUM_ONE_IN: u32 = 25;
/// Time that a sum waits for a transfer that is in its way.
const SUM_WAIT: Duration = Duration::from_millis(200);
const STATS_EVERY: Duration = Duration::from_millis(200);
const LARGEST_AMOUNT: i64 = 100;

/// Options of the command `mongotx-bench demo-worker`.
#[derive(Args, Clone)]
pub(crate) struct WorkerOptions {
    #[arg(long)]
    database: String,
    #[arg(long, default_value_t = 0)]
    worker: u32,
    #[arg(long, default_value_t = 0)]
    incarnation: u32,
    #[arg(long)]
    accounts: u32,
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[arg(long, value_enum, default_value_t = Task::Work)]
    task: Task,
}

/// Task of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Task {
    /// Moves money between accounts.
    Work,
    /// For tests: changes a balance outside MongoTx first.
    Tamper,
}

impl Task {
    /// Name of the task as an argument.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Work => "work",
            Self::Tamper => "tamper",
        }
    }
}

/// The collections of the bank.
#[derive(Clone)]
struct Bank {
    accounts: Collection<Document>,
    audits: Collection<Document>,
}

/// Runs the command `mongotx-bench demo-worker`.
pub(crate) async fn run_worker(options: WorkerOptions) -> Result<Status, Failure> {
    let (uri, stop) = take_the_leash()?;
    if options.task == Task::Tamper {
        tamper(&uri, &options).await?;
    }
    let client = connect::connect(&uri, client_options(&options.database)).await?;
    let database = client.database(&options.database);
    let bank = Bank { accounts: database.collection("accounts"), audits: database.collection("audits") };
    work(&client, &bank, &options, &stop).await?;
    Ok(WELL)
}

/// Reads the connection string, and from then on watches the input: `stop` sets the flag, its end
/// ends the process.
fn take_the_leash() -> Result<(String, Arc<AtomicBool>), Failure> {
    let mut uri = String::new();
    let read = std::io::stdin().lock().read_line(&mut uri);
    if !matches!(read, Ok(n) if n > 0) {
        return Err(Failure::new(
            "demo-worker is started by `mongotx-bench demo` only: it reads its server from there",
        ));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let stops = Arc::clone(&stop);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            match line.as_deref() {
                Ok("stop") => stops.store(true, SeqCst),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        std::process::exit(0);
    });
    Ok((uri.trim_end().to_owned(), stop))
}

/// Writes one line, whole, before anything else happens. If it cannot be written, the demo has
/// ended.
fn tell(line: &WorkerLine) {
    let mut out = std::io::stdout().lock();
    if out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

async fn work(client: &Client, bank: &Bank, options: &WorkerOptions, stop: &AtomicBool) -> Result<(), Failure> {
    let name = u64::from(options.worker) << 32 | u64::from(options.incarnation);
    let mut rng = StdRng::seed_from_u64(options.seed ^ name.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut session = client.session();
    let mut reported_at = Instant::now();
    for count in 1_u64.. {
        if stop.load(SeqCst) {
            break;
        }
        if rng.random_range(0..SUM_ONE_IN) == 0 {
            add_up(&mut session, bank).await;
        } else {
            let id = format!("{}.{}.{count}", options.worker, options.incarnation);
            move_money(&mut session, bank, draw(&mut rng, options.accounts, id)).await;
        }
        if reported_at.elapsed() >= STATS_EVERY {
            reported_at = Instant::now();
            tell(&WorkerLine::Stats(Stats::of(&client.metrics())));
        }
    }
    let closed = client.shutdown().await;
    tell(&WorkerLine::Stats(Stats::of(&client.metrics())));
    Ok(closed?)
}

fn draw(rng: &mut StdRng, accounts: u32, id: String) -> Transfer {
    let accounts = i32::try_from(accounts).unwrap_or(i32::MAX);
    let from = rng.random_range(0..accounts);
    let to = (from + rng.random_range(1..accounts)) % accounts;
    Transfer { id, from, to, amount: rng.random_range(1..=LARGEST_AMOUNT) }
}

async fn move_money(session: &mut Session, bank: &Bank, transfer: Transfer) {
    let context = (bank.clone(), transfer.clone());
    let moved = session
        .run_transaction(context, |session, (bank, transfer)| Box::pin(in_transaction(session, bank, transfer)))
        .await;
    tell(&match moved {
        Ok(true) => WorkerLine::Done(transfer),
        Ok(false) => WorkerLine::Declined,
        Err(error) => match error.kind() {
            ErrorKind::Conflict | ErrorKind::Expired | ErrorKind::Unavailable | ErrorKind::Indeterminate => {
                WorkerLine::GaveUp(error.to_string())
            }
            _ => WorkerLine::Failed(error.to_string()),
        },
    });
}

/// The transfer itself; false when the account does not hold enough.
async fn in_transaction(session: &mut Session, bank: &Bank, transfer: &Transfer) -> mongotx::Result<bool> {
    let Transfer { id, from, to, amount } = transfer;
    let covered = doc! {"_id": from, "balance": {"$gte": amount}};
    let taken = bank.accounts.update_one(covered, doc! {"$inc": {"balance": -amount}}).session(session).await?;
    if taken.matched_count == 0 {
        return Ok(false);
    }
    bank.accounts.update_one(doc! {"_id": to}, doc! {"$inc": {"balance": amount}}).session(session).await?;
    let audit = doc! {"_id": id, "from": from, "to": to, "amount": amount};
    bank.audits.insert_one(&audit).session(session).await?;
    Ok(true)
}

async fn add_up(session: &mut Session, bank: &Bank) {
    tell(&match read_balances(session, &bank.accounts, SUM_WAIT).await {
        Ok(balances) => WorkerLine::Sum(balances.iter().sum()),
        Err(error) => match error.kind() {
            ErrorKind::Conflict | ErrorKind::Expired => WorkerLine::SumConflict,
            ErrorKind::Unavailable => WorkerLine::GaveUp(error.to_string()),
            _ => WorkerLine::Failed(error.to_string()),
        },
    });
}

/// All balances as of one moment, by `_id`: repeatable read locks every account until the commit.
pub(super) async fn read_balances(
    session: &mut Session,
    accounts: &Collection<Document>,
    lock_wait: Duration,
) -> mongotx::Result<Vec<i64>> {
    let options =
        TransactionOptions { isolation: Some(Isolation::RepeatableRead), lock_wait, ..TransactionOptions::default() };
    session.begin_with(options)?;
    match balances(session, accounts).await {
        Ok(balances) => session.commit().await.map(|()| balances),
        Err(error) => {
            session.rollback().await?;
            Err(error)
        }
    }
}

async fn balances(session: &mut Session, accounts: &Collection<Document>) -> mongotx::Result<Vec<i64>> {
    let mut balances = BTreeMap::new();
    let mut cursor = accounts.find(doc! {}).session(session).await?;
    while let Some(account) = cursor.next().await? {
        balances.insert(account.get_i32("_id").unwrap_or(-1), account.get_i64("balance").unwrap_or(0));
    }
    Ok(balances.into_values().collect())
}

/// Adds money that no audit record explains, when no transaction holds the account.
async fn tamper(uri: &str, options: &WorkerOptions) -> Result<(), Failure> {
    let driver = connect::connect_driver(uri).await?;
    let accounts = driver.database(&options.database).collection::<Document>("accounts");
    let free = doc! {"_id": 0, "_xTxId": {"$exists": false}};
    while accounts.update_one(free.clone(), doc! {"$inc": {"balance": 1_i64}}).await?.matched_count == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}
