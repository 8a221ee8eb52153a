//! A storage on a disk: an LSM tree (fjall) behind the cache. Why not LevelDB:
//! docs/decisions/0030-fjall-for-leveldb.md.
//!
//! A stored item is the version (server: 2 bytes, number: 8 bytes, little-endian) and then the
//! value. No delimiter: the paper's `#` may occur in a value.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::cache::Cache;
use super::remains::{ABOUT, ITEMS};
use super::{Found, Gather, Result, ScanLimit, Storage, StorageError};
use crate::core::{Item, Key, KeyRange, ServerId, StoreId, TranxId, Value, Write};
use crate::folders;

const FORMAT_VERSION: u16 = 2;
const STORE: &str = "store";
const FORMAT_FIELD: &str = "format version";
const SERVER_FIELD: &str = "server";
const VERSION_BYTES: usize = 10;

/// Sizes of a storage, in bytes, and whose it is.
#[derive(Clone, Copy, Debug)]
pub struct LsmOptions {
    /// Size of the cache of items, in bytes; 0: there is none.
    pub item_cache_bytes: u64,
    /// Size of the engine's own cache of blocks, in bytes.
    pub block_cache_bytes: u64,
    /// Number of files that it keeps open, at least 10.
    pub open_files: usize,
    /// The store that it belongs to.
    pub store: StoreId,
    /// True if the storage must be there. Otherwise one that is missing is made.
    pub must_exist: bool,
}

impl Default for LsmOptions {
    fn default() -> Self {
        let (store, must_exist) = (StoreId::default(), false);
        Self { item_cache_bytes: 64 << 20, block_cache_bytes: 32 << 20, open_files: 900, store, must_exist }
    }
}

/// A storage on a disk.
pub struct Lsm {
    folder: String,
    database: Database,
    items: Keyspace,
    cache: Cache,
}

impl Lsm {
    /// Opens the storage of `server` in a folder, creating it if need be and the options allow.
    ///
    /// # Errors
    /// The folder belongs to another server or store or has another format, or is not there and
    /// must be; the engine fails.
    pub fn open(folder: &Path, server: ServerId, options: LsmOptions) -> Result<Self> {
        let shown = folder.display().to_string();
        let lost = || StorageError::Lost { folder: folder.display().to_string() };
        if options.must_exist && !folder.exists() {
            return Err(lost());
        }
        let failed = |error| engine(&shown, "open its files", &error);
        // Journal writes may wait for each other: `persist` says when they must be on the disk.
        let builder = Database::builder(folder).cache_size(options.block_cache_bytes).manual_journal_persist(true);
        let database = builder.max_cached_files(Some(options.open_files.max(10))).open().map_err(failed)?;
        let keyspace = |name| database.keyspace(name, KeyspaceCreateOptions::default).map_err(failed);
        let about = keyspace(ABOUT)?;
        if options.must_exist && !about.contains_key(STORE).map_err(failed)? {
            return Err(lost());
        }
        agree(&about, &shown, FORMAT_FIELD, FORMAT_VERSION)?;
        agree(&about, &shown, SERVER_FIELD, server.0)?;
        belong(&about, &shown, options.store)?;
        let items = keyspace(ITEMS)?;
        database.persist(PersistMode::SyncAll).map_err(|error| engine(&shown, "sync", &error))?;
        folders::sync_above(folder).map_err(|error| StorageError::Engine {
            folder: shown.clone(),
            action: "sync the folder above it",
            message: error.to_string(),
        })?;
        Ok(Self { folder: shown, database, items, cache: Cache::new(options.item_cache_bytes) })
    }

    fn failed(&self, action: &'static str, error: &fjall::Error) -> StorageError {
        engine(&self.folder, action, error)
    }

    fn read(&self, key: &Key) -> Result<Option<Item>> {
        let stored = self.items.get(stored_key(key)).map_err(|error| self.failed("read", &error))?;
        stored.map(|stored| decode(key, &stored)).transpose()
    }
}

impl Storage for Lsm {
    fn get(&self, key: &Key) -> Result<Option<Item>> {
        self.cache.get(key, || self.read(key))
    }

    fn cached(&self, key: &Key) -> Option<Option<Item>> {
        self.cache.find(key)
    }

    fn scan(&self, range: &KeyRange, limit: ScanLimit) -> Result<Found> {
        let mut found = Gather::new(limit);
        let Some((start, end)) = range.bounds() else { return Ok(found.complete()) };
        for entry in self.items.range((start.map(stored_key), end.map(stored_key))) {
            let (key, stored) = entry.into_inner().map_err(|error| self.failed("scan", &error))?;
            let (key, item) = stored_item(&key, &stored)?;
            if !found.push(key, item) {
                return Ok(found.cut_off());
            }
        }
        Ok(found.complete())
    }

    fn apply(&self, commits: &[(TranxId, Vec<Write>)]) -> Result<()> {
        let each = || commits.iter().flat_map(|(version, writes)| writes.iter().map(|write| (*version, write)));
        let mut batch = self.database.batch();
        for (version, write) in each() {
            match &write.value {
                Some(value) => batch.insert(&self.items, stored_key(&write.key), encode(version, value)),
                None => batch.remove(&self.items, stored_key(&write.key)),
            }
        }
        batch.commit().map_err(|error| self.failed("write", &error))?;
        for (version, write) in each() {
            let item = write.value.clone().map(|value| Item { value, version });
            self.cache.put(write.key.clone(), item);
        }
        Ok(())
    }

    fn persist(&self) -> Result<()> {
        self.database.persist(PersistMode::SyncData).map_err(|error| self.failed("sync", &error))
    }
}

