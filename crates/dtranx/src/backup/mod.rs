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
use crate::core::{Key, KeyRange, Value};

pub use file::BackupError;
use file::{Reader, Writer};

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
}

/// Writes everything that a snapshot has.
///
/// # Errors
/// A server does not answer, or keeps the snapshot no longer; the file cannot be written.
pub fn backup(snapshot: &Snapshot, cluster: &str, file: impl Write) -> Result<Content, Failure> {
    let mut writer = Writer::begin(file, cluster, snapshot.epoch())?;
    let mut rest = Some(KeyRange::all());
    while let Some(range) = rest {
        let found = snapshot.scan(&range, PAGE_ITEMS)?;
        let last = found.items.last().map(|(key, _)| key.clone()).filter(|_| !found.complete);
        for (key, value) in found.items {
            writer.add(item(key, value)?)?;
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
pub fn check(file: impl Read) -> Result<Content, BackupError> {
    let mut reader = Reader::begin(file)?;
    while reader.next()?.is_some() {}
    Ok(reader.content())
}

/// Writes everything that a backup has into a cluster, a few hundred items at once: readers may see
/// a part of it. The file should have been checked: what is restored before damage is found stays.
///
/// # Errors
/// The file cannot be read or is damaged; a transaction is not committed; the cluster has keys,
/// unless `replaces`.
pub fn restore(client: &Client, file: impl Read, replaces: bool) -> Result<Content, Failure> {
    if !replaces && let Some((key, _)) = client.scan(&KeyRange::all(), 1)?.items.into_iter().next() {
        return Err(Failure::NotEmpty { key: Key::new(key).map_err(ClientError::from)? });
    }
    let mut reader = Reader::begin(file)?;
    let (mut batch, mut bytes) = (Vec::new(), 0);
    while let Some(items) = reader.next()? {
        for (key, value) in items {
            bytes += key.as_bytes().len() + value.as_bytes().len();
            batch.push((key, value));
            if batch.len() >= BATCH_ITEMS || bytes >= BATCH_BYTES {
                put(client, &batch)?;
                (batch, bytes) = (Vec::new(), 0);
            }
        }
    }
    put(client, &batch)?;
    Ok(reader.content())
}

fn put(client: &Client, items: &[(Key, Value)]) -> Result<(), ClientError> {
    client.transact(|tranx| {
        items.iter().try_for_each(|(key, value)| tranx.put(Bytes::from(key.clone()), Bytes::from(value.clone())))
    })
}
