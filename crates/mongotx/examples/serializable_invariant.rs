//! A rule about several documents that no single document can check: at least one doctor is on
//! call.
//!
//! Two doctors ask at the same moment whether another one is on call, and both leave. Each changes
//! its own document only, so neither overwrites the other: at snapshot both may commit (write
//! skew). At serializable one of them is refused, runs again, and stays.
//!
//! ```sh
//! cargo run -p mongotx --example serializable_invariant [mongodb://HOST:PORT]
//! ```

mod common;

use std::error::Error;

use bson::doc;
use mongotx::{Client, Collection, Isolation, TransactionOptions};

const ROUNDS: i32 = 10;
const DOCTORS: [&str; 2] = ["ann", "bob"];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = common::store().await?;
    run_example(&store.uri).await
}

/// Lets both doctors try to leave at once, several times, and looks whether one has stayed each
/// time.
pub(crate) async fn run_example(uri: &str) -> Result<(), Box<dyn Error>> {
    let client = Client::connect(uri).await?;
    let doctors: Collection = client.database("mongotx_example_serializable").collection("doctors");
    doctors.drop().await?;
    doctors.insert_many(&DOCTORS.map(|name| doc! {"_id": name, "on_call": true})).await?;

    for round in 1..=ROUNDS {
        doctors.update_many(doc! {}, doc! {"$set": {"on_call": true}}).await?;
        let [ann, bob] = DOCTORS.map(|name| tokio::spawn(leave(client.clone(), doctors.clone(), name)));
        let left = [ann.await??, bob.await??];
        let on_call = doctors.count_documents(doc! {"on_call": true}).await?;
        println!("round {round}: ann left: {}, bob left: {}, on call: {on_call}", left[0], left[1]);
        assert_eq!(on_call, 1, "one leaves, one stays");
    }
    client.shutdown().await?;
    Ok(())
}

/// Leaves if another doctor is on call. Returns whether that was so.
async fn leave(client: Client, doctors: Collection, name: &'static str) -> mongotx::Result<bool> {
    let options = TransactionOptions { isolation: Some(Isolation::Serializable), ..TransactionOptions::default() };
    let mut session = client.session_with(options);
    // The same as `with_transaction`, for a future that another thread may run: see its
    // documentation.
    session
        .run_transaction((), |session, ()| {
            let doctors = doctors.clone();
            Box::pin(async move {
                if doctors.count_documents(doc! {"on_call": true}).session(session).await? < 2 {
                    return Ok(false);
                }
                doctors.update_one(doc! {"_id": name}, doc! {"$set": {"on_call": false}}).session(session).await?;
                Ok(true)
            })
        })
        .await
}
