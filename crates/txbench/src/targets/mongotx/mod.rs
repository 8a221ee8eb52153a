//! MongoTx, through its public interface: with one record per client, and with the published layout
//! (one record per transaction, and the round trips of the paper).

mod session;

use std::{collections::BTreeMap, time::Duration};

use ::mongotx::{Client, ClientOptions, Concern, IndexModel, Layout, TransactionOptions};
use bson::{Document, doc};
use futures_util::future::BoxFuture;
use sd2v::names::RESERVED;

use self::session::MongoTxSession;
use super::{
    Acknowledged, Connection, Durability, Feature, Index, Isolation, Session, Target, Traits,
    driver::{self, CountingDriver},
    entry::{Connect, Entry},
};
use crate::error::BenchError;

/// Time within which the last transactions have to be finished.
const FLUSH_LIMIT: Duration = Duration::from_secs(30);

/// The target of MongoTx as it is.
pub static CLIENT_RECORD: Entry = entry("mongotx", "MongoTx", &LEVELS, |connection| {
    Box::pin(async { Ok(Box::new(MongoTx::connect(connection, Layout::ClientRecord).await?) as Box<dyn Target>) })
});

/// The target of MongoTx with the published layout.
pub static PUBLISHED: Entry = entry(
    "mongotx-published",
    "MongoTx with the layout and the round trips of the paper",
    &PAPERS_LEVELS,
    |connection| {
        Box::pin(async { Ok(Box::new(MongoTx::connect(connection, Layout::Published).await?) as Box<dyn Target>) })
    },
);

const LEVELS: [Isolation; 4] =
    [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Snapshot, Isolation::Serializable];
const PAPERS_LEVELS: [Isolation; 2] = [Isolation::ReadCommitted, Isolation::RepeatableRead];

const fn entry(name: &'static str, about: &'static str, isolations: &'static [Isolation], connect: Connect) -> Entry {
    Entry {
        traits: Traits {
            name,
            about,
            transactional: true,
            needs_replica_set: false,
            on_dtranx: false,
            isolations,
            waits: true,
            commit_waits: true,
            unjournaled: false,
            features: Feature::ALL,
        },
        connect,
    }
}

/// The library. Its records lie in the measurement's own database.
struct MongoTx {
    client: Client,
    /// The plain driver, for loading and checking, as another tool would do it.
    driver: CountingDriver,
    connection: Connection,
    concerns: Concerns,
}

/// Concerns that decisions can wait for.
#[derive(Clone, Copy, Debug)]
struct Concerns {
    traits: &'static Traits,
    reach: Reach,
}

/// Durability of a decision when its commit is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// On as many nodes as the options demand.
    AsAsked,
    /// As published: on the primary alone, of so many nodes.
    PrimaryOf(usize),
}

impl Concerns {
    /// The library's name for this durability.
    fn of(self, durability: Durability) -> Result<Concern, BenchError> {
        self.traits.check_durability(durability)?;
        if let Reach::PrimaryOf(nodes @ 2..) = self.reach
            && durability.nodes != Acknowledged::Nodes(1)
        {
            return Err(BenchError::Refused(format!(
                "{}: {durability} cannot be had on {nodes} nodes, for as published a decision waits for one node; \
                 --write-concern 1 can",
                self.traits.name
            )));
        }
        Ok(match durability.nodes {
            Acknowledged::Nodes(1) => Concern::Journaled,
            Acknowledged::Nodes(n) => Concern::Nodes(n.into()),
            Acknowledged::Majority => Concern::Majority,
        })
    }
}

impl MongoTx {
    async fn connect(connection: Connection, layout: Layout) -> Result<Self, BenchError> {
        let driver = CountingDriver::connect(&connection).await?;
        let options = ClientOptions {
            layout,
            tx_database: connection.db.clone(),
            commit_timeout: driver.write_timeout(),
            ..ClientOptions::default()
        };
        let client = Client::connect_with(&with_pool(&connection.uri, connection.sessions), options).await?;
        let concerns = match layout {
            Layout::Published => {
                Concerns { traits: &PUBLISHED.traits, reach: Reach::PrimaryOf(driver.node_count().await?) }
            }
            _ => Concerns { traits: &CLIENT_RECORD.traits, reach: Reach::AsAsked },
        };
        concerns.of(connection.durability)?;
        Ok(Self { client, driver, connection, concerns })
    }

    fn db(&self) -> mongodb::Database {
        self.driver.client.database(&self.connection.db)
    }
}

