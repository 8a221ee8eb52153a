//! The records of retryable writes of all sessions, in the database of the client records: see
//! [`super::record`] for what one says.

use std::time::Duration;

use bson::{Document, doc};
use mongotx::{Client, Collection, ErrorKind, IndexModel, Session, UpdateResult};
use tokio::sync::OnceCell;

use super::{
    Lsid,
    record::{Record, id_of},
};
use crate::failure::{Answer, Failure};

/// The collection of the records.
const COLLECTION: &str = "writes";

/// Collection in which gateways describe their open transactions (`activity_record`).
pub(crate) const ACTIVITY: &str = "activity";

/// The records, and what a gateway knows of their collection.
pub(crate) struct Records {
    collection: Collection<Document>,
    /// Time after which a record that is not replaced is removed.
    timeout: Duration,
    /// True if the server removes old records by itself; empty until that is known.
    expire: OnceCell<bool>,
}

impl Records {
    /// `database`: that of the client records.
    pub(crate) fn new(client: &Client, database: &str, timeout: Duration) -> Self {
        Self { collection: client.database(database).collection(COLLECTION), timeout, expire: OnceCell::new() }
    }

    /// Full name of their collection.
    pub(crate) fn name(&self) -> String {
        self.collection.namespace().to_string()
    }

    /// Makes the index by which the server removes records of sessions that are no longer used, if
    /// it can. Runs once per gateway.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub(crate) async fn prepare(&self) -> Answer<()> {
        let expire = async || {
            let index = IndexModel::new(doc! {"at": 1}).expire_after(self.timeout);
            match self.collection.create_index(index).await {
                Ok(_) => Ok(true),
                Err(error) if error.kind() == ErrorKind::Unavailable => Err(Failure::from(error)),
                // Another gateway has made one with another time.
                Err(error) if error.code() == Some(85) => Ok(true),
                Err(error) => {
                    tracing::warn!(%error, "the server removes no old records of writes; the gateway does");
                    Ok(false)
                }
            }
        };
        self.expire.get_or_try_init(expire).await.map(drop)
    }

    /// The session's record.
    ///
    /// # Errors
    /// If the server cannot be reached; code 1 for a record that no gateway has stored.
    pub(crate) async fn read(&self, lsid: &Lsid) -> Answer<Record> {
        let found = self.collection.find_one(doc! {"_id": id_of(lsid)}).await?;
        found.map_or_else(|| Ok(Record::default()), |stored| Record::decode(&stored))
    }

    /// Replaces the record in a transaction if it is still `before`. Nothing is matched or inserted
    /// where it is not.
    ///
    /// # Errors
    /// The library's; 11000 where another gateway has made the session's first record meanwhile.
    pub(crate) async fn replace(
        &self,
        lsid: &Lsid,
        before: &Record,
        update: Document,
        session: &mut Session,
    ) -> mongotx::Result<UpdateResult> {
        self.collection.update_one(before.filter(lsid), update).upsert(before.number.is_none()).session(session).await
    }

    /// Removes the records of sessions that were not used for their time, where the server does
    /// not.
    pub(crate) async fn sweep(&self) {
        if self.expire.get() != Some(&false) {
            return;
        }
        let old = i64::try_from(self.timeout.as_millis()).unwrap_or(i64::MAX);
        let filter = doc! {"$expr": {"$lt": ["$at", {"$subtract": ["$$NOW", old]}]}};
        if let Err(error) = self.collection.delete_many(filter).await {
            tracing::warn!(%error, "old records of writes could not be removed; the next look will try again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::members;

    #[test]
    fn the_library_knows_the_collections_of_gateways() {
        for name in [COLLECTION, ACTIVITY, members::COLLECTION] {
            assert!(mongotx::is_own_collection(name), "{name}");
        }
    }
}
