//! Moves money between two accounts: both balances change, or neither does.
//!
//! ```sh
//! cargo run -p mongotx --example transfer [mongodb://HOST:PORT]
//! ```

mod common;

use std::error::Error;

use bson::doc;
use mongotx::{Client, Collection};
use serde::{Deserialize, Serialize};

/// A document of the collection `accounts`.
#[derive(Debug, Deserialize, Serialize)]
struct Account {
    #[serde(rename = "_id")]
    name: String,
    balance: i64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = common::store().await?;
    run_example(&store.uri).await
}

/// Makes two accounts, moves money twice, and shows the balances.
pub(crate) async fn run_example(uri: &str) -> Result<(), Box<dyn Error>> {
    let client = Client::connect(uri).await?;
    let accounts: Collection<Account> = client.database("mongotx_example_transfer").collection("accounts");
    accounts.drop().await?;
    let opening = [("ann", 100), ("bob", 0)].map(|(name, balance)| Account { name: name.to_owned(), balance });
    accounts.insert_many(&opening).await?;

    assert!(transfer(&client, &accounts, "ann", "bob", 30).await?, "ann has 100");
    assert!(!transfer(&client, &accounts, "bob", "ann", 1_000).await?, "bob has 30");

    let balances = accounts.find(doc! {}).sort(doc! {"_id": 1}).await?.try_collect().await?;
    for Account { name, balance } in &balances {
        println!("{name}: {balance}");
    }
    assert_eq!(balances.iter().map(|account| account.balance).collect::<Vec<_>>(), [70, 30]);
    client.shutdown().await?;
    Ok(())
}

/// Moves `amount` from one account to another. Returns false, and changes nothing, if the first one
/// has less.
///
/// `with_transaction` runs the body again after a conflict, so the body does nothing that it could
/// not do twice.
async fn transfer(
    client: &Client,
    accounts: &Collection<Account>,
    from: &str,
    to: &str,
    amount: i64,
) -> mongotx::Result<bool> {
    let mut session = client.session();
    session
        .with_transaction(async |session| {
            let payer = doc! {"_id": from, "balance": {"$gte": amount}};
            let taken = accounts.update_one(payer, doc! {"$inc": {"balance": -amount}}).session(session).await?;
            if taken.matched_count == 0 {
                return Ok(false);
            }
            accounts.update_one(doc! {"_id": to}, doc! {"$inc": {"balance": amount}}).session(session).await?;
            Ok(true)
        })
        .await
}
