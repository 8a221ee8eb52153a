//! A log on a conventional disk: `pwrite`, and one `fdatasync` for everything that was written
//! since the last.
//!
//! Files keep their size from the beginning, and what is ahead of the writes is written with zeros,
//! many blocks at once: a block that was only reserved would make the sync after its first write
//! wait for the file system's journal. So nearly every sync has no metadata to write. Group commit
//! is the caller's: it writes the blocks of as many transactions as are waiting, then persists
//! once.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::folder::Folder;
use super::medium::{Durability, Medium, MediumFile};
use super::{LogError, Result};

/// Bytes of zeros that one call writes.
const CLEARED_AT_ONCE: u64 = 512 << 10;
static ZEROS: [u8; CLEARED_AT_ONCE as usize] = [0; CLEARED_AT_ONCE as usize];

/// A folder on a disk.
#[derive(Debug)]
pub struct Disk {
    folder: Folder,
}

impl Disk {
    /// Opens a folder, creating it if need be.
    ///
    /// # Errors
    /// [`LogError::InUse`]; the folder can be neither found nor created.
    pub fn open(folder: &Path) -> Result<Self> {
        Ok(Self { folder: Folder::open(folder)? })
    }

    /// Opens a folder within this one, creating it if need be. This one stays locked.
    pub(crate) fn within(self, name: &str) -> Result<Self> {
        Ok(Self { folder: self.folder.within(name)? })
    }
}

impl Medium for Disk {
    fn create(&self, name: &str, bytes: u64) -> Result<Box<dyn MediumFile>> {
        let file = self.folder.create(name, bytes)?;
        Ok(Box::new(DiskFile { name: self.folder.shown(name), file, bytes, cleared_bytes: 0, written: false }))
    }

    fn open(&self, name: &str) -> Result<Box<dyn MediumFile>> {
        let (file, bytes) = self.folder.open_file(name)?;
        // Bytes that a killed process wrote may still have to reach the disk.
        Ok(Box::new(DiskFile { name: self.folder.shown(name), file, bytes, cleared_bytes: bytes, written: true }))
    }

    fn list(&self) -> Result<Vec<String>> {
        self.folder.list()
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.folder.remove(name)
    }

    fn check(&self) -> Result<()> {
        self.folder.check()
    }

    fn durability(&self) -> Durability {
        Durability::Power
    }

    fn describe(&self) -> String {
        "disk, fdatasync with group commit".to_owned()
    }
}

struct DiskFile {
    name: String,
    file: File,
    bytes: u64,
    /// Offset from which on nothing was written, neither zeros nor anything else.
    cleared_bytes: u64,
    /// True if something was written since the last sync.
    written: bool,
}

impl DiskFile {
    /// Writes zeros ahead, unless they are there as far as `until`.
    fn clear(&mut self, until: u64) -> std::io::Result<()> {
        while self.cleared_bytes < until {
            let rest = (self.bytes - self.cleared_bytes).min(CLEARED_AT_ONCE);
            self.file.write_all_at(&ZEROS[..rest as usize], self.cleared_bytes)?;
            self.cleared_bytes += rest;
        }
        Ok(())
    }
}

impl MediumFile for DiskFile {
    fn size_bytes(&self) -> u64 {
        self.bytes
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        super::medium::check_range(&self.name, self.bytes, offset, bytes.len())?;
        self.written = true;
        let cleared = self.clear(offset + bytes.len() as u64);
        let written = cleared.and_then(|()| self.file.write_all_at(bytes, offset));
        written.map_err(|source| LogError::io("write", &self.name, source))
    }

    fn persist(&mut self) -> Result<()> {
        if self.written {
            self.file.sync_data().map_err(|source| LogError::io("sync", &self.name, source))?;
            self.written = false;
        }
        Ok(())
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        super::medium::check_range(&self.name, self.bytes, offset, into.len())?;
        self.file.read_exact_at(into, offset).map_err(|source| LogError::io("read", &self.name, source))
    }
}
