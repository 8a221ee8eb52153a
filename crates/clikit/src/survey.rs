//! Looking at locked documents as they are stored, and judging their transactions, without changing
//! anything.
//!
//! The library's own reads repair what they meet and end clients whose lease is over; these do not.

use std::collections::{BTreeMap, BTreeSet};

use bson::{Bson, Document, RawDocumentBuf, doc};
use futures_util::TryStreamExt;
use mongotx::{Client, ClientId, ClientInfo, Namespace, TxId};
use protocol::{ClientRecord, LockState, TxStatus, status::status_of};
use sd2v::{
    names::{INSERT, READERS, REMOVE, RESERVED, SLOT, UNSAFE, WRITER, tx_id_from_bson},
    stored::{lock_state, types_only},
};

use crate::{failure::Failure, say};

/// Databases that hold no data of applications.
const INTERNAL: [&str; 3] = ["admin", "config", "local"];
/// Number of documents per transaction, and of damaged ones in all, that are named; the others are
/// only counted.
const NAMED: usize = 100;

/// State of a transaction, with the client that has to finish it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Undecided; its client gives signs of life.
    Alive,
    /// Decided; its client is alive and cleans up behind it.
    Finishing(Decision),
    /// Decided, and its client is gone: its documents wait for a sweep, or for a transaction that
    /// meets them.
    Left(Decision),
    /// Undecided, and its client is gone: it can only be rolled back.
    Dead,
    /// Finished long ago: a lock of it arrived late and means nothing.
    Orphan,
    /// The client of the transaction has no record: the transaction can only be rolled back.
    NoRecord,
}

/// The two ways a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The writes of the transaction count.
    Committed,
    /// The writes of the transaction are undone.
    RolledBack,
}

impl Standing {
    /// Judges transaction `seq` by the record of its client.
    pub fn judge(client: Option<&ClientInfo>, seq: u64) -> Self {
        let Some(client) = client else { return Self::NoRecord };
        let record = ClientRecord {
            low: client.low,
            committed: client.committed.iter().copied().collect(),
            rolled_back: client.rolled_back.iter().copied().collect(),
            fenced: client.fenced,
            ..ClientRecord::default()
        };
        let gone = client.expired || client.fenced || client.closed;
        let decided = |decision| if gone { Self::Left(decision) } else { Self::Finishing(decision) };
        match status_of(Some(&record), seq) {
            TxStatus::Active if gone => Self::Dead,
            TxStatus::Active => Self::Alive,
            TxStatus::Committed => decided(Decision::Committed),
            TxStatus::RolledBack if client.fenced && !client.rolled_back.contains(&seq) => Self::Dead,
            TxStatus::RolledBack => decided(Decision::RolledBack),
            TxStatus::Finished => Self::Orphan,
        }
    }

    /// Returns true if the transaction's documents stay as they are because no living client
    /// finishes them.
    pub fn is_stuck(self) -> bool {
        !matches!(self, Self::Alive | Self::Finishing(_))
    }

    /// The state as text for people, as in `committed, being finished`.
    pub fn words(self) -> &'static str {
        match self {
            Self::Alive => "alive, undecided",
            Self::Finishing(Decision::Committed) => "committed, being finished",
            Self::Finishing(Decision::RolledBack) => "rolled back, being undone",
            Self::Left(Decision::Committed) => "committed, unfinished: its client is gone",
            Self::Left(Decision::RolledBack) => "rolled back, not undone: its client is gone",
            Self::Dead => "dead: its client is gone, it will be rolled back",
            Self::Orphan => "finished long ago: the lock arrived late",
            Self::NoRecord => "dead: its client has no record, it will be rolled back",
        }
    }
}

/// State of a client, in one word.
pub fn client_state(client: &ClientInfo) -> &'static str {
    match client {
        ClientInfo { closed: true, .. } => "closed",
        ClientInfo { fenced: true, .. } => "fenced",
        ClientInfo { expired: true, .. } => "expired",
        _ => "live",
    }
}

