//! A retry loop written out: what `Session::with_transaction` does, for programs that need their
//! own limits or pauses.
//!
//! Several tasks read one counter, add to it and write it back. At snapshot a write that rests on
//! an old value cannot be committed, so every lost race is a `Conflict`, and its task runs its
//! transaction again.
//!
//! ```sh
//! cargo run -p mongotx --example retry_loop [mongodb://HOST:PORT]
//! ```

mod common;

use std::{error::Error, time::Duration};

use bson::{Document, doc};
use mongotx::{Backoff, Client, Collection, ErrorKind, Outcome, Session, error::TRANSIENT_TRANSACTION_ERROR};

const TASKS: i64 = 4;
const ADDITIONS: i64 = 5;
/// Attempts of one transaction before its last error is answered.
const ATTEMPTS: u32 = 100;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = common::store().await?;
    run_example(&store.uri).await
}

/// Lets all tasks count, and looks whether an addition was lost.
pub(crate) async fn run_example(uri: &str) -> Result<(), Box<dyn Error>> {
    let client = Client::connect(uri).await?;
    let counters: Collection = client.database("mongotx_example_retry_loop").collection("counters");
    counters.drop().await?;
    counters.insert_one(&doc! {"_id": "visits", "n": 0_i64}).await?;

    let tasks: Vec<_> = (0..TASKS).map(|_| tokio::spawn(count(client.clone(), counters.clone()))).collect();
    let mut again = 0;
    for task in tasks {
        again += task.await??;
    }

    let found = counters.find_one(doc! {"_id": "visits"}).await?.unwrap_or_default();
    println!("{} additions, {again} transactions run again, the counter is {}", TASKS * ADDITIONS, found.get_i64("n")?);
    assert_eq!(found.get_i64("n")?, TASKS * ADDITIONS);
    client.shutdown().await?;
    Ok(())
}

/// Adds to the counter several times. Returns how many transactions had to be run again.
async fn count(client: Client, counters: Collection) -> mongotx::Result<u32> {
    let mut session = client.session();
    let mut again = 0;
    for _ in 0..ADDITIONS {
        again += add_with_retries(&client, &mut session, &counters).await?;
    }
    Ok(again)
}

/// Runs one transaction until it is committed. Returns how many attempts failed before.
async fn add_with_retries(client: &Client, session: &mut Session, counters: &Collection) -> mongotx::Result<u32> {
    let mut backoff = Backoff::new(Duration::from_millis(2), Duration::from_millis(100));
    let mut failed = 0;
    loop {
        let error = match attempt(session, counters).await {
            Ok(()) => return Ok(failed),
            Err(error) => error,
        };
        failed += 1;
        // A body that returned early has left the transaction open. After an error that ended it
        // this does no harm.
        let _ = session.rollback().await;
        if error.kind() == ErrorKind::Indeterminate {
            // The commit was sent and its answer is lost. Running the transaction again could add
            // twice, so ask first.
            match error.transaction() {
                Some(id) if client.outcome(id).await? == Outcome::Committed => return Ok(failed),
                Some(id) if client.outcome(id).await? == Outcome::RolledBack => {}
                _ => return Err(error),
            }
        } else if !error.contains_label(TRANSIENT_TRANSACTION_ERROR) || failed == ATTEMPTS {
            return Err(error);
        }
        backoff.wait().await;
    }
}

/// One attempt: begin, read, write, commit.
async fn attempt(session: &mut Session, counters: &Collection<Document>) -> mongotx::Result<()> {
    session.begin()?;
    let found = counters.find_one(doc! {"_id": "visits"}).session(session).await?.unwrap_or_default();
    let n = found.get_i64("n").unwrap_or_default();
    counters.update_one(doc! {"_id": "visits"}, doc! {"$set": {"n": n + 1}}).session(session).await?;
    session.commit().await
}
