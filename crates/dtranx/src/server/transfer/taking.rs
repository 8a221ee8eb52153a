//! Items of a leader that are written into a folder beside the one that counts, piece by piece, in
//! the order of keys.

use crate::cluster::Places;
use crate::core::{GcRecord, Key, StoreId, Write};
use crate::log::Configured;
use crate::server::data_folders::DataFolders;
use crate::server::{ServerConfig, ServerError};
use crate::storage::{Lsm, LsmOptions, Storage};
use crate::wire::{LastPiece, Piece};

use super::TransferName;

/// Sizes of the engine's cache and number of the files that it keeps open: nothing is read here.
const BLOCK_CACHE_BYTES: u64 = 1 << 20;
const OPEN_FILES: usize = 10;

/// The store that a transfer is for, and the folders into which it is written.
#[derive(Clone, Debug)]
pub(in crate::server) struct Target {
    pub(in crate::server) config: ServerConfig,
    pub(in crate::server) store: StoreId,
    /// Folders that do not count.
    pub(in crate::server) folders: DataFolders,
}

/// A transfer that is being written.
pub(in crate::server) struct Taking {
    name: TransferName,
    items: Lsm,
    /// The last key that is written.
    through: Option<Key>,
    /// What comes with the last piece.
    last: Option<LastPiece>,
}

impl Taking {
    /// Empties the folders, for a transfer of this name.
    ///
    /// # Errors
    /// The folders can be neither emptied nor made.
    pub(in crate::server) fn begin(target: &Target, name: TransferName) -> Result<Self, ServerError> {
        let Target { config, store, folders } = target;
        let folder = folders.items(config);
        let failed = |source| ServerError::Io { action: format!("empty {}", folder.display()), source };
        folders.remove(config).map_err(failed)?;
        let options = LsmOptions {
            item_cache_bytes: 0,
            block_cache_bytes: BLOCK_CACHE_BYTES,
            open_files: OPEN_FILES,
            store: *store,
            must_exist: false,
        };
        let items = Lsm::open(&folder, config.server, options)?;
        Ok(Self { name, items, through: None, last: None })
    }

    pub(in crate::server) const fn name(&self) -> TransferName {
        self.name
    }

    /// The last key that is written and synced.
    pub(in crate::server) const fn through(&self) -> Option<&Key> {
        self.through.as_ref()
    }

    /// What the log has to know that begins behind the items, if all pieces are written and synced.
    pub(in crate::server) const fn whole(&self) -> Option<&LastPiece> {
        self.last.as_ref()
    }

    /// Writes the next piece, and syncs it. Nothing is written of one that is not the next, or that
    /// no leader sends.
    ///
    /// # Errors
    /// The items cannot be written: for want of room, above all.
    pub(in crate::server) fn take(&mut self, piece: &Piece) -> Result<(), ServerError> {
        if self.whole().is_some() || piece.after != self.through || !is_plausible(piece) {
            return Ok(());
        }
        let write = |key: &Key, value| vec![Write { key: key.clone(), value: Some(value) }];
        let commits: Vec<_> =
            piece.items.iter().map(|(key, item)| (item.version, write(key, item.value.clone()))).collect();
        self.items.apply(&commits)?;
        self.items.persist()?;
        if let Some((last, _)) = piece.items.last() {
            self.through = Some(last.clone());
        }
        self.last.clone_from(&piece.last);
        Ok(())
    }
}

/// Returns true if a leader can have sent the piece: its keys are in order, and it has items or is
/// the last.
fn is_plausible(piece: &Piece) -> bool {
    let keys: Vec<_> = piece.after.iter().chain(piece.items.iter().map(|(key, _)| key)).collect();
    let is_in_order = keys.windows(2).all(|pair| pair[0] < pair[1]);
    let is_record = |payload: &[u8]| payload.is_empty() || postcard::from_bytes::<GcRecord>(payload).is_ok();
    let are_members = |Configured { at, bytes }: &Configured| {
        (1..=piece.before.index).contains(&at.index) && at.term <= piece.before.term && Places::decode(bytes).is_some()
    };
    let is_last = |last: &LastPiece| is_record(&last.gc_payload) && last.configured.as_ref().is_none_or(are_members);
    is_in_order && piece.last.as_ref().map_or(!piece.items.is_empty(), is_last)
}
