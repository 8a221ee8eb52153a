//! The stage of the demo: a mongod of its own, or a fresh database on a server that was given.
//! Everything that has to be removed in the end is kept here, so that it is removed however the
//! demo ends.

use std::time::Duration;

use local_mongod::Server;
use mongotx::{Client, ClientOptions, drop_record_database};

use super::{crew::Crew, live::Live};
use crate::{
    connect::{connect, connect_driver},
    failure::{Context, Failure},
};

/// Short, so that the documents of killed workers are free again soon.
const LEASE: Duration = Duration::from_millis(1_500);
/// Time limit of dropping the database.
const CLEAR_LIMIT: Duration = Duration::from_secs(20);

/// The stage of a demo: see the module's header.
#[derive(Default)]
pub(super) struct Stage {
    // In this order: the workers go first.
    pub(super) crew: Crew,
    /// State of the demo that is shown.
    pub(super) live: Live,
    server: Option<Server>,
    /// Connection string of the server to use.
    pub(super) uri: String,
    /// The database for everything, client records included, so that one drop removes it all.
    pub(super) database: String,
    /// True if the server is not the demo's own, so that the database has to be dropped.
    borrowed: bool,
}

impl Stage {
    /// Starts the server, or makes the database on the one that was given.
    pub(super) async fn set(&mut self, uri: Option<&str>) -> Result<(), Failure> {
        match uri {
            Some(uri) => {
                self.uri = uri.to_owned();
                self.database = format!("mongotx_demo_{:016x}", rand::random::<u64>());
                // Connecting shows whether the server can be used at all.
                drop(self.client().await?);
                self.borrowed = true;
                self.live.line(&format!("   the server of --uri; everything is in its new database {}", self.database));
            }
            None => {
                self.live.line("   looking for mongod (it is fetched into the user's cache once if there is none)");
                let mongod = tokio::task::spawn_blocking(local_mongod::locate)
                    .await
                    .map_err(|error| Failure::new(format!("looking for mongod failed: {error}")))??;
                let server = local_mongod::ServerOptions::standalone().mongod(&mongod).start().await?;
                self.live.line(&format!("   started {} on port {}, standalone", mongod.display(), server.port()));
                self.uri = server.uri();
                self.database = "mongotx_demo".to_owned();
                self.server = Some(server);
            }
        }
        Ok(())
    }

    /// A MongoTx client of the demo's database.
    pub(super) async fn client(&self) -> Result<Client, Failure> {
        connect(&self.uri, client_options(&self.database)).await
    }

    /// Connects the driver without MongoTx.
    pub(super) async fn driver(&self) -> Result<mongodb::Client, Failure> {
        connect_driver(&self.uri).await
    }

    /// Removes everything that the demo has made.
    pub(super) async fn clear(mut self) -> Result<(), Failure> {
        self.crew.kill_all().await;
        if !self.borrowed {
            return Ok(());
        }
        match tokio::time::timeout(CLEAR_LIMIT, self.drop_database()).await {
            Ok(dropped) => dropped,
            Err(_) => Err(Failure::new("no answer in time")),
        }
        .context(&format!("the database {} could not be dropped; drop it by hand", self.database))
    }

    /// Drops the database, and looks again: a command that a killed worker had sent may arrive
    /// after the drop and make the database anew.
    async fn drop_database(&self) -> Result<(), Failure> {
        let driver = self.driver().await?;
        loop {
            drop_record_database(&driver, &self.database).await?;
            tokio::time::sleep(Duration::from_millis(100)).await;
            if !driver.list_database_names().await?.contains(&self.database) {
                return Ok(());
            }
        }
    }
}

/// Options of all clients of the demo. They sweep nothing by themselves: a dead worker's documents
/// are repaired by transactions that meet them, and by one sweep in the end.
pub(super) fn client_options(database: &str) -> ClientOptions {
    ClientOptions { tx_database: database.to_owned(), lease: LEASE, sweep: false, ..ClientOptions::default() }
}
