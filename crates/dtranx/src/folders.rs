//! Folders whose names are durable: a folder that was made and not synced into its parent may be
//! gone after a power failure, with all that was synced in it.

use std::fs::{self, File};
use std::io::{ErrorKind, Result};
use std::path::{Path, PathBuf};

/// Makes a folder and those above it that are missing, each durably in the one above it.
pub(crate) fn make(folder: &Path) -> Result<()> {
    for missing in missing(folder) {
        match fs::create_dir(&missing) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists && missing.is_dir() => {}
            Err(error) => return Err(error),
        }
        sync_above(&missing)?;
    }
    // The folder may have been made by a process that was killed before it synced the folder above.
    sync_above(folder)
}

/// Syncs the folder that something is in.
pub(crate) fn sync_above(path: &Path) -> Result<()> {
    match path.parent() {
        Some(above) if above.as_os_str().is_empty() => sync(Path::new(".")),
        Some(above) => sync(above),
        None => Ok(()),
    }
}

fn sync(folder: &Path) -> Result<()> {
    match File::open(folder) {
        Ok(folder) => folder.sync_all(),
        // A process that may not read a folder has made nothing in it.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
        Err(error) => Err(error),
    }
}

/// The folder and those above it that are not there, the uppermost first.
fn missing(folder: &Path) -> Vec<PathBuf> {
    let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    let mut missing: Vec<PathBuf> = folder.ancestors().take_while(is_missing).map(Path::to_owned).collect();
    missing.reverse();
    missing
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn make_makes_every_missing_folder_from_above_and_leaves_what_is_there() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("a/b/c");
        assert_eq!(missing(&deep), [root.path().join("a"), root.path().join("a/b"), deep.clone()]);
        make(&deep).unwrap();
        fs::write(deep.join("file"), "x").unwrap();
        make(&deep).unwrap();
        assert!(missing(&deep).is_empty() && deep.join("file").exists());
        assert!(make(&deep.join("file/d")).is_err());
    }
}
