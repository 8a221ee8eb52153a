//! A file that is written beside its name until it is whole and on the disk, so that no half of one
//! has the name.

use std::fs::{self, File, OpenOptions};
use std::io::Error;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

pub(crate) struct NewFile {
    path: PathBuf,
    pub(crate) partial: PathBuf,
    pub(crate) file: File,
}

impl NewFile {
    /// Begins a file, which must not be there.
    pub(crate) fn make(path: &Path) -> Result<Self, Failure> {
        if path.exists() {
            return Err(Failure::Failed(format!("{} is there already", path.display())));
        }
        let partial = beside(path, "partial");
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&partial);
        let file = file.map_err(|error| failed(&partial, &error))?;
        Ok(Self { path: path.to_owned(), partial, file })
    }

    /// Gives the file its name. Another process may have made one of that name meanwhile: it is not
    /// replaced.
    pub(crate) fn publish(self) -> Result<(), Failure> {
        let path = &self.path;
        self.file.sync_all().map_err(|error| failed(path, &error))?;
        fs::hard_link(&self.partial, path).map_err(|error| failed(path, &error))?;
        fs::remove_file(&self.partial).map_err(|error| failed(&self.partial, &error))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| failed(path, &error))
    }
}

/// Path of something that is beside a file as long as the file is made.
pub(crate) fn beside(file: &Path, what: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".");
    name.push(what);
    name.into()
}

fn failed(path: &Path, error: &Error) -> Failure {
    Failure::Failed(format!("{}: {error}", path.display()))
}
