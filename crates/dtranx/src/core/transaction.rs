//! Reads and writes of a transaction, as its client hands it over to be committed.

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer, Serialize};

pub use super::item::{LimitError, MAX_TRANSACTION_BYTES, MAX_TRANSACTION_ITEMS};
use super::{
    few::{few, few_counted},
    id::{ServerId, TranxId},
    item::{Key, Value},
    range::KeyRange,
};

/// A key that was read, and the version that was seen.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Read {
    /// Key that the transaction has read.
    pub key: Key,
    /// Version of the item; `None` if the key was absent.
    pub version: Option<TranxId>,
}

/// A range that was scanned, and every key that was found in it. The range is part of what was
/// read: nothing may have come into it when the transaction commits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ScanRead {
    /// The range: as requested, or, if the scan stopped at a limit, up to and with the last key
    /// that it returned.
    pub range: KeyRange,
    /// The keys that were found, in order, with their versions.
    #[serde(deserialize_with = "few")]
    pub found: Vec<(Key, TranxId)>,
}

/// Reads a list of scans, whose keys count, too.
fn few_scans<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<ScanRead>, D::Error> {
    few_counted(from, |scan: &ScanRead| 1 + scan.found.len())
}

/// A key that is written.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Write {
    /// Key that the transaction writes or deletes.
    pub key: Key,
    /// New value of the key; `None` deletes it.
    pub value: Option<Value>,
}

/// A range that moves from one server to another ([`Transaction::moving`]).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Moving {
    /// Range that moves.
    pub range: KeyRange,
    /// Server that holds the range before.
    pub from: ServerId,
    /// Server that holds the range afterwards.
    pub to: ServerId,
    /// Number of moves that any part of the range has then had: more than before.
    pub moves: u64,
}

/// A transaction at commit time, or the part of one that concerns one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Transaction {
    /// Keys that were read, each once.
    #[serde(deserialize_with = "few")]
    pub reads: Vec<Read>,
    /// Ranges that were scanned, with the keys that were found in them.
    #[serde(deserialize_with = "few_scans")]
    pub scans: Vec<ScanRead>,
    /// Keys that are written, each once.
    #[serde(deserialize_with = "few")]
    pub writes: Vec<Write>,
    /// The transaction moves a range, and does nothing else: its scan is of the whole range, and it
    /// writes what the scan has found.
    pub moving: Option<Box<Moving>>,
}

impl Transaction {
    /// Returns true if the transaction neither reads nor writes.
    pub fn is_empty(&self) -> bool {
        self.reads.is_empty() && self.scans.is_empty() && self.writes.is_empty()
    }

    /// Returns true if the transaction only reads. A move changes the maps of two servers.
    pub fn is_read_only(&self) -> bool {
        self.writes.is_empty() && self.moving.is_none()
    }

    /// Returns true if it read that something is *not* there: an absent key, or a range. Absence
    /// has no version, so that it may come back unnoticed: only a lock shows that it lasted.
    pub fn reads_absence(&self) -> bool {
        !self.scans.is_empty() || self.reads.iter().any(|read| read.version.is_none())
    }

    /// Number of its reads, writes, scans and scanned keys.
    pub fn items(&self) -> usize {
        let found: usize = self.scans.iter().map(|scan| scan.found.len()).sum();
        self.reads.len() + self.writes.len() + self.scans.len() + found
    }

    /// Size of its keys and values, in bytes.
    pub fn bytes(&self) -> usize {
        let reads: usize = self.reads.iter().map(|read| read.key.as_bytes().len()).sum();
        let writes: usize = self.writes.iter().map(Write::bytes).sum();
        reads + writes + self.scans.iter().map(ScanRead::bytes).sum::<usize>()
    }

    /// Checks that it is within the limits and free of contradictions.
    ///
    /// # Errors
    /// The limit that it exceeds, or its contradiction.
    pub fn validate(&self) -> Result<(), LimitError> {
        let (items, bytes) = (self.items(), self.bytes());
        if items > MAX_TRANSACTION_ITEMS {
            return Err(LimitError::TooManyItems { items });
        }
        if bytes > MAX_TRANSACTION_BYTES {
            return Err(LimitError::TooManyBytes { bytes });
        }
        let keys = self.reads.iter().map(|read| &read.key).chain(self.writes.iter().map(|write| &write.key));
        if let Some(key) = keys.into_iter().find(|key| **key == Key::of_map()) {
            return Err(LimitError::Reserved { key: key.clone() });
        }
        all_different(self.reads.iter().map(|read| &read.key), "reads")?;
        all_different(self.writes.iter().map(|write| &write.key), "writes")?;
        self.scans.iter().try_for_each(ScanRead::validate)?;
        self.moving.as_ref().map_or(Ok(()), |moving| self.validate_move(moving))
    }

    fn validate_move(&self, Moving { range, from, to, .. }: &Moving) -> Result<(), LimitError> {
        let no_move = |why: &str| Err(LimitError::Move { why: why.to_owned() });
        let [scan] = self.scans.as_slice() else { return no_move("it has not one scan") };
        let found = scan.found.iter().map(|(key, _)| key);
        if from == to {
            no_move("the server that gives the range takes it")
        } else if scan.range != *range || range.is_empty() || !self.reads.is_empty() {
            no_move("it reads something else than the range")
        } else if !found.eq(self.writes.iter().map(|write| &write.key))
            || self.writes.iter().any(|write| write.value.is_none())
        {
            no_move("it does not write what its scan found")
        } else {
            Ok(())
        }
    }
}

impl Write {
    fn bytes(&self) -> usize {
        self.key.as_bytes().len() + self.value.as_ref().map_or(0, |value| value.as_bytes().len())
    }
}

impl ScanRead {
    fn bytes(&self) -> usize {
        self.range.bytes() + self.found.iter().map(|(key, _)| key.as_bytes().len()).sum::<usize>()
    }

    fn validate(&self) -> Result<(), LimitError> {
        let mut before = None;
        for (key, _) in &self.found {
            if !self.range.contains(key) || before.is_some_and(|before| before >= key) {
                return Err(LimitError::ScanOutOfOrder { key: key.clone() });
            }
            before = Some(key);
        }
        Ok(())
    }
}

fn all_different<'a>(mut keys: impl Iterator<Item = &'a Key>, list: &str) -> Result<(), LimitError> {
    let mut seen = BTreeSet::new();
    match keys.find(|key| !seen.insert(*key)) {
        Some(key) => Err(LimitError::KeyTwice { key: key.clone(), list: list.to_owned() }),
        None => Ok(()),
    }
}
