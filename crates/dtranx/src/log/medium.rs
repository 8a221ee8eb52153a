//! Medium of a log: a folder of files of fixed size. The lowest layer's interface; see `disk`,
//! `pmem` and `memory`.

use super::{LogError, Result};

/// Events that a persisted byte survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// Loss of power: a disk that carries out syncs, or persistent memory mapped with `MAP_SYNC`.
    Power,
    /// The end of the process, however it comes, but not loss of power: persistent memory emulated
    /// by ordinary memory.
    Process,
    /// A persisted byte survives nothing: for simulations.
    Nothing,
}

/// A folder of log files, which no other process uses. Creating and removing a file is durable when
/// the call returns.
pub trait Medium: Send + Sync {
    /// Creates a file of `bytes` zeros with all its room reserved, so that no later write can run
    /// out of room.
    ///
    /// # Errors
    /// [`super::LogError::Full`] when there is no room; a file of that name must not exist.
    fn create(&self, name: &str, bytes: u64) -> Result<Box<dyn MediumFile>>;

    /// Opens a file that exists.
    ///
    /// # Errors
    /// It does not exist, or the operating system refuses it.
    fn open(&self, name: &str) -> Result<Box<dyn MediumFile>>;

    /// The names of all files, in no particular order; strangers among them.
    ///
    /// # Errors
    /// The folder cannot be read.
    fn list(&self) -> Result<Vec<String>>;

    /// Removes a file.
    ///
    /// # Errors
    /// It does not exist, or the operating system refuses.
    fn remove(&self, name: &str) -> Result<()>;

    /// Checks that the folder is still the one that was opened.
    ///
    /// # Errors
    /// [`super::LogError::Gone`]: the folder was removed or replaced while the log was open.
    fn check(&self) -> Result<()>;

    /// Returns true if nothing can be changed on this medium.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Events that a persisted byte survives.
    fn durability(&self) -> Durability;

    /// The medium in a few words, for people: its kind and how it makes bytes durable.
    fn describe(&self) -> String;
}

/// An open file of a [`Medium`].
pub trait MediumFile: Send {
    /// Size of the file in bytes; it never changes.
    fn size_bytes(&self) -> u64;

    /// Writes all of `bytes` at `offset`; they are durable only after [`MediumFile::persist`].
    ///
    /// # Errors
    /// The range is not inside the file, or the operating system refuses.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Makes everything durable that was written so far. After an error it is not known what is.
    ///
    /// # Errors
    /// The operating system refuses.
    fn persist(&mut self) -> Result<()>;

    /// Fills `into` from `offset`.
    ///
    /// # Errors
    /// The range is not inside the file, or the operating system refuses.
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<()>;
}

/// Refuses a range that is not inside the file: the caller has computed it wrongly.
pub(super) fn check_range(file: &str, size_bytes: u64, offset: u64, length: usize) -> Result<()> {
    match offset.checked_add(length as u64) {
        Some(end) if end <= size_bytes => Ok(()),
        _ => Err(LogError::corrupt(file, offset, format!("{length} bytes are not inside its {size_bytes} bytes"))),
    }
}
