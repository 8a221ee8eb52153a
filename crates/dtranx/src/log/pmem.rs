//! A log in persistent memory: mapped files, whose cache lines are written back and fenced. No
//! system call on the way.
//!
//! The file system decides whether that is durable (see `mapped`). On tmpfs and other file systems
//! without DAX it is an emulation with the cost of the real thing, as in the paper's section 5;
//! [`Medium::describe`] says which it is.

use std::path::Path;

use super::folder::Folder;
use super::mapped::Mapped;
use super::medium::{Durability, Medium, MediumFile, check_range};
use super::{LogError, Result};

/// Name of the file that probes what the file system can do; it is removed at once.
const PROBE: &str = "probe.tmp";
const PROBE_BYTES: u64 = 4096;

/// A folder whose files are mapped.
#[derive(Debug)]
pub struct PersistentMemory {
    folder: Folder,
    durability: Durability,
    described: String,
}

impl PersistentMemory {
    /// Opens a folder, creating it if need be, and finds out whether its file system is DAX.
    ///
    /// # Errors
    /// [`LogError::InUse`]; the folder can be neither found nor created, or files in it cannot be
    /// mapped.
    pub fn open(folder: &Path) -> Result<Self> {
        Self::new(Folder::open(folder)?)
    }

    /// Opens a folder within this one, creating it if need be. This one stays locked.
    pub(crate) fn within(self, name: &str) -> Result<Self> {
        Self::new(self.folder.within(name)?)
    }

    fn new(folder: Folder) -> Result<Self> {
        if folder.list()?.iter().any(|name| name == PROBE) {
            folder.remove(PROBE)?;
        }
        let file = folder.create(PROBE, PROBE_BYTES)?;
        let mapped = Mapped::new(&file, PROBE_BYTES as usize)
            .map_err(|source| LogError::io("map", &folder.shown(PROBE), source))?;
        folder.remove(PROBE)?;
        let (durability, how) = if mapped.is_synchronous() {
            (Durability::Power, "DAX with MAP_SYNC")
        } else {
            (Durability::Process, "emulated: survives the process, not the power")
        };
        let described = format!("persistent memory, {how}, {:?}", mapped.write_back());
        Ok(Self { folder, durability, described })
    }

    fn map(&self, name: &str, file: &std::fs::File, bytes: u64) -> Result<Box<dyn MediumFile>> {
        let shown = self.folder.shown(name);
        let Ok(length) = usize::try_from(bytes) else {
            return Err(LogError::corrupt(&shown, 0, format!("a file of {bytes} bytes cannot be mapped")));
        };
        let failed = |source| LogError::io("map", &shown, source);
        // One whose creation was interrupted may be empty, and nothing can be mapped then.
        let mapped = (length > 0).then(|| Mapped::new(file, length).map_err(failed)).transpose()?;
        Ok(Box::new(MappedFile { name: shown, mapped, dirty: None }))
    }
}

impl Medium for PersistentMemory {
    fn create(&self, name: &str, bytes: u64) -> Result<Box<dyn MediumFile>> {
        let file = self.folder.create(name, bytes)?;
        self.map(name, &file, bytes)
    }

    fn open(&self, name: &str) -> Result<Box<dyn MediumFile>> {
        let (file, bytes) = self.folder.open_file(name)?;
        self.map(name, &file, bytes)
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
        self.durability
    }

    fn describe(&self) -> String {
        self.described.clone()
    }
}

struct MappedFile {
    name: String,
    /// The mapping; `None` if the file has no bytes.
    mapped: Option<Mapped>,
    /// Range that was written since the last persist: its beginning and its end.
    dirty: Option<(usize, usize)>,
}

impl MediumFile for MappedFile {
    fn size_bytes(&self) -> u64 {
        self.mapped.as_ref().map_or(0, |mapped| mapped.bytes().len() as u64)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        check_range(&self.name, self.size_bytes(), offset, bytes.len())?;
        let start = offset as usize;
        let end = start + bytes.len();
        let Some(mapped) = &mut self.mapped else { return Ok(()) };
        mapped.bytes_mut()[start..end].copy_from_slice(bytes);
        self.dirty = Some(match self.dirty {
            Some((from, to)) => (from.min(start), to.max(end)),
            None => (start, end),
        });
        Ok(())
    }

    fn persist(&mut self) -> Result<()> {
        if let (Some((start, end)), Some(mapped)) = (self.dirty, &self.mapped) {
            mapped.persist(start, end - start).map_err(|source| LogError::io("write back", &self.name, source))?;
            self.dirty = None;
        }
        Ok(())
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        check_range(&self.name, self.size_bytes(), offset, into.len())?;
        let start = offset as usize;
        let Some(mapped) = &self.mapped else { return Ok(()) };
        into.copy_from_slice(&mapped.bytes()[start..start + into.len()]);
        Ok(())
    }
}
