//! A medium that can only be read.

use std::sync::Arc;

use super::medium::{Durability, Medium, MediumFile};
use super::{LogError, Result};

/// Another medium, of which nothing is changed: files can be made neither nor written, and what
/// would be removed stays.
pub struct ReadOnly {
    medium: Arc<dyn Medium>,
}

impl ReadOnly {
    /// Wraps a medium so that it can only be read.
    pub fn new(medium: Arc<dyn Medium>) -> Self {
        Self { medium }
    }
}

impl Medium for ReadOnly {
    fn create(&self, name: &str, _: u64) -> Result<Box<dyn MediumFile>> {
        Err(refused("create", name))
    }

    fn open(&self, name: &str) -> Result<Box<dyn MediumFile>> {
        Ok(Box::new(ReadOnlyFile { name: name.to_owned(), file: self.medium.open(name)? }))
    }

    fn list(&self) -> Result<Vec<String>> {
        self.medium.list()
    }

    fn remove(&self, _: &str) -> Result<()> {
        Ok(())
    }

    fn check(&self) -> Result<()> {
        self.medium.check()
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn durability(&self) -> Durability {
        self.medium.durability()
    }

    fn describe(&self) -> String {
        self.medium.describe()
    }
}

struct ReadOnlyFile {
    name: String,
    file: Box<dyn MediumFile>,
}

impl MediumFile for ReadOnlyFile {
    fn size_bytes(&self) -> u64 {
        self.file.size_bytes()
    }

    fn write(&mut self, _: u64, _: &[u8]) -> Result<()> {
        Err(refused("write", &self.name))
    }

    fn persist(&mut self) -> Result<()> {
        Ok(())
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.file.read(offset, into)
    }
}

fn refused(action: &'static str, name: &str) -> LogError {
    LogError::io(action, name, std::io::ErrorKind::ReadOnlyFilesystem.into())
}
