//! Keeps what was read of a damaged server until the new file is written: on a disk, because it may
//! be larger than the memory.
//!
//! A storage of the engine in a folder of its own, with a part for each kind of content: committed
//! writes, transactions that are ready, items. It decides nothing: which item counts is decided in
//! `sort.rs`. The folder is removed with the value.

use std::cell::Cell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fjall::{Database, Keyspace, KeyspaceCreateOptions};

use crate::core::{Key, Record, ServerId, TranxId, Value, Write};
use crate::storage::remains::Entry;

/// Memory that may be filled before it is written to the disk, in bytes.
const MEMORY_BYTES: u64 = 32 << 20;
/// Size of the engine's cache of blocks, in bytes.
const CACHE_BYTES: u64 = 32 << 20;
const ABSENT: u8 = 0;
const PRESENT: u8 = 1;
const NUMBER_BYTES: usize = 8;

/// State of a key after a commit that the log has.
pub(super) struct Written {
    /// Value that was put; `None`: the key was deleted.
    pub(super) value: Option<Value>,
}

/// Purposes that the items are good for. Numbers of transactions begin anew in each store, so that
/// those of another one prove nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// The items give values, and prove what is committed.
    Proofs,
    /// The items give values only: it is not known whose they are.
    Values,
    /// The items give nothing: they are another store's.
    None,
}

/// A folder with everything that was read.
pub(super) struct Scratch {
    /// The last commit of each key that the log has.
    log: Part,
    /// Transactions that the log shows to be committed.
    commits: Part,
    /// Records `Ready` without an outcome, by transaction.
    ready: Part,
    /// Transactions and keys of records behind a gap.
    behind: Part,
    newer: Part,
    /// The entry with the highest number, of each key.
    items: Part,
    use_of_items: Cell<Use>,
    about: Part,
    /// Keys that are not sure because a transaction in doubt may have written them.
    held: Part,
    uncertain: Part,
    /// Database in the folder; it is dropped before the folder is removed.
    database: Option<Database>,
    folder: PathBuf,
}

/// Part of the database whose keys begin with the same byte.
struct Part {
    all: Keyspace,
    tag: u8,
}

impl Part {
    fn tagged(&self, key: &[u8]) -> Vec<u8> {
        [&[self.tag], key].concat()
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.all.insert(self.tagged(key), value).map_err(failed)
    }

    fn get(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        Ok(self.all.get(self.tagged(key)).map_err(failed)?.map(|value| value.to_vec()))
    }

    fn has(&self, key: &[u8]) -> io::Result<bool> {
        self.all.contains_key(self.tagged(key)).map_err(failed)
    }

    fn remove(&self, key: &[u8]) -> io::Result<()> {
        self.all.remove(self.tagged(key)).map_err(failed)
    }

    /// Returns keys and values in the order of the keys, as they are when this is called.
    fn iter(&self) -> impl Iterator<Item = io::Result<(Vec<u8>, Vec<u8>)>> + use<> {
        self.all.prefix([self.tag]).map(|entry| {
            let (key, value) = entry.into_inner().map_err(failed)?;
            Ok((key.get(1..).unwrap_or_default().to_vec(), value.to_vec()))
        })
    }
}

impl Scratch {
    /// Makes the folder, which must not be there.
    pub(super) fn make(folder: &Path) -> io::Result<Self> {
        fs::create_dir(folder)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", folder.display())))?;
        let opened = Database::builder(folder).cache_size(CACHE_BYTES).manual_journal_persist(true).open();
        let database = opened.map_err(failed)?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(MEMORY_BYTES);
        let all = database.keyspace("all", options).map_err(failed)?;
        let part = |tag| Part { all: all.clone(), tag };
        Ok(Self {
            log: part(b'l'),
            commits: part(b'c'),
            ready: part(b'r'),
            behind: part(b'b'),
            newer: part(b'n'),
            items: part(b'i'),
            use_of_items: Cell::new(Use::Proofs),
            about: part(b'a'),
            held: part(b'h'),
            uncertain: part(b'u'),
            database: Some(database),
            folder: folder.to_owned(),
        })
    }