impl Target for MongoTx {
    fn create<'a>(&'a self, collection: &'a str, indexes: &'a [Index]) -> BoxFuture<'a, Result<(), BenchError>> {
        Box::pin(async move {
            let db = self.client.database(&self.connection.db);
            db.create_collection(collection).await?;
            let collection = db.collection::<Document>(collection);
            let models = indexes.iter().map(|index| IndexModel::new(index.key.clone()).unique(index.unique));
            let models: Vec<IndexModel> = models.collect();
            if !models.is_empty() {
                collection.create_indexes(models).await?;
            }
            Ok(())
        })
    }

    /// A committed document is what the application wrote, and so any tool can load it.
    fn load<'a>(&'a self, collection: &'a str, documents: Vec<Document>) -> BoxFuture<'a, Result<(), BenchError>> {
        Box::pin(async move { driver::load(&self.db(), collection, documents).await })
    }

    fn session(&self) -> BoxFuture<'_, Result<Box<dyn Session>, BenchError>> {
        Box::pin(async move {
            let db = self.client.database(&self.connection.db);
            let options = transaction_options(&self.connection, self.concerns)?;
            let session = self.client.session_with(options.clone());
            Ok(Box::new(MongoTxSession::new(session, db, options, self.concerns, self.connection.durability))
                as Box<dyn Session>)
        })
    }

    fn commands(&self) -> BTreeMap<String, u64> {
        let mut commands = self.client.metrics().commands;
        for (name, count) in self.driver.commands() {
            *commands.entry(name).or_default() += count;
        }
        commands
    }

    fn settle(&self) -> BoxFuture<'_, Result<(), BenchError>> {
        Box::pin(async move {
            match self.client.flush(FLUSH_LIMIT).await {
                true => Ok(()),
                false => {
                    Err(BenchError::Failed(format!("committed transactions were not finished within {FLUSH_LIMIT:?}")))
                }
            }
        })
    }

    fn leftovers<'a>(&'a self, collections: &'a [&'a str]) -> BoxFuture<'a, Result<Option<String>, BenchError>> {
        Box::pin(async move { locked_document(&self.db(), collections).await })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), BenchError>> {
        Box::pin(async move {
            self.client.shutdown().await?;
            self.driver.client.shutdown().await;
            Ok(())
        })
    }
}

/// Looks for a document with anything of a transaction in its stored form, and names it.
pub(super) async fn locked_document(
    stored: &mongodb::Database,
    collections: &[&str],
) -> Result<Option<String>, BenchError> {
    let any: Vec<Document> = RESERVED.iter().map(|field| doc! {*field: {"$exists": true}}).collect();
    for name in collections {
        let left = stored.collection::<Document>(name).find_one(doc! {"$or": &any}).await?;
        if let Some(id) = left.as_ref().and_then(|left| left.get("_id")) {
            return Ok(Some(format!("the document {id} of {name} is still locked")));
        }
    }
    Ok(None)
}

fn transaction_options(connection: &Connection, concerns: Concerns) -> Result<TransactionOptions, BenchError> {
    Ok(TransactionOptions {
        isolation: Some(library_isolation(connection.isolation)),
        concern: concerns.of(connection.durability)?,
        lock_wait: Duration::from_millis(connection.lock_wait_ms),
        ..TransactionOptions::default()
    })
}

fn library_isolation(isolation: Isolation) -> ::mongotx::Isolation {
    match isolation {
        Isolation::ReadCommitted => ::mongotx::Isolation::ReadCommitted,
        Isolation::RepeatableRead => ::mongotx::Isolation::RepeatableRead,
        Isolation::Snapshot => ::mongotx::Isolation::Snapshot,
        Isolation::Serializable => ::mongotx::Isolation::Serializable,
    }
}

/// The connection string with a pool that has a connection for every session, unless it says
/// otherwise.
pub(super) fn with_pool(uri: &str, sessions: u32) -> String {
    let option = format!("maxPoolSize={}", sessions.max(10));
    match uri.to_ascii_lowercase() {
        lower if lower.contains("maxpoolsize=") => uri.to_owned(),
        lower if lower.contains('?') => format!("{uri}&{option}"),
        lower if lower.split_once("://").is_some_and(|(_, hosts)| hosts.contains('/')) => format!("{uri}?{option}"),
        _ => format!("{uri}/?{option}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_is_added_where_options_go() {
        assert_eq!(with_pool("mongodb://h:1", 32), "mongodb://h:1/?maxPoolSize=32");
        assert_eq!(with_pool("mongodb://h:1/", 32), "mongodb://h:1/?maxPoolSize=32");
        assert_eq!(with_pool("mongodb://h:1/?replicaSet=rs0", 2), "mongodb://h:1/?replicaSet=rs0&maxPoolSize=10");
        assert_eq!(with_pool("mongodb://h:1/?maxpoolsize=5", 9), "mongodb://h:1/?maxpoolsize=5");
    }

    const PUBLISHED_ON_3: Concerns = Concerns { traits: &PUBLISHED.traits, reach: Reach::PrimaryOf(3) };

    #[test]
    fn a_durability_that_the_library_does_not_have_is_refused_with_the_option_and_what_is_possible() {
        for entry in [&CLIENT_RECORD, &PUBLISHED] {
            for nodes in [1, 2] {
                let durability = Durability { nodes: Acknowledged::Nodes(nodes), journaled: false };
                let refused = Concerns { traits: &entry.traits, reach: Reach::AsAsked }.of(durability);
                let Err(BenchError::Refused(said)) = refused else { panic!("{refused:?}") };
                let possible = format!("{{w: {nodes}, j: true}} can");
                for word in [entry.traits.name, &durability.to_string(), &possible, "--journal", "--tx-write-concern"] {
                    assert!(said.contains(word), "{word}: {said}");
                }
            }
        }
    }

    #[test]
    fn a_decision_on_one_node_is_not_taken_for_one_on_several() {
        let majority = Durability::default();
        for reach in [Reach::AsAsked, Reach::PrimaryOf(1)] {
            assert!(Concerns { reach, ..PUBLISHED_ON_3 }.of(majority).is_ok());
        }
        let refused = PUBLISHED_ON_3.of(majority).map_err(|error| error.to_string());
        assert!(refused.is_err_and(|said| said.contains("mongotx-published") && said.contains("--write-concern 1")));
        let one = Durability { nodes: Acknowledged::Nodes(1), journaled: true };
        assert!(PUBLISHED_ON_3.of(one).is_ok());
    }
}