/// The documents that one transaction holds.
#[derive(Clone, Debug, Default)]
pub struct Holding {
    /// Number of documents that it has written.
    pub written: usize,
    /// Number of documents that it has read and keeps others from changing.
    pub read: usize,
    /// Collections in which the transaction holds documents.
    pub namespaces: BTreeSet<Namespace>,
    /// Some of the documents that it holds.
    pub named: Vec<(Namespace, Bson)>,
}

impl Holding {
    /// Numbers of documents, as in `2 written, 1 read`.
    pub fn words(&self) -> String {
        match (self.written, self.read) {
            (written, 0) => format!("{written} written"),
            (0, read) => format!("{read} read"),
            (written, read) => format!("{written} written, {read} read"),
        }
    }

    /// The names of the collections.
    pub fn collections(&self) -> String {
        names(&self.namespaces)
    }
}

/// Collections, in one cell of a table.
pub fn names<'a>(namespaces: impl IntoIterator<Item = &'a Namespace>) -> String {
    let names: Vec<String> = namespaces.into_iter().map(|ns| say::plain(&ns.to_string())).collect();
    names.join(", ")
}

/// A document whose metadata MongoTx would never have written.
#[derive(Clone, Debug)]
pub struct Damaged {
    /// Collection in which the damaged document is stored.
    pub namespace: Namespace,
    /// `_id` of the damaged document.
    pub id: Bson,
    /// Fault of its metadata, in words.
    pub why: String,
    /// The client that it may belong to in spite of the damage.
    pub owner: Option<ClientId>,
}

/// The locked documents of some collections, by transaction.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Documents that each transaction holds.
    pub holdings: BTreeMap<TxId, Holding>,
    /// Damaged documents, as many as a report names.
    pub damaged: Vec<Damaged>,
    /// Number of all damaged documents, those that are not named included.
    pub damaged_count: usize,
}

impl Survey {
    /// Looks at all documents of these collections that carry a reserved field.
    pub async fn of<'a>(
        driver: &mongodb::Client,
        namespaces: impl IntoIterator<Item = &'a Namespace>,
    ) -> Result<Self, Failure> {
        let mut survey = Self::default();
        for ns in namespaces {
            let marked: Vec<Document> = RESERVED.iter().map(|name| doc! {*name: {"$exists": true}}).collect();
            let mut shape = doc! {WRITER: 1, READERS: 1, INSERT: 1, REMOVE: 1};
            shape.extend(types_only());
            // Of bytes: an `_id` may look like Extended JSON, which the driver reads as something
            // else, or not at all.
            let found = driver.database(&ns.db).collection::<RawDocumentBuf>(&ns.coll);
            let mut found = found.find(doc! {"$or": marked}).projection(shape).await?;
            while let Some(stored) = found.try_next().await? {
                survey.note(ns, &Document::try_from(stored).map_err(mongotx::Error::from)?);
            }
        }
        Ok(survey)
    }

    fn note(&mut self, ns: &Namespace, stored: &Document) {
        let id = stored.get("_id").cloned().unwrap_or(Bson::Null);
        match examine(stored) {
            Ok(lock) => self.note_lock(ns, &id, &lock),
            Err(why) => {
                self.damaged_count += 1;
                if self.damaged.len() < NAMED {
                    let owner = stored.get(WRITER).and_then(tx_id_from_bson).map(|writer| writer.client);
                    self.damaged.push(Damaged { namespace: ns.clone(), id, why, owner });
                }
            }
        }
    }

    fn note_lock(&mut self, ns: &Namespace, id: &Bson, lock: &LockState) {
        let writer = lock.writer.iter().map(|writer| (*writer, true));
        let readers = lock.readers.iter().map(|reader| (*reader, false));
        for (holder, writes) in writer.chain(readers) {
            let holding = self.holdings.entry(holder).or_default();
            if writes {
                holding.written += 1;
            } else {
                holding.read += 1;
            }
            holding.namespaces.insert(ns.clone());
            if holding.named.len() < NAMED {
                holding.named.push((ns.clone(), id.clone()));
            }
        }
    }
}

