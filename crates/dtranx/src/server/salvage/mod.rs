//! Gets what is whole out of a server's data that may be damaged, into a backup. The server must
//! not run, and nothing in its folders is written.
//!
//! 1. Lock the log and the items as a server does, and read whose they are.
//! 2. `log`: read the log up to the first gap, and note what its committed transactions have
//!    written; of what is behind the gap, only which keys it is about.
//! 3. Read the items, file by file (`storage::remains`): entries that are whole, and ranges of keys
//!    whose newest versions may be lost.
//! 4. `sort`: compare both. The items may show that a transaction in doubt is committed, or that
//!    the log has lost its end.
//! 5. Write each key that is *sure*, at the value that it had at one moment; then, apart from
//!    these, what was found of other keys.
//!
//! What a reader of the file may believe, and why: docs/decisions/0073-salvage.md.

mod log;
mod scratch;
mod sort;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use thiserror::Error;

use super::data_folders::{DataFolders, is_of_a_log};
use super::identity::{Identity, Looked};
use super::inspect::must_keep;
use super::{ServerConfig, ServerError};
use crate::backup::{BackupError, Content};
use crate::core::{Key, StoreId, TranxId};
use crate::damage::{Damage, Damages};
use crate::files::Files;
use crate::log::{Surveyed, lock_to_read, survey};
use crate::storage::{OwnerMismatch, belongs, remains};
use log::Records;
use scratch::{Scratch, Use};

/// Reason why nothing was salvaged.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SalvageError {
    /// The folder is in use, or its data are those of something else than the configuration says.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// There is nothing of a store in the folders.
    #[error("there is no store in {folder}: neither identity.toml, nor items, nor a log in {log}")]
    NoStore {
        /// Folder of the server's data.
        folder: String,
        /// Folder of the log, in which there is none.
        log: String,
    },
    /// The items that were read cannot be kept beside the new file until it is written.
    #[error("the scratch folder: {0}")]
    Scratch(#[from] io::Error),
    /// The new file cannot be written.
    #[error(transparent)]
    File(#[from] BackupError),
}

/// Moment at which the sure keys had their values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The last one that the log shows: nothing that the server has acknowledged is newer, unless
    /// the log has lost its end without a trace.
    Newest,
    /// The moment before the lost records of this damage, or before the first that are not known to
    /// be committed. Any key may have a newer version.
    Before(Damage),
}

/// A number of things, of which the first are named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named<T> {
    /// Number of all things together.
    pub total: u64,
    /// The first things, at most a hundred.
    pub first: Vec<T>,
}

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self { total: 0, first: Vec::new() }
    }
}

impl<T> Named<T> {
    /// Number of things that are named.
    const NAMED: usize = 100;

    fn push(&mut self, thing: T) {
        self.total += 1;
        if self.first.len() < Self::NAMED {
            self.first.push(thing);
        }
    }
}

/// Report of a salvage: the content of the file, and everything that is not in it.
#[derive(Clone, Debug)]
pub struct Salvaged {
    /// Everything that is not as it was written, with what is lost or uncertain by it.
    pub damages: Damages,
    /// Number of segments of the log.
    pub segments: usize,
    /// Number of records of the log that were used.
    pub records: u64,
    /// Number of whole records of the log that were not used, because they are behind a gap, or are
    /// not known to be committed.
    pub behind: u64,
    /// Moment at which the sure keys had their values.
    pub moment: Moment,
    /// Content of the file whose keys surely had these values at the moment.
    pub sure: Content,
    /// Content of the file whose keys may have other newest values, or may have been deleted.
    pub uncertain: Content,
    /// Transactions in doubt, whose writes are not applied.
    pub in_doubt: Named<TranxId>,
    /// Keys that the transactions in doubt write.
    pub doubtful: Named<Key>,
    /// Keys of which records behind a gap have versions.
    pub newer: Named<Key>,
}

