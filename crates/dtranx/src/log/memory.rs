//! A log in ordinary memory, for simulations: what was not persisted is lost or torn at a crash, as
//! a seed decides; and a sync may fail.
//!
//! The paths through a real file system's cache are many; here every write since the last persist
//! lands whole, not at all, or up to some line, and independently of the others: later writes may
//! survive earlier ones.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::medium::{Durability, Medium, MediumFile, check_range};
use super::{LogError, Result};

/// Size of the pieces that are written in one go: torn writes end at its multiples.
const LINE_BYTES: usize = 64;

/// Files in memory. Clones share them, so that a "restarted" server finds what its predecessor
/// left.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    files: Arc<Mutex<Files>>,
}

#[derive(Debug, Default)]
struct Files {
    by_name: BTreeMap<String, Contents>,
    room_bytes: Option<u64>,
    /// Number of syncs until one fails.
    syncs_left: Option<u64>,
}

#[derive(Debug)]
struct Contents {
    /// Content that a crash cannot take.
    durable: Vec<u8>,
    /// Content that readers see.
    current: Vec<u8>,
    /// Writes since the last persist: where, and what.
    pending: Vec<(usize, Vec<u8>)>,
}

impl Memory {
    /// Makes an empty medium without a limit of its size.
    pub fn new() -> Self {
        Self::default()
    }

    /// Limits the medium's size, for tests of a full one.
    pub fn limit_room(&self, bytes: u64) {
        self.lock().room_bytes = Some(bytes);
    }

    /// Makes a sync fail after so many, as on a disk with an error: what was written since the one
    /// before can still be read, is not durable, and is taken for written, so that no later sync
    /// writes it.
    pub fn fail_sync_after(&self, syncs: u64) {
        self.lock().syncs_left = Some(syncs);
    }

    /// Cuts the power: of each write that was not persisted all, nothing or a part arrives, as the
    /// seed decides. Files that are still open must not be used any more.
    pub fn crash(&self, seed: u64) {
        let mut random = StdRng::seed_from_u64(seed);
        for contents in self.lock().by_name.values_mut() {
            for (offset, bytes) in std::mem::take(&mut contents.pending) {
                let kept = match random.random_range(0..3) {
                    0 => 0,
                    1 => bytes.len(),
                    _ => random.random_range(0..=bytes.len() / LINE_BYTES) * LINE_BYTES,
                };
                contents.durable[offset..offset + kept].copy_from_slice(&bytes[..kept]);
            }
            contents.current = contents.durable.clone();
        }
    }

    /// Changes one byte of a file, unnoticed by its users; `false` when there is no such byte.
    pub fn damage(&self, name: &str, offset: u64) -> bool {
        let mut files = self.lock();
        let Some(contents) = files.by_name.get_mut(name) else { return false };
        let Some(offset) = usize::try_from(offset).ok().filter(|offset| *offset < contents.durable.len()) else {
            return false;
        };
        contents.durable[offset] ^= 0xff;
        contents.current[offset] ^= 0xff;
        true
    }

    /// All bytes of a file, as a reader sees them.
    pub fn contents(&self, name: &str) -> Option<Vec<u8>> {
        self.lock().by_name.get(name).map(|contents| contents.current.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Files> {
        // Nothing here panics half-way through a change.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Medium for Memory {
    fn create(&self, name: &str, bytes: u64) -> Result<Box<dyn MediumFile>> {
        let mut files = self.lock();
        let used: u64 = files.by_name.values().map(|contents| contents.current.len() as u64).sum();
        if files.room_bytes.is_some_and(|room| used + bytes > room) {
            return Err(LogError::Full { file: name.to_owned(), bytes });
        }
        if files.by_name.contains_key(name) {
            return Err(LogError::io("create", name, std::io::ErrorKind::AlreadyExists.into()));
        }
        let zeros = vec![0; bytes as usize];
        let contents = Contents { durable: zeros.clone(), current: zeros, pending: Vec::new() };
        files.by_name.insert(name.to_owned(), contents);
        Ok(Box::new(MemoryFile { medium: self.clone(), name: name.to_owned(), bytes }))
    }

    fn open(&self, name: &str) -> Result<Box<dyn MediumFile>> {
        let bytes = self.lock().by_name.get(name).map(|contents| contents.current.len() as u64);
        let bytes = bytes.ok_or_else(|| missing("open", name))?;
        Ok(Box::new(MemoryFile { medium: self.clone(), name: name.to_owned(), bytes }))
    }

    fn list(&self) -> Result<Vec<String>> {
        Ok(self.lock().by_name.keys().cloned().collect())
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.lock().by_name.remove(name).map(drop).ok_or_else(|| missing("remove", name))
    }

    fn check(&self) -> Result<()> {
        Ok(())
    }

    fn durability(&self) -> Durability {
        Durability::Nothing
    }

    fn describe(&self) -> String {
        "memory only".to_owned()
    }
}

fn missing(action: &'static str, name: &str) -> LogError {
    LogError::io(action, name, std::io::ErrorKind::NotFound.into())
}

struct MemoryFile {
    medium: Memory,
    name: String,
    bytes: u64,
}

impl MediumFile for MemoryFile {
    fn size_bytes(&self) -> u64 {
        self.bytes
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        check_range(&self.name, self.bytes, offset, bytes.len())?;
        let mut files = self.medium.lock();
        let contents = files.by_name.get_mut(&self.name).ok_or_else(|| missing("write", &self.name))?;
        let start = offset as usize;
        contents.current[start..start + bytes.len()].copy_from_slice(bytes);
        contents.pending.push((start, bytes.to_vec()));
        Ok(())
    }

    fn persist(&mut self) -> Result<()> {
        let mut files = self.medium.lock();
        let fails = files.syncs_left == Some(0);
        files.syncs_left = files.syncs_left.and_then(|left| left.checked_sub(1));
        let contents = files.by_name.get_mut(&self.name).ok_or_else(|| missing("sync", &self.name))?;
        if fails {
            contents.pending.clear();
            return Err(LogError::io("sync", &self.name, std::io::Error::other("an error of the disk")));
        }
        for (offset, bytes) in std::mem::take(&mut contents.pending) {
            contents.durable[offset..offset + bytes.len()].copy_from_slice(&bytes);
        }
        Ok(())
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        check_range(&self.name, self.bytes, offset, into.len())?;
        let files = self.medium.lock();
        let contents = files.by_name.get(&self.name).ok_or_else(|| missing("read", &self.name))?;
        let start = offset as usize;
        into.copy_from_slice(&contents.current[start..start + into.len()]);
        Ok(())
    }
}