/// The locks of a stored document whose `_unsafe` and `_slot` were replaced by the names of their
/// types, or why they make no sense.
fn examine(stored: &Document) -> Result<LockState, String> {
    let is_there = |name: &&&str| match stored.get(*name) {
        Some(Bson::String(kind)) => kind != "missing",
        value => value.is_some(),
    };
    let ownerless = [SLOT, UNSAFE, INSERT, REMOVE].iter().find(is_there).filter(|_| !stored.contains_key(WRITER));
    lock_state(stored).map_err(|error| match (&error, ownerless) {
        (sd2v::Error::Corrupt { field: WRITER, .. }, Some(field)) => {
            format!("it has {field:?} but no {WRITER:?} to say whose that is")
        }
        (sd2v::Error::Corrupt { field, found, .. }, _) => format!("its {field:?} is malformed: {found}"),
        _ => error.to_string(),
    })
}

/// All collections of all databases, except the server's own and the client records.
pub async fn all_collections(driver: &mongodb::Client, tx_database: &str) -> Result<Vec<Namespace>, Failure> {
    let mut all = Vec::new();
    for db in driver.list_database_names().await? {
        if INTERNAL.contains(&db.as_str()) {
            continue;
        }
        let filter = doc! {"type": "collection"};
        for coll in driver.database(&db).list_collection_names().filter(filter).await? {
            let records = db == tx_database && ["txs", "guards"].contains(&coll.as_str());
            if !coll.starts_with("system.") && !records {
                all.push(Namespace { db: db.clone(), coll });
            }
        }
    }
    all.sort();
    Ok(all)
}

/// The records of some clients, and the faults of those that cannot be read.
#[derive(Default)]
pub struct Clients {
    /// Clients whose records can be read.
    pub known: BTreeMap<ClientId, ClientInfo>,
    /// Faults of the records that cannot be read.
    pub malformed: BTreeMap<ClientId, String>,
}

impl Clients {
    /// Reads the records of these clients.
    pub async fn read(client: &Client, ids: impl IntoIterator<Item = ClientId>) -> Result<Self, Failure> {
        let mut clients = Self::default();
        for id in ids.into_iter().collect::<BTreeSet<_>>() {
            match client.client_info(id).await {
                Ok(Some(info)) => drop(clients.known.insert(id, info)),
                Ok(None) => {}
                Err(error) if error.kind() == mongotx::ErrorKind::Corruption => {
                    clients.malformed.insert(id, error.to_string());
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(clients)
    }

    /// Finds out the state of a transaction.
    pub fn judge(&self, id: TxId) -> Standing {
        Standing::judge(self.known.get(&id.client), id.seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_without_record_is_dead() {
        assert_eq!(Standing::judge(None, 1), Standing::NoRecord);
        assert!(Standing::NoRecord.is_stuck() && !Standing::Alive.is_stuck());
    }

    #[test]
    fn metadata_without_a_writer_is_damage() {
        assert!(examine(&doc! {"_id": 1, UNSAFE: "object"}).is_err());
        assert!(examine(&doc! {"_id": 1, UNSAFE: "missing", INSERT: true}).is_err());
        assert!(examine(&doc! {"_id": 1, UNSAFE: "missing", WRITER: 5}).is_err());
        assert!(examine(&doc! {"_id": 1, UNSAFE: "missing", SLOT: "missing", READERS: []}).is_err());
        assert!(examine(&doc! {"_id": 1, UNSAFE: "missing", SLOT: "missing"}).is_ok());
        assert!(examine(&doc! {"_id": 1, UNSAFE: "missing", SLOT: "object"}).is_err());
    }
}
