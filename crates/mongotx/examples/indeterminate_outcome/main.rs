//! Handling of a commit whose answer is lost: look up the outcome of the transaction, and only then
//! act.
//!
//! The client is connected to the server through a relay that can lose messages. First it loses the
//! answer to a commit, then the commit itself. Both look the same to the client, `Indeterminate`;
//! another client learns the truth by the transaction's id.
//!
//! ```sh
//! cargo run -p mongotx --example indeterminate_outcome [mongodb://HOST:PORT]
//! ```

#[path = "../common/mod.rs"]
mod common;
mod relay;

use std::{error::Error, time::Duration};

use bson::doc;
use mongotx::{Client, ClientOptions, Collection, ErrorKind, Outcome, TxId};

use self::relay::{Loses, Relay};

/// The longest that an outcome is waited for: the lease ends before.
const LONGEST: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = common::store().await?;
    run_example(&store.uri).await
}

/// Loses an answer and a commit, and looks up both outcomes.
pub(crate) async fn run_example(uri: &str) -> Result<(), Box<dyn Error>> {
    // Looks up outcomes, over a connection that loses nothing.
    let witness = Client::connect(uri).await?;
    let orders: Collection = witness.database("mongotx_example_outcome").collection("orders");
    orders.drop().await?;
    // A commit needs no look-up of a collection that the client knows: only the commit itself is
    // lost.
    orders.insert_one(&doc! {"_id": 0, "item": "pen"}).await?;

    for (number, loses) in [(1, Loses::Answers), (2, Loses::Requests)] {
        let id = commit_in_doubt(uri, loses, number).await?;
        let outcome = outcome(&witness, id).await?;
        let is_there = orders.count_documents(doc! {"_id": number}).await? == 1;
        println!("the relay lost {loses:?}: transaction {id} is {outcome:?}, its order is there: {is_there}");
        // Committed: done. RolledBack: nothing of it is there and nothing will be, so it is safe to
        // run it again.
        assert_eq!(outcome == Outcome::Committed, is_there);
        assert_eq!(outcome, if loses == Loses::Answers { Outcome::Committed } else { Outcome::RolledBack });
    }
    witness.shutdown().await?;
    Ok(())
}

/// Commits over a connection that breaks in the middle. Returns the transaction's id, which the
/// error carries.
async fn commit_in_doubt(uri: &str, loses: Loses, number: i32) -> Result<TxId, Box<dyn Error>> {
    let relay = Relay::start(uri).await?;
    // Short, so that the example is: the defaults are 30 and 10 seconds. What was carried out is
    // known before the lease ends; and signs of life that are frequent could be lost in its place.
    let mut options = ClientOptions { commit_timeout: Duration::from_secs(1), ..ClientOptions::default() };
    if loses == Loses::Requests {
        options.lease = Duration::from_secs(2);
    }
    let client = Client::connect_with(relay.uri(), options).await?;
    let orders: Collection = client.database("mongotx_example_outcome").collection("orders");
    let mut session = client.session();
    session.begin()?;
    orders.insert_one(&doc! {"_id": number, "item": "book"}).session(&mut session).await?;
    relay.lose(loses);
    match session.commit().await {
        Err(error) if error.kind() == ErrorKind::Indeterminate => {
            error.transaction().ok_or_else(|| format!("no transaction is named: {error}").into())
        }
        other => Err(format!("the commit was to be in doubt, and answered {other:?}").into()),
    }
}

/// The outcome of a transaction that is decided: at the latest when its client's lease has ended.
async fn outcome(client: &Client, id: TxId) -> Result<Outcome, Box<dyn Error>> {
    Ok(tokio::time::timeout(LONGEST, ask_until_decided(client, id)).await??)
}

async fn ask_until_decided(client: &Client, id: TxId) -> mongotx::Result<Outcome> {
    loop {
        match client.outcome(id).await? {
            Outcome::Active => tokio::time::sleep(Duration::from_millis(100)).await,
            decided => return Ok(decided),
        }
    }
}
