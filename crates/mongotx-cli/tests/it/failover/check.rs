//! Conditions that hold when all clients have ended.

use std::collections::{BTreeMap, BTreeSet};

use bson::{Document, doc};
use futures_util::TryStreamExt;
use mongotx::ClientOptions;

use super::{
    LIMIT,
    bank::{ACCOUNTS, BEGINNING, Business, Ledger},
    case::Case,
};
use crate::common::run_mongotx;

/// Checks all conditions.
pub(crate) async fn all(case: &Case, ledger: &Ledger) {
    nothing_in_doubt(case).await;
    let client = mongodb::Client::with_uri_str(&case.uri).await.unwrap();
    let database = client.database(&case.db);
    let (accounts, audit) = (all_of(&database, "accounts").await, all_of(&database, "audit").await);
    match case.business {
        Business::Transfers => transfers_are_right(case, &accounts, &audit, ledger),
        Business::Deposits => deposits_are_right(case, &accounts, ledger),
    }
    for document in accounts.iter().chain(&audit) {
        assert!(!document.keys().any(|field| field.starts_with('_') && field != "_id"), "{}: {document}", case.name);
    }
}

fn transfers_are_right(case: &Case, accounts: &[Document], audit: &[Document], ledger: &Ledger) {
    let made: Vec<String> = audit.iter().map(|one| one.get_str("attempt").unwrap().to_owned()).collect();
    answers_are_true(case, &made, ledger);
    let found: BTreeMap<i32, i64> =
        accounts.iter().map(|one| (one.get_i32("_id").unwrap(), one.get_i64("balance").unwrap())).collect();
    assert_eq!(found, balances(audit), "{}: balances do not fit the transfers", case.name);
    assert_eq!(found.values().sum::<i64>(), i64::from(ACCOUNTS) * BEGINNING, "{}", case.name);
}

fn deposits_are_right(case: &Case, accounts: &[Document], ledger: &Ledger) {
    let ids = |account: &Document| -> Vec<String> {
        let ids = account.get_array("ids").into_iter().flatten();
        ids.map(|id| id.as_str().unwrap().to_owned()).collect()
    };
    for account in accounts {
        let wanted = BEGINNING + 5 * ids(account).len() as i64;
        assert_eq!(account.get_i64("balance").unwrap(), wanted, "{}: {account}", case.name);
    }
    let made: Vec<String> = accounts.iter().flat_map(ids).collect();
    let different: BTreeSet<&String> = made.iter().collect();
    assert_eq!(different.len(), made.len(), "{}: a deposit was made twice: {made:?}", case.name);
    answers_are_true(case, &made, ledger);
}

/// Checks that every record is closed, with nothing that is not finished.
async fn nothing_in_doubt(case: &Case) {
    let options = ClientOptions { tx_database: case.tx_database(), ..ClientOptions::default() };
    let client = mongotx::Client::connect_with(&case.uri, options).await.unwrap();
    let all_closed = async {
        loop {
            client.sweep().await.unwrap();
            let records = client.clients().await.unwrap();
            if records.iter().all(|record| record.closed) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(LIMIT, all_closed).await.unwrap_or_else(|_| panic!("{}: a record stays open", case.name));
    client.shutdown().await.unwrap();
}

async fn all_of(database: &mongodb::Database, collection: &str) -> Vec<Document> {
    database.collection(collection).find(doc! {}).await.unwrap().try_collect().await.unwrap()
}

/// Checks the answers: each acknowledged attempt is there once, each refused one not at all. One
/// without an answer may be there.
fn answers_are_true(case: &Case, made: &[String], ledger: &Ledger) {
    let count = |id: &str| made.iter().filter(|one| *one == id).count();
    for id in ledger.acknowledged.lock().unwrap().iter() {
        assert_eq!(count(id), 1, "{}: {id} was acknowledged", case.name);
    }
    for id in ledger.refused.lock().unwrap().iter() {
        assert_eq!(count(id), 0, "{}: {id} was refused", case.name);
    }
}

fn balances(audit: &[Document]) -> BTreeMap<i32, i64> {
    let mut balances: BTreeMap<i32, i64> = (0..ACCOUNTS).map(|id| (id, BEGINNING)).collect();
    for one in audit {
        let amount = one.get_i64("amount").unwrap();
        *balances.get_mut(&one.get_i32("from").unwrap()).unwrap() -= amount;
        *balances.get_mut(&one.get_i32("to").unwrap()).unwrap() += amount;
    }
    balances
}

/// Checks that `doctor` finds nothing: it looks into all collections of all cases.
pub(crate) fn doctor_finds_nothing(uri: &str) {
    let (status, said) = run_mongotx(["doctor", "--uri", uri]);
    assert_eq!(status, 0, "{said}");
}
