//! A medium that stops after a number of operations, as if its machine stopped. Earlier operations
//! take effect, later ones fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dtranx::log::{Durability, LogError, Medium, MediumFile, Memory};

/// A medium with a number of operations left, which its clones share.
#[derive(Clone)]
pub(crate) struct Stopping {
    medium: Memory,
    left: Arc<AtomicU64>,
    creations: Arc<AtomicU64>,
}

impl Stopping {
    pub(crate) fn after(medium: Memory, operations: u64) -> Self {
        Self { medium, left: Arc::new(AtomicU64::new(operations)), creations: Arc::default() }
    }

    /// A medium that never stops and only counts the files that it creates.
    pub(crate) fn never(medium: Memory) -> Self {
        Self::after(medium, u64::MAX)
    }

    pub(crate) fn creations(&self) -> u64 {
        self.creations.load(Ordering::Relaxed)
    }

    fn step(&self, file: &str) -> Result<(), LogError> {
        let one_less = |left: u64| left.checked_sub(1);
        match self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less) {
            Ok(_) => Ok(()),
            Err(_) => {
                let source = std::io::Error::other("it has stopped");
                Err(LogError::Io { action: "reach", file: file.to_owned(), source })
            }
        }
    }
}

impl Medium for Stopping {
    fn create(&self, name: &str, bytes: u64) -> Result<Box<dyn MediumFile>, LogError> {
        // The last operation may create the file's name without its room.
        if self.left.load(Ordering::Relaxed) == 1 {
            self.medium.create(name, 0)?;
            self.step(name)?;
        }
        self.step(name)?;
        self.creations.fetch_add(1, Ordering::Relaxed);
        let file = self.medium.create(name, bytes)?;
        Ok(Box::new(StoppingFile { name: name.to_owned(), file, medium: self.clone() }))
    }

    fn open(&self, name: &str) -> Result<Box<dyn MediumFile>, LogError> {
        let file = self.medium.open(name)?;
        Ok(Box::new(StoppingFile { name: name.to_owned(), file, medium: self.clone() }))
    }

    fn list(&self) -> Result<Vec<String>, LogError> {
        self.medium.list()
    }

    fn remove(&self, name: &str) -> Result<(), LogError> {
        self.step(name)?;
        self.medium.remove(name)
    }

    fn check(&self) -> Result<(), LogError> {
        self.medium.check()
    }

    fn durability(&self) -> Durability {
        self.medium.durability()
    }

    fn describe(&self) -> String {
        self.medium.describe()
    }
}

struct StoppingFile {
    name: String,
    file: Box<dyn MediumFile>,
    medium: Stopping,
}

impl MediumFile for StoppingFile {
    fn size_bytes(&self) -> u64 {
        self.file.size_bytes()
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), LogError> {
        self.medium.step(&self.name)?;
        self.file.write(offset, bytes)
    }

    fn persist(&mut self) -> Result<(), LogError> {
        self.medium.step(&self.name)?;
        self.file.persist()
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), LogError> {
        self.file.read(offset, into)
    }
}
