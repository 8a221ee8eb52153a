//! Transfers between accounts, each noted in the lists of both, while members step down, are
//! killed, paused and come back.
//!
//! An account is `{_id, n, log: [transfer]}`. Afterwards: the sum is kept, every transfer is in
//! both lists of its accounts once or in none, an acknowledged one is there and a refused one is
//! not (P1, P3); outcomes agree with the lists (P9); there is an order of all transfers that every
//! list keeps; a new client reaches every account (P10); nothing is left over (P7).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use bson::{Bson, Document, doc};
use mongotx::{Client, Collection, ErrorKind, Outcome, Result, TransactionOptions, TxId};

use local_mongod::Server;

use super::{Turn, set, until_steps_down};
use crate::common::{until, verify::assert_documents_clean, world::World};

const ACCOUNTS: i32 = 6;
const CLIENTS: i32 = 4;
const BALANCE: i32 = 100;
/// Length of the run in seconds, unless `MONGOTX_REPLICAS` says otherwise.
const SECONDS: u64 = 12;

/// The answer of a client about one transfer.
#[derive(Debug)]
struct Attempt {
    transfer: i32,
    from: i32,
    to: i32,
    id: Option<TxId>,
    end: Result<()>,
}

#[derive(Default)]
struct History {
    attempts: Mutex<Vec<Attempt>>,
    over: AtomicBool,
}

async fn transfer(client: &Client, coll: &Collection<Document>, attempt: &mut Attempt) -> Result<()> {
    let options = TransactionOptions { lock_wait: Duration::from_millis(200), ..TransactionOptions::default() };
    let mut session = client.session_with(options);
    session.begin()?;
    for (account, change) in [(attempt.from, -1), (attempt.to, 1)] {
        let change = doc! {"$inc": {"n": change}, "$push": {"log": attempt.transfer}};
        let done = coll.update_one(doc! {"_id": account}, change).session(&mut session).await;
        attempt.id = session.id().or(attempt.id);
        assert!(done.map(|done| done.matched_count)? == 1, "account {account} is gone");
    }
    session.commit().await
}

/// Transfers one after the other, each looked for after it was acknowledged.
async fn live(world: World, number: i32, history: Arc<History>) {
    let client = world.client(2_000).await;
    let coll = world.collection(&client, "accounts");
    let mut next = 0;
    while !history.over.load(SeqCst) {
        next += 1;
        let from = rand::random_range(0..ACCOUNTS);
        let to = (from + rand::random_range(1..ACCOUNTS)) % ACCOUNTS;
        let mut attempt = Attempt { transfer: number * 1_000_000 + next, from, to, id: None, end: Ok(()) };
        attempt.end = transfer(&client, &coll, &mut attempt).await;
        if attempt.end.is_ok()
            && let Ok(found) = coll.find_one(doc! {"_id": from}).await
        {
            assert!(log_of(&found.unwrap()).contains(&attempt.transfer), "P3: {attempt:?}");
        }
        history.attempts.lock().unwrap().push(attempt);
    }
    // Leftovers are for others, as if the client had died.
}

fn log_of(account: &Document) -> Vec<i32> {
    account.get_array("log").unwrap().iter().filter_map(Bson::as_i32).collect()
}

fn others<'a>(set: &'a Turn, primary: &Server) -> Vec<&'a Server> {
    set.members().iter().filter(|member| member.port() != primary.port()).collect()
}

