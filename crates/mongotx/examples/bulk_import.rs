//! Imports many documents in batches, so that an import that breaks off goes on where it was, and
//! imports nothing twice.
//!
//! Each batch is one transaction, and the place to go on from is changed in it: both are there, or
//! neither is.
//!
//! ```sh
//! cargo run -p mongotx --example bulk_import [mongodb://HOST:PORT]
//! ```

mod common;

use std::error::Error;

use bson::{Document, doc};
use mongotx::{Client, Collection, Session};

const LINES: i64 = 5_000;
const BATCH: i64 = 1_000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = common::store().await?;
    run_example(&store.uri).await
}

/// Imports up to the middle, where the process could have been killed, and then imports the rest.
pub(crate) async fn run_example(uri: &str) -> Result<(), Box<dyn Error>> {
    let client = Client::connect(uri).await?;
    let database = client.database("mongotx_example_import");
    let (readings, imports) = (database.collection("readings"), database.collection("imports"));
    readings.drop().await?;
    imports.drop().await?;

    let first = import(&client, &readings, &imports, LINES / 2).await?;
    println!("imported {first} documents, then broke off");
    let second = import(&client, &readings, &imports, LINES).await?;
    println!("went on, and imported {second} more");

    assert_eq!((first, second), (3_000, 2_000));
    assert_eq!(readings.count_documents(doc! {}).await?, LINES.unsigned_abs());
    client.shutdown().await?;
    Ok(())
}

/// Imports batches until line `until` is there, beginning behind the last one that is. Returns how
/// many documents it has imported.
async fn import(
    client: &Client,
    readings: &Collection,
    imports: &Collection,
    until: i64,
) -> Result<usize, Box<dyn Error>> {
    let mut session = client.session();
    let mut imported = 0;
    loop {
        let batch =
            session.with_transaction(async |session| import_batch(session, readings, imports, until).await).await?;
        if batch == 0 {
            return Ok(imported);
        }
        imported += batch;
    }
}

/// The next batch, in the session's transaction: its documents, and the line behind them.
async fn import_batch(
    session: &mut Session,
    readings: &Collection,
    imports: &Collection,
    until: i64,
) -> mongotx::Result<usize> {
    let file = doc! {"_id": "readings.csv"};
    let standing = imports.find_one(file.clone()).session(session).await?.unwrap_or_default();
    let next = standing.get_i64("next").unwrap_or(0);
    if next >= until {
        return Ok(0);
    }
    let lines: Vec<Document> = (next..(next + BATCH).min(LINES)).map(reading).collect();
    readings.insert_many(&lines).session(session).await?;
    let behind = next + i64::try_from(lines.len()).unwrap_or(BATCH);
    imports.update_one(file, doc! {"$set": {"next": behind}}).upsert(true).session(session).await?;
    Ok(lines.len())
}

/// Document of one line of the file.
fn reading(line: i64) -> Document {
    doc! {"line": line, "celsius": 20.0 + f64::from((line % 7) as i32)}
}
