//! Differential tests: the same random operations through the plain driver and through MongoTx give
//! the same answers, the same errors and the same stored documents.
//!
//! `MONGOTX_DIFF_SEED=n` runs the sequence of one seed, `MONGOTX_DIFF_RUNS=n` this number of
//! sequences per test instead of the default.
//!
//! - `generate`: random operations. `operation`: their types.
//! - `subject`, `plain`, `ours`: the two sides that carry them out. `compare`: comparison of
//!   answers.
//! - `aggregation`: random pipelines. `sequence`: one sequence of operations. Differences that are
//!   meant are listed in `docs/differences.md` and shown in `tests/differences.rs`.

#![expect(clippy::unwrap_used, reason = "a test")]

mod aggregation;
mod compare;
mod generate;
mod operation;
mod ours;
mod plain;
mod sequence;
mod subject;

use std::time::{Duration, Instant};

use local_mongod::Server;
use mongotx::{Client, ClientOptions, Isolation, Layout, TransactionOptions};
use sequence::{Plan, Sequence, Tally};

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Compares sequences of consecutive seeds, or the one of the seed that is given.
async fn compare_sequences(test: &str, runs: u64, options: ClientOptions, plan: Plan) {
    let server = local_mongod::shared_standalone().await.unwrap();
    let client = Client::connect_with(&server.uri(), options).await.unwrap();
    compare_sequences_of(test, runs, &client, server, plan).await;
    client.shutdown().await.unwrap();
}

async fn compare_sequences_of(test: &str, runs: u64, client: &Client, server: &Server, plan: Plan) {
    let driver = server.client().await.unwrap();
    let seeds = match number_from("MONGOTX_DIFF_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number_from("MONGOTX_DIFF_RUNS").unwrap_or(runs),
    };
    let (mut total, mut failures) = (Tally::default(), Vec::new());
    for seed in seeds {
        match Sequence::begin(&driver, client, plan.clone(), seed).await.run().await {
            Ok(tally) => total.add(tally),
            Err(failure) => failures.push(format!("MONGOTX_DIFF_SEED={seed}, test {test}, {failure}")),
        }
    }
    println!("{test}: {total:?}");
    assert!(failures.is_empty(), "{} sequences differ\n\n{}", failures.len(), failures.join("\n\n"));
    assert!(total.unsupported.values().sum::<usize>() * 20 <= total.operations, "too much is not supported: {total:?}");
}

/// A client that is alone on a server of its own, and sends queries without probes (decision 0066).
async fn alone() -> (Server, Client) {
    let server = local_mongod::ServerOptions::standalone().in_memory().start().await.unwrap();
    // What is committed is finished at once, so that it is in no query's way.
    let options = ClientOptions { finish_delay: Duration::ZERO, ..crate::quiet::at_read_committed() };
    let client = Client::connect_with(&server.uri(), options).await.unwrap();
    let coll = crate::quiet::collection(&client, 3).await;
    let begun = Instant::now();
    while client.metrics().unprobed == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "no lease was taken: {:?}", client.metrics());
        coll.find_one(bson::doc! {"n": 1}).await.unwrap();
    }
    (server, client)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_of_a_client_that_is_alone_are_the_drivers() {
    let (server, client) = alone().await;
    let outside = Plan { groups: 1, group_size: 60, transaction: None, rolled_back: 0, every_index: true };
    for plan in [outside, in_transactions(15, 4, 20)] {
        let before = client.metrics().unprobed;
        compare_sequences_of("operations_of_a_client_that_is_alone_are_the_drivers", 6, &client, &server, plan).await;
        assert!(client.metrics().unprobed > before, "every query was probed");
    }
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.operations += other.operations;
        self.refused += other.refused;
        for (reason, times) in other.unsupported {
            *self.unsupported.entry(reason).or_default() += times;
        }
    }
}

fn in_transactions(groups: usize, group_size: usize, rolled_back: usize) -> Plan {
    Plan { groups, group_size, transaction: Some(TransactionOptions::default()), rolled_back, every_index: false }
}

#[tokio::test]
async fn operations_outside_transactions_are_the_drivers() {
    let plan = Plan { groups: 1, group_size: 60, transaction: None, rolled_back: 0, every_index: false };
    compare_sequences("operations_outside_transactions_are_the_drivers", 8, crate::quiet::at_read_committed(), plan)
        .await;
}

#[tokio::test]
async fn operations_in_committed_transactions_are_the_drivers() {
    compare_sequences(
        "operations_in_committed_transactions_are_the_drivers",
        7,
        crate::quiet::at_read_committed(),
        in_transactions(15, 4, 0),
    )
    .await;
}

#[tokio::test]
async fn own_writes_look_as_if_made_directly() {
    compare_sequences(
        "own_writes_look_as_if_made_directly",
        6,
        crate::quiet::at_read_committed(),
        in_transactions(3, 25, 50),
    )
    .await;
}

#[tokio::test]
async fn own_writes_at_repeatable_read_look_as_if_made_directly() {
    let mut plan = in_transactions(6, 8, 40);
    plan.transaction =
        Some(TransactionOptions { isolation: Some(Isolation::RepeatableRead), ..TransactionOptions::default() });
    compare_sequences(
        "own_writes_at_repeatable_read_look_as_if_made_directly",
        6,
        crate::quiet::at_read_committed(),
        plan,
    )
    .await;
}

#[tokio::test]
async fn published_layout_is_no_different() {
    let options = ClientOptions {
        layout: Layout::Published,
        tx_database: "mongotx_published".to_owned(),
        ..crate::quiet::at_read_committed()
    };
    compare_sequences("published_layout_is_no_different", 5, options, in_transactions(8, 6, 30)).await;
}

/// One by one, in committed transactions, and as the transaction itself sees its own writes.
#[tokio::test]
async fn every_index_finds_and_refuses_the_same() {
    let outside = Plan { groups: 1, group_size: 40, transaction: None, rolled_back: 0, every_index: true };
    let plans = [
        ("outside", outside),
        ("committed", Plan { every_index: true, ..in_transactions(8, 4, 0) }),
        ("own writes", Plan { every_index: true, ..in_transactions(3, 16, 40) }),
    ];
    for (name, plan) in plans {
        let test = format!("every_index_finds_and_refuses_the_same, {name}");
        compare_sequences(&test, 5, crate::quiet::at_read_committed(), plan).await;
    }
}