    /// Notes that a transaction is committed, and what it writes.
    pub(super) fn commit(&self, tranx: TranxId, writes: &[Write]) -> io::Result<()> {
        self.commits.insert(&id(tranx), &[])?;
        for write in writes {
            let mut bytes = vec![if write.value.is_some() { PRESENT } else { ABSENT }];
            bytes.extend(write.value.iter().flat_map(|value| value.as_bytes()));
            self.log.insert(write.key.as_bytes(), &bytes)?;
        }
        Ok(())
    }

    pub(super) fn is_committed(&self, tranx: TranxId) -> io::Result<bool> {
        self.commits.has(&id(tranx))
    }

    /// Returns the last commit of a key that the log has.
    pub(super) fn in_log(&self, key: &Key) -> io::Result<Option<Written>> {
        self.log.get(key.as_bytes())?.map(|bytes| written(&bytes)).transpose()
    }

    /// Returns the keys that the log has, in order.
    pub(super) fn log(&self) -> impl Iterator<Item = io::Result<(Key, Written)>> {
        self.log.iter().map(|entry| {
            let (key, bytes) = entry?;
            Ok((key_of(key)?, written(&bytes)?))
        })
    }

    /// Keeps a record `Ready` until its outcome is read.
    pub(super) fn put_ready(&self, tranx: TranxId, record: &[u8]) -> io::Result<()> {
        self.ready.insert(&id(tranx), record)
    }

    /// Takes a record `Ready`, if there is one: its writes.
    pub(super) fn take_ready(&self, tranx: TranxId) -> io::Result<Option<Vec<Write>>> {
        let Some(record) = self.ready.get(&id(tranx))? else { return Ok(None) };
        self.ready.remove(&id(tranx))?;
        writes(&record).map(Some)
    }

    pub(super) fn is_ready(&self, tranx: TranxId) -> io::Result<bool> {
        self.ready.has(&id(tranx))
    }

    /// Returns the transactions without an outcome, and their writes.
    pub(super) fn ready(&self) -> impl Iterator<Item = io::Result<(TranxId, Vec<Write>)>> {
        self.ready.iter().map(|entry| {
            let (key, record) = entry?;
            Ok((tranx(&key)?, writes(&record)?))
        })
    }

    /// Notes a transaction behind a gap, and the keys that it writes.
    pub(super) fn note_behind(&self, tranx: TranxId, writes: &[Write]) -> io::Result<()> {
        self.behind.insert(&id(tranx), &[])?;
        writes.iter().try_for_each(|write| self.newer.insert(write.key.as_bytes(), &[]))
    }

    pub(super) fn is_behind(&self, tranx: TranxId) -> io::Result<bool> {
        self.behind.has(&id(tranx))
    }

    /// Returns the keys of which records behind a gap have versions.
    pub(super) fn newer(&self) -> impl Iterator<Item = io::Result<Key>> {
        self.newer.iter().map(|entry| key_of(entry?.0))
    }

    /// Notes an entry of the items, unless a newer one of its key is known.
    pub(super) fn note_item(&self, entry: Entry<'_>) -> io::Result<()> {
        note(&self.items, entry)
    }

    pub(super) fn note_about(&self, entry: Entry<'_>) -> io::Result<()> {
        note(&self.about, entry)
    }