/// Breaks the members, one way after the other, for this time.
async fn break_it(set: &Turn, time: Duration) {
    let begun = Instant::now();
    for round in 0.. {
        let (primary, other) = set.roles().await;
        let pause = async || tokio::time::sleep(Duration::from_millis(700)).await;
        match round % 5 {
            // Writes that the old primary has not passed on yet are lost.
            0 => {
                set.stop_replication(other).await.unwrap();
                pause().await;
                set.fail_over().await.unwrap();
                set.go_on_replicating().await.unwrap();
            }
            1 => {
                other.pause().unwrap();
                pause().await;
                other.resume().unwrap();
            }
            // And back again, as far as it goes.
            2 => {
                set.wait().await.unwrap();
                set.fail_over().await.unwrap();
                pause().await;
                set.wait().await.unwrap();
                set.fail_over().await.unwrap();
            }
            // The old primary goes on as if it were the primary.
            3 => {
                primary.pause().unwrap();
                set.elect(&others(set, primary)).await.unwrap();
                pause().await;
                primary.resume().unwrap();
                until_steps_down(primary).await;
            }
            _ => {
                primary.kill().unwrap();
                set.elect(&others(set, primary)).await.unwrap();
                pause().await;
                primary.restart().await.unwrap();
            }
        }
        pause().await;
        if begun.elapsed() >= time && round >= 4 {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transfers_are_all_or_nothing_whatever_happens_to_the_members() {
    let set = set().await;
    let world = World::new(&set.uri(), "replica_bank");
    let accounts: Vec<Document> = (0..ACCOUNTS).map(|id| doc! {"_id": id, "n": BALANCE, "log": []}).collect();
    let raw = world.raw().await.database(&world.db).collection::<Document>("accounts");
    raw.insert_many(accounts).await.unwrap();
    let history = Arc::new(History::default());
    let clients: Vec<_> =
        (1..=CLIENTS).map(|number| tokio::spawn(live(world.clone(), number, Arc::clone(&history)))).collect();
    let seconds = std::env::var("MONGOTX_REPLICAS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(SECONDS);
    break_it(&set, Duration::from_secs(seconds)).await;
    set.heal().await;
    history.over.store(true, SeqCst);
    for client in clients {
        client.await.unwrap();
    }
    let attempts = std::mem::take(&mut *history.attempts.lock().unwrap());
    check(&world, &attempts).await;
    world.drop().await;
}

async fn check(world: &World, attempts: &[Attempt]) {
    let client = world.client(1_000).await;
    let outcomes = outcomes(&client, attempts).await;
    let coll = world.collection(&client, "accounts");
    // P10.
    let options = TransactionOptions { lock_wait: Duration::from_secs(60), ..TransactionOptions::default() };
    let mut session = client.session_with(options);
    session.begin().unwrap();
    let all = coll.update_many(doc! {}, doc! {"$set": {"reached": true}}).session(&mut session).await.unwrap();
    assert_eq!(all.matched_count, ACCOUNTS as u64);
    session.commit().await.unwrap();
    let accounts: Vec<Document> = coll.find(doc! {}).await.unwrap().try_collect().await.unwrap();
    check_lists(&accounts, attempts, &outcomes);
    client.shutdown().await.unwrap();
    // P7.
    let sweeper = world.client(1_000).await;
    until("P7: every record closed", async || {
        sweeper.sweep().await.ok()?;
        let records = world.stored(&world.tx_db(), "txs").await;
        records.iter().all(|record| record.contains_key("closedAt")).then_some(())
    })
    .await;
    let again: Vec<Document> =
        world.collection(&sweeper, "accounts").find(doc! {}).await.unwrap().try_collect().await.unwrap();
    assert_eq!(again, accounts, "P1, after the sweep");
    assert_documents_clean(world, "replica bank").await;
}

/// P9: outcomes that can be looked up later.
async fn outcomes(client: &Client, attempts: &[Attempt]) -> BTreeMap<i32, Outcome> {
    let mut outcomes = BTreeMap::new();
    for one in attempts {
        let Some(id) = one.id else { continue };
        let outcome =
            until("an outcome", async || client.outcome(id).await.ok().filter(|outcome| *outcome != Outcome::Active));
        outcomes.insert(one.transfer, outcome.await);
    }
    outcomes
}

fn check_lists(accounts: &[Document], attempts: &[Attempt], outcomes: &BTreeMap<i32, Outcome>) {
    let logs: BTreeMap<i32, Vec<i32>> =
        accounts.iter().map(|account| (account.get_i32("_id").unwrap(), log_of(account))).collect();
    let sum: i32 = accounts.iter().map(|account| account.get_i32("n").unwrap()).sum();
    assert_eq!(sum, BALANCE * ACCOUNTS, "the sum is kept");
    let (mut acknowledged, mut refused, mut unknown) = (0, 0, 0);
    for Attempt { transfer, from, to, end, .. } in attempts {
        let there: Vec<i32> =
            logs.iter().flat_map(|(id, log)| log.iter().filter(|one| *one == transfer).map(|_| *id)).collect();
        let whole =
            there.iter().copied().collect::<BTreeSet<i32>>() == BTreeSet::from([*from, *to]) && there.len() == 2;
        assert!(whole || there.is_empty(), "P1: transfer {transfer} from {from} to {to} is in {there:?}");
        match end {
            Ok(()) => assert!(whole, "P3: transfer {transfer} was acknowledged"),
            Err(error) if error.kind() == ErrorKind::Indeterminate => {}
            Err(error) => assert!(!whole, "P9: transfer {transfer} was refused: {error}"),
        }
        match outcomes.get(transfer) {
            Some(Outcome::Committed) => assert!(whole, "P9: transfer {transfer} is committed"),
            Some(_) => assert!(!whole, "P9: transfer {transfer} is not committed"),
            None => assert!(!whole, "transfer {transfer} had no number"),
        }
        match end {
            Ok(()) => acknowledged += 1,
            Err(error) if error.kind() == ErrorKind::Indeterminate => unknown += 1,
            Err(_) => refused += 1,
        }
    }
    let known: usize = attempts.len() * 2;
    let listed: usize = logs.values().map(Vec::len).sum();
    assert!(listed <= known, "every transfer is somebody's");
    for account in accounts {
        let id = account.get_i32("_id").unwrap();
        let change = |transfer: &i32| {
            let one = attempts.iter().find(|one| one.transfer == *transfer).unwrap();
            if one.from == id { -1 } else { 1 }
        };
        let expected: i32 = BALANCE + logs[&id].iter().map(change).sum::<i32>();
        assert_eq!(account.get_i32("n").unwrap(), expected, "account {id}: no update is lost");
    }
    assert!(have_an_order(logs.values()), "no order of the transfers is that of every list");
    println!("{acknowledged} transfers acknowledged, {refused} refused, {unknown} unknown");
    assert!(acknowledged > 0, "nothing was acknowledged at all: {:?}", attempts.first());
}

/// Takes away, again and again, a transfer that is first in every list that it is in.
fn have_an_order<'a>(logs: impl Iterator<Item = &'a Vec<i32>>) -> bool {
    let mut logs: Vec<&[i32]> = logs.map(Vec::as_slice).collect();
    loop {
        logs.retain(|log| !log.is_empty());
        if logs.is_empty() {
            return true;
        }
        let is_first = |one: &i32| logs.iter().all(|log| log[0] == *one || !log.contains(one));
        let Some(next) = logs.iter().map(|log| log[0]).find(is_first) else { return false };
        for log in &mut logs {
            if log[0] == next {
                *log = &log[1..];
            }
        }
    }
}