impl Salvaged {
    /// Returns true if all of the server's data is in the file, and all of it is sure.
    pub fn is_whole(&self) -> bool {
        self.damages.is_empty() && self.in_doubt.total == 0 && self.uncertain.items == 0
    }
}

/// Salvages a server's data into a backup. `scratch` is a folder that is made, filled with as much
/// as the server has, and removed.
///
/// # Errors
/// The folder is in use, has no store, or the data of another server; scratch folder or file cannot
/// be written. Damage is no error.
pub fn salvage(config: &ServerConfig, scratch: &Path, file: impl Write) -> Result<Salvaged, SalvageError> {
    config.validate().map_err(ServerError::from)?;
    must_keep(config, "to be salvaged")?;
    check_there(config)?;
    let lock = |folder: &Path| lock_to_read(folder).map_err(ServerError::from);
    let _lock = lock(&config.log_folder)?;
    let mut damages = Damages::default();
    let (store, folders) = match Identity::look(config)? {
        Looked::Whole(store, folders, lacks) => {
            lacks.into_iter().for_each(|lacks| damages.push(lacks));
            (Some(store), folders)
        }
        Looked::Damaged(damage) => {
            damages.push(damage);
            (None, DataFolders::guess(config))
        }
    };
    let (items, log) = (folders.items(config), folders.log(config));
    let _locks = (folders.log_name().map(|_| lock(&log)).transpose()?, lock(&items)?);
    let scratch = Scratch::make(scratch)?;
    let (records, surveyed) = read_log(config, &log, store, &scratch)?;
    damages.extend(surveyed.damages.clone());
    let mut found = remains::read(&Files::new(&items), &mut |keyspace, entry| match keyspace {
        remains::ITEMS => scratch.note_item(entry),
        _ => scratch.note_about(entry),
    })?;
    if let Err(doubt) = whose(&scratch, config, surveyed.store)? {
        let what = match doubt {
            OwnerMismatch::Others(what) => {
                scratch.use_items(Use::None);
                what
            }
            OwnerMismatch::Lost(what) => {
                scratch.use_items(Use::Values);
                what
            }
        };
        found.damages.push(Damage::of(items.display(), what));
        found.unsure = vec![remains::Between::all()];
    }
    damages.extend(found.damages);
    let sorter = sort::Sorter { config, folders, scratch: &scratch, records, surveyed, unsure: found.unsure };
    sorter.write(damages, file)
}

/// Refuses folders in which there is nothing of a store.
fn check_there(config: &ServerConfig) -> Result<(), SalvageError> {
    let is_there = config.folder.join("identity.toml").exists()
        || DataFolders::FIRST.items(config).is_dir()
        || std::fs::read_dir(&config.log_folder).is_ok_and(|mut names| {
            names.any(|name| name.is_ok_and(|name| is_of_a_log(&name.file_name().to_string_lossy())))
        })
        || DataFolders::first_later(config).is_ok_and(|found| found.is_some());
    if is_there {
        return Ok(());
    }
    let (folder, log) = (config.folder.display().to_string(), config.log_folder.display().to_string());
    Err(SalvageError::NoStore { folder, log })
}

/// Reads the log into the scratch folder.
fn read_log<'a>(
    config: &ServerConfig,
    log: &Path,
    store: Option<StoreId>,
    scratch: &'a Scratch,
) -> Result<(Records<'a>, Surveyed), SalvageError> {
    let mut records = Records::new(config.server, scratch);
    let surveyed = survey(log, config.server.0, store, &mut |sight| records.see(sight));
    // What the scratch folder cannot take looks like damage of the log.
    match records.failed.take() {
        Some(error) => Err(error.into()),
        None => Ok((records, surveyed)),
    }
}

/// Compares what the items state about themselves with the server and its store.
fn whose(scratch: &Scratch, config: &ServerConfig, store: Option<StoreId>) -> io::Result<Result<(), OwnerMismatch>> {
    let about: BTreeMap<Vec<u8>, Vec<u8>> = scratch.about()?.into_iter().collect();
    Ok(belongs(&about, config.server, store))
}
