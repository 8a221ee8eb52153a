//! A cluster's items in a file, as of one moment, and back.
//!
//! The file is a sequence of frames, as on the wire: each with its length and a checksum. The first
//! says what the file is, the last how many items there must be, so that a file that was cut off is
//! noticed. It says nothing about servers: it may be restored into another cluster, with other
//! servers.

mod file;

use std::io::{Read, Write};

use bytes::Bytes;
use thiserror::Error;

use crate::client::{Client, Error as ClientError, Snapshot};
use crate::core::{Key, KeyRange, ServerId, Value};

use file::Reader;
pub(crate) use file::Writer;
pub use file::{BackupError, Mark};

/// Number of items that one request reads.
const PAGE_ITEMS: usize = 2_000;
/// Greatest number of items in one transaction of a restore; then, about its greatest size in
/// bytes.
const BATCH_ITEMS: usize = 500;
const BATCH_BYTES: usize = 2 << 20;

/// Content of a backup, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// Number of items in the backup.
    pub items: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
}

impl Content {
    /// Counts an item.
    pub(crate) fn count(&mut self, key: &Key, value: &Value) {
        self.items += 1;
        self.bytes += (key.as_bytes().len() + value.as_bytes().len()) as u64;
    }
}

/// A backup that was read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Counts of all items and bytes that the file has.
    pub content: Content,
    /// Mark of a file that is no backup of a whole cluster.
    pub mark: Option<Mark>,
    /// Counts of the items and bytes that are uncertain: another value may be newer, or the key may
    /// have been deleted.
    pub uncertain: Content,
}

/// Choice of the items that may be restored, and of the keys that they may replace.
#[derive(Clone, Copy, Debug, Default)]
pub struct RestoreOptions {
    /// Restores into a cluster that has keys: those of the file are replaced, others stay.
    pub replaces: bool,
    /// Restores what was salvaged of one server, too.
    pub salvaged: bool,
    /// Restores uncertain items, too: those that may be older than what was committed.
    pub uncertain: bool,
}

/// Reason why a backup was not made or not restored.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Failure {
    /// The cluster has failed or refused a request.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The file cannot be read or written, or is damaged.
    #[error(transparent)]
    File(#[from] BackupError),
    /// The cluster that is to be restored into has keys.
    #[error("the cluster is not empty: it has the key {key:?}; keys of the backup would be replaced and others stay")]
    NotEmpty {
        /// The first key that the cluster has.
        key: Key,
    },
    /// The file is no backup of a whole cluster.
    #[error("this was salvaged of server {server}: it may be damaged, and has the keys of one server only")]
    Salvaged {
        /// The server whose log and items were salvaged.
        server: ServerId,
    },
}

/// Writes everything that a snapshot has.
///
/// # Errors
/// A server does not answer, or keeps the snapshot no longer; the file cannot be written.
pub fn backup(snapshot: &Snapshot, cluster: &str, file: impl Write) -> Result<Content, Failure> {
    let mut writer = Writer::begin(file, cluster, snapshot.epoch(), None)?;
    let mut rest = Some(KeyRange::all());
    while let Some(range) = rest {
        let found = snapshot.scan(&range, PAGE_ITEMS)?;
        let last = found.items.last().map(|(key, _)| key.clone()).filter(|_| !found.complete);
        for (key, value) in found.items {
            let (key, value) = item(key, value)?;
            writer.add(key, value)?;
        }
        let last = last.map(Key::new).transpose().map_err(ClientError::from)?;
        rest = last.and_then(|last| last.successor()).map(|start| KeyRange { start, end: None });
    }
    Ok(writer.end()?)
}

fn item(key: Bytes, value: Bytes) -> Result<(Key, Value), Failure> {
    let key = Key::new(key).map_err(ClientError::from)?;
    Ok((key, Value::new(value).map_err(ClientError::from)?))
}

/// Checks that a backup is whole, and returns its counted content.
///
/// # Errors
/// The file cannot be read, or is damaged, or was cut off.
pub fn check(file: impl Read) -> Result<Checked, BackupError> {
    let mut reader = Reader::begin(file)?;
    while reader.next()?.is_some() {}
    Ok(Checked { content: reader.content(), mark: reader.mark(), uncertain: reader.uncertain() })
}

/// Gives all items of a backup to `see`, with whether they are uncertain.
///
/// # Errors
/// As for [`check`]; `see` has seen what is before the damage then.
pub fn items(file: impl Read, mut see: impl FnMut(Key, Value, bool)) -> Result<(), BackupError> {
    let mut reader = Reader::begin(file)?;
    while let Some(piece) = reader.next()? {
        piece.items.into_iter().for_each(|(key, value)| see(key, value, piece.is_uncertain));
    }
    Ok(())
}

/// Writes what a backup has into a cluster, a few hundred items at once: readers may see a part of
/// it. The file should have been checked: what is restored before damage is found stays. Returns
/// what was written.
///
/// # Errors
/// The file cannot be read or is damaged; a transaction is not committed; the cluster has keys, or
/// the file was salvaged, unless the options say otherwise.
pub fn restore(client: &Client, file: impl Read, options: RestoreOptions) -> Result<Content, Failure> {
    let mut reader = Reader::begin(file)?;
    if let Some(Mark { server }) = reader.mark().filter(|_| !options.salvaged) {
        return Err(Failure::Salvaged { server });
    }
    if !options.replaces
        && let Some((key, _)) = client.scan(&KeyRange::all(), 1)?.items.into_iter().next()
    {
        return Err(Failure::NotEmpty { key: Key::new(key).map_err(ClientError::from)? });
    }
    let (mut batch, mut bytes, mut restored) = (Vec::new(), 0, Content::default());
    while let Some(piece) = reader.next()? {
        if piece.is_uncertain && !options.uncertain {
            continue;
        }
        for (key, value) in piece.items {
            restored.count(&key, &value);
            bytes += key.as_bytes().len() + value.as_bytes().len();
            batch.push((key, value));
            if batch.len() >= BATCH_ITEMS || bytes >= BATCH_BYTES {
                put(client, &batch)?;
                (batch, bytes) = (Vec::new(), 0);
            }
        }
    }
    put(client, &batch)?;
    Ok(restored)
}

fn put(client: &Client, items: &[(Key, Value)]) -> Result<(), ClientError> {
    client.transact(|tranx| {
        items.iter().try_for_each(|(key, value)| tranx.put(Bytes::from(key.clone()), Bytes::from(value.clone())))
    })
}
