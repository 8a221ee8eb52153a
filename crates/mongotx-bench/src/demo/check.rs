//! Checks that every promise was kept.
//!
//! 1. A last sum in a transaction, through MongoTx.
//! 2. The final sweep: again and again, until nothing is locked and every client record is closed,
//!    or time is up.
//! 3. The documents as they are stored, read by the plain driver: audit records against what was
//!    acknowledged, balances against audit records.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use bson::{Document, doc};
use futures_util::TryStreamExt;
use mongotx::{Client, Namespace};

use super::{
    DemoOptions,
    bank::{BankRun, OPENING_BALANCE},
    stage::Stage,
    tally::Tally,
    wire::{Stats, Transfer},
    worker::read_balances,
};
use crate::{failure::Failure, survey::Survey};

/// Time limit of the final sweep. Killed clients are swept when their lease is over.
const SWEEP_LIMIT: Duration = Duration::from_secs(60);
const SWEEP_PAUSE: Duration = Duration::from_millis(100);
/// Time that the last sum waits for documents that dead workers hold.
const SUM_WAIT: Duration = Duration::from_secs(30);
/// Number of differences that are printed, per check.
const MOST_SHOWN: usize = 5;
/// The collections of the demo.
const COLLECTIONS: [&str; 4] = ["accounts", "audits", "custs", "hists"];

/// Results of the checks, and the counts of the run.
pub(super) struct Verdict {
    pub(super) run: BankRun,
    pub(super) stats: Stats,
    pub(super) checks: Vec<Check>,
}

/// The check of one promise.
pub(super) struct Check {
    pub(super) promise: String,
    /// Facts that contradict the promise.
    pub(super) violations: Vec<String>,
}

impl Verdict {
    /// A promise that was watched elsewhere.
    pub(super) fn add_first(&mut self, promise: &str, kept: bool) {
        let violations = if kept { Vec::new() } else { vec!["see above".to_owned()] };
        self.checks.insert(0, Check { promise: promise.to_owned(), violations });
    }
}

/// Runs steps 1 to 3.
pub(super) async fn check(options: &DemoOptions, stage: &Stage, run: BankRun) -> Result<Verdict, Failure> {
    let (total, last) = last_sum(stage).await?;
    let (left, sweeper) = sweep(stage).await?;
    let stored = StoredBank::read(stage).await?;
    let tally = &run.tally;
    let mut checks = vec![check_sums(tally, total)];
    if tally.failure_count > 0 {
        checks.push(check_workers(tally));
    }
    checks.push(check_acknowledged(tally, &stored));
    checks.push(check_balances(&stored, options.accounts, tally.expected));
    checks.push(Check {
        promise: "every document is clean, and no client left anything in txs".to_owned(),
        violations: left,
    });
    let stats = tally.stats().and(last).and(sweeper);
    Ok(Verdict { run, stats, checks })
}

/// Step 1: the sum of all balances at the end.
async fn last_sum(stage: &Stage) -> Result<(i64, Stats), Failure> {
    let client = stage.client().await?;
    let accounts = client.database(&stage.database).collection("accounts");
    let balances = read_balances(&mut client.session(), &accounts, SUM_WAIT).await?;
    let total = balances.iter().sum();
    stage.live.read(balances);
    client.shutdown().await?;
    Ok((total, Stats::of(&client.metrics())))
}

/// Step 2: sweeps. Returns the leftovers.
async fn sweep(stage: &Stage) -> Result<(Vec<String>, Stats), Failure> {
    // This client locks nothing, so it has no record of its own: all records must be closed.
    let (client, driver) = (stage.client().await?, stage.driver().await?);
    let namespaces = COLLECTIONS.map(|coll| Namespace { db: stage.database.clone(), coll: coll.to_owned() });
    let deadline = Instant::now() + SWEEP_LIMIT;
    loop {
        client.sweep().await?;
        for namespace in &namespaces {
            client.repair_collection(namespace).await?;
        }
        let left = leftovers(&client, &driver, &namespaces).await?;
        if left.is_empty() || Instant::now() >= deadline {
            return Ok((left, Stats::of(&client.metrics())));
        }
        tokio::time::sleep(SWEEP_PAUSE).await;
    }
}

async fn leftovers(
    client: &Client,
    driver: &mongodb::Client,
    namespaces: &[Namespace],
) -> Result<Vec<String>, Failure> {
    let survey = Survey::of(driver, namespaces).await?;
    let held = survey.holdings.iter().map(|(id, holding)| format!("{id} still holds {}", holding.words()));
    let damaged = survey.damaged.iter().map(|damaged| format!("{}: {}", damaged.namespace, damaged.why));
    let mut left: Vec<String> = held.chain(damaged).collect();
    let open = client.clients().await?.into_iter().filter(|client| !client.closed);
    left.extend(open.map(|client| format!("the record of client {} is not closed", client.id)));
    Ok(left)
}

/// The bank as it is stored.
struct StoredBank {
    balances: BTreeMap<i32, i64>,
    audits: BTreeMap<String, Transfer>,
    malformed: Vec<String>,
}

