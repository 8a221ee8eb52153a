//! The check after a run: every account holds what the acknowledged operations add up to, all
//! accounts together too, and the audit agrees.
//!
//! 1. Read the tallies: each client has left one.
//! 2. Read the accounts, and the audit.
//! 3. Go through the operations again, as far as each client came, and compare.

use std::collections::{BTreeMap, BTreeSet};

use bson::{Bson, Document, doc};

use super::{
    ACCOUNTS, AUDIT, BankOptions, TALLIES,
    accounts::Accounts,
    expected::{Expected, Found},
    money::Money,
    source::Source,
    tally::Tally,
};
use crate::{
    targets::{Find, Session},
    workload::{
        Broken, Check, Totals,
        pages::{self, Pages},
    },
};

/// Checks the accounts, and the audit if there is one.
pub(super) async fn check(options: &BankOptions, source: &Source, session: &mut dyn Session, totals: &Totals) -> Check {
    let tallies = tallies(session, totals).await?;
    let found = accounts(session, &source.accounts).await?;
    let audit = match options.audit {
        true => Some(Audit::read(session, &source.accounts).await?),
        false => None,
    };
    let resolved = audit.as_ref().map_or(BTreeSet::new(), |audit| audit.sequences.clone());
    let expected = Expected::add_up(source, &tallies, &found, &resolved, options.audit)?;
    acknowledged(options, &tallies, totals)?;
    balances(&source.accounts, &expected, &found)?;
    audit.map_or(Ok(()), |audit| audit.agrees(&source.accounts, &expected))
}

/// The tallies that the clients left: all of them, or none when no client has worked.
async fn tallies(session: &mut dyn Session, totals: &Totals) -> Result<BTreeMap<u32, Tally>, Broken> {
    let found = session.find(TALLIES, Find::new(doc! {})).await?;
    let tallies: BTreeMap<u32, Tally> = found.iter().filter_map(Tally::read).collect();
    let clients = tallies.values().next().map_or(0, |tally| tally.of);
    let all = (0..clients).all(|client| tallies.get(&client).is_some_and(|tally| tally.of == clients));
    if !all || tallies.len() != clients as usize {
        let left = tallies.len();
        return Err(Broken::Promise(format!("{clients} clients worked, {left} have left how far they came")));
    }
    match clients == 0 && totals.committed > 0 {
        true => Err(Broken::Promise("no client has left how far it came".to_owned())),
        false => Ok(tallies),
    }
}

/// Checks that the tallies have as many operations as were acknowledged, reads left out.
fn acknowledged(options: &BankOptions, tallies: &BTreeMap<u32, Tally>, totals: &Totals) -> Check {
    let done = |tally: &Tally| tally.taken as u64 - (tally.without.len() + tally.unknown.len()) as u64;
    let (done, committed) = (tallies.values().map(done).sum::<u64>(), totals.committed);
    let fits = if options.readers > 0 { done <= committed } else { done == committed };
    match fits {
        true => Ok(()),
        false => Err(Broken::Promise(format!("clients tell of {done} operations, {committed} were acknowledged"))),
    }
}

/// All accounts, ordered by their ordinal.
async fn accounts(session: &mut dyn Session, accounts: &Accounts) -> Result<Vec<Found>, Broken> {
    let mut found: Vec<Option<Found>> = vec![None; accounts.len() as usize];
    let projection = doc! {"Balance": 1, "LastTxnSequence": 1};
    // One page without an order: every target can do that.
    let mut pages = match accounts.len() > pages::SIZE {
        true => Pages::new(ACCOUNTS, projection),
        false => Pages::single(ACCOUNTS, projection),
    };
    while let Some(page) = pages.next(session).await? {
        for account in page {
            let ordinal = account.get_str("_id").ok().and_then(|number| accounts.ordinal(number));
            let balance = account.get_i64("Balance").ok().map(Money);
            let Some((ordinal, balance)) = ordinal.zip(balance) else {
                return Err(Broken::Promise(format!("no account should look like this: {account}")));
            };
            let last_sequence = account.get_i64("LastTxnSequence").ok();
            found[ordinal as usize] = Some(Found { balance, last_sequence });
        }
    }
    let missing = found.iter().position(Option::is_none).map(|at| accounts.number(at as u32));
    match missing {
        Some(number) => Err(Broken::Promise(format!("the account {number} is missing"))),
        None => Ok(found.into_iter().flatten().collect()),
    }
}

fn balances(accounts: &Accounts, expected: &Expected, found: &[Found]) -> Check {
    let wrong = |(at, found): (usize, &Found)| expected.wrong(at as u32, *found).map(|what| (at as u32, what));
    let mut all_wrong = found.iter().enumerate().filter_map(wrong);
    let sum: i128 = found.iter().map(|account| i128::from(account.balance.0)).sum();
    let (expected_sum, is_exact) = expected.sum();
    if let Some((first, what)) = all_wrong.next() {
        let (of, n, number) = (accounts.len(), 1 + all_wrong.count(), accounts.number(first));
        let missing = expected_sum - sum;
        return Err(Broken::Promise(format!(
            "{n} of {of} accounts are wrong; {number} {what}; all together they hold {missing} hundredths too little"
        )));
    }
    match is_exact && sum != expected_sum {
        true => Err(Broken::Promise(format!("the accounts hold {sum} hundredths, it must be {expected_sum}"))),
        false => Ok(()),
    }
}

/// Content of the audit's records.
struct Audit {
    sequences: BTreeSet<i64>,
    /// Balances by ordinal, as the audit has them.
    balances: Vec<Money>,
}

impl Audit {
    async fn read(session: &mut dyn Session, accounts: &Accounts) -> Result<Self, Broken> {
        let balances = (0..accounts.len()).map(|at| accounts.initial(at)).collect();
        let mut audit = Self { sequences: BTreeSet::new(), balances };
        let mut pages = Pages::new(AUDIT, doc! {"changes": 1});
        while let Some(page) = pages.next(session).await? {
            for record in page {
                if audit.add(&record, accounts).is_none() {
                    return Err(Broken::Promise(format!("no record of the audit should look like this: {record}")));
                }
            }
        }
        Ok(audit)
    }

    fn add(&mut self, record: &Document, accounts: &Accounts) -> Option<()> {
        self.sequences.insert(record.get_i64("_id").ok()?);
        for change in record.get_array("changes").ok()?.iter().map(Bson::as_document) {
            let ordinal = accounts.ordinal(change?.get_str("account").ok()?)?;
            self.balances[ordinal as usize].0 += change?.get_i64("by").ok()?;
        }
        Some(())
    }

    /// Checks that the audit has every operation that happened, and no other.
    fn agrees(&self, accounts: &Accounts, expected: &Expected) -> Check {
        let (records, done) = (self.sequences.len() as u64, expected.done);
        if records != done {
            return Err(Broken::Promise(format!("the audit has {records} records of {done} operations")));
        }
        let wrong = (0..accounts.len()).find(|at| self.balances[*at as usize] != expected.balance(*at));
        match wrong.map(|at| (accounts.number(at), self.balances[at as usize], expected.balance(at))) {
            None => Ok(()),
            Some((number, audited, balance)) => {
                let what = format!("by the audit {number} holds {audited}, its operations add up to {balance}");
                Err(Broken::Promise(what))
            }
        }
    }
}
