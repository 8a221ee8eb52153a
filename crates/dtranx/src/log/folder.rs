//! Common part of the two media on a file system: their folder, which belongs to one server alone,
//! and making names durable by syncing it.

use std::fs::{self, File, OpenOptions};
use std::io::{Error, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};

use super::{LogError, Result};
use crate::folders;

/// Locked by the process that uses the folder; the system unlocks it when that process ends in any
/// way.
const LOCK: &str = "lock";
/// A process that the folder's last owner has just started shares its lock until it runs its own
/// program.
const LOCK_ATTEMPTS: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// A folder that exists, and that no other process uses.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    lock: File,
    /// The folder that this one is in, if that one is locked as well.
    above: Option<Box<Self>>,
}

impl Folder {
    pub(super) fn open(path: &Path) -> Result<Self> {
        folders::make(path).map_err(|source| LogError::io("create the folder", &shown(path), source))?;
        let folder = Self { path: path.to_owned(), lock: lock(path)?, above: None };
        folder.sync()?;
        Ok(folder)
    }

    /// Opens a folder within this one, which stays locked: who looks for the log finds this lock
    /// first.
    pub(super) fn within(self, name: &str) -> Result<Self> {
        let inner = Self::open(&self.path.join(name))?;
        Ok(Self { above: Some(Box::new(self)), ..inner })
    }

    /// Checks that the folder is still where it was. What is written into a folder that was removed
    /// is lost.
    pub(super) fn check(&self) -> Result<()> {
        if let Some(above) = &self.above {
            above.check()?;
        }
        let path = self.path.join(LOCK);
        let failed = |source| LogError::io("look at", &shown(&path), source);
        let held = self.lock.metadata().map_err(failed)?;
        match fs::metadata(&path) {
            Ok(found) if (found.dev(), found.ino()) == (held.dev(), held.ino()) => Ok(()),
            Ok(_) => Err(LogError::Gone { folder: shown(&self.path) }),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(LogError::Gone { folder: shown(&self.path) }),
            Err(error) => Err(failed(error)),
        }
    }

    pub(super) fn shown(&self, name: &str) -> String {
        shown(&self.path.join(name))
    }

    /// Reserves the file's room before its name is durable: what exists after a crash never runs
    /// out of room.
    pub(super) fn create(&self, name: &str, bytes: u64) -> Result<File> {
        let path = self.path.join(name);
        let created = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        // In a folder that was put in the place of this one it would be lost; and without a folder
        // there is no other reason.
        if let Err(gone) = self.check() {
            if created.is_ok() {
                let _ = fs::remove_file(&path);
            }
            return Err(gone);
        }
        let file = created.map_err(|source| LogError::io("create", &shown(&path), source))?;
        let reserved =
            fallocate(&file, FallocateFlags::empty(), 0, bytes).map_err(Error::from).and_then(|()| file.sync_all());
        if let Err(source) = reserved {
            drop(file);
            // Whether or not it can be removed: what matters is why it could not be made.
            let _ = fs::remove_file(&path);
            return Err(match source.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                    LogError::Full { file: shown(&path), bytes }
                }
                _ => LogError::io("reserve the room of", &shown(&path), source),
            });
        }
        self.sync()?;
        Ok(file)
    }

    pub(super) fn open_file(&self, name: &str) -> Result<(File, u64)> {
        let path = self.path.join(name);
        let failed = |source| LogError::io("open", &shown(&path), source);
        let file = OpenOptions::new().read(true).write(true).open(&path).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        Ok((file, bytes))
    }

    pub(super) fn list(&self) -> Result<Vec<String>> {
        let failed = |source| LogError::io("list", &shown(&self.path), source);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            // A name that is not Unicode is not one of ours.
            if let Ok(name) = entry.map_err(failed)?.file_name().into_string()
                && name != LOCK
            {
                names.push(name);
            }
        }
        Ok(names)
    }

    pub(super) fn remove(&self, name: &str) -> Result<()> {
        let path = self.path.join(name);
        let removed = fs::remove_file(&path);
        self.check()?;
        removed.map_err(|source| LogError::io("remove", &shown(&path), source))?;
        self.sync()
    }

    fn sync(&self) -> Result<()> {
        File::open(&self.path)
            .and_then(|folder| folder.sync_all())
            .map_err(|source| LogError::io("sync the folder", &shown(&self.path), source))
    }
}

fn lock(folder: &Path) -> Result<File> {
    let path = folder.join(LOCK);
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(|source| LogError::io("open", &shown(&path), source))?;
    acquire(file, folder)
}

/// Locks a folder of which nothing is to be changed, as its server does. `None`: there is no file
/// to be locked, so that no server uses the folder.
pub(crate) fn lock_to_read(folder: &Path) -> Result<Option<File>> {
    let path = folder.join(LOCK);
    match File::open(&path) {
        Ok(file) => acquire(file, folder).map(Some),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(source) => Err(LogError::io("open", &shown(&path), source)),
    }
}

/// Waits a moment for a lock.
fn acquire(file: File, folder: &Path) -> Result<File> {
    let path = folder.join(LOCK);
    let mut left = LOCK_ATTEMPTS;
    loop {
        left -= 1;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(error) if error != rustix::io::Errno::WOULDBLOCK => {
                return Err(LogError::io("lock", &shown(&path), error.into()));
            }
            Err(_) if left == 0 => return Err(LogError::InUse { folder: shown(folder) }),
            Err(_) => thread::sleep(LOCK_PAUSE),
        }
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
