//! A gateway inside a program of one's own: drivers connect to it, and use their own sessions and
//! transactions.
//!
//! ```sh
//! cargo run -p mongotx-gateway --example embedded_gateway [mongodb://HOST:PORT]
//! ```

use std::{
    error::Error,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use bson::{Document, doc};
use mongotx_gateway::{Gateway, GatewayOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if let Some(uri) = std::env::args().nth(1) {
        return run_example(&uri).await;
    }
    // A standalone mongod, which has no transactions. It ends with this program.
    let server = local_mongod::Server::standalone().await?;
    run_example(&server.uri()).await
}

/// Starts a gateway, runs a transaction through it with the official driver, and ends it.
pub(crate) async fn run_example(uri: &str) -> Result<(), Box<dyn Error>> {
    let options = GatewayOptions {
        uri: uri.to_owned(),
        // Port 0 takes a free one. Only this machine can connect, so clients need not log in.
        listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
        ..GatewayOptions::default()
    };
    let gateway = Gateway::start(options).await?;
    let address = gateway.address().ok_or("the gateway listens nowhere")?;
    println!("listening on mongodb://{address}");

    transfer(&format!("mongodb://{address}")).await?;

    // Commands that run are answered, for 10 seconds at most; what is decided is finished.
    gateway.shutdown(Duration::from_secs(10)).await?;
    Ok(())
}

/// A transaction as any application has it. Nothing here is of MongoTx.
async fn transfer(uri: &str) -> Result<(), Box<dyn Error>> {
    let client = mongodb::Client::with_uri_str(uri).await?;
    let accounts = client.database("mongotx_example_gateway").collection::<Document>("accounts");
    accounts.drop().await?;
    accounts.insert_many([doc! {"_id": 1, "balance": 100}, doc! {"_id": 2, "balance": 0}]).await?;

    let mut session = client.start_session().await?;
    session.start_transaction().await?;
    accounts.update_one(doc! {"_id": 1}, doc! {"$inc": {"balance": -10}}).session(&mut session).await?;
    accounts.update_one(doc! {"_id": 2}, doc! {"$inc": {"balance": 10}}).session(&mut session).await?;
    session.commit_transaction().await?;

    for (id, balance) in [(1, 90), (2, 10)] {
        let account = accounts.find_one(doc! {"_id": id}).await?.unwrap_or_default();
        println!("account {id}: {}", account.get_i32("balance")?);
        assert_eq!(account.get_i32("balance")?, balance);
    }
    Ok(())
}
