//! Reads outside transactions at `snapshot` and `linearizable`, while money is moved through
//! another gateway: the answer of one read is of one moment, so the total never changes.
//!
//! Reads at `local` show that the money moves while they run: their totals have to be wrong, time
//! and again. The totals of the others must never be, however long anything takes.

use crate::common;

use std::time::{Duration, Instant};

use bson::{Document, doc};
use mongodb::{
    Client, Collection,
    error::{Error, ErrorKind, Result},
    options::{CollectionOptions, ReadConcern},
};
use mongotx_gateway::{Gateway, GatewayOptions, Limits};
use rand::{RngExt, SeedableRng, rngs::StdRng};

/// Balance of each of the two accounts at first.
const EACH: i64 = 100;
/// Wrong totals that reads at `local` have to show.
const TORN: usize = 8;
const LIMIT: Duration = Duration::from_secs(180);

/// Two gateways before one server, and a driver and the accounts through each.
struct Bank {
    gateways: Vec<Gateway>,
    drivers: Vec<(Client, Collection<Document>)>,
    random: StdRng,
}

impl Bank {
    async fn start(test: &str) -> Self {
        let server = local_mongod::shared_standalone().await.unwrap();
        let options = common::options(&server.uri(), Limits::default());
        let (db, mut gateways, mut drivers) = (local_mongod::unique_db(test), Vec::new(), Vec::new());
        for _ in 0..2 {
            let gateway = Gateway::start(GatewayOptions { ..options.clone() }).await.unwrap();
            let driver = common::driver(gateway.address().unwrap(), "").await;
            gateways.push(gateway);
            drivers.push((driver.clone(), driver.database(&db).collection("accounts")));
        }
        let accounts = (0..2).map(|id| doc! {"_id": id, "balance": EACH});
        drivers[0].1.insert_many(accounts).await.unwrap();
        Self { gateways, drivers, random: StdRng::seed_from_u64(1) }
    }

    /// The accounts through the first gateway.
    fn accounts(&self, level: &ReadConcern) -> Collection<Document> {
        let (driver, accounts) = &self.drivers[0];
        let options = CollectionOptions::builder().read_concern(level.clone()).build();
        driver.database(&accounts.namespace().db).collection_with_options(accounts.name(), options)
    }

    /// A total, while money is moved through the second gateway at some time within so long.
    /// `None`: the reader has given up.
    async fn total(&mut self, level: &ReadConcern, within: Duration) -> Option<i64> {
        let (accounts, pause) = (self.accounts(level), within.mul_f64(self.random.random_range(0.0..1.0)));
        let amount = if self.random.random() { 1 } else { -1 };
        let moving = async {
            tokio::time::sleep(pause).await;
            let (driver, accounts) = &self.drivers[1];
            transfer(driver, accounts, amount).await.unwrap();
        };
        let (total, ()) = tokio::join!(total(&accounts), moving);
        total.map_err(|error| assert!(has_given_up(&error), "{error:?}")).ok()
    }
}

async fn transfer(driver: &Client, accounts: &Collection<Document>, amount: i64) -> Result<()> {
    let mut session = driver.start_session().await?;
    session.start_transaction().await?;
    for (id, amount) in [(0, -amount), (1, amount)] {
        accounts.update_one(doc! {"_id": id}, doc! {"$inc": {"balance": amount}}).session(&mut session).await?;
    }
    session.commit_transaction().await
}

/// Both balances, by a pipeline that has read the first one long before it reads the second.
async fn total(accounts: &Collection<Document>) -> Result<i64> {
    const STEPS: i32 = 200_000;
    let slow = doc! {"input": {"$range": [0, STEPS]}, "initialValue": 0_i64, "in": {"$add": ["$$value", "$$this"]}};
    let pipeline = [
        doc! {"$match": {"_id": 0}},
        doc! {"$set": {"slow": {"$reduce": slow}}},
        doc! {"$match": {"slow": {"$gt": 0}}},
        doc! {"$lookup": {"from": accounts.name(), "pipeline": [{"$match": {"_id": 1}}], "as": "other"}},
        doc! {"$project": {"total": {"$add": ["$balance", {"$sum": "$other.balance"}]}}},
    ];
    let mut cursor = accounts.aggregate(pipeline).await?;
    assert!(cursor.advance().await?);
    Ok(cursor.current().get_i64("total").unwrap())
}

/// Time that a total takes when nothing else happens.
async fn time(accounts: &Collection<Document>) -> Duration {
    let mut shortest = LIMIT;
    for _ in 0..3 {
        let begun = Instant::now();
        assert_eq!(total(accounts).await.unwrap(), 2 * EACH);
        shortest = shortest.min(begun.elapsed());
    }
    shortest
}

/// Returns true if the driver has sent the read twice, and has lost both times.
fn has_given_up(error: &Error) -> bool {
    matches!(error.kind.as_ref(), ErrorKind::Command(command) if command.code == 262)
}

async fn total_is_constant(test: &str, level: ReadConcern) {
    let (mut bank, local) = (Bank::start(test).await, ReadConcern::local());
    let within = time(&bank.accounts(&local)).await;
    let (until, mut torn, mut answered) = (Instant::now() + LIMIT, 0, 0);
    while torn < TORN {
        assert!(
            Instant::now() < until,
            "{torn} wrong totals at read concern 'local', {answered} right ones of {level:?}"
        );
        torn += usize::from(bank.total(&local, within).await != Some(2 * EACH));
        if let Some(total) = bank.total(&level, within).await {
            assert_eq!(total, 2 * EACH, "after {answered} right ones, and {torn} wrong ones at 'local'");
            answered += 1;
        }
    }
    let conflicts = bank.gateways[0].metrics().aborts_conflict;
    println!("in {within:?}: {answered} right, {torn} wrong at 'local', {conflicts} conflicts");
    assert!(answered > 0, "all readers gave up");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_at_snapshot_is_of_one_moment_while_money_moves() {
    total_is_constant("gw_moment_snapshot", ReadConcern::snapshot()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_at_linearizable_is_of_one_moment_while_money_moves() {
    total_is_constant("gw_moment_linearizable", ReadConcern::linearizable()).await;
}
