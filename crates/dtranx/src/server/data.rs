//! The log and the items of a server, opened as its configuration and its identity say.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::descriptors;
use super::identity::Identity;
use super::{LogMedium, ServerConfig, ServerError, StorageKind};
use crate::log::{Disk, LogOptions, Medium, Memory, PersistentMemory};
use crate::storage::{InMemory, Lsm, LsmOptions, Storage};

/// Opens the medium of the log, and reads the identity by `read` while the log's folder is locked.
pub(in crate::server) fn open(
    config: &ServerConfig,
    read: impl FnOnce(&ServerConfig) -> Result<Identity, ServerError>,
) -> Result<(Arc<dyn Medium>, Identity), ServerError> {
    let folder = &config.log_folder;
    Ok(match config.medium {
        LogMedium::Disk => {
            let (disk, identity) = (Disk::open(folder)?, read(config)?);
            let disk = match identity.folders().log_name() {
                Some(name) => disk.within(&name)?,
                None => disk,
            };
            (Arc::new(disk), identity)
        }
        LogMedium::PersistentMemory => {
            let (memory, identity) = (PersistentMemory::open(folder)?, read(config)?);
            let memory = match identity.folders().log_name() {
                Some(name) => memory.within(&name)?,
                None => memory,
            };
            (Arc::new(memory), identity)
        }
        LogMedium::Memory => (Arc::new(Memory::new()), read(config)?),
    })
}

/// Opening a medium makes its folder; a folder that is missing has to stay so.
pub(in crate::server) fn must_be_there(log_folder: &Path) -> Result<(), ServerError> {
    let action = || {
        let folder = log_folder.display();
        format!("find the log's folder {folder} (is the log elsewhere, as its configuration says? then link it there)")
    };
    match fs::metadata(log_folder) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(ServerError::Io { action: action(), source: std::io::ErrorKind::NotADirectory.into() }),
        Err(source) => Err(ServerError::Io { action: action(), source }),
    }
}

/// The folder of a log that is made anew on the configured medium. The one in use is locked
/// already.
pub(in crate::server) fn new_log(config: &ServerConfig, folder: &Path) -> Result<Arc<dyn Medium>, ServerError> {
    Ok(match config.medium {
        LogMedium::Disk => Arc::new(Disk::open(folder)?),
        LogMedium::PersistentMemory => Arc::new(PersistentMemory::open(folder)?),
        LogMedium::Memory => Arc::new(Memory::new()),
    })
}

pub(in crate::server) fn log_options(config: &ServerConfig, identity: &Identity) -> LogOptions {
    LogOptions {
        server: config.server.0,
        store: identity.store,
        segment_bytes: config.segment_bytes,
        must_exist: identity.has_data() && config.medium != LogMedium::Memory,
        is_member: config.member.is_some(),
    }
}

pub(in crate::server) fn storage(config: &ServerConfig, identity: &Identity) -> Result<Arc<dyn Storage>, ServerError> {
    Ok(match config.storage {
        StorageKind::Disk => Arc::new(lsm(config, identity, identity.has_data())?),
        StorageKind::Memory => Arc::new(InMemory::new()),
    })
}

pub(in crate::server) fn lsm(config: &ServerConfig, identity: &Identity, must_exist: bool) -> Result<Lsm, ServerError> {
    let store = identity.store;
    let (item_cache_bytes, open_files) = (config.item_cache_bytes, descriptors::storage_files(descriptors::limit()));
    let options = LsmOptions { item_cache_bytes, open_files, store, must_exist, ..LsmOptions::default() };
    Ok(Lsm::open(&identity.folders().items(config), config.server, options)?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::cluster::Cluster;
    use crate::core::group::{Index, Position, Promised, Term};
    use crate::core::{ServerId, StoreId};

    /// A store in a lost one's place acknowledges entries before it has a vote.
    #[test]
    fn log_and_items_have_to_be_there_from_the_first_acknowledgement_on() {
        let folder = tempfile::tempdir().unwrap();
        let addresses = [1, 2, 3].map(|port| ([127, 0, 0, 1], port).into()).to_vec();
        let cluster = Cluster::of_group("test", ServerId(1), addresses);
        let mut config = ServerConfig::new(cluster, ServerId(1), folder.path());
        (config.member, config.replace) = (Some(1), vec![StoreId([9; 16])]);
        let mut identity = Identity::open(&config).unwrap();
        assert!(!log_options(&config, &identity).must_exist);
        storage(&config, &identity).map(drop).unwrap();
        let last = Position { term: Term::new(4), index: Index::new(7) };
        identity.follow(Promised { term: Term::new(5), last }).unwrap();
        assert!(log_options(&config, &identity).must_exist);
        fs::remove_dir_all(config.folder.join("items")).unwrap();
        assert!(storage(&config, &identity).is_err());
    }
}