/// The engine takes no empty keys; ours may be empty.
const KEY_MARK: u8 = b'k';

/// Key under which the engine has an item.
pub(crate) fn stored_key(key: &Key) -> Vec<u8> {
    let mut stored = Vec::with_capacity(1 + key.as_bytes().len());
    stored.push(KEY_MARK);
    stored.extend_from_slice(key.as_bytes());
    stored
}

fn encode(version: TranxId, value: &Value) -> Vec<u8> {
    let mut stored = Vec::with_capacity(VERSION_BYTES + value.as_bytes().len());
    stored.extend_from_slice(&version.server.0.to_le_bytes());
    stored.extend_from_slice(&version.number.to_le_bytes());
    stored.extend_from_slice(value.as_bytes());
    stored
}

/// The item in what the engine has, and its key.
pub(crate) fn stored_item(key: &[u8], stored: &[u8]) -> Result<(Key, Item)> {
    let damaged = |what: String| StorageError::Damaged { key: key.to_vec(), what };
    let bare = key.strip_prefix(&[KEY_MARK]).ok_or_else(|| damaged("it is no key of ours".to_owned()))?;
    let key = Key::new(Bytes::copy_from_slice(bare)).map_err(|error| damaged(error.to_string()))?;
    let item = decode(&key, stored)?;
    Ok((key, item))
}

fn decode(key: &Key, stored: &[u8]) -> Result<Item> {
    let damaged = |what: String| StorageError::Damaged { key: key.as_bytes().to_vec(), what };
    let parts =
        stored.split_first_chunk::<2>().and_then(|(server, rest)| Some((server, rest.split_first_chunk::<8>()?)));
    let Some((server, (number, value))) = parts else {
        return Err(damaged(format!("{} bytes have no room for a version", stored.len())));
    };
    let version = TranxId { server: ServerId(u16::from_le_bytes(*server)), number: u64::from_le_bytes(*number) };
    let value = Value::new(Bytes::copy_from_slice(value)).map_err(|error| damaged(error.to_string()))?;
    Ok(Item { value, version })
}

/// Checks a number that the folder was made with: it is written the first time, and compared ever
/// after.
fn agree(about: &Keyspace, folder: &str, field: &'static str, expected: u16) -> Result<()> {
    match about.get(field).map_err(|error| engine(folder, "read", &error))? {
        None => about.insert(field, expected.to_le_bytes()).map_err(|error| engine(folder, "write", &error)),
        Some(found) => {
            let found = found.first_chunk::<2>().map_or(u16::MAX, |found| u16::from_le_bytes(*found));
            if found == expected {
                return Ok(());
            }
            Err(StorageError::Foreign { folder: folder.to_owned(), field, found, expected })
        }
    }
}

/// The store that the folder was made for.
fn belong(about: &Keyspace, folder: &str, expected: StoreId) -> Result<()> {
    match about.get(STORE).map_err(|error| engine(folder, "read", &error))? {
        None => about.insert(STORE, expected.0).map_err(|error| engine(folder, "write", &error)),
        Some(found) if *found == expected.0 => Ok(()),
        Some(found) => {
            let found = found.first_chunk().map_or_else(StoreId::default, |id| StoreId(*id));
            Err(StorageError::OtherStore { folder: folder.to_owned(), found, expected })
        }
    }
}

/// Reason why items do not count as a server's.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum OwnerMismatch {
    /// The items are another store's, server's or format's.
    Others(String),
    /// The items do not say any more to which store and server they belong.
    Lost(String),
}

/// Compares what a storage says about itself with what it should be, without its engine; `store` is
/// `None` if that is not known.
pub(crate) fn belongs(
    about: &BTreeMap<Vec<u8>, Vec<u8>>,
    server: ServerId,
    store: Option<StoreId>,
) -> Result<(), OwnerMismatch> {
    let numbers = [(FORMAT_FIELD, FORMAT_VERSION), (SERVER_FIELD, server.0)];
    for (field, expected) in numbers {
        match about.get(field.as_bytes()).map(|found| found.first_chunk().map(|found| u16::from_le_bytes(*found))) {
            Some(Some(found)) if found == expected => {}
            Some(Some(found)) => {
                return Err(OwnerMismatch::Others(format!("the items have {field} {found}, not {expected}")));
            }
            _ => return Err(OwnerMismatch::Lost(format!("the {field} of the items is lost"))),
        }
    }
    match (about.get(STORE.as_bytes()).map(|found| found.first_chunk().map(|id| StoreId(*id))), store) {
        (Some(Some(found)), Some(expected)) if found != expected => {
            Err(OwnerMismatch::Others(format!("the items belong to the store {found}, not to the store {expected}")))
        }
        (Some(Some(_)), _) => Ok(()),
        _ => Err(OwnerMismatch::Lost("the store of the items is lost".to_owned())),
    }
}

fn engine(folder: &str, action: &'static str, error: &fjall::Error) -> StorageError {
    let message = match error {
        // The engine does not say why any more: mostly for want of room.
        fjall::Error::Poisoned => format!("an earlier write in the background failed; {}", free(folder)),
        error => error.to_string(),
    };
    StorageError::Engine { folder: folder.to_owned(), action, message }
}

/// The room that is left on a folder's disk, in words.
fn free(folder: &str) -> String {
    match rustix::fs::statvfs(folder) {
        Ok(disk) => format!("{} bytes are free there", disk.f_bavail.saturating_mul(disk.f_frsize)),
        Err(error) => format!("its disk cannot be looked at: {error}"),
    }
}
