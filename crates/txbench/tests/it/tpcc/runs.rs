//! Clients at the same time, each with so many transactions, and the check afterwards.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;
use txbench::{
    error::{OpError, OpResult},
    run::plan,
    targets::{Find, Session},
    workload::{Client, ClientId, Done, Totals},
};

use crate::tpcc::setting::{Setting, parse};

/// Attempts of one transaction.
const ATTEMPTS: u32 = 500;
/// A whole deck: every kind of transaction.
const TRANSACTIONS: u32 = 23;

/// Work that clients have done.
#[derive(Default)]
struct Did {
    totals: Totals,
    rolled_back: u32,
    kinds: BTreeMap<&'static str, u32>,
}

async fn work(mut client: Box<dyn Client>, mut session: Box<dyn Session>) -> OpResult<Did> {
    let mut all = Did::default();
    for _ in 0..TRANSACTIONS {
        let kind = client.choose().kind;
        match transaction(&mut *client, &mut *session).await? {
            Done::RolledBack => all.rolled_back += 1,
            _ => all.totals.committed += 1,
        }
        *all.kinds.entry(kind).or_default() += 1;
    }
    for (name, effect) in client.effects() {
        all.totals.effects.insert(name.to_owned(), effect);
    }
    Ok(all)
}

/// Tries a transaction until it has ended.
async fn transaction(client: &mut dyn Client, session: &mut dyn Session) -> OpResult<Done> {
    for attempt in 1..=ATTEMPTS {
        match client.attempt(session).await {
            Err(OpError::Conflict(_)) => session.rollback().await?,
            ended => return ended,
        }
        // Attempts are spread, so that clients do not meet again.
        tokio::time::sleep(std::time::Duration::from_millis(u64::from(attempt.min(20)))).await;
    }
    Err(OpError::Conflict("all attempts"))
}

/// Runs so many clients at the same time; returns their work, and the complaint of the check.
async fn run_tpcc(target: &str, line: &str, clients: u32) -> (Did, Option<String>) {
    let setting = Setting::load(target, line).await;
    let all = work_all(&setting, clients).await;
    let broken = setting.broken(&all.totals).await;
    (all, broken)
}

async fn work_all(setting: &Setting, clients: u32) -> Did {
    let mut working = Vec::new();
    for index in 0..clients {
        let client = setting.workload.client(ClientId { index, of: clients, seed: 100 + u64::from(index) }).unwrap();
        working.push(work(client, setting.session().await));
    }
    let mut all = Did::default();
    for one in try_join_all(working).await.unwrap() {
        all.totals.committed += one.totals.committed;
        all.rolled_back += one.rolled_back;
        for (name, effect) in one.totals.effects {
            *all.totals.effects.entry(name).or_default() += effect;
        }
        for (kind, count) in one.kinds {
            *all.kinds.entry(kind).or_default() += count;
        }
    }
    all
}

#[tokio::test]
async fn natural_keys_under_unique_indexes_hold_and_are_all_that_rows_are_found_by() {
    for (target, schema) in [("mongotx", "normalized"), ("mongotx", "recommended"), ("native", "normalized")] {
        let setting = Setting::load(target, &format!("--natural-keys --batch false --schema {schema}")).await;
        // All values that are looked up once are looked up now.
        let mut all = work_all(&setting, 1).await;
        setting.target.settle().await.unwrap();
        let before: u64 = setting.target.commands().values().sum();
        let alone = work_all(&setting, 1).await;
        setting.target.settle().await.unwrap();
        let sent = setting.target.commands().values().sum::<u64>() - before;
        println!("{target}, {schema}: {:.1} commands a transaction", sent as f64 / f64::from(TRANSACTIONS));
        let together = work_all(&setting, 3).await;
        for did in [alone, together] {
            all.totals.committed += did.totals.committed;
            for (name, effect) in did.totals.effects {
                *all.totals.effects.entry(name).or_default() += effect;
            }
        }
        assert_eq!(setting.broken(&all.totals).await, None, "{target}, {schema}");
        let mut session = setting.session().await;
        for row in session.find("customer", Find::default()).await.unwrap() {
            assert!(row.get_object_id("_id").is_ok(), "{row}");
        }
    }
}

#[tokio::test]
async fn clients_at_the_same_time_break_nothing_with_transactions() {
    for target in ["mongotx", "native"] {
        let (all, broken) = run_tpcc(target, "--warehouses 2", 4).await;
        assert_eq!(broken, None, "{target}");
        let expected = [("delivery", 4), ("new-order", 40), ("order-status", 4), ("payment", 40), ("stock-level", 4)];
        assert_eq!(all.kinds, expected.into(), "{target}");
    }
}

#[tokio::test]
async fn orders_that_are_rolled_back_leave_nothing_with_transactions_and_break_the_data_without() {
    let (all, broken) = run_tpcc("mongotx", "--rollback-percent 50", 3).await;
    assert_eq!(broken, None);
    assert!((5..25).contains(&all.rolled_back), "{}", all.rolled_back);
    let (_, broken) = run_tpcc("plain", "--rollback-percent 50", 3).await;
    let said = broken.unwrap();
    assert!(said.contains("condition 3.3.2.6") && said.contains("order"), "{said}");
}

#[tokio::test]
async fn without_rollbacks_and_crashes_nothing_is_broken_without_transactions_either() {
    // In a batch, a stock that a rival has changed ends the whole attempt, of which half would
    // stay.
    assert_eq!(run_tpcc("plain", "--rollback-percent 0 --batch false", 4).await.1, None);
}

#[tokio::test]
async fn the_published_way_loses_nothing_at_read_committed() {
    assert_eq!(run_tpcc("mongotx", "--as-published --schema normalized", 3).await.1, None);
}

#[tokio::test]
async fn the_anti_pattern_holds_too() {
    assert_eq!(run_tpcc("mongotx", "--schema denormalized", 3).await.1, None);
}

#[tokio::test]
async fn the_engine_runs_it_and_says_that_it_is_scaled() {
    let uri = local_mongod::shared_standalone().await.unwrap().uri();
    let line = format!("--targets mongotx --clients 3 --seconds 1 --warm-up 0 --rounds 1 --uri {uri}");
    let (spec, args) = parse(&line);
    let result = plan::run_workload(&spec, &args, &line).await.unwrap();
    assert_eq!(result.runs[0].broken, None);
    assert!(result.title.contains("scaled") && result.title.contains("not TPC-C"), "{}", result.title);
}