impl StoredBank {
    async fn read(stage: &Stage) -> Result<Self, Failure> {
        let database = stage.driver().await?.database(&stage.database);
        let mut stored = Self { balances: BTreeMap::new(), audits: BTreeMap::new(), malformed: Vec::new() };
        let mut accounts = database.collection::<Document>("accounts").find(doc! {}).await?;
        while let Some(account) = accounts.try_next().await? {
            match (account.get_i32("_id"), account.get_i64("balance")) {
                (Ok(id), Ok(balance)) if account.len() == 2 => drop(stored.balances.insert(id, balance)),
                _ => stored.malformed.push(format!("an account is stored as {account}")),
            }
        }
        let mut audits = database.collection::<Document>("audits").find(doc! {}).await?;
        while let Some(audit) = audits.try_next().await? {
            match parse_audit(&audit) {
                Some(transfer) => drop(stored.audits.insert(transfer.id.clone(), transfer)),
                None => stored.malformed.push(format!("an audit record is stored as {audit}")),
            }
        }
        Ok(stored)
    }
}

fn parse_audit(audit: &Document) -> Option<Transfer> {
    let transfer = Transfer {
        id: audit.get_str("_id").ok()?.to_owned(),
        from: audit.get_i32("from").ok()?,
        to: audit.get_i32("to").ok()?,
        amount: audit.get_i64("amount").ok()?,
    };
    (audit.len() == 4).then_some(transfer)
}

fn check_sums(tally: &Tally, last: i64) -> Check {
    let promise = format!("the total was {} in all {} sums, and in the last one", tally.expected, tally.sums);
    let mut violations = Vec::new();
    if tally.wrong_sums > 0 {
        violations.push(format!("{} of {} sums were wrong", tally.wrong_sums, tally.sums));
        violations.extend(tally.failures.iter().filter(|what| what.contains("read a total")).take(MOST_SHOWN).cloned());
    }
    if last != tally.expected {
        violations.push(format!("the last sum is {last}"));
    }
    Check { promise, violations }
}

fn check_workers(tally: &Tally) -> Check {
    let failures = tally.failures.iter().filter(|what| !what.contains("read a total")).cloned();
    Check { promise: "no worker failed".to_owned(), violations: failures.collect() }
}

fn check_acknowledged(tally: &Tally, stored: &StoredBank) -> Check {
    let promise = format!("each of {} acknowledged transfers has its audit record, once", tally.done.len());
    let wrong = tally.done.values().filter_map(|done| match stored.audits.get(&done.id) {
        Some(audit) if audit == done => None,
        Some(audit) => Some(format!("{} was {done:?} and is stored as {audit:?}", done.id)),
        None => Some(format!("{} was acknowledged and is lost", done.id)),
    });
    Check { promise, violations: shorten(wrong.collect()) }
}

fn check_balances(stored: &StoredBank, accounts: u32, expected: i64) -> Check {
    let promise = format!("the balances follow from the {} audit records", stored.audits.len());
    let accounts = 0..i32::try_from(accounts).unwrap_or(i32::MAX);
    let mut due: BTreeMap<i32, i64> = accounts.map(|id| (id, OPENING_BALANCE)).collect();
    for audit in stored.audits.values() {
        *due.entry(audit.from).or_default() -= audit.amount;
        *due.entry(audit.to).or_default() += audit.amount;
    }
    let mut wrong = stored.malformed.clone();
    for id in due.keys().chain(stored.balances.keys().filter(|id| !due.contains_key(id))) {
        let (due, found) = (due.get(id), stored.balances.get(id));
        if due != found {
            wrong.push(format!("account {id} holds {found:?} and should hold {due:?}"));
        }
    }
    let total: i64 = stored.balances.values().sum();
    if total != expected {
        wrong.push(format!("the stored balances add up to {total}"));
    }
    Check { promise, violations: shorten(wrong) }
}

fn shorten(mut violations: Vec<String>) -> Vec<String> {
    let more = violations.len().saturating_sub(MOST_SHOWN);
    violations.truncate(MOST_SHOWN);
    if more > 0 {
        violations.push(format!("… and {more} more"));
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer(id: &str) -> Transfer {
        Transfer { id: id.to_owned(), from: 0, to: 1, amount: 5 }
    }

    fn stored(balances: [i64; 2], audits: &[&str]) -> StoredBank {
        StoredBank {
            balances: BTreeMap::from([(0, balances[0]), (1, balances[1])]),
            audits: audits.iter().map(|id| ((*id).to_owned(), transfer(id))).collect(),
            malformed: Vec::new(),
        }
    }

    #[test]
    fn balances_that_follow_from_the_audit_records_pass() {
        let check = check_balances(&stored([995, 1005], &["a"]), 2, 2_000);
        assert!(check.violations.is_empty(), "{:?}", check.violations);
    }

    #[test]
    fn half_a_transfer_is_found() {
        assert_eq!(check_balances(&stored([995, 1000], &["a"]), 2, 2_000).violations.len(), 2);
        assert_eq!(check_balances(&stored([995, 1005], &[]), 2, 2_000).violations.len(), 2);
    }

    #[test]
    fn a_lost_and_a_changed_acknowledgement_are_found() {
        let mut tally = Tally::new(2_000);
        tally.done.insert("a".to_owned(), transfer("a"));
        tally.done.insert("b".to_owned(), Transfer { amount: 6, ..transfer("b") });
        tally.done.insert("c".to_owned(), transfer("c"));
        assert_eq!(check_acknowledged(&tally, &stored([990, 1010], &["b", "c"])).violations.len(), 2);
    }
}
