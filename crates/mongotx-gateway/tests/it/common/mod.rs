//! A gateway of a test's own in front of the shared standalone server, and clients for it.
#![allow(dead_code, reason = "no test binary uses all of it")]
#![allow(clippy::unwrap_used, unreachable_pub, reason = "test code")]

pub mod commands;
pub mod examples;
pub mod http;
pub mod proxy;
pub mod raw;
pub mod users;

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use bson::{RawDocumentBuf, doc};
use mongotx::ClientOptions;
use mongotx_gateway::{Gateway, GatewayOptions, Limits};

/// Longest time that a test waits for anything.
pub const LIMIT: Duration = Duration::from_secs(20);

/// A gateway on a free port.
pub async fn gateway(limits: Limits) -> (Gateway, SocketAddr) {
    let server = local_mongod::shared_standalone().await.unwrap();
    let gateway = Gateway::start(options(&server.uri(), limits)).await.unwrap();
    let address = gateway.address().unwrap();
    (gateway, address)
}

/// Options for a free port, and a database of client records of the test's own.
pub fn options(uri: &str, limits: Limits) -> GatewayOptions {
    let client = ClientOptions { tx_database: local_mongod::unique_db("gw"), sweep: false, ..ClientOptions::default() };
    let listen = Some("127.0.0.1:0".parse().unwrap());
    GatewayOptions { uri: uri.to_owned(), listen, limits, client, ..GatewayOptions::default() }
}

/// The official driver, connected to a gateway. `more`: options that end with `&`.
pub async fn driver(address: SocketAddr, more: &str) -> mongodb::Client {
    let uri = format!("mongodb://{address}/?{more}serverSelectionTimeoutMS=20000");
    mongodb::Client::with_uri_str(uri).await.unwrap()
}

/// Fails the test when it takes too long.
pub async fn soon<F: IntoFuture>(what: F) -> F::Output {
    tokio::time::timeout(LIMIT, what.into_future()).await.expect("not within the test's limit")
}

/// Waits until all documents of the collection are free. Some writes outside transactions are
/// transactions of their own, and those are finished after their answer, as every transaction is.
pub async fn until_free(database: &mongodb::Database, collection: &str) {
    const FINISHED: Duration = Duration::from_secs(90);
    let stored = database.collection::<RawDocumentBuf>(collection);
    let held = ["_xTxId", "_sTxIds"].map(|lock| doc! {lock: {"$exists": true}});
    let deadline = Instant::now() + FINISHED;
    while let Some(one) = stored.find_one(doc! {"$or": held.to_vec()}).await.unwrap() {
        assert!(Instant::now() < deadline, "{one:?} in {} was not finished within {FINISHED:?}", stored.namespace());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