    /// Returns the names and values that the storage states about itself.
    pub(super) fn about(&self) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let found = self.about.iter().map(|entry| {
            let (key, bytes) = entry?;
            Ok(stored(&bytes)?.map(|value| (key, value.to_vec())))
        });
        found.filter_map(io::Result::transpose).collect()
    }

    pub(super) fn use_items(&self, for_what: Use) {
        self.use_of_items.set(for_what);
    }

    /// Returns true if an item proves that its transaction is committed.
    pub(super) fn are_items_proofs(&self) -> bool {
        self.use_of_items.get() == Use::Proofs
    }

    /// Returns the stored items, in the order of their stored keys, without those that are deleted.
    pub(super) fn items(&self) -> impl Iterator<Item = io::Result<(Vec<u8>, Vec<u8>)>> {
        let items = (self.use_of_items.get() != Use::None).then(|| self.items.iter());
        let found = items.into_iter().flatten().map(|entry| {
            let (key, bytes) = entry?;
            Ok(stored(&bytes)?.map(|value| (key, value.to_vec())))
        });
        found.filter_map(io::Result::transpose)
    }

    /// Returns the stored item of a stored key, if items prove something.
    pub(super) fn item(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        if !self.are_items_proofs() {
            return Ok(None);
        }
        let found = self.items.get(key)?;
        found.map_or(Ok(None), |bytes| Ok(stored(&bytes)?.map(<[u8]>::to_vec)))
    }

    pub(super) fn hold(&self, key: &Key) -> io::Result<()> {
        self.held.insert(key.as_bytes(), &[])
    }

    pub(super) fn is_held(&self, key: &Key) -> io::Result<bool> {
        self.held.has(key.as_bytes())
    }

    pub(super) fn put_uncertain(&self, key: &Key, value: &Value) -> io::Result<()> {
        self.uncertain.insert(key.as_bytes(), value.as_bytes())
    }

    pub(super) fn uncertain(&self) -> impl Iterator<Item = io::Result<(Key, Value)>> {
        self.uncertain.iter().map(|entry| {
            let (key, value) = entry?;
            Ok((key_of(key)?, Value::new(value).map_err(io::Error::other)?))
        })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(self.database.take());
        // The engine may still close files; what stays is in the way of nothing but its name.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn failed(error: fjall::Error) -> io::Error {
    io::Error::other(error)
}

fn key_of(bytes: Vec<u8>) -> io::Result<Key> {
    Key::new(bytes).map_err(io::Error::other)
}

/// Spells a transaction in ten bytes that sort as it does.
fn id(tranx: TranxId) -> [u8; 10] {
    let mut bytes = [0; 10];
    bytes[..2].copy_from_slice(&tranx.server.0.to_be_bytes());
    bytes[2..].copy_from_slice(&tranx.number.to_be_bytes());
    bytes
}

fn tranx(bytes: &[u8]) -> io::Result<TranxId> {
    let parts = bytes.split_first_chunk::<2>().and_then(|(server, rest)| Some((server, rest.first_chunk::<8>()?)));
    let (server, number) = parts.ok_or_else(torn)?;
    Ok(TranxId { server: ServerId(u16::from_be_bytes(*server)), number: u64::from_be_bytes(*number) })
}

fn written(bytes: &[u8]) -> io::Result<Written> {
    let (flag, value) = bytes.split_first().ok_or_else(torn)?;
    let value = (*flag == PRESENT).then(|| Value::new(value.to_vec()).map_err(io::Error::other)).transpose()?;
    Ok(Written { value })
}

fn writes(record: &[u8]) -> io::Result<Vec<Write>> {
    match postcard::from_bytes(record).map_err(io::Error::other)? {
        Record::Ready { writes, .. } => Ok(writes),
        _ => Err(torn()),
    }
}

fn note(part: &Part, entry: Entry<'_>) -> io::Result<()> {
    if let Some(found) = part.get(entry.key)? {
        let number = found.first_chunk::<NUMBER_BYTES>().map(|number| u64::from_be_bytes(*number)).ok_or_else(torn)?;
        if number > entry.number {
            return Ok(());
        }
    }
    let mut bytes = entry.number.to_be_bytes().to_vec();
    bytes.push(if entry.value.is_some() { PRESENT } else { ABSENT });
    bytes.extend_from_slice(entry.value.unwrap_or_default());
    part.insert(entry.key, &bytes)
}

/// Returns the value in a noted entry; `None`: the key is deleted.
fn stored(bytes: &[u8]) -> io::Result<Option<&[u8]>> {
    let (flag, value) = bytes.get(NUMBER_BYTES..).and_then(<[u8]>::split_first).ok_or_else(torn)?;
    Ok((*flag == PRESENT).then_some(value))
}

/// Error for a scratch folder that does not have what was written into it.
fn torn() -> io::Error {
    io::Error::other("it does not have what was written into it")
}
