//! DTranx: a distributed key-value store without MongoDB. A document is a value, and its key is the
//! collection with the `_id`; so documents are found by their `_id` alone, one or a range of them.
//!
//! An update reads the document, changes it here and puts it back: nothing is locked before the
//! commit, which is refused if anything that was read has changed. Transactions are serializable,
//! and a commit is in the log on the disk of every server that it concerns. Reads of many documents
//! outside a transaction are snapshots.

mod filter;
mod key;
mod session;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bson::Document;
use dtranx::client::{AsyncClient, ClientOptions, Error};
use futures_util::future::BoxFuture;

use self::session::DtranxSession;
use super::{Connection, Feature, Index, Isolation, Session, Target, Traits, entry::Entry};
use crate::error::BenchError;

/// Beginning of a connection string; addresses follow, with commas between them.
pub const SCHEME: &str = "dtranx://";

const NAME: &str = "dtranx";
/// Limits of one transaction of a load.
const BATCH_ITEMS: usize = 500;
const BATCH_BYTES: usize = 2 << 20;
/// Attempts of one of these, and the pause between them.
const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(50);

/// The entry of the target.
pub static ENTRY: Entry = Entry {
    traits: Traits {
        name: NAME,
        about: "DTranx, a distributed key-value store: a document is a value, its _id the key",
        transactional: true,
        needs_replica_set: false,
        on_dtranx: true,
        isolations: &[Isolation::Serializable],
        waits: false,
        commit_waits: true,
        unjournaled: false,
        features: &[Feature::General, Feature::Insert, Feature::Range, Feature::OwnWrites],
    },
    connect: |connection| Box::pin(async { Ok(Box::new(Dtranx::connect(connection).await?) as Box<dyn Target>) }),
};

/// Requests that were sent, by name.
#[derive(Clone, Default)]
struct Requests {
    counts: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl Requests {
    fn count(&self, name: &str) {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner).entry(name.to_owned()).or_default() += 1;
    }
}

struct Dtranx {
    client: AsyncClient,
    requests: Requests,
    db: String,
}

impl Dtranx {
    async fn connect(connection: Connection) -> Result<Self, BenchError> {
        ENTRY.traits.check_durability(connection.durability)?;
        ENTRY.traits.check_isolation(connection.isolation)?;
        let client = connect(&connection.uri).await?;
        Ok(Self { client, requests: Requests::default(), db: connection.db })
    }

    async fn write(&self, batch: Vec<(Vec<u8>, Option<Vec<u8>>)>) -> Result<(), BenchError> {
        self.requests.count("commit");
        write(&self.client, &batch).await
    }
}

/// A client of the servers that a connection string names.
///
/// # Errors
/// [`BenchError::Refused`] for a string that names no servers, [`BenchError::Failed`] if none
/// answers.
pub async fn connect(uri: &str) -> Result<AsyncClient, BenchError> {
    let wrong = || BenchError::Refused(format!("{uri:?} is no address of DTranx: {SCHEME}HOST:PORT,... is expected"));
    let addresses = uri.strip_prefix(SCHEME).ok_or_else(wrong)?.split(',').map(str::parse::<SocketAddr>);
    let addresses: Vec<SocketAddr> = addresses.collect::<Result<_, _>>().map_err(|_| wrong())?;
    AsyncClient::connect(&addresses, ClientOptions::default()).await.map_err(failed)
}

/// Beginning of the keys of a database.
pub fn prefix(db: &str) -> Vec<u8> {
    key::of_database(db)
}

/// Writes items, or deletes those without a value, in one transaction.
///
/// # Errors
/// [`BenchError::Failed`].
pub(crate) async fn write(client: &AsyncClient, items: &[(Vec<u8>, Option<Vec<u8>>)]) -> Result<(), BenchError> {
    for _ in 0..ATTEMPTS {
        let mut tranx = client.begin();
        for (key, value) in items {
            match value {
                Some(value) => tranx.put(key.clone(), value.clone()),
                None => tranx.delete(key.clone()),
            }
            .map_err(failed)?;
        }
        match tranx.commit().await {
            Ok(_) => return Ok(()),
            Err(Error::Refused(_)) => tokio::time::sleep(PAUSE).await,
            Err(error) => return Err(failed(error)),
        }
    }
    Err(failed(format!("a load was refused {ATTEMPTS} times")))
}

fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::Failed(format!("{NAME}: {error}"))
}

impl Target for Dtranx {
    /// A collection is there once it has documents. Indexes that need not be unique are none here:
    /// what would need them is refused.
    fn create<'a>(&'a self, collection: &'a str, indexes: &'a [Index]) -> BoxFuture<'a, Result<(), BenchError>> {
        Box::pin(async move {
            if indexes.iter().any(|index| index.unique) {
                let reason = format!("{NAME} cannot {}, which {collection} needs", Feature::UniqueIndex);
                return Err(BenchError::Refused(reason));
            }
            Ok(())
        })
    }

    fn load<'a>(&'a self, collection: &'a str, documents: Vec<Document>) -> BoxFuture<'a, Result<(), BenchError>> {
        Box::pin(async move {
            let items = documents.iter().map(|document| {
                let key = key::of_document(&self.db, collection, document)?;
                Ok::<_, BenchError>((key, Some(document.to_vec().map_err(failed)?)))
            });
            let (mut batch, mut bytes) = (Vec::new(), 0);
            for item in items {
                let (key, value): (Vec<u8>, Option<Vec<u8>>) = item?;
                bytes += key.len() + value.as_ref().map_or(0, Vec::len);
                batch.push((key, value));
                if batch.len() >= BATCH_ITEMS || bytes >= BATCH_BYTES {
                    self.write(std::mem::take(&mut batch)).await?;
                    bytes = 0;
                }
            }
            self.write(batch).await
        })
    }

    fn session(&self) -> BoxFuture<'_, Result<Box<dyn Session>, BenchError>> {
        Box::pin(async move {
            let session = DtranxSession::new(self.client.clone(), self.db.clone(), self.requests.clone());
            Ok(Box::new(session) as Box<dyn Session>)
        })
    }

    fn commands(&self) -> BTreeMap<String, u64> {
        self.requests.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn settle(&self) -> BoxFuture<'_, Result<(), BenchError>> {
        Box::pin(async move { Ok(()) })
    }

    /// Locks are in the servers' memory, and no document has a mark of a transaction.
    fn leftovers<'a>(&'a self, _collections: &'a [&'a str]) -> BoxFuture<'a, Result<Option<String>, BenchError>> {
        Box::pin(async move { Ok(None) })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), BenchError>> {
        Box::pin(async move { Ok(()) })
    }
}
