//! Connecting to the server that `--uri` names, within a bounded time.

use std::{fmt, time::Duration};

use clap::Args;
use mongotx::{Client, ClientOptions};

use crate::failure::{Context, Failure};

/// Time that the driver looks for a server in milliseconds, unless the connection string says
/// otherwise.
const SELECTION_MS: u64 = 5_000;
/// Greatest time that connecting may take in all, whatever the connection string says.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);

/// Connection string of a deployment, and the database with its client records.
#[derive(Args, Clone)]
pub struct ServerOptions {
    /// Connection string of the server
    #[arg(long, value_name = "URI", default_value = "mongodb://127.0.0.1:27017")]
    pub uri: String,
    /// Database of the client records (collection `txs`): the same for all clients and gateways of
    /// a server
    #[arg(long, value_name = "NAME", default_value = "mongotx", value_parser = database_name)]
    pub tx_database: String,
}

impl ServerOptions {
    /// A client that only looks: it sweeps nothing by itself.
    pub async fn connect(&self) -> Result<Client, Failure> {
        let options = ClientOptions { tx_database: self.tx_database.clone(), sweep: false, ..ClientOptions::default() };
        connect(&self.uri, options).await
    }

    /// The plain driver, for looking at documents as they are stored.
    pub async fn connect_driver(&self) -> Result<mongodb::Client, Failure> {
        connect_driver(&self.uri).await
    }
}

/// Connects a MongoTx client to the server of this URI, within a limit of time.
pub async fn connect(uri: &str, options: ClientOptions) -> Result<Client, Failure> {
    within_limit(async { Client::connect_with(&with_selection_limit(uri), options).await.map_err(Failure::from) }).await
}

/// A client of the plain driver. It connects at its first command.
pub async fn connect_driver(uri: &str) -> Result<mongodb::Client, Failure> {
    within_limit(async { Ok(mongodb::Client::with_uri_str(with_selection_limit(uri)).await?) }).await
}

async fn within_limit<T>(connecting: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    match tokio::time::timeout(CONNECT_LIMIT, connecting).await {
        Ok(connected) => connected.context("--uri: cannot use this server"),
        Err(_) => Err(Failure::new(format!("--uri: no answer within {} s", CONNECT_LIMIT.as_secs()))),
    }
}

/// The connection string with a limit for server selection, unless it has one.
pub fn with_selection_limit(uri: &str) -> String {
    with_option(uri, "serverSelectionTimeoutMS", SELECTION_MS)
}

/// The connection string with an option, unless it has that option already.
pub fn with_option(uri: &str, option: &str, value: impl fmt::Display) -> String {
    if uri.to_ascii_lowercase().contains(&format!("{}=", option.to_ascii_lowercase())) {
        return uri.to_owned();
    }
    let hosts = uri.split_once("://").map_or(uri, |(_, hosts)| hosts);
    let joint = match (hosts.contains('?'), hosts.contains('/')) {
        (true, _) if uri.ends_with(['?', '&']) => "",
        (true, _) => "&",
        (false, true) => "?",
        (false, false) => "/?",
    };
    format!("{uri}{joint}{option}={value}")
}

fn database_name(name: &str) -> Result<String, String> {
    if name.is_empty() || name.len() > 63 {
        return Err("a database name has 1 to 63 bytes".to_owned());
    }
    match name.chars().find(|c| "/\\. \"$*<>:|?\0".contains(*c)) {
        Some(c) => Err(format!("a database name cannot contain {c:?}")),
        None => Ok(name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selection_limit_is_added_where_options_go() {
        let added = |uri| with_selection_limit(uri);
        assert_eq!(added("mongodb://h"), "mongodb://h/?serverSelectionTimeoutMS=5000");
        assert_eq!(added("mongodb://h/db"), "mongodb://h/db?serverSelectionTimeoutMS=5000");
        assert_eq!(added("mongodb://h/?a=b"), "mongodb://h/?a=b&serverSelectionTimeoutMS=5000");
        let own = "mongodb://h/?serverselectiontimeoutms=1";
        assert_eq!(added(own), own);
    }

    #[test]
    fn options_are_added_to_what_has_others() {
        let added = |uri| with_option(uri, "maxPoolSize", 32);
        assert_eq!(added("mongodb://h:1"), "mongodb://h:1/?maxPoolSize=32");
        assert_eq!(added("mongodb://h:1/?replicaSet=rs0"), "mongodb://h:1/?replicaSet=rs0&maxPoolSize=32");
        assert_eq!(added("mongodb://h:1/?maxpoolsize=5"), "mongodb://h:1/?maxpoolsize=5");
    }

    #[test]
    fn database_names_are_checked() {
        assert!(database_name("mongotx").is_ok());
        for bad in ["", "a.b", "a b", "$x", &"x".repeat(64)] {
            assert!(database_name(bad).is_err(), "{bad:?}");
        }
    }
}
